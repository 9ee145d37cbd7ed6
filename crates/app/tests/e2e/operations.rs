//! `patra backfill`, `schedule`, `cursor verify|rebuild|thin|events`, `plan retry|priority`, `slice cancel`.

use std::process::Stdio;

use serde_json::Value;

use crate::support::{Desk, Sim, change, days_ago, strs};

/// The arguments of a backfill over the days between, from a simulator of datacite.
fn backfill(sim: &Sim, from: u64, to: u64) -> Vec<String> {
    let mut args = sim.harvest("datacite");
    args[0] = "backfill".into();
    let since = args.iter().position(|arg| arg == "--since").unwrap();
    args.splice(since..since + 2, ["--from".to_owned(), days_ago(from), "--to".into(), days_ago(to)]);
    args
}

fn harvest_cursor(desk: &Desk) -> Value {
    let cursors = desk.json(&["cursor", "list"]);
    let own = cursors.as_array().unwrap().iter().find(|cursor| cursor["operation_code"] == "HARVEST");
    own.cloned().unwrap_or(Value::Null)
}

#[test]
fn a_backfill_reads_a_past_window_and_leaves_the_harvest_alone() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "120", "--source", "datacite", "--unlimited"]);
    let mut harvest = sim.harvest("datacite");
    let since = harvest.iter().position(|arg| arg == "--since").unwrap() + 1;
    harvest[since] = days_ago(3);
    desk.patra(&strs(&harvest)).ended(0);
    let before = harvest_cursor(&desk);
    let first = desk.patra(&strs(&backfill(&sim, 12, 2))).ended(0).json();
    assert_eq!((&first["operation"], &first["complete"]), (&"BACKFILL".into(), &true.into()));
    assert!(first["inserted"].as_u64().unwrap() > 20, "{first}");
    assert_eq!(harvest_cursor(&desk), before, "to the byte");
    let events = desk.json(&["cursor", "events", "--source", "datacite"]);
    let directions: Vec<&str> =
        events.as_array().unwrap().iter().map(|event| event["direction_code"].as_str().unwrap()).collect();
    assert!(directions.contains(&"BACKFILL") && directions.contains(&"FORWARD"));
    let slices = desk.json(&["slice", "list", "--limit", "1000"]);
    let newest = slices.as_array().unwrap().iter().filter(|slice| slice["operation_code"] == "BACKFILL");
    let froms: Vec<&str> = newest.map(|slice| slice["window_from"].as_str().unwrap()).collect();
    assert!(froms.len() > 1 && froms.is_sorted(), "listed newest first, so the oldest window comes first");
    let second = desk.patra(&strs(&backfill(&sim, 12, 2))).ended(0).json();
    assert_eq!(second["fetched"], 0, "the same undertaking has nothing left: {second}");
    let mut other = backfill(&sim, 12, 2);
    other.extend(["--activity".into(), "again".into()]);
    assert!(desk.patra(&strs(&other)).ended(0).json()["fetched"].as_u64().unwrap() > 0);
    desk.patra(&["backfill", "datacite", "--from", "2026-01-02", "--to", "2026-01-01"])
        .ended(2)
        .complains(&["is empty"]);
    desk.patra(&["backfill", "datacite"]).ended(2).complains(&["--from"]);
    desk.patra(&["backfill", "nobody", "--from", "2026-01-01", "--to", "2026-01-02"]).ended(4);
}

