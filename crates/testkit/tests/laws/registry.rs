//! A registry edited while a plan is being worked on (FM-17): the plan keeps the version it was made with.

use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::ports::{Inspect, ListFilter, Noun};
use patra_core::time::Span;
use patra_engine::notice::Silent;
use patra_engine::planner::Planned;
use patra_sim::Source;
use patra_sim::vtime::Scheduler;
use patra_testkit::lab::{Lab, LabPlan, definition_of};
use patra_testkit::{simulation::HISTORY, template};

/// Every edit is a definition that compiles and reads the same source differently.
const EDITS: [(&str, &str); 5] = [
    ("name: Directory of Open Access Journals", "name: DOAJ, edited"),
    ("size: 100", "size: 50"),
    ("safety_lag: PT1H", "safety_lag: PT2H"),
    ("per_second: 2", "per_second: 1"),
    ("lookback: PT2H", "lookback: PT3H"),
];

#[test]
fn a_plan_is_read_with_the_version_it_was_made_with() {
    let folder = template::scratch().unwrap();
    let mut plan = LabPlan::new(3, 60, template::database(&folder));
    plan.sources = vec![Source::Doaj];
    plan.history = HISTORY;
    let mut lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent)).unwrap();
    let (file, mut text) = (definition_of(Source::Doaj).0, definition_of(Source::Doaj).1.to_owned());
    let mut edits = 0;
    for round in 0..40 {
        let (from, to) = EDITS[round % EDITS.len()];
        let Ok(Planned::Created { plan, .. }) = lab.plan_source(Source::Doaj) else { panic!("round {round} plans") };
        let mut scheduler = Scheduler::new(lab.time.clone(), round as u64);
        let process = lab.process();
        lab.spawn(&mut scheduler, &process, "w".into());
        for _ in 0..10 {
            scheduler.turn();
        }
        // There and back again, so that every edit is one.
        text = if text.contains(to) { text.replace(to, from) } else { text.replacen(from, to, 1) };
        edits += u64::from(lab.publish(file, &text).is_ok());
        scheduler.run();
        lab.drain().unwrap();
        let shown = lab.runtime.block_on(lab.store.show(Noun::Plan, &plan.to_string())).unwrap().unwrap();
        let filter = ListFilter {
            provenance: Some("doaj".into()),
            status: Some("SUCCEEDED".into()),
            limit: 1_000,
            ..Default::default()
        };
        for batch in lab.runtime.block_on(lab.store.list(Noun::Batch, &filter)).unwrap() {
            if batch["plan_id"] == shown["id"] {
                let whole =
                    lab.runtime.block_on(lab.store.show(Noun::Batch, batch["id"].as_str().unwrap())).unwrap().unwrap();
                assert_eq!(whole["spec_fingerprint"], shown["spec_fingerprint"], "round {round}");
            }
        }
        lab.time.jump(Span::HOUR.times(5));
    }
    assert!(edits >= 30, "{edits} edits were published");
}
