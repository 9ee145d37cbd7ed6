//! Changes on their way to the outside, as a person tells them to a file.

use serde_json::Value;

use crate::support::Desk;

/// A database with changes that nobody was told of.
fn desk_with_changes() -> (Desk, u64) {
    let desk = Desk::new();
    desk.patra(&["demo", "--records", "210", "--faults", "none", "--keep", ".", "--quiet"]).ended(0);
    let waiting = desk.json(&["outbox", "list", "--database", "demo.db"])["pending"].as_u64().unwrap();
    assert!(waiting >= 210, "{waiting}");
    (desk, waiting)
}

fn told(desk: &Desk) -> Vec<Value> {
    let text = std::fs::read_to_string(desk.path("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_relay_wants_to_know_where_to() {
    let (desk, _) = desk_with_changes();
    desk.patra(&["relay", "--database", "demo.db"]).ended(2).complains(&["nowhere", "--nats", "--webhook", "--lines"]);
    let webhook = ["relay", "--database", "demo.db", "--webhook"];
    desk.patra(&[&webhook[..], &["http://127.0.0.1:9/x"]].concat()).ended(2).complains(&["PATRA_WEBHOOK_SECRET"]);
    let refused =
        desk.command(&[&webhook[..], &["ftp://x"]].concat()).env("PATRA_WEBHOOK_SECRET", "s").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    desk.patra(&["relay", "--database", "demo.db", "--lines", "a", "--nats", "b"])
        .ended(2)
        .complains(&["cannot be used"]);
    desk.patra(&["relay", "--database", "no.db", "--lines", "-"]).ended(4).complains(&["no database"]);
    desk.patra(&["relay", "--database", "demo.db", "--lines", "no/such/folder", "--once"]).ended(2);
}

#[test]
fn a_webhook_that_is_away_loses_nothing() {
    let (desk, waiting) = desk_with_changes();
    let args = ["relay", "--once", "--database", "demo.db", "--webhook", "http://127.0.0.1:9/x"];
    let output = desk.command(&args).env("PATRA_WEBHOOK_SECRET", "s").output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(desk.json(&["outbox", "list", "--database", "demo.db"])["pending"], waiting);
}

#[test]
fn every_change_is_told_once_and_again_when_it_is_asked_for() {
    let (desk, waiting) = desk_with_changes();
    let relay = ["relay", "--once", "--database", "demo.db", "--lines", "events.jsonl"];
    assert_eq!(desk.json(&relay)["sent"], waiting);
    assert_eq!(desk.json(&relay)["sent"], 0);
    let events = told(&desk);
    let mut ids: Vec<&str> = events.iter().map(|event| event["event_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len() as u64, events.len() as u64), (waiting, waiting));
    let first = &events[0]["record"];
    let key = ["source", "entity", "id"].map(|part| first[part].as_str().unwrap()).join("/");
    let again = ["outbox", "republish", "--database", "demo.db", "--record", &key];
    let asked = desk.json(&again)["republished"].as_u64().unwrap();
    assert!(asked >= 1);
    assert_eq!(desk.json(&relay)["sent"], asked);
    assert_eq!(told(&desk).len() as u64, waiting + asked);
}

#[test]
fn what_cannot_be_sent_again_is_said() {
    let (desk, _) = desk_with_changes();
    let republish = ["outbox", "republish", "--database", "demo.db"];
    desk.patra(&republish).ended(2).complains(&["--parked"]);
    desk.patra(&[&republish[..], &["--record", "crossref"]].concat()).ended(2).complains(&["SOURCE/ENTITY/ID"]);
    desk.patra(&[&republish[..], &["--recorded", "2026-02-01..2026-01-01"]].concat()).ended(2).complains(&["empty"]);
    desk.patra(&["outbox", "reconcile", "--database", "demo.db"]).ended(2).complains(&["--nats"]);
}
