//! A harvest that is stopped or killed loses nothing, and the same command finishes it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Desk, Said, Sim, days_ago, hours_ago, shipped, signal, strs};

/// Looks at the ledger this often before giving up; each look starts a process, so no look is idle.
const LOOKS_MAX: usize = 2_000;

/// INV-55.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

pub struct Stage {
    pub desk: Desk,
    sim: Sim,
    args: Vec<String>,
}

/// A harvest slow enough to be caught at work.
pub fn stage() -> Stage {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "400", "--source", "timefeed", "--unlimited", "--days", "2"]);
    let slow = shipped("timefeed").replace("per_second: 5, burst: 2", "per_second: 8, burst: 1");
    desk.write("timefeed.yaml", &slow);
    let mut args = sim.harvest("timefeed");
    args[1] = "timefeed.yaml".into();
    let since = args.iter().position(|arg| arg == "--since").unwrap() + 1;
    args[since] = days_ago(3);
    // Two harvests that begin in different minutes find the same.
    args.extend(["--until", &hours_ago(1), "--lease", "1", "--set", "pagination.size=20"].map(str::to_owned));
    Stage { desk, sim, args }
}

impl Stage {
    /// The harvest as a process of its own, once it has committed a page.
    pub fn at_work(&self) -> Child {
        let mut command = self.desk.command(&strs(&self.args));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let list = ["batch", "list", "--status", "succeeded", "--json"];
        let committed = || {
            let said = self.desk.patra(&list);
            said.exit == 0 && said.json().as_array().is_some_and(|rows| !rows.is_empty())
        };
        assert!((0..LOOKS_MAX).any(|_| committed()), "no page was committed");
        child
    }

    pub fn tasks(&self, status: &str) -> usize {
        self.desk.json(&["task", "list", "--status", status]).as_array().unwrap().len()
    }

    /// Runs the same command to the end; what is stored then.
    pub fn finish(&self) -> Vec<Value> {
        let report = self.desk.patra(&strs(&self.args)).ended(0).json();
        assert_eq!(report["complete"], true);
        assert_eq!(self.tasks("QUEUED") + self.tasks("RUNNING"), 0);
        self.stored()
    }

    fn stored(&self) -> Vec<Value> {
        let rows = self.desk.json(&["record", "list", "--limit", "10000"]);
        let mut ids: Vec<Value> = rows.as_array().unwrap().iter().map(|row| row["provider_id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        ids
    }

    /// What one harvest without a stop stores.
    fn undisturbed(&self) -> Vec<Value> {
        let other = Desk::new();
        other.write(
            "timefeed.yaml",
            &shipped("timefeed").replace("per_second: 5, burst: 2", "per_second: 500, burst: 9"),
        );
        other.patra(&strs(&self.args)).ended(0);
        let rows = other.json(&["record", "list", "--limit", "10000"]);
        let mut ids: Vec<Value> = rows.as_array().unwrap().iter().map(|row| row["provider_id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        ids
    }
}

#[test]
fn sigterm_gives_the_leases_back_and_the_same_command_goes_on() {
    let stage = stage();
    let child = stage.at_work();
    let told = Instant::now();
    signal(&child, "TERM");
    let said = Said::of(child.wait_with_output().unwrap()).ended(7);
    assert!(told.elapsed() < STOPPED_WITHIN, "it took {:?}", told.elapsed());
    said.complains(&["leases are given back", "error: stopped by a signal", "hint: run the same command to go on"]);
    assert_eq!(stage.tasks("RUNNING"), 0, "every lease was given back");
    assert!(stage.tasks("QUEUED") > 0, "the harvest was caught at work");
    let stored = stage.finish();
    assert_eq!(stored, stage.undisturbed());
    drop(stage.sim);
}

#[test]
fn after_sigkill_the_same_command_takes_over_and_finishes() {
    let stage = stage();
    let mut child = stage.at_work();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stage.tasks("RUNNING") > 0, "the killed process still holds its task");
    let stored = stage.finish();
    assert_eq!(stored, stage.undisturbed());
    let skipped = stage.desk.json(&["batch", "list", "--status", "SKIPPED"]);
    assert!(!skipped.as_array().unwrap().is_empty(), "the page that was open is closed as skipped");
}
