//! `patra export`.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::servers::{Kind, Server};
use crate::support::{Desk, Sim, change, signal, strs};

fn harvested(desk: &Desk, records: &str) {
    let sim = Sim::start(desk, &["--records", records, "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
}

fn lines(desk: &Desk, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(desk.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["id"].as_str().unwrap()).collect()
}

#[test]
fn every_record_is_told_once_in_the_order_of_its_key() {
    let desk = Desk::new();
    harvested(&desk, "120");
    let told = desk.json(&["export", "-o", "all.jsonl"]);
    let stored = desk.json(&["status"])[0]["records"].clone();
    let all = lines(&desk, "all.jsonl");
    assert_eq!((&told["records"], all.len() as u64), (&stored, stored.as_u64().unwrap()));
    let sorted: BTreeSet<&str> = ids(&all).into_iter().collect();
    assert_eq!(ids(&all), sorted.into_iter().collect::<Vec<_>>());
    assert!(all.iter().all(|line| line["schema"] == "patra.export.v1" && line["fields"]["title"].is_string()));
    assert!(!desk.path("all.jsonl.part").exists());
    let said = desk.patra(&["export", "--source", "datacite", "--format", "csv", "-o", "-"]).ended(0);
    assert_eq!(said.out.lines().next().map(|header| header.starts_with("source,entity,id,")), Some(true));
    desk.patra(&["export", "-o", "all.parquet"]).ended(0);
    let bytes = std::fs::read(desk.path("all.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn a_selection_is_kept_to_and_mistakes_are_told() {
    let desk = Desk::new();
    harvested(&desk, "120");
    desk.patra(&["export", "-o", "all.jsonl"]).ended(0);
    let all = lines(&desk, "all.jsonl");
    let title = all[0]["fields"]["title"].as_str().unwrap();
    let word = title.split_whitespace().max_by_key(|word| word.len()).unwrap();
    desk.patra(&["export", "--query", &format!("title:\"{word}\""), "-o", "some.jsonl"]).ended(0);
    let some = lines(&desk, "some.jsonl");
    assert!(!some.is_empty() && some.len() <= all.len() && ids(&some).contains(&all[0]["id"].as_str().unwrap()));
    let late = all.iter().filter_map(|line| line["updated_at"].as_str()).max().unwrap();
    desk.patra(&["export", "--since", late, "-o", "late.jsonl"]).ended(0);
    assert!(lines(&desk, "late.jsonl").iter().all(|line| line["updated_at"].as_str() >= Some(late)));
    desk.patra(&["export", "--changed-since", "2999-01-01", "-o", "none.jsonl"]).ended(0);
    assert!(lines(&desk, "none.jsonl").is_empty());
    desk.patra(&["export", "--source", "nowhere", "-o", "x"]).ended(4).complains(&["there is no source `nowhere`"]);
    desk.patra(&["export", "--query", "title:", "-o", "x"]).ended(2);
    desk.patra(&["export"]).ended(2).complains(&["--output"]);
    desk.patra(&["export", "-o", "no/such/folder/x"]).ended(2).complains(&["no/such/folder"]);
}

#[test]
fn an_export_under_a_name_tells_only_what_has_changed() {
    let desk = Desk::new();
    harvested(&desk, "120");
    let stored = desk.json(&["status"])[0]["records"].as_u64().unwrap();
    assert_eq!(desk.json(&["export", "--cursor", "nightly", "-o", "1.jsonl"])["records"], stored);
    assert_eq!(desk.json(&["export", "--cursor", "nightly", "-o", "2.jsonl"])["records"], 0);
    change(
        &desk.path("patra.db"),
        "UPDATE ing_record SET version_no = version_no + 1, changed_at = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
          WHERE id = (SELECT MIN(id) FROM ing_record)",
    );
    assert_eq!(desk.json(&["export", "--cursor", "nightly", "-o", "3.jsonl"])["records"], 1);
    assert_eq!(lines(&desk, "3.jsonl")[0]["version"], 2);
    let over = desk.patra(&["export", "--cursor", "nightly", "-o", "3.jsonl"]).ended(2);
    over.complains(&["`3.jsonl` is there already", "lost"]);
    let other = desk.patra(&["export", "--cursor", "nightly", "--source", "datacite", "-o", "4.jsonl"]).ended(2);
    other.complains(&["another selection"]);
    assert_eq!(desk.json(&["export", "--cursor", "other", "-o", "4.jsonl"])["records"], stored, "names are apart");
}

#[test]
fn an_export_that_is_killed_goes_on_and_ends_with_the_same_file() {
    let desk = Desk::new();
    harvested(&desk, "3000");
    desk.patra(&["export", "-o", "whole.jsonl"]).ended(0);
    let mut command = desk.command(&["export", "-o", "cut.jsonl", "--quiet", "--piece", "100"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let state = desk.path("cut.jsonl.part").join("state.json");
    while !std::fs::read_to_string(&state).is_ok_and(|text| text.contains("\"place\":{")) {
        assert!(child.try_wait().unwrap().is_none(), "it was faster than we are");
        std::thread::yield_now();
    }
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(!desk.path("cut.jsonl").exists());
    let other = desk.patra(&["export", "--source", "datacite", "-o", "cut.jsonl"]).ended(2);
    other.complains(&["belongs to another export", "cut.jsonl.part"]);
    let told = desk.json(&["export", "-o", "cut.jsonl"]);
    assert!(told["resumed_after"].as_u64() >= Some(100), "{told}");
    let read = |name: &str| std::fs::read(desk.path(name)).unwrap();
    assert_eq!(read("cut.jsonl"), read("whole.jsonl"));
}

fn on_a_server(kind: Kind) {
    let Some(server) = Server::find(kind) else { return };
    let (desk, place) = (Desk::new(), server.owner());
    let at = ["--database", &place];
    desk.patra(&["init", at[0], at[1]]).ended(0);
    let sim = Sim::start(&desk, &["--records", "700", "--source", "datacite", "--unlimited"]);
    let harvest = sim.harvest("datacite");
    desk.patra(&[strs(&harvest), at.to_vec()].concat()).ended(0);
    let export = |args: &[&str]| desk.json(&[&["export"], args, &at].concat());
    let all = export(&["-o", "all.jsonl"])["records"].clone();
    assert_eq!(all.as_u64(), Some(lines(&desk, "all.jsonl").len() as u64));
    let kept = lines(&desk, "all.jsonl");
    let sorted: BTreeSet<&str> = ids(&kept).into_iter().collect();
    assert_eq!(ids(&kept), sorted.into_iter().collect::<Vec<_>>(), "byte for byte");
    let young = export(&["--cursor", "young", "-o", "young.jsonl"]);
    assert_eq!(young["records"], 0, "what is younger than two minutes is left to the next");
    let named = ["--cursor", "nightly", "--settle", "0", "-o"];
    assert_eq!(export(&[&named[..], &["1.csv"]].concat())["records"], all);
    assert_eq!(export(&[&named[..], &["2.csv"]].concat())["records"], 0);
}

#[test]
fn records_come_out_of_postgres_the_same() {
    on_a_server(Kind::Postgres);
}

#[test]
fn records_come_out_of_mysql_the_same() {
    on_a_server(Kind::Mysql);
}
