//! `patra harvest` against `patra sim serve` over real HTTP.

use crate::support::{Desk, Sim, strs};

#[test]
fn a_harvest_copies_everything_and_a_second_one_adds_nothing() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "120", "--source", "datacite", "--unlimited", "--keep", "world"]);
    let args = sim.harvest("datacite");
    let first = desk.patra(&strs(&args)).ended(0).json();
    assert_eq!((&first["complete"], &first["source"]), (&true.into(), &"datacite".into()));
    let inserted = first["inserted"].as_u64().unwrap();
    assert!(inserted > 60, "{first}");
    let second = desk.patra(&strs(&args)).ended(0).json();
    assert_eq!((&second["inserted"], &second["updated"]), (&0.into(), &0.into()), "{second}");
    let status = desk.json(&["status"]);
    assert_eq!(status[0]["records"].as_u64(), Some(inserted));
    sim.stop();
    assert!(desk.path("world/truth.jsonl").exists() && desk.path("world/served.jsonl").exists());
}

#[test]
fn a_definition_file_is_harvested_like_a_source() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "40", "--source", "doaj", "--unlimited", "--days", "1"]);
    let fast = crate::support::shipped("doaj").replace("per_second: 2, burst: 1", "per_second: 500, burst: 50");
    desk.write("mine.yaml", &fast);
    let mut args = sim.harvest("doaj");
    args[1] = "mine.yaml".into();
    let since = args.iter().position(|arg| arg == "--since").unwrap() + 1;
    args[since] = crate::support::days_ago(2);
    let report = desk.patra(&strs(&args)).ended(0).json();
    assert_eq!((&report["complete"], &report["source"]), (&true.into(), &"doaj".into()));
    let history = desk.json(&["registry", "history", "doaj"]);
    let versions = history.as_array().unwrap().len();
    desk.patra(&strs(&args)).ended(0);
    assert_eq!(
        desk.json(&["registry", "history", "doaj"]).as_array().unwrap().len(),
        versions,
        "no change, no version"
    );
}

#[test]
fn loopback_is_refused_unless_it_is_listed() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "40", "--source", "datacite", "--unlimited"]);
    let mut args = sim.harvest("datacite");
    let at = args.iter().position(|arg| arg == "--allow-host").unwrap();
    args.drain(at..at + 2);
    let said = desk.patra(&strs(&args)).ended(3);
    said.complains(&["private network", &format!("--allow-host {}", sim.address)]);
    for address in ["http://169.254.169.254/", "https://localhost/", "https://[::1]:9/", "https://2130706433/"] {
        let wrong = ["harvest", "datacite", "--base-url", address, "--since", "2026-01-01"];
        desk.patra(&wrong).ended(3).complains(&["--allow-host"]);
    }
}

#[test]
fn plain_words_are_told_to_people() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "40", "--source", "datacite", "--unlimited"]);
    let mut args = sim.harvest("datacite");
    args.retain(|arg| arg != "--json");
    let said = desk.patra(&strs(&args)).ended(0);
    assert!(said.out.contains("datacite: ") && said.out.contains("complete up to "), "{}", said.out);
    assert!(said.err.contains("slices over"), "{}", said.err);
    args.push("--quiet".into());
    assert_eq!(desk.patra(&strs(&args)).ended(0).err, "");
}
