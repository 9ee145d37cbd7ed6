//! `patra certify` and `patra why`.

use serde_json::Value;

use crate::support::{Desk, Sim, change, days_ago, hashes, rows, shipped, strs};

fn harvested(desk: &Desk) -> Sim {
    let sim = Sim::start(desk, &["--records", "120", "--source", "datacite", "--unlimited"]);
    desk.patra(&strs(&sim.harvest("datacite"))).ended(0);
    sim
}

#[test]
fn a_complete_harvest_is_certified_and_the_certificate_holds() {
    let desk = Desk::new();
    let sim = harvested(&desk);
    let text = desk.patra(&["certify", "datacite"]).ended(0);
    assert!(text.out.contains("verdict  COMPLETE") && text.out.contains("digest "), "{}", text.out);
    desk.patra(&["certify", "datacite", "--format", "json", "-o", "paper.json"]).ended(0);
    let paper: Value = serde_json::from_slice(&std::fs::read(desk.path("paper.json")).unwrap()).unwrap();
    let stored = desk.json(&["status"])[0]["records"].clone();
    assert_eq!(paper["sums"]["inserted"], stored, "{paper}");
    assert_eq!(paper["coverage"].as_array().map(Vec::len), Some(1), "{}", paper["coverage"]);
    let holds = desk.json(&["certify", "--verify", "paper.json"]);
    assert_eq!((&holds["ok"], &holds["verdict"]), (&true.into(), &"COMPLETE".into()));
    let mut again: Vec<String> = sim.harvest("datacite");
    again[0] = "certify".into();
    let since = again.iter().position(|arg| arg == "--since").unwrap();
    again.drain(since..since + 2);
    again.push("--recount".into());
    let counted = desk.patra(&strs(&again)).ended(0).json();
    let leaves = counted["evidence"]["leaves"].as_array().unwrap();
    assert!(leaves.iter().all(|leaf| leaf["recount"] == leaf["total"]), "nothing has changed since");
}

#[test]
fn a_changed_row_or_a_changed_paper_is_found() {
    let desk = Desk::new();
    harvested(&desk);
    desk.patra(&["certify", "datacite", "--format", "json", "-o", "paper.json"]).ended(0);
    let paper = std::fs::read_to_string(desk.path("paper.json")).unwrap();
    desk.write("forged.json", &paper.replacen("\"COMPLETE\"", "\"INCOMPLETE\"", 1));
    desk.patra(&["certify", "--verify", "forged.json"]).ended(1).complains(&["forged.json", "does not hold"]);
    desk.write("odd.json", "{}");
    desk.patra(&["certify", "--verify", "odd.json"]).ended(2).complains(&["is no certificate", "--format json"]);
    change(
        &desk.path("patra.db"),
        "UPDATE ing_task_run_batch SET record_count = record_count + 1 WHERE id = (SELECT MAX(id) FROM ing_task_run_batch)",
    );
    let said = desk.patra(&["certify", "--verify", "paper.json"]).ended(1);
    assert!(said.out.contains("not those that were certified"), "{}", said.out);
    desk.patra(&["certify", "--verify", "gone.json"]).ended(4).complains(&["cannot read `gone.json`"]);
}

#[test]
fn holes_are_named_and_the_page_shows_them() {
    let desk = Desk::new();
    harvested(&desk);
    change(
        &desk.path("patra.db"),
        "UPDATE ing_plan_slice SET status_code = 'FAILED', reason = '<b>gone</b>', read_at = NULL
          WHERE id = (SELECT MIN(id) FROM ing_plan_slice)",
    );
    let said = desk.patra(&["certify", "datacite"]).ended(1);
    said.complains(&["datacite is not complete", "FAILED"]);
    assert!(said.out.contains("verdict  INCOMPLETE") && said.out.contains("coverage ."), "{}", said.out);
    desk.patra(&["certify", "datacite", "--format", "html", "-o", "paper.html"]).ended(1);
    let page = std::fs::read_to_string(desk.path("paper.html")).unwrap();
    assert!(page.contains("class=\"hole\"") && page.contains("class=\"proven\""), "{page}");
    assert!(page.contains("&lt;b&gt;gone&lt;/b&gt;") && !page.contains("<b>gone"), "{page}");
    desk.patra(&["certify", "crossref"]).ended(4).complains(&["nothing was ever harvested", "cursor list"]);
    let wrong = ["certify", "datacite", "--from", "2026-01-02", "--to", "2026-01-01"];
    desk.patra(&wrong).ended(2).complains(&["is empty", "--from"]);
}

