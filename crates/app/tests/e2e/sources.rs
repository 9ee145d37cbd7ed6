//! `patra init`, `source`, `spec`, `gate`.

use crate::support::{Desk, Sim, shipped, strs};

const SOURCES: [&str; 23] = [
    "arxiv-api",
    "arxiv-oai",
    "biorxiv",
    "clinicaltrials",
    "core",
    "crossref",
    "datacite",
    "doaj",
    "doaj-oai",
    "europepmc",
    "medrxiv",
    "nih-reporter",
    "oai-pmh",
    "openalex",
    "openfda",
    "orcid",
    "pmc-oai",
    "pubmed",
    "ror",
    "semanticscholar",
    "timefeed",
    "unpaywall",
    "zenodo-oai",
];

#[test]
fn init_makes_a_database_with_the_built_in_sources_and_may_be_repeated() {
    let desk = Desk::new();
    let said = desk.patra(&["init"]).ended(0);
    assert!(said.out.contains(&format!("patra.db is ready with {} sources", SOURCES.len())), "{}", said.out);
    assert!(desk.path("patra.db").exists());
    let again = desk.json(&["init"]);
    assert_eq!(again["sources"].as_array().unwrap().len(), SOURCES.len());
    let listed = desk.json(&["source", "list"]);
    assert_eq!(listed[0]["version"], 1, "the second init publishes nothing");
}

#[test]
fn looking_at_sources_needs_no_database_and_makes_none() {
    let desk = Desk::new();
    let listed = desk.json(&["source", "list"]);
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|row| row["source"].as_str().unwrap()).collect();
    assert_eq!(names, SOURCES);
    let plain = desk.patra(&["source", "list"]).ended(0);
    assert!(SOURCES.iter().all(|source| plain.out.contains(source)), "{}", plain.out);
    let shown = desk.patra(&["source", "show", "doaj"]).ended(0);
    assert!(shown.out.starts_with("# doaj, version 1 by built-in") && shown.out.contains("base_url:"), "{}", shown.out);
    assert_eq!(desk.json(&["source", "show", "doaj"])["provenance"], "doaj");
    let gates = desk.json(&["gate", "list"]);
    assert_eq!(gates.as_array().unwrap().len(), SOURCES.len());
    desk.patra(&["gate", "show", "doaj"]).ended(0);
    desk.patra(&["gate", "show", "nobody"]).ended(4).complains(&["there is no rate key `nobody`"]);
    assert!(!desk.path("patra.db").exists());
}

#[test]
fn every_shipped_definition_passes_its_own_check() {
    let desk = Desk::new();
    for source in SOURCES {
        desk.write(&format!("{source}.yaml"), &shipped(source));
        let said = desk.patra(&["source", "check", &format!("{source}.yaml")]).ended(0);
        assert!(said.out.starts_with(&format!("{source}.yaml: no mistakes")), "{}", said.out);
    }
}

#[test]
fn a_mistake_is_shown_with_its_line_and_column() {
    let desk = Desk::new();
    let wrong = shipped("doaj").replace("\n    pagination:\n", "\n    paginaton:\n");
    desk.write("doaj.yaml", &wrong);
    let line = wrong.lines().position(|line| line.contains("paginaton")).unwrap() + 1;
    let place = format!("doaj.yaml:{line}:5");
    for args in [
        &["source", "check", "doaj.yaml"][..],
        &["registry", "apply", "doaj.yaml"],
        &["registry", "diff", "doaj.yaml"],
        &["harvest", "doaj.yaml"],
        &["spec", "show", "doaj.yaml"],
    ] {
        let said = desk.patra(args).ended(3);
        said.complains(&["error:", "paginaton", &place, "pagination"]);
        assert_eq!(said.err.matches("error: ").count(), said.err.matches("  at ").count(), "{}", said.err);
    }
    let told = desk.patra(&["source", "check", "doaj.yaml", "--json"]).ended(3).json();
    assert_eq!(told[0]["line"].as_u64().or(told[0]["at"]["line"].as_u64()), Some(line as u64), "{told}");
}