#[test]
fn holes_of_a_harvest_are_listed_and_filled() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "120", "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
    let holes = ["backfill", "datacite", "--holes", "--dry-run"];
    assert_eq!(desk.json(&holes), Value::Array(Vec::new()));
    let slice = desk.json(&["slice", "list"])[0].clone();
    let (from, to) = (slice["window_from"].as_str().unwrap(), slice["window_to"].as_str().unwrap());
    // As if that slice had failed and somebody had let the watermark pass it.
    change(
        &desk.path("patra.db"),
        "UPDATE ing_plan_slice SET status_code = 'FAILED', read_at = NULL WHERE id = (SELECT MAX(id) FROM ing_plan_slice)",
    );
    desk.patra(&["cursor", "waive", "datacite", "--from", from, "--to", to, "--reason", "gone"]).ended(0);
    let told = desk.json(&holes);
    assert_eq!((&told[0]["cause"], &told[0]["window_from"]), (&"WAIVED".into(), &from.into()), "{told}");
    let mut fill = sim.harvest("datacite");
    fill[0] = "backfill".into();
    let since = fill.iter().position(|arg| arg == "--since").unwrap();
    fill.drain(since..since + 2);
    fill.push("--holes".into());
    let filled = desk.patra(&strs(&fill)).ended(0).json();
    assert_eq!(filled["complete"], true, "{filled}");
    assert_eq!(desk.patra(&strs(&fill)).ended(0).json()["fetched"], 0);
}

#[test]
fn a_cursor_follows_from_its_events() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "60", "--source", "datacite", "--unlimited"]);
    // One worker, so that every window moves the cursor by itself.
    let mut harvest = sim.harvest("datacite");
    harvest.extend(["--workers".to_owned(), "1".to_owned()]);
    desk.patra(&strs(&harvest)).ended(0);
    let database = desk.path("patra.db");
    let before = desk.json(&["cursor", "list"]);
    assert_eq!(desk.json(&["cursor", "verify"])["ok"], true);
    change(&database, "DELETE FROM ing_cursor");
    desk.patra(&["cursor", "verify"]).ended(1).complains(&["the cursor is gone", "cursor rebuild"]);
    desk.patra(&["cursor", "rebuild"]).ended(2).complains(&["--reason"]);
    assert_eq!(desk.json(&["cursor", "rebuild", "--reason", "lost"])["changed"], 1);
    assert_eq!(desk.json(&["cursor", "list"]), before);
    desk.patra(&["cursor", "thin", "--keep", "PT1H", "--reason", "x"]).ended(2).complains(&["P1D"]);
    change(&database, "UPDATE ing_cursor_event SET created_at = '2020-01-01T00:00:00.000000Z' WHERE event_no < 5");
    let thinned = desk.json(&["cursor", "thin", "--keep", "P90D", "--reason", "old"]);
    assert_eq!(thinned["changed"], 3, "{thinned}");
    let moved = desk.patra(&["cursor", "verify"]).ended(1);
    moved.complains(&["the cursor is not what its events lead to"]);
    assert_eq!(desk.json(&["cursor", "rebuild", "--reason", "the first event was dated back"])["changed"], 1);
    assert_eq!(desk.json(&["cursor", "verify"])["ok"], true);
    change(&database, "DELETE FROM ing_cursor_event WHERE event_no = 5");
    let broken = desk.patra(&["cursor", "verify", "--json"]).ended(1);
    broken.complains(&["event 5 is missing"]);
    desk.patra(&["cursor", "rebuild", "--reason", "try"]).ended(1).complains(&["event 5 is missing"]);
}

fn schedule<'a>(name: &'a str, sim: &'a str, url: &'a str) -> Vec<&'a str> {
    vec![
        "schedule",
        "add",
        name,
        "--source",
        "datacite",
        "--cron",
        "* * * * *",
        "--base-url",
        url,
        "--allow-host",
        sim,
        "--contact",
        "tester@example.org",
    ]
}

