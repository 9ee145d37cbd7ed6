//! `patra remap`, and `patra replay` of a whole harvest: kept pages are enough, nothing is asked.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Desk, Sim, change, hashes, shipped, signal, strs};

/// A harvest whose source is gone, and somebody who listens in its place.
fn harvested(desk: &Desk, records: &str) -> TcpListener {
    let sim = Sim::start(desk, &["--records", records, "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
    let address = sim.address.clone();
    sim.stop();
    let listener = TcpListener::bind(&address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn nobody_came(listener: &TcpListener) {
    let error = listener.accept().expect_err("the source was asked");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

fn other(desk: &Desk) {
    desk.write("other.yaml", &shipped("datacite").replace("venue.publisher:", "extra.publisher:"));
}

/// Records and events as they are told, without the times of telling.
fn told(desk: &Desk) -> (Vec<Value>, Value) {
    desk.patra(&["export", "-o", "told.jsonl"]).ended(0);
    let text = std::fs::read_to_string(desk.path("told.jsonl")).unwrap();
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.iter_mut().for_each(|record| record["changed_at"] = Value::Null);
    (records, desk.json(&["status"])[0]["outbox"].clone())
}

#[test]
fn records_are_derived_anew_and_a_second_run_changes_nothing() {
    let desk = Desk::new();
    let listener = harvested(&desk, "120");
    other(&desk);
    let (before, _) = told(&desk);
    let done = desk.json(&["remap", "datacite", "--spec", "other.yaml"]);
    assert_eq!((&done["changed"], &done["inserted"]), (&before.len().into(), &0.into()), "{done}");
    let (after, _) = told(&desk);
    for (was, is) in before.iter().zip(&after) {
        assert_eq!((&is["id"], &is["batch_id"]), (&was["id"], &was["batch_id"]), "its page is the one that brought it");
        assert_eq!(is["version"].as_i64(), was["version"].as_i64().map(|version| version + 1));
        assert_eq!(is["fields"]["extra"]["publisher"], was["fields"]["venue"]["publisher"]);
        assert_eq!((&is["fields"]["venue"]["publisher"], &is["updated_at"]), (&Value::Null, &was["updated_at"]));
    }
    let tables = || hashes(&desk.path("patra.db"), &["ing_audit", "ing_worker", "ing_progress"]);
    let before = tables();
    let again = desk.json(&["remap", "datacite", "--spec", "other.yaml"]);
    assert_eq!((&again["changed"], &again["inserted"], &again["pages"]), (&0.into(), &0.into(), &done["pages"]));
    assert_eq!(tables(), before);
    // And back, by the number of the version that is in force.
    let back = desk.json(&["remap", "datacite", "--spec", "1"]);
    assert_eq!(back["changed"], done["changed"]);
    assert_eq!(desk.json(&["remap", "datacite"])["changed"], 0, "`current` is that version");
    let (restored, _) = told(&desk);
    assert!(
        restored.iter().zip(&after).all(|(is, was)| is["version"] != was["version"] && is["fields"] != was["fields"])
    );
    nobody_came(&listener);
}

#[test]
fn a_remap_that_is_killed_ends_as_one_that_is_not() {
    let (whole, cut) = (Desk::new(), Desk::new());
    let _listener = harvested(&whole, "4000");
    std::fs::copy(whole.path("patra.db"), cut.path("patra.db")).unwrap();
    other(&whole);
    other(&cut);
    whole.patra(&["remap", "datacite", "--spec", "other.yaml"]).ended(0);
    let mut kills = 0;
    while kills < 3 {
        let mut command = cut.command(&["remap", "datacite", "--spec", "other.yaml", "--quiet"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 120 * (kills + 2) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().unwrap().is_none() {
            signal(&child, "KILL");
        }
        child.wait().unwrap();
        kills += 1;
    }
    let done = cut.json(&["remap", "datacite", "--spec", "other.yaml"]);
    assert_eq!(done["not_kept"], 0);
    assert_eq!(told(&cut), told(&whole));
}

#[test]
fn pages_that_are_gone_are_said_to_be() {
    let desk = Desk::new();
    harvested(&desk, "60");
    other(&desk);
    // The longest body holds records; a page without any is not missed.
    change(
        &desk.path("patra.db"),
        "DELETE FROM ing_page_body WHERE hash IN (SELECT hash FROM ing_page_body ORDER BY bytes_raw DESC LIMIT 1)",
    );
    let said = desk.patra(&["remap", "datacite", "--spec", "other.yaml"]).ended(1);
    said.complains(&["not kept whole", "patra update"]);
    desk.patra(&["remap", "crossref"]).ended(4).complains(&["`crossref` has no committed page"]);
    desk.patra(&["remap", "datacite", "--spec", "77"]).ended(4).complains(&["has no version 77", "registry history"]);
}

/// `PATRA_REPLAY_RECORDS=50000` for a release.
#[test]
fn every_page_of_a_harvest_replays_the_same_and_no_table_changes() {
    let records = std::env::var("PATRA_REPLAY_RECORDS").unwrap_or_else(|_| "1500".into());
    let desk = Desk::new();
    let listener = harvested(&desk, &records);
    let tables = || hashes(&desk.path("patra.db"), &["ing_audit", "ing_worker"]);
    let before = tables();
    assert!(before.len() > 30, "{before:?}");
    let started = std::time::Instant::now();
    let told = desk.json(&["replay", "--source", "datacite"]);
    let pages = told["pages"].as_array().unwrap();
    let read: u64 = pages.iter().filter_map(|page| page["records"].as_u64()).sum();
    println!("{} pages, {read} records in {:.1} s", pages.len(), started.elapsed().as_secs_f64());
    assert!(pages.iter().all(|page| page["outcome"] == "SAME"), "{told}");
    let stored = desk.json(&["status"])[0]["records"].as_u64().unwrap();
    assert!(read >= stored && stored * 10 >= records.parse::<u64>().unwrap() * 9, "{read} {stored}");
    let tried = desk.json(&["replay", "--source", "datacite", "--full-chain"]);
    let would = &tried["summary"]["would"];
    assert_eq!((&would["inserted"], &would["updated"]), (&0.into(), &0.into()), "all of it is stored: {would}");
    assert_eq!(would["fetched"], would["unchanged"].as_u64().unwrap() + would["stale"].as_u64().unwrap());
    assert!(would["unchanged"].as_u64().unwrap() >= stored, "{would}");
    assert_eq!(tables(), before);
    nobody_came(&listener);
}

#[test]
fn a_full_chain_says_what_would_be_stored_and_stores_nothing() {
    let desk = Desk::new();
    harvested(&desk, "60");
    other(&desk);
    change(
        &desk.path("patra.db"),
        "DELETE FROM ing_record WHERE id IN (SELECT id FROM ing_record ORDER BY id LIMIT 3);
         UPDATE ing_record SET fetched_at = '2001-01-01T00:00:00.000000Z', effective_at = '2001-01-01T00:00:00.000000Z',
            content_hash = x'0000000000000000000000000000000000000000000000000000000000000000'
          WHERE id IN (SELECT id FROM ing_record ORDER BY id LIMIT 2)",
    );
    let tables = || hashes(&desk.path("patra.db"), &["ing_audit", "ing_worker"]);
    let before = tables();
    for other in [&[][..], &["--spec", "other.yaml"]] {
        let mut all = vec!["replay", "--source", "datacite", "--full-chain", "--json"];
        all.extend(other);
        // Two records differ from their pages now, so the replay under the own spec is not all the same.
        let told = desk.patra(&all).json();
        let would = &told["summary"]["would"];
        // A record that several pages hold is counted for each.
        assert!(would["inserted"].as_u64() >= Some(3) && would["updated"].as_u64() >= Some(2), "{would}");
        assert_eq!(tables(), before);
    }
    let said = desk.patra(&["replay", "--source", "datacite", "--full-chain"]);
    assert!(said.out.contains("committed again they would be: ") && said.out.contains("; nothing was"), "{}", said.out);
}