#[test]
fn what_only_the_program_finds_is_shown_with_its_place_too() {
    let desk = Desk::new();
    let wrong = shipped("oai-pmh").replace("oai_dc: http", "oai_dx: http");
    desk.write("oai.yaml", &wrong);
    for args in [&["source", "check", "oai.yaml"][..], &["registry", "apply", "oai.yaml"], &["harvest", "oai.yaml"]] {
        let said = desk.patra(args).ended(3);
        said.complains(&["error: ", "no namespace is declared for `oai_dc`", "  at oai.yaml:"]);
        let places = said.err.lines().filter(|line| line.contains("at oai.yaml:"));
        let told: Vec<usize> = places.map(|place| place.rsplit(':').nth(1).unwrap().trim().parse().unwrap()).collect();
        let every: Vec<usize> =
            (1..).zip(wrong.lines()).filter(|(_, line)| uses_the_name(line)).map(|(no, _)| no).collect();
        assert_eq!(told, every, "every field, not only the first: {}", said.err);
        assert_eq!(said.err.matches("error: ").count(), every.len(), "{}", said.err);
    }
}

fn uses_the_name(line: &str) -> bool {
    line.contains("metadata/oai_dc:dc")
}

#[test]
fn the_schema_is_json_schema_and_knows_the_top_keys() {
    let schema = Desk::new().patra(&["source", "schema"]).ended(0).json();
    assert!(schema["$schema"].is_string());
    for key in ["source", "base_url", "rate", "endpoints"] {
        assert!(schema["$defs"]["source"]["properties"][key].is_object(), "{key}");
    }
}

#[test]
fn a_spec_tells_where_each_value_comes_from() {
    let desk = Desk::new();
    let spec = desk.patra(&["spec", "show", "doaj"]).ended(0).json();
    assert_eq!((&spec["provenance"], &spec["pagination"]["size"]), (&"doaj".into(), &100.into()));
    let set = ["spec", "show", "doaj", "--origin", "--json", "--set", "pagination.size=50"];
    let told = desk.patra(&set).ended(0).json();
    assert_eq!(told["spec"]["pagination"]["size"], 50);
    assert!(told["origins"]["pagination.size"].to_string().to_lowercase().contains("trigger"), "{told}");
    let table = desk.patra(&["spec", "show", "doaj", "--origin"]).ended(0);
    assert!(table.out.contains("pagination.size") && table.out.contains("from"), "{}", table.out);
}

#[test]
fn a_test_of_a_source_shows_requests_and_what_came_out_and_writes_nothing() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "60", "--source", "datacite", "--unlimited"]);
    let mut args = sim.harvest("datacite");
    args.splice(0..1, ["source".to_owned(), "test".to_owned()]);
    // The newest windows that have settled: the simulator's history is shorter than what a harvest asks for.
    let since = args.iter().position(|arg| arg == "--since").unwrap();
    args.drain(since..since + 2);
    let pages = desk.patra(&strs(&args)).ended(0).json();
    let first = &pages[0];
    assert_eq!(first["status"], 200, "{first}");
    let request = first["request"].as_str().unwrap();
    assert!(request.starts_with("GET http://") && request.contains("mailto=***"), "{request}");
    let all = pages.as_array().unwrap();
    assert!(all.iter().any(|page| page["fields"]["ids.doi"].as_u64() > Some(0)), "{pages}");
    assert!(all.iter().all(|page| page["gave_nothing"].is_array()), "{pages}");
    let plain: Vec<&str> = strs(&args).into_iter().filter(|arg| *arg != "--json").collect();
    let said = desk.patra(&plain).ended(0);
    assert!(said.out.contains("  request: GET http://") && said.out.contains("  then: "), "{}", said.out);
    assert!(!desk.path("patra.db").exists());
}

#[test]
fn unverified_sources_are_listed_as_such() {
    let listed = Desk::new().json(&["source", "list"]);
    let verified = |name: &str| {
        let row = listed.as_array().unwrap().iter().find(|row| row["source"] == name);
        row.unwrap()["verified"].as_bool().unwrap()
    };
    assert!(verified("crossref") && !verified("ror"));
}
