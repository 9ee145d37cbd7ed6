//! A registry edited while a plan is being worked on (FM-17): the plan keeps the version it was made with.

use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::id::Id;
use patra_core::ports::{Inspect, ListFilter, Noun};
use patra_core::time::Span;
use patra_engine::notice::Silent;
use patra_engine::planner::Planned;
use patra_sim::Source;
use patra_sim::vtime::Scheduler;
use patra_testkit::lab::{Lab, LabPlan, definition_of};
use patra_testkit::{simulation::HISTORY, template};

const ROUNDS: usize = 40;
/// Edits while one plan is being worked on.
const EDITS_PER_PLAN: usize = 5;

/// One for every value of the definition; each gives a definition that compiles and reads the same source differently.
const EDITS: &[(&str, &str)] = &[
    ("name: Directory of Open Access Journals", "name: DOAJ, edited"),
    ("description: Articles of open access journals;", "description: Articles;"),
    ("base_url: https://doaj.org", "base_url: https://www.doaj.org"),
    ("settings: { contact_email: \"\" }", "settings: { contact_email: \"lab@example.org\" }"),
    ("identity: { contact: \"${settings.contact_email}\" }", "identity: { contact: \"someone@example.org\" }"),
    ("rate: { per_second: 2, burst: 1, concurrency: 1,", "rate: { per_second: 1, burst: 1, concurrency: 1,"),
    ("key: [source], respect_headers: true", "key: [source], respect_headers: false"),
    ("role: search", "role: search\n    priority: 4"),
    ("concat('(', expr.q, ') AND ')", "concat('( ', expr.q, ') AND ')"),
    ("page: \"${page.number}\"", "page: \"${page.number | default(1)}\""),
    ("pageSize: \"${page.size}\"", "pageSize: \"${page.size | default(100)}\""),
    ("sort: last_updated:asc", "sort: last_updated:desc"),
    ("type: page", "type: page\n      max_page: 500"),
    ("size: 100", "size: 50"),
    ("size_max: 100", "size_max: 110"),
    ("backward: true", "backward: false"),
    ("result_cap: 1000", "result_cap: 990"),
    ("max_per_slice: 900", "max_per_slice: 800"),
    ("stop: [count_reached, empty_page]", "stop: [empty_page]"),
    ("updated_since: true", "updated_since: true\n      client_filter: true"),
    ("key: last_updated", "key: updated"),
    ("origin: 2002-01-01T00:00:00Z", "origin: 2003-01-01T00:00:00Z"),
    ("zone: UTC", "zone: Etc/UTC"),
    ("align: minute\n      min: PT1M", "align: hour\n      min: PT1H"),
    ("max: P1D", "max: P2D"),
    ("slice: PT1H", "slice: PT3H"),
    ("safety_lag: PT1H", "safety_lag: PT2H"),
    ("lookback: PT2H", "lookback: PT3H"),
    ("ordered: asc", "ordered: desc"),
    ("items: \"$.results[*]\"", "items: \"$.results\""),
    ("id: \"$.id\"", "id: \"$['id']\""),
    ("updated_at: \"$.last_updated\"", "updated_at: \"$['last_updated']\""),
    ("total: \"$.total\"", "total: \"$['total']\""),
    ("ref: [0-9a-f-]{8}", "ref: [0-9a-f-]{9}"),
    ("beyond 1,?000\" }, then: split", "beyond 1000\" }, then: split"),
    ("shape: bibliographic", "shape: BIBLIOGRAPHIC"),
    ("evidence: recorded", "evidence: sample"),
    (
        "ids.doi: \"$.bibjson.identifier[*].id | doi | first\"",
        "ids.doi: \"$['bibjson'].identifier[*].id | doi | first\"",
    ),
    ("ids.other[]: \"$.id\"", "ids.other[]: \"$['id']\""),
    ("title: \"$.bibjson.title | plain\"", "title: \"$['bibjson'].title | plain\""),
    ("abstract: \"$.bibjson.abstract | plain\"", "abstract: \"$['bibjson'].abstract | plain\""),
    ("authors[]: \"$.bibjson.author[*]\"", "authors[]: \"$['bibjson'].author[*]\""),
    ("authors[].name: \"$.name | plain\"", "authors[].name: \"$['name'] | plain\""),
    ("authors[].orcid: \"$.orcid_id | orcid\"", "authors[].orcid: \"$['orcid_id'] | orcid\""),
    ("authors[].affiliations[]: \"$.affiliation\"", "authors[].affiliations[]: \"$['affiliation']\""),
    ("authors[].affiliations[].name: \"$ | plain\"", "authors[].affiliations[].name: \"$ | trim\""),
    ("venue.title: \"$.bibjson.journal.title | plain\"", "venue.title: \"$['bibjson'].journal.title | plain\""),
    ("venue.issn[]: \"$.bibjson.journal.issns[*] | issn\"", "venue.issn[]: \"$['bibjson'].journal.issns[*] | issn\""),
    (
        "venue.publisher: \"$.bibjson.journal.publisher | plain\"",
        "venue.publisher: \"$['bibjson'].journal.publisher | plain\"",
    ),
    ("venue.volume: \"$.bibjson.journal.volume\"", "venue.volume: \"$['bibjson'].journal.volume\""),
    ("venue.issue: \"$.bibjson.journal.number\"", "venue.issue: \"$['bibjson'].journal.number\""),
    ("venue.first_page: \"$.bibjson.start_page\"", "venue.first_page: \"$['bibjson'].start_page\""),
    ("venue.last_page: \"$.bibjson.end_page\"", "venue.last_page: \"$['bibjson'].end_page\""),
    ("dates.published: \"$.bibjson | partial_date\"", "dates.published: \"$['bibjson'] | partial_date\""),
    ("dates.created: \"$.created_date | partial_date\"", "dates.created: \"$['created_date'] | partial_date\""),
    ("dates.revised: \"$.last_updated | partial_date\"", "dates.revised: \"$['last_updated'] | partial_date\""),
    ("type: \"$.id | codes('*=article')\"", "type: \"$.id | codes('*=review')\""),
    (
        "language: \"$.bibjson.journal.language[*] | language | first\"",
        "language: \"$['bibjson'].journal.language[*] | language | first\"",
    ),
    ("subjects.keywords[]: \"$.bibjson.keywords[*]\"", "subjects.keywords[]: \"$['bibjson'].keywords[*]\""),
    ("subjects.categories[]: \"$.bibjson.subject[*].term\"", "subjects.categories[]: \"$['bibjson'].subject[*].term\""),
    (
        "licence: \"$.bibjson.license[*].type || $.bibjson.journal.license[*].type | licence\"",
        "licence: \"$['bibjson'].license[*].type || $.bibjson.journal.license[*].type | licence\"",
    ),
    ("open_access: \"$.admin.in_doaj | flag\"", "open_access: \"$['admin'].in_doaj | flag\""),
    ("links.fulltext[]: \"$.bibjson.link[*].url\"", "links.fulltext[]: \"$['bibjson'].link[*].url\""),
    ("extra.country: \"$.bibjson.journal.country\"", "extra.country: \"$['bibjson'].journal.country\""),
    ("title: { template: \"bibjson.title:{value}\"", "title: { template: \"title:{value}\""),
    ("(bibjson.title:{value} OR bibjson.abstract:{value})", "(bibjson.abstract:{value} OR bibjson.title:{value})"),
    ("author: { template: \"bibjson.author.name:{value}\"", "author: { template: \"author.name:{value}\""),
    ("note: \"DOAJ holds articles only\"", "note: \"articles only\""),
];

