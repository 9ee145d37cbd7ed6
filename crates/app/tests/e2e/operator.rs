//! `patra task cancel`, `plan cancel`, `cursor waive`.

use crate::signals::stage;

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