#[test]
fn a_schedule_is_kept_by_serve_and_run_by_hand() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "60", "--source", "datacite", "--unlimited"]);
    desk.patra(&["init"]).ended(0);
    desk.patra(&["planner"]).ended(2).complains(&["patra schedule add"]);
    let url = format!("http://{}/datacite", sim.address);
    let since = days_ago(3);
    let mut add = schedule("minutely", &sim.address, &url);
    add.extend(["--since", &since]);
    assert!(desk.json(&add)["next"].as_str().unwrap().ends_with(":00.000000Z"));
    desk.patra(&add).ended(2).complains(&["there is a schedule `minutely` already"]);
    desk.patra(&[&schedule("b", &sim.address, &url)[..], &["--zone", "Mars/Olympus"]].concat())
        .ended(2)
        .complains(&["time zone"]);
    let wrong = ["schedule", "add", "c", "--source", "datacite", "--cron", "61 * * * *"];
    desk.patra(&wrong).ended(2).complains(&["`61` is no minute"]);
    desk.patra(&["schedule", "add", "d", "--source", "nobody", "--cron", "@daily"]).ended(4);
    let window = ["schedule", "add", "e", "--source", "datacite", "--cron", "@daily", "--operation", "backfill"];
    desk.patra(&window).ended(2).complains(&["--last"]);
    assert_eq!(desk.json(&["schedule", "list"])[0]["name"], "minutely");
    assert_eq!(desk.json(&["schedule", "next", "minutely", "--count", "3"])["next"].as_array().unwrap().len(), 3);
    desk.patra(&["schedule", "next", "nobody"]).ended(4);
    assert_eq!(desk.json(&["schedule", "run", "minutely", "--reason", "now"])["schedule"], "minutely");
    let mut serve = desk.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let planned = (0..500).any(|_| {
        let history = desk.json(&["schedule", "history", "minutely"]);
        history.as_array().unwrap().iter().any(|firing| firing["status_code"] == "PLANNED")
    });
    crate::support::signal(&serve, "TERM");
    assert!(serve.wait().unwrap().success());
    assert!(planned, "{:?}", desk.json(&["schedule", "history", "minutely"]));
    let instance = desk.json(&["plan", "list"])[0]["schedule_instance_id"].clone();
    let history = desk.json(&["schedule", "history", "minutely"]);
    assert!(history.as_array().unwrap().iter().any(|firing| firing["id"] == instance), "the firing is the instance");
    for order in ["pause", "resume", "remove"] {
        assert_eq!(desk.json(&["schedule", order, "minutely", "--reason", "x"])["changed"], true);
    }
    assert_eq!(desk.json(&["schedule", "list"]), Value::Array(Vec::new()));
}

#[test]
fn work_that_was_cancelled_is_asked_for_again() {
    let stage = crate::signals::stage();
    let desk = &stage.desk;
    let mut child = stage.at_work();
    child.kill().unwrap();
    child.wait().unwrap();
    let plan = desk.json(&["plan", "list"])[0]["id"].as_str().unwrap().to_owned();
    let changed = desk.json(&["plan", "priority", &plan, "--to", "1", "--reason", "urgent"]);
    assert!(changed["tasks"].as_u64().unwrap() > 0);
    let tasks = desk.json(&["task", "list", "--limit", "1000"]);
    let open = |task: &&Value| task["status_code"] == "QUEUED" || task["status_code"] == "RUNNING";
    let task = tasks.as_array().unwrap().iter().find(open).unwrap().clone();
    assert_eq!(task["priority"], 1);
    let id = task["id"].as_str().unwrap();
    assert_eq!(desk.json(&["task", "priority", id, "--to", "9", "--reason", "not so"])["tasks"], 1);
    desk.patra(&["task", "priority", id, "--to", "10", "--reason", "x"]).ended(2);
    let slice = task["slice_id"].as_str().unwrap();
    assert_eq!(desk.json(&["slice", "cancel", slice, "--reason", "enough"])["cancelled"], 1);
    desk.patra(&["slice", "cancel", slice, "--reason", "again"]).ended(2).complains(&["has ended before"]);
    desk.patra(&["plan", "retry", &plan, "--reason", "x"]).ended(2).complains(&["still being worked on"]);
    desk.patra(&["plan", "cancel", &plan, "--reason", "all of it"]).ended(0);
    let retried = desk.json(&["plan", "retry", &plan, "--reason", "now it works"]);
    assert!(retried["slices"].as_u64().unwrap() > 0, "{retried}");
    let new = retried["plan"].as_str().unwrap();
    assert_eq!(
        desk.json(&["plan", "show", new])["namespace_hash"],
        desk.json(&["plan", "show", &plan])["namespace_hash"]
    );
    assert!(stage.tasks("QUEUED") > 0);
    assert!(!stage.finish().is_empty());
}
