//! `patra task cancel`, `plan cancel`, `cursor waive`, `source pause`, `source resume`.

use crate::signals::stage;
use crate::support::{Desk, Sim, shipped, strs};

fn waive<'a>(from: &'a str, to: &'a str) -> [&'a str; 9] {
    ["cursor", "waive", "timefeed", "--from", from, "--to", to, "--reason", "gone"]
}

#[test]
fn an_operator_stops_work_and_answers_for_the_hole() {
    let stage = stage();
    let desk = &stage.desk;
    let mut child = stage.at_work();
    child.kill().unwrap();
    child.wait().unwrap();
    let task = desk.json(&["task", "list", "--status", "RUNNING"])[0]["id"].as_str().unwrap().to_owned();
    desk.patra(&["task", "cancel", &task]).ended(2).complains(&["--reason"]);
    assert_eq!(desk.json(&["task", "cancel", &task, "--reason", "stuck"])["cancelled"], true);
    assert_eq!(desk.json(&["task", "show", &task])["status_code"], "CANCELLED");
    desk.patra(&["task", "cancel", &task, "--reason", "again"]).ended(2).complains(&["CANCELLED"]);
    let plan = desk.json(&["plan", "list"])[0].clone();
    let id = plan["id"].as_str().unwrap();
    assert!(desk.json(&["plan", "cancel", id, "--reason", "enough"])["cancelled"].as_u64().unwrap() > 0);
    assert_eq!(stage.tasks("QUEUED") + stage.tasks("RUNNING"), 0);
    assert_eq!(desk.json(&["plan", "show", id])["status_code"], "COMPLETED");
    desk.patra(&["plan", "cancel", id, "--reason", "again"]).ended(2).complains(&["nothing of it is open"]);
    let (from, to) = (plan["window_from"].as_str().unwrap(), plan["window_to"].as_str().unwrap());
    desk.patra(&waive(to, from)).ended(2).complains(&["is empty"]);
    desk.patra(&waive(from, "2026-01-01T00:00:00.5Z")).ended(2);
    let said = desk.json(&waive(from, to));
    assert_eq!(said["watermark"].as_str(), Some(to), "{said}");
    assert_eq!(desk.json(&["cursor", "list"])[0]["normalized_instant"].as_str(), Some(to));
    desk.patra(&["cursor", "waive", "nobody", "--from", from, "--to", to, "--reason", "x"]).ended(4);
}

/// The shipped feed, every answer of which is taken for a refusal.
fn locked() -> String {
    let rule = "    errors:\n      - { when: { status: 200 }, then: auth }\n";
    let locked = shipped("timefeed").replacen("    errors:\n", rule, 1);
    assert!(locked.contains(rule));
    locked
}

#[test]
fn a_source_that_refuses_us_stands_still_until_a_person_has_looked() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--source", "timefeed", "--records", "200", "--unlimited"]);
    let harvest = sim.harvest("timefeed");
    desk.write("timefeed.yaml", &locked());
    desk.patra(&["init"]).ended(0);
    desk.patra(&["registry", "apply", "timefeed.yaml"]).ended(0);
    let alone = [strs(&harvest), vec!["--workers", "1"]].concat();
    let refused = desk.patra(&alone).ended(6);
    refused.complains(&["`timefeed` is stopped", "patra source resume timefeed"]);
    assert_eq!(desk.json(&["slice", "list", "--status", "FAILED"]).as_array().unwrap().len(), 1);
    let status = desk.json(&["status"])[0].clone();
    assert_eq!(status["stopped"], true, "{status}");
    assert!(status["trouble"].as_str().unwrap().starts_with("stopped: "), "{status}");
    desk.write("timefeed.yaml", &shipped("timefeed"));
    desk.patra(&["registry", "apply", "timefeed.yaml"]).ended(0);
    desk.patra(&strs(&harvest)).ended(6).complains(&["is stopped"]);
    desk.patra(&["source", "resume", "timefed", "--reason", "x"]).ended(4).complains(&["timefed"]);
    desk.patra(&["source", "resume", "timefeed"]).ended(2).complains(&["--reason"]);
    assert_eq!(desk.json(&["source", "resume", "timefeed", "--reason", "a new key"])["changed"], true);
    assert_eq!(desk.json(&["source", "resume", "timefeed", "--reason", "again"])["changed"], false);
}

#[test]
fn a_paused_source_is_not_harvested() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--source", "timefeed", "--records", "200", "--unlimited"]);
    let harvest = sim.harvest("timefeed");
    desk.patra(&["init"]).ended(0);
    let pause = ["source", "pause", "timefeed", "--endpoint"];
    desk.patra(&[&pause[..], &["chnges", "--reason", "x"]].concat()).ended(4).complains(&["it has changes"]);
    desk.patra(&[&pause[..], &["changes", "--reason", "they move house"]].concat()).ended(0);
    desk.patra(&strs(&harvest)).ended(6).complains(&["they move house"]);
    desk.patra(&["source", "resume", "timefeed", "--reason", "they are back"]).ended(0);
    desk.patra(&strs(&harvest)).ended(0);
}
