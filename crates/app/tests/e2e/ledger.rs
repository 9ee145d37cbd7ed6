//! What was done can be looked at: every noun, as a list and one by one, for people and for programs.

use crate::support::{Desk, Sim, strs};

const NOUNS: [&str; 7] = ["plan", "slice", "task", "run", "batch", "cursor", "record"];

#[test]
fn every_noun_is_listed_and_shown() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "60", "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
    for noun in NOUNS {
        let rows = desk.json(&[noun, "list"]);
        let first = rows.as_array().unwrap().first().unwrap_or_else(|| panic!("no {noun}"));
        let id = first["id"].as_str().map_or_else(|| first["id"].to_string(), str::to_owned);
        let shown = desk.json(&[noun, "show", &id]);
        assert_eq!(shown["id"], first["id"], "{noun}");
        let table = desk.patra(&[noun, "list", "--limit", "3"]).ended(0);
        assert!(table.out.contains(&id) || table.out.contains("provenance code"), "{}", table.out);
        let plain = desk.patra(&[noun, "show", &id]).ended(0);
        assert!(plain.out.contains("id  ") && plain.out.contains(&id), "{}", plain.out);
        assert_eq!(plain.err, "");
    }
    let quarantined = desk.json(&["quarantine", "list"]);
    assert!(quarantined.as_array().unwrap().is_empty());
    desk.patra(&["quarantine", "list"]).ended(0);
    let one = desk.json(&["record", "list", "--limit", "1"]);
    assert_eq!(one.as_array().unwrap().len(), 1);
    let older = desk.json(&["record", "list", "--limit", "1", "--before", one[0]["id"].as_str().unwrap()]);
    assert_ne!(older[0]["id"], one[0]["id"]);
    let none = desk.json(&["task", "list", "--status", "failed", "--source", "datacite"]);
    assert!(none.as_array().unwrap().is_empty());
}

#[test]
fn status_and_doctor_say_how_things_are() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    let empty = desk.patra(&["status"]).ended(0);
    assert!(empty.out.contains("nothing has been harvested yet"), "{}", empty.out);
    let checks = desk.json(&["doctor"]);
    assert!(checks.as_array().unwrap().iter().any(|check| check["check"] == "database" && check["ok"] == true));
    let told = desk.patra(&["doctor"]).ended(0).out;
    for text in [
        "source crossref: compiles",
        "(2 per core)",
        "at most 4",
        "70 % of the largest",
        "200 rows",
        "read PT30S",
        "gzip",
    ] {
        assert!(told.contains(text), "`{text}` is not in:\n{told}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_defect() {
    let desk = Desk::new();
    let mut child = desk
        .command(&["source", "schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
