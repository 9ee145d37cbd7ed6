//! `patra update` and `patra signal`.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Desk, Said, Sim, change, days_ago, strs};

fn update(sim: &Sim, which: &[&str]) -> Vec<String> {
    let mut args = sim.harvest("pubmed");
    args[0] = "update".into();
    let since = args.iter().position(|arg| arg == "--since").unwrap();
    args.drain(since..since + 2);
    args.extend(which.iter().map(|arg| (*arg).to_owned()));
    args
}

fn ids(desk: &Desk) -> Vec<String> {
    let records = desk.json(&["record", "list", "--limit", "1000"]);
    records.as_array().unwrap().iter().map(|record| record["provider_id"].as_str().unwrap().to_owned()).collect()
}

/// A harvest of a few records, and their ids.
fn harvested() -> (Desk, Sim, Vec<String>) {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "120", "--source", "pubmed", "--unlimited", "--days", "6"]);
    let mut harvest = sim.harvest("pubmed");
    let since = harvest.iter().position(|arg| arg == "--since").unwrap() + 1;
    harvest[since] = days_ago(7);
    desk.patra(&strs(&harvest)).ended(0);
    let known = ids(&desk);
    (desk, sim, known)
}

#[test]
fn known_records_are_asked_for_again_and_the_harvest_does_not_notice() {
    let (desk, sim, known) = harvested();
    let before = desk.json(&["cursor", "list"]);
    assert!(known.len() > 3, "{known:?}");
    let fresh = desk.patra(&strs(&update(&sim, &["--stale-for", "P30D"]))).ended(0).json();
    assert_eq!(fresh["fetched"], 0, "nothing is stale: {fresh}");
    change(&desk.path("patra.db"), "UPDATE ing_record SET checked_at = '2020-01-01T00:00:00.000000Z'");
    let stale = desk.patra(&strs(&update(&sim, &["--stale-for", "P30D"]))).ended(0).json();
    assert_eq!((&stale["operation"], &stale["complete"]), (&"UPDATE".into(), &true.into()), "{stale}");
    assert_eq!(stale["unchanged"].as_u64(), Some(known.len() as u64), "{stale}");
    let again = desk.patra(&strs(&update(&sim, &["--stale-for", "P30D"]))).ended(0).json();
    assert_eq!(again["fetched"], 0, "each was looked at: {again}");
    let cursors = desk.json(&["cursor", "list"]);
    let own = |operation: &str, cursors: &Value| -> Vec<Value> {
        let all = cursors.as_array().unwrap().iter();
        all.filter(|cursor| cursor["operation_code"] == operation).cloned().collect()
    };
    assert_eq!(own("HARVEST", &cursors), own("HARVEST", &before));
    assert_eq!(own("UPDATE", &cursors)[0]["cursor_key"], "refresh_checked_at");
    change(
        &desk.path("patra.db"),
        "UPDATE ing_record SET mapping_hash = zeroblob(32) WHERE id IN (SELECT id FROM ing_record LIMIT 3)",
    );
    let mapped = desk.patra(&strs(&update(&sim, &["--expr-changed"]))).ended(0).json();
    assert!(mapped["fetched"].as_u64().unwrap() >= 3, "{mapped}");
    assert_eq!(desk.json(&["cursor", "verify"])["ok"], true);
}

#[test]
fn ids_come_from_a_list_or_from_signals() {
    let (desk, sim, known) = harvested();
    let listed = update(&sim, &["--ids", "-"]);
    let mut child = desk
        .command(&strs(&listed))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("{}\n\n{}\n99999999\n", known[0], known[1]);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let report = Said::of(child.wait_with_output().unwrap()).ended(0).json();
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["unchanged"], 2, "{report}");
    let signal = ["signal", "add", "pubmed", &known[2], &known[3], "--kind", "retraction", "--reason", "a notice"];
    assert_eq!(desk.json(&signal)["added"], 2);
    assert_eq!(desk.json(&signal)["added"], 0, "they are open already");
    let told = desk.patra(&strs(&update(&sim, &["--signals"]))).ended(0).json();
    assert_eq!(told["unchanged"], 2, "{told}");
    let later = desk.patra(&strs(&update(&sim, &["--signals"]))).ended(0).json();
    assert_eq!(later["fetched"], 0, "they were asked for: {later}");
    let open = desk.json(&["signal", "list", "--status", "open"]);
    assert_eq!(open, Value::Array(Vec::new()));
    desk.patra(&["update", "pubmed"]).ended(2);
    desk.patra(&["update", "pubmed", "--signals", "--expr-changed"]).ended(2);
    desk.patra(&["update", "pubmed", "--ids", "nothing.txt"]).ended(4).complains(&["nothing.txt"]);
    desk.patra(&["update", "pubmed", "--signals", "--since", "2026-01-01"]).ended(2).complains(&["no window"]);
    desk.patra(&["update", "datacite", "--signals"]).ended(3).complains(&["update"]);
}

