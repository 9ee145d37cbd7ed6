//! `patra blackbox`, and samples that name no person.

use std::process::Command;

use serde_json::Value;

use crate::support::{Desk, Sim, change, hashes, rows, strs};

fn harvested(desk: &Desk) {
    let sim = Sim::start(desk, &["--records", "120", "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
    sim.stop();
}

/// The run that stored most, and the page of it that did.
fn busiest(desk: &Desk) -> (String, String) {
    let batches = desk.json(&["batch", "list", "--limit", "1000"]);
    let busiest = batches.as_array().unwrap().iter().max_by_key(|batch| batch["record_count"].as_i64()).unwrap();
    (busiest["run_id"].as_str().unwrap().to_owned(), busiest["id"].as_str().unwrap().to_owned())
}

/// A part as anybody gets it out.
fn part(desk: &Desk, archive: &str, name: &str) -> Vec<u8> {
    let found = Command::new("tar").args(["-xzOf"]).arg(desk.path(archive)).arg(name).output().unwrap();
    assert!(found.status.success(), "{name}: {}", String::from_utf8_lossy(&found.stderr));
    found.stdout
}

fn named<'a>(manifest: &'a Value, end: &str) -> Vec<&'a str> {
    let names = manifest["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap());
    names.filter(|name| name.ends_with(end)).collect()
}

#[test]
fn the_evidence_of_a_run_is_one_archive_that_ordinary_tools_open() {
    let desk = Desk::new();
    harvested(&desk);
    let (run, batch) = busiest(&desk);
    let tables = || hashes(&desk.path("patra.db"), &["ing_audit", "ing_worker"]);
    let before = tables();
    let made = desk.json(&["blackbox", "export", &run, "-o", "run.tar.gz", "--reason", "a complaint"]);
    assert_eq!((&made["operator"], &made["reason"]), (&"tester".into(), &"a complaint".into()));
    assert_eq!((&made["bodies"], tables()), (&"MASKED_SAMPLE".into(), before));
    let audit = rows(&desk.path("patra.db"), "SELECT detail FROM ing_audit WHERE action_code = 'BLACKBOX'");
    assert!(audit.len() == 1 && audit[0].contains("a complaint"), "{audit:?}");
    let shown = desk.json(&["blackbox", "show", "run.tar.gz"]);
    assert_eq!((&shown["manifest"], &shown["expired"]), (&made, &false.into()));
    let manifest: Value = serde_json::from_slice(&part(&desk, "run.tar.gz", "manifest.json")).unwrap();
    assert_eq!(manifest, made);
    let name = named(&made, &format!("{batch}/page.json"))[0];
    let page: Value = serde_json::from_slice(&part(&desk, "run.tar.gz", name)).unwrap();
    for key in ["run_id", "batch_no", "slice_signature_hash", "expr_hash", "spec_fingerprint"] {
        assert!(!page["keys"][key].is_null(), "{key}: {page}");
    }
    let url = page["request"]["rendered"]["url"].as_str().unwrap();
    assert!(url.contains("/datacite/") && page["request"]["digest"]["urlTemplate"].is_string(), "{page}");
    assert_eq!((&page["response"]["digest"]["status"], &page["response"]["kept"]), (&200.into(), &"WHOLE".into()));
    let decided = &page["processing"]["decisions"];
    let counts = &page["processing"]["stats"];
    assert_eq!(decided["CREATED"]["count"], counts["inserted"], "{page}");
    assert!(decided["CREATED"]["sample"].as_array().unwrap().len() <= 3);
    let sample = part(&desk, "run.tar.gz", &name.replace("page.json", "sample"));
    assert!(!sample.is_empty() && sample.len() <= 1_024, "{}", sample.len());
    let events: Value = serde_json::from_slice(&part(&desk, "run.tar.gz", "cursor_events.json")).unwrap();
    assert!(events.as_array().unwrap().iter().all(|event| event["new_value"].is_string()), "{events}");
    let spec: Value = serde_json::from_slice(&part(&desk, "run.tar.gz", "spec.json")).unwrap();
    assert_eq!(spec["spec"]["provenance"], "datacite");
    let all = String::from_utf8_lossy(&part(&desk, "run.tar.gz", "spec.json")).into_owned() + &page.to_string();
    assert!(!all.contains("tester@example.org") && !all.contains("tester%40"), "the contact is a person");
}

#[test]
fn a_page_is_exported_whole_on_demand_and_says_that_it_is_not_masked() {
    let desk = Desk::new();
    harvested(&desk);
    let (_, batch) = busiest(&desk);
    let made = desk.json(&["blackbox", "export", &batch, "-o", "page.tar.gz", "--whole", "--valid-for", "PT1H"]);
    assert_eq!((&made["bodies"], &made["pages"]), (&"WHOLE_UNMASKED".into(), &1.into()));
    let body = part(&desk, "page.tar.gz", named(&made, "/body")[0]);
    assert!(serde_json::from_slice::<Value>(&body).is_ok(), "the answer is whole");
    let said = desk.patra(&["blackbox", "show", "page.tar.gz"]).ended(0);
    assert!(said.out.contains("not masked") && said.out.contains("all 6 parts"), "{}", said.out);
}

#[test]
fn what_was_changed_is_found_and_what_has_expired_is_said() {
    let desk = Desk::new();
    harvested(&desk);
    let (_, batch) = busiest(&desk);
    desk.patra(&["blackbox", "export", &batch, "-o", "page.tar.gz", "--valid-for", "PT0.001S"]).ended(0);
    desk.patra(&["blackbox", "show", "page.tar.gz"]).ended(1).complains(&["is whole, but was to be used until"]);
    let bytes = std::fs::read(desk.path("page.tar.gz")).unwrap();
    std::fs::write(desk.path("cut.tar.gz"), &bytes[..bytes.len() / 2]).unwrap();
    desk.patra(&["blackbox", "show", "cut.tar.gz"]).ended(2).complains(&["cut.tar.gz` is no whole black box"]);
    let forge = "mkdir -p x && tar -xzf page.tar.gz -C x && echo '{}' > x/slice.json && tar -czf forged.tar.gz -C x .";
    let made = Command::new("sh").args(["-c", forge]).current_dir(desk.path("")).status().unwrap();
    assert!(made.success());
    let forged = desk.patra(&["blackbox", "show", "forged.tar.gz"]).ended(1);
    assert!(forged.out.contains("flaw: `slice.json` is not what was exported"), "{}", forged.out);
    forged.complains(&["is not what was exported: 1 flaws"]);
    desk.patra(&["blackbox", "show", "gone.tar.gz"]).ended(4).complains(&["cannot read `gone.tar.gz`"]);
}

#[test]
fn an_export_is_whole_or_not_there_and_overwrites_nothing() {
    let desk = Desk::new();
    harvested(&desk);
    let (run, _) = busiest(&desk);
    desk.write("mine.txt", "dear");
    let said = desk.patra(&["blackbox", "export", &run, "-o", "mine.txt"]).ended(2);
    said.complains(&["`mine.txt` is there already", "never overwritten"]);
    assert_eq!(std::fs::read(desk.path("mine.txt")).unwrap(), b"dear");
    desk.patra(&["blackbox", "export", &run, "-o", "no/folder.tar.gz"]).ended(2).complains(&["cannot write"]);
    desk.patra(&["blackbox", "export", "999", "-o", "x"]).ended(4).complains(&["no run or page `999`", "run list"]);
    desk.patra(&["blackbox", "export", &run, "-o", "x", "--valid-for", "soon"]).ended(2).complains(&["P7D"]);
    desk.patra(&["blackbox", "export", &run, "-o", "x", "--valid-for", "PT0S"]).ended(2).complains(&["above zero"]);
    // A page whose body was damaged breaks the export in the middle.
    change(&desk.path("patra.db"), "UPDATE ing_page_body SET body_zstd = x'00'");
    desk.patra(&["blackbox", "export", &run, "-o", "late.tar.gz"]).ended(5).complains(&["body_zstd"]);
    let names = std::fs::read_dir(desk.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| name.starts_with("patra.db") || name == "mine.txt"), "{left:?}");
}