#[test]
fn the_life_of_a_record_is_told_and_its_absence_is_explained() {
    let desk = Desk::new();
    harvested(&desk);
    let id = desk.json(&["record", "list", "--limit", "1"])[0]["provider_id"].as_str().unwrap().to_owned();
    let told = desk.json(&["why", &id]);
    let life = &told[0];
    assert_eq!((&life["source"], &life["records"][0]["provider_id"]), (&"datacite".into(), &id.as_str().into()));
    let decisions: Vec<&str> =
        life["sightings"].as_array().unwrap().iter().map(|one| one["decision"].as_str().unwrap()).collect();
    assert!(decisions.contains(&"stored as version 1 (CREATED)"), "{decisions:?}");
    let text = desk.patra(&["why", &id, "--source", "datacite"]).ended(0);
    assert!(text.out.contains("pages that showed it") && text.out.contains("changes told"), "{}", text.out);
    let never = desk.patra(&["why", "10.1/never"]).ended(4);
    never.complains(&["`10.1/never` was never seen", "--dated"]);
    assert!(never.out.contains("pages that were searched shows it"), "{}", never.out);
    let read = desk.patra(&["why", "10.1/never", "--dated", &days_ago(3)]).ended(4);
    assert!(read.out.contains("read whole at"), "{}", read.out);
    let unread = desk.patra(&["why", "10.1/never", "--source", "datacite", "--dated", "1999-01-01"]).ended(4);
    assert!(unread.out.contains("no window of that time was ever planned"), "{}", unread.out);
}

#[test]
fn kept_pages_read_as_they_did_and_another_mapping_shows_its_changes() {
    let desk = Desk::new();
    let sim = harvested(&desk);
    // Without the source: what is kept is enough.
    sim.stop();
    let nouns = ["record", "batch", "run", "slice", "cursor", "quarantine"];
    let tables = || nouns.map(|noun| desk.json(&[noun, "list", "--limit", "1000"]));
    let before = tables();
    let told = desk.json(&["replay", "--source", "datacite"]);
    let pages = told["pages"].as_array().unwrap();
    assert!(pages.len() > 5 && pages.iter().all(|page| page["outcome"] == "SAME"), "{told}");
    let task = desk.json(&["task", "list", "--limit", "1"])[0]["id"].as_str().unwrap().to_owned();
    assert!(!desk.json(&["replay", &task])["pages"].as_array().unwrap().is_empty());
    let other = shipped("datacite").replace("venue.publisher:", "extra.publisher:");
    desk.write("other.yaml", &other);
    let changed = desk.json(&["replay", "--source", "datacite", "--spec", "other.yaml"]);
    let differing = changed["pages"].as_array().unwrap().iter().filter(|page| page["outcome"] == "DIFFERENT");
    let fields: Vec<String> = differing
        .flat_map(|page| page["differences"]["changed"].as_array().unwrap().clone())
        .flat_map(|one| one["fields"].as_array().unwrap().clone())
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    assert!(!fields.is_empty() && fields.iter().all(|name| name == "venue" || name == "extra"), "{fields:?}");
    let sums = &changed["summary"];
    assert_eq!((&sums["added"], &sums["lost"]), (&0.into(), &0.into()), "{sums}");
    assert_eq!((&sums["fields"]["venue"], &sums["fields"]["extra"]), (&sums["changed"], &sums["changed"]), "{sums}");
    assert_eq!(tables(), before);
    desk.patra(&["replay", "999"]).ended(4).complains(&["there is no page, run or task `999`"]);
    desk.patra(&["replay", &task, "--spec", "nonsense"]).ended(2).complains(&["`nonsense`", "current"]);
    desk.patra(&["replay"]).ended(2);
}

