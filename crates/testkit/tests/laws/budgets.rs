//! A budget of a day (INV-44): a backfill of many days is spread over them, the harvest goes first, no day is overspent,
//! nothing fails and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::id::Id;
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Inspect, ListFilter, Noun, Shown};
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_engine::planner::{Planned, Trigger};
use patra_sim::Source;
use patra_sim::vtime::{Scheduler, Turn};
use patra_testkit::lab::{HISTORY_FROM, Lab, LabPlan};
use patra_testkit::template;

const PER_DAY: u64 = 500;
/// A tenth is never spent.
const SPENT_MOST: u64 = 450;
const RECORDS: u64 = 3_000;
const HISTORY: Span = Span::DAY.times(4);
/// The harvest reads what is newer, the backfill what is older.
const DIVIDE: Span = Span::HOUR.times(92);

fn open() -> (Lab, tempfile::TempDir) {
    let folder = template::scratch().unwrap();
    let mut plan = LabPlan::new(1, RECORDS, template::database(&folder));
    plan.sources = vec![Source::DataCite];
    (plan.history, plan.live, plan.mutate_every) = (HISTORY, Span::ZERO, 0);
    plan.since = HISTORY_FROM.plus(DIVIDE);
    plan.settings.poll = Span::MINUTE.times(10);
    let set = [("pagination.size", "1".to_owned()), ("rate.quota.per_day", PER_DAY.to_string())];
    plan.set = set.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    template::place(&plan).unwrap();
    (Lab::open(plan, Failpoints::none(), Arc::new(Silent)).unwrap(), folder)
}

fn planned(lab: &Lab, trigger: &Trigger) -> Id {
    match lab.runtime.block_on(lab.planner().plan(trigger)).unwrap() {
        Planned::Created { plan, .. } => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn rows(lab: &Lab, noun: Noun, plan: Id) -> Vec<Shown> {
    let filter = ListFilter { plan: Some(plan), limit: 1_000, ..ListFilter::default() };
    lab.runtime.block_on(lab.store.list(noun, &filter)).unwrap()
}

/// Requests of each day, as the source counted them.
fn by_day(lab: &Lab) -> BTreeMap<i64, u64> {
    let mut days = BTreeMap::new();
    for row in lab.world.lock().served(Source::DataCite.name()) {
        *days.entry(row.at_us.div_euclid(Span::DAY.micros())).or_default() += 1;
    }
    days
}

fn work(lab: &mut Lab) {
    let mut scheduler = Scheduler::new(lab.time.clone(), 1);
    for process in 0..2 {
        let executor = lab.process();
        for worker in 0..2 {
            lab.spawn(&mut scheduler, &executor, format!("p{process}w{worker}"));
        }
    }
    while scheduler.turn() != Turn::Idle {}
}

#[test]
fn a_backfill_is_spread_over_days_and_the_harvest_goes_first() {
    let (mut lab, _folder) = open();
    let harvest_trigger = lab.trigger(Source::DataCite);
    let backfill = planned(
        &lab,
        &Trigger {
            operation: Operation::Backfill,
            since: Some(HISTORY_FROM),
            until: Some(HISTORY_FROM.plus(DIVIDE)),
            campaign: Campaign { activity: Some("old".into()), only: None },
            ..harvest_trigger.clone()
        },
    );
    let harvest = planned(&lab, &harvest_trigger);
    let began = lab.now();
    work(&mut lab);
    let days = by_day(&lab);
    println!("{days:?}");
    assert!(days.values().all(|requests| *requests <= SPENT_MOST), "a day is overspent: {days:?}");
    assert!(days.len() >= 7, "it was not spread: {days:?}");
    let midnight = Timestamp::from_micros((began.micros().div_euclid(Span::DAY.micros()) + 1) * Span::DAY.micros());
    for run in rows(&lab, Noun::Run, harvest) {
        let finished: Timestamp = run["finished_at"].as_str().unwrap().parse().unwrap();
        assert!(finished < midnight, "the harvest waited for the backfill: {finished}");
    }
    for plan in [harvest, backfill] {
        for task in rows(&lab, Noun::Task, plan) {
            assert_eq!((&task["status_code"], &task["failure_count"]), (&"SUCCEEDED".into(), &0.into()), "{task:?}");
        }
    }
    for pause in [Span::DAY.times(6), Span::DAY] {
        lab.time.jump(pause);
        lab.plan_source(Source::DataCite).unwrap();
        work(&mut lab);
    }
    assert!(by_day(&lab).values().all(|requests| *requests <= SPENT_MOST), "{:?}", by_day(&lab));
    let mut input = lab.check_input().unwrap();
    // Two processes with a gate each.
    input.rules.iter_mut().for_each(|rules| rules.rates.clear());
    let verdict = lab.judge(&input);
    assert!(verdict.ok, "{:?}", verdict.findings.iter().take(5).collect::<Vec<_>>());
}
