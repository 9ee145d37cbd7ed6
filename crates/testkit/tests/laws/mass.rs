//! A day on which everything changed (PM-8): one day of PubMed holds many times what one query serves. It is cut by id
//! ranges sized from the first page, and nothing is missing. All 60,000 as a command (`PATRA_MASS_RECORDS=60000`).

use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_sim::{Kind, Source};
use patra_testkit::lab::{HISTORY_FROM, Lab, LabPlan};
use patra_testkit::{simulation::HISTORY, template};

use super::seeds::number;

/// What one query serves for each thousand records of the day, as 9,999 for 60,000.
const CAP_OF_60_000: u64 = 9_999;
const PER_SLICE_OF_60_000: u64 = 9_500;
const IDS_PER_DETAIL: u64 = 200;
/// Requests above the least possible, in percent.
const ABOVE_LEAST: u64 = 15;

#[test]
fn a_day_of_mass_revision_is_read_whole_by_id_ranges_with_few_requests() {
    let records = number("PATRA_MASS_RECORDS", 6_000);
    let (cap, per_slice) = (CAP_OF_60_000 * records / 60_000, PER_SLICE_OF_60_000 * records / 60_000);
    let folder = template::scratch().unwrap();
    let mut plan = LabPlan::new(8, records, template::database(&folder));
    plan.sources = vec![Source::PubMed];
    plan.history = HISTORY;
    plan.live = Span::ZERO;
    plan.workers = 2;
    plan.mutate_every = 0;
    plan.since = HISTORY_FROM.plus(HISTORY).plus(Span::HOUR.times(5));
    plan.caps = vec![(Source::PubMed, cap as usize)];
    let keys = [("pagination.size", cap), ("pagination.result_cap", cap), ("pagination.max_per_slice", per_slice)];
    plan.set = keys.map(|(key, value)| (key.to_owned(), value.to_string())).to_vec();
    plan.adjust = Some(|truth| (truth.future_share, truth.delete_share, truth.detail_missing_share) = (0.0, 0.0, 0.0));
    template::place(&plan).unwrap();
    let mut lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent)).unwrap();

    lab.time.jump(Span::HOUR.times(15));
    let revised_at = lab.now().micros();
    let revised = lab.world.lock().truth_mut("pubmed").unwrap().restamp_many(usize::MAX, revised_at) as u64;
    assert_eq!(revised, records, "the whole of it");
    lab.time.jump(Span::HOUR.times(39));
    lab.round().unwrap();

    let verdict = lab.verdict().unwrap();
    assert!(verdict.ok, "{:?}", verdict.findings);
    let day = verdict.sources.first().unwrap();
    assert_eq!((day.missing_count, day.expected), (0, records));
    assert!(day.watermark.is_some_and(|at| Timestamp::from_micros(at) > Timestamp::from_micros(revised_at)));
    let world = lab.world.lock();
    let (search, detail): (Vec<_>, Vec<_>) = world.served("pubmed").iter().partition(|row| row.kind == Kind::Search);
    let requests = (search.len() + detail.len()) as u64;
    let least = records.div_ceil(cap) + records.div_ceil(IDS_PER_DETAIL);
    println!("{records} records: {} searches, {} details, least possible {least}", search.len(), detail.len());
    assert!(requests * 100 <= least * (100 + ABOVE_LEAST), "{requests} requests, {least} would do");
}