#[test]
fn a_range_replays_the_pages_of_its_windows_and_sums_them_up() {
    let desk = Desk::new();
    harvested(&desk).stop();
    let all = desk.json(&["replay", "--source", "datacite"]);
    let range = |from: u64, to: u64| format!("{}..{}", days_ago(from), days_ago(to));
    let some = desk.json(&["replay", "--source", "datacite", "--range", &range(6, 4)]);
    let pages = |told: &Value| told["pages"].as_array().unwrap().len();
    assert!(pages(&some) > 0 && pages(&some) < pages(&all), "{} of {}", pages(&some), pages(&all));
    assert_eq!(some["summary"]["same"], pages(&some));
    let whole = desk.json(&["replay", "--source", "datacite", "--range", "2000-01-01..2100-01-01"]);
    assert_eq!(whole["summary"], all["summary"]);
    desk.write("other.yaml", &shipped("datacite").replace("venue.publisher:", "extra.publisher:"));
    let other = ["replay", "--source", "datacite", "--range", &range(6, 4), "--spec", "other.yaml"];
    let said = desk.patra(&other).ended(0);
    assert!(said.out.contains("0 added, 0 lost") && said.out.contains("fields that change: extra "), "{}", said.out);
    let none = desk.patra(&["replay", "--source", "datacite", "--range", &range(400, 390)]).ended(4);
    none.complains(&["no committed page"]);
    desk.patra(&["replay", "--source", "datacite", "--range", "soon"]).ended(2).complains(&["wants two times"]);
    let back = ["replay", "--source", "datacite", "--range", "2026-01-02..2026-01-01"];
    desk.patra(&back).ended(2).complains(&["ends before it begins"]);
    desk.patra(&["replay", "1", "--range", "2026-01-01..2026-01-02"]).ended(2).complains(&["--range"]);
}

#[test]
fn a_page_asked_for_again_says_whether_the_source_has_changed() {
    let desk = Desk::new();
    let sim = harvested(&desk);
    let batches = desk.json(&["batch", "list", "--limit", "1000"]);
    let fullest = batches.as_array().unwrap().iter().max_by_key(|batch| batch["record_count"].as_i64()).unwrap();
    let batch = fullest["id"].as_str().unwrap();
    let tables = || hashes(&desk.path("patra.db"), &["ing_audit", "ing_worker"]);
    let before = tables();
    let same = desk.json(&["replay", batch, "--live"]);
    assert_eq!((&same["outcome"], &same["records"]), (&"SAME".into(), &fullest["record_count"]), "{same}");
    assert!(same["request"].as_str().unwrap().contains(&sim.address), "{same}");
    assert_eq!(tables(), before);
    change(
        &desk.path("patra.db"),
        "UPDATE ing_task_run_batch SET total_hint = total_hint + 1 WHERE record_count > 0 AND total_hint IS NOT NULL",
    );
    let said = desk.patra(&["replay", batch, "--live"]).ended(1);
    assert!(said.out.contains("the source says otherwise now: it counts"), "{}", said.out);
    said.complains(&["the source has changed since"]);
    desk.patra(&["replay", fullest["run_id"].as_str().unwrap(), "--live"])
        .ended(2)
        .complains(&["one page", "batch list"]);
    desk.patra(&["replay", batch, "--live", "--spec", "current"]).ended(2).complains(&["--live"]);
    desk.patra(&["source", "pause", "datacite", "--reason", "quiet"]).ended(0);
    desk.patra(&["replay", batch, "--live"]).ended(6).complains(&["`datacite` is stopped"]);
    desk.patra(&["source", "resume", "datacite", "--reason", "on"]).ended(0);
    sim.stop();
    desk.patra(&["replay", batch, "--live"]).ended(6).complains(&["cannot be asked for again", "without `--live`"]);
    let audit = rows(&desk.path("patra.db"), "SELECT detail FROM ing_audit WHERE action_code = 'REPLAY' ORDER BY id");
    assert!(audit.len() == 4 && audit.iter().all(|detail| detail.contains("\"live\":true")), "{audit:?}");
}

#[test]
fn another_source_at_the_same_place_is_seen_to_say_otherwise() {
    let desk = Desk::new();
    let sim = harvested(&desk);
    let address = sim.address.clone();
    let batches = desk.json(&["batch", "list", "--limit", "1000"]);
    let fullest = batches.as_array().unwrap().iter().max_by_key(|batch| batch["record_count"].as_i64()).unwrap();
    sim.stop();
    let other = ["--records", "90", "--source", "datacite", "--unlimited", "--seed", "7"];
    let _other = Sim::at(&desk, &address, &other);
    let said = desk.patra(&["replay", fullest["id"].as_str().unwrap(), "--live", "--json"]).ended(1);
    let told = said.json();
    assert_eq!(told["outcome"], "CHANGED", "{told}");
    assert!(told["message"].as_str().unwrap().starts_with("the source says otherwise now: "), "{told}");
    let differences = &told["differences"];
    let some = |name: &str| !differences[name].as_array().unwrap().is_empty();
    assert!(some("added") || some("lost") || some("changed"), "{told}");
}