/// The name of a source is its identity, and from another first page nothing can be read.
const FIXED: [&str; 2] = ["source: doaj", "base: 1"];

#[test]
fn every_value_of_the_definition_is_edited() {
    let (_, text) = definition_of(Source::Doaj);
    let has_value = |line: &&str| !line.trim_start().starts_with('#') && !line.trim_end().ends_with(':');
    let values = text.lines().filter(|line| !line.trim().is_empty() && !FIXED.contains(&line.trim())).filter(has_value);
    let forgotten: Vec<&str> = values
        .filter(|line| EDITS.iter().all(|(from, _)| !line.contains(from) && !from.contains(line.trim())))
        .collect();
    assert!(forgotten.is_empty(), "{forgotten:#?}");
}

#[test]
fn a_plan_is_read_with_the_version_it_was_made_with() {
    let folder = template::scratch().unwrap();
    let mut plan = LabPlan::new(3, 60, template::database(&folder));
    plan.sources = vec![Source::Doaj];
    plan.history = HISTORY;
    let mut lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent)).unwrap();
    let (file, mut text) = (definition_of(Source::Doaj).0, definition_of(Source::Doaj).1.to_owned());
    let mut edits = EDITS.iter().cycle();
    for round in 0..ROUNDS {
        let planned = lab.plan_source(Source::Doaj);
        let Ok(Planned::Created { plan, .. }) = planned else { panic!("round {round}: {planned:?}") };
        let mut scheduler = Scheduler::new(lab.time.clone(), round as u64);
        let process = lab.process();
        lab.spawn(&mut scheduler, &process, "w".into());
        for (from, to) in edits.by_ref().take(EDITS_PER_PLAN) {
            for _ in 0..5 {
                scheduler.turn();
            }
            // There and back again, so that every edit is one.
            text = if text.contains(to) { text.replacen(to, from, 1) } else { text.replacen(from, to, 1) };
            lab.publish(file, &text).unwrap_or_else(|mistakes| panic!("{from} to {to}: {mistakes}"));
        }
        scheduler.run();
        lab.drain().unwrap();
        let batches = batches_show_the_version_of(&lab, plan);
        assert!(batches > 0, "round {round} read nothing");
        lab.time.jump(Span::HOUR.times(5));
    }
}

/// How many batches the plan has; every one of them was read with the plan's spec.
fn batches_show_the_version_of(lab: &Lab, plan: Id) -> usize {
    let show = |noun: Noun, id: &str| lab.runtime.block_on(lab.store.show(noun, id)).unwrap().unwrap();
    let plan = show(Noun::Plan, &plan.to_string());
    let filter = ListFilter { status: Some("SUCCEEDED".into()), limit: 1_000, ..ListFilter::default() };
    let batches = lab.runtime.block_on(lab.store.list(Noun::Batch, &filter)).unwrap();
    let own: Vec<_> = batches.iter().filter(|batch| batch["plan_id"] == plan["id"]).collect();
    for batch in &own {
        let whole = show(Noun::Batch, batch["id"].as_str().unwrap());
        assert_eq!(whole["spec_fingerprint"], plan["spec_fingerprint"]);
    }
    own.len()
}