#[test]
fn a_record_that_stays_away_is_deleted_on_the_second_day_and_told_once() {
    let (desk, sim, _) = harvested();
    let database = desk.path("patra.db");
    let renamed = "UPDATE ing_record SET provider_id = '99999998' WHERE id = (SELECT MIN(id) FROM ing_record)";
    change(&database, renamed);
    change(&database, "UPDATE ing_record SET checked_at = '2020-01-01T00:00:00.000000Z'");
    desk.patra(&strs(&update(&sim, &["--stale-for", "P30D"]))).ended(0);
    let shown = || {
        let rows = desk.json(&["record", "list", "--limit", "1000"]);
        rows.as_array().unwrap().iter().find(|row| row["provider_id"] == "99999998").unwrap().clone()
    };
    assert_eq!((&shown()["deleted"], &shown()["version_no"]), (&0.into(), &1.into()), "one absence proves nothing");
    let long_ago = "UPDATE ing_missing_id SET first_asked_at = '2020-01-01T00:00:00.000000Z',
        last_asked_at = '2020-01-01T00:00:00.000000Z', next_try_at = '2020-01-02T00:00:00.000000Z'";
    change(&database, long_ago);
    let report = desk.patra(&strs(&update(&sim, &["--signals"]))).ended(0).json();
    assert_eq!(report["complete"], true, "{report}");
    let gone = shown();
    assert_eq!((&gone["deleted"], &gone["version_no"]), (&1.into(), &2.into()), "{gone}");
    assert!(gone["gone_at"].is_string(), "{gone}");
    let told = desk.json(&["outbox", "list", "--limit", "1000"]);
    let deleted: Vec<&Value> =
        told["events"].as_array().unwrap().iter().filter(|row| row["change_code"] == "DELETED").collect();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert_eq!(desk.patra(&strs(&update(&sim, &["--signals"]))).ended(0).json()["fetched"], 0);
}

#[test]
fn a_schedule_refreshes_what_was_signalled() {
    let (desk, sim, known) = harvested();
    let url = format!("http://{}/pubmed", sim.address);
    let add = |name: &'static str, which: &[&'static str]| {
        let fixed = ["schedule", "add", name, "--source", "pubmed", "--cron", "0 0 1 1 *", "--base-url"];
        let mut args: Vec<String> = fixed.map(str::to_owned).to_vec();
        args.extend([url.clone(), "--allow-host".into(), sim.address.clone()]);
        args.extend(["--contact", "tester@example.org"].map(str::to_owned));
        args.extend(which.iter().map(|arg| (*arg).to_owned()));
        args
    };
    desk.patra(&strs(&add("a", &["--operation", "update"]))).ended(2).complains(&["--stale-for"]);
    desk.patra(&strs(&add("b", &["--signals"]))).ended(2).complains(&["--operation update"]);
    desk.patra(&strs(&add("c", &["--operation", "update", "--signals", "--expr-changed"]))).ended(2);
    desk.patra(&strs(&add("d", &["--operation", "update", "--signals", "--since", "2026-01-01"]))).ended(2);
    desk.patra(&strs(&add("hints", &["--operation", "update", "--signals", "--limit", "10"]))).ended(0);
    let signal = ["signal", "add", "pubmed", &known[0], "--reason", "a notice"];
    assert_eq!(desk.json(&signal)["added"], 1);
    desk.patra(&["schedule", "run", "hints", "--reason", "now"]).ended(0);
    let mut serve = desk.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let closed = (0..2_000).any(|_| desk.json(&["signal", "list", "--status", "open"]) == Value::Array(Vec::new()));
    crate::support::signal(&serve, "TERM");
    assert!(serve.wait().unwrap().success());
    assert!(closed, "{:?}", desk.json(&["schedule", "history", "hints"]));
    let history = desk.json(&["schedule", "history", "hints"]);
    assert_eq!(history[0]["status_code"], "PLANNED", "{history}");
    let plan = desk.json(&["plan", "show", history[0]["plan_id"].as_str().unwrap()]);
    assert_eq!((&plan["operation_code"], &plan["schedule_instance_id"]), (&"UPDATE".into(), &history[0]["id"]));
}
