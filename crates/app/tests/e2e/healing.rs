//! `patra quarantine retry|discard`, `patra alarm list`, and the watch of a planner.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Desk, Sim, shipped, signal, strs};

/// A shipped definition with a field that no record has, and as much quarantine as there are records.
fn demanding() -> String {
    let limits = "quarantine: { share_max: 100%, records_max: 100000 }\nendpoints:\n";
    let field = "    fields:\n      extra.isbn: { path: \"$.isbn\", required: true }\n";
    let demanding = shipped("doaj").replacen("endpoints:\n", limits, 1).replacen("    fields:\n", field, 1);
    assert!(demanding.contains(limits) && demanding.contains(field));
    demanding
}

#[test]
fn a_record_that_can_be_read_by_now_is_stored_and_another_is_given_up() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--source", "doaj", "--records", "60", "--unlimited"]);
    desk.write("doaj.yaml", &demanding());
    desk.patra(&["init"]).ended(0);
    desk.patra(&["registry", "apply", "doaj.yaml"]).ended(0);
    let harvest = sim.harvest("doaj");
    desk.patra(&[&strs(&harvest)[..], &["--set", "window.slice=P1D"]].concat()).ended(0);
    let rows = desk.json(&["quarantine", "list", "--status", "OPEN"]);
    let ids: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids.len() > 2 && desk.json(&["record", "list"]).as_array().unwrap().is_empty(), "{rows}");
    let retry = ["quarantine", "retry", ids[0], "--reason", "the path is mended", "--json"];
    let still = desk.patra(&retry).ended(1);
    assert_eq!(still.json()[0]["outcome"], "BAD", "the definition asks for it still");
    still.complains(&["cannot be read yet"]);
    desk.write("doaj.yaml", &shipped("doaj"));
    desk.patra(&["registry", "apply", "doaj.yaml"]).ended(0);
    assert_eq!(desk.patra(&retry).ended(0).json()[0]["outcome"], "STORED");
    assert_eq!(desk.patra(&retry).ended(0).json()[0]["outcome"], "SETTLED_BEFORE");
    let records = desk.json(&["record", "list"]);
    assert_eq!(records.as_array().unwrap().len(), 1);
    assert_eq!(records[0]["provider_id"], desk.json(&["quarantine", "show", ids[0]])["provider_id"]);
    assert_eq!(desk.json(&["outbox", "list"])["pending"], 1, "the change is told");
    let given_up = desk.json(&["quarantine", "discard", ids[1], "--reason", "a stub"]);
    assert_eq!(given_up[0]["outcome"], "DISCARDED");
    assert_eq!(desk.json(&["quarantine", "show", ids[1]])["status_code"], "CLOSED");
    desk.patra(&["quarantine", "discard", ids[1]]).ended(2).complains(&["--reason"]);
    desk.patra(&["quarantine", "retry", "1", "--reason", "x"]).ended(4);
}

struct Planner(Child);

impl Drop for Planner {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Asks until the answer is as wanted; each time a process of its own, so it does not spin.
fn soon(what: &str, ask: impl Fn() -> Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {answer}");
    }
}

#[test]
fn a_stopped_source_raises_an_alarm_that_is_over_when_it_goes_on() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--source", "timefeed", "--records", "60", "--unlimited"]);
    let rule = "    errors:\n      - { when: { status: 200 }, then: auth }\n";
    desk.write("timefeed.yaml", &shipped("timefeed").replacen("    errors:\n", rule, 1));
    desk.patra(&["init"]).ended(0);
    desk.patra(&["registry", "apply", "timefeed.yaml"]).ended(0);
    desk.patra(&strs(&sim.harvest("timefeed"))).ended(6);
    assert_eq!(desk.json(&["alarm", "list"]), serde_json::json!([]), "nobody watches yet");
    let args = ["planner", "--source", "timefeed", "--every", "PT1H", "--threshold", "alarm_every=PT0.2S", "--quiet"];
    let planner = Planner(desk.command(&args).stderr(Stdio::null()).spawn().unwrap());
    let alarms = soon("an alarm", || desk.json(&["alarm", "list", "--status", "open"]), |rows| rows[0].is_object());
    assert_eq!(alarms[0]["kind_code"], "SOURCE_STOPPED", "{alarms}");
    let status = desk.json(&["status"]);
    assert_eq!(status[0]["alarms"][0]["kind"], "SOURCE_STOPPED", "{status}");
    assert!(desk.patra(&["status"]).ended(0).out.contains("alarm SOURCE_STOPPED: timefeed/changes:"));
    desk.patra(&["source", "resume", "timefeed", "--reason", "a new key"]).ended(0);
    let over = |rows: &Value| rows[0]["status_code"] == "CLEARED";
    let alarms = soon("the end of it", || desk.json(&["alarm", "list"]), over);
    assert_eq!(alarms.as_array().unwrap().len(), 1, "{alarms}");
    signal(&planner.0, "TERM");
    desk.patra(&["planner", "--source", "timefeed", "--threshold", "circuit=1"])
        .ended(2)
        .complains(&["circuit_failures"]);
}
