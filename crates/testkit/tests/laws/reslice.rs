//! Slices that turn out to be too much are replaced while they are read (8.4), and the next plan knows better.

use std::sync::{Arc, Mutex};

use patra_core::failpoint::Failpoints;
use patra_core::healing::Thresholds;
use patra_core::ports::{Inspect, ListFilter, Noun, Partition};
use patra_core::time::Span;
use patra_engine::notice::{Notice, Notices};
use patra_engine::settings::Settings;
use patra_sim::Source;
use patra_testkit::lab::{Lab, LabPlan};
use patra_testkit::{simulation::HISTORY, template};

/// Why slices were cut.
#[derive(Default)]
struct Cuts(Mutex<Vec<String>>);

impl Notices for Cuts {
    fn tell(&self, _at: &Partition, notice: Notice) {
        if let Notice::SliceSplit { reason, .. } = notice {
            self.0.lock().unwrap().push(reason);
        }
    }
}

impl Cuts {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn open(
    source: Source,
    set: &[(&str, &str)],
    change: impl FnOnce(&mut LabPlan),
) -> (Lab, Arc<Cuts>, tempfile::TempDir) {
    let folder = template::scratch().unwrap();
    let mut plan = LabPlan::new(11, 300, template::database(&folder));
    plan.sources = vec![source];
    plan.history = HISTORY;
    plan.workers = 2;
    plan.mutate_every = 0;
    plan.set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    change(&mut plan);
    template::place(&plan).unwrap();
    let cuts = Arc::new(Cuts::default());
    let lab = Lab::open(plan, Failpoints::none(), cuts.clone()).unwrap();
    (lab, cuts, folder)
}

fn is_complete(lab: &mut Lab) {
    for pause in [Span::DAY.times(6), Span::HOUR] {
        lab.time.jump(pause);
        lab.round().unwrap();
    }
    let verdict = lab.verdict().unwrap();
    assert!(verdict.ok, "{:?}", verdict.findings);
    assert_eq!(verdict.sources[0].missing_count, 0);
}

fn thresholds(change: impl FnOnce(&mut Thresholds)) -> Settings {
    let mut settings = Settings { poll: Span::from_seconds(3), ..Settings::default() };
    change(&mut settings.thresholds);
    settings
}

#[test]
fn a_slice_that_strains_is_replaced_by_smaller_ones_and_says_why() {
    let pages = &[("pagination.size", "5"), ("window.slice", "P1D")];
    // (settings, what the reason says)
    for (settings, says) in [
        (thresholds(|set| set.reslice_bytes = 2_000), "bytes"),
        (thresholds(|set| set.reslice_after = Span::from_seconds(2)), "has been read for"),
    ] {
        for source in [Source::DataCite, Source::Doaj] {
            let (mut lab, cuts, _folder) = open(source, pages, |plan| plan.settings = settings);
            lab.round().unwrap();
            let reasons = cuts.take();
            assert!(reasons.iter().any(|reason| reason.contains(says)), "{source:?}: {reasons:?}");
            let split = ListFilter { status: Some("SPLIT".into()), limit: 100, ..ListFilter::default() };
            let slices = lab.runtime.block_on(lab.store.list(Noun::Slice, &split)).unwrap();
            let told = slices.iter().any(|slice| format!("{slice:?}").contains(says));
            assert!(told, "the slice keeps the reason: {slices:?}");
            is_complete(&mut lab);
        }
    }
}

#[test]
fn a_source_that_refuses_often_gets_smaller_slices() {
    let pages = &[("pagination.size", "2"), ("window.slice", "P1D")];
    let (mut lab, cuts, _folder) = open(Source::DataCite, pages, |plan| {
        plan.faults = patra_sim::FaultLevel::Storm;
        plan.settings = thresholds(|set| set.throttled_percent = 1);
    });
    lab.round().unwrap();
    let reasons = cuts.take();
    assert!(reasons.iter().any(|reason| reason.contains("were throttled")), "{reasons:?}");
    lab.world.lock().silence();
    is_complete(&mut lab);
}

#[test]
fn the_next_plan_has_slices_that_fit_from_the_start() {
    let set = &[("window.slice", "PT12H"), ("pagination.result_cap", "20"), ("pagination.max_per_slice", "20")];
    let (mut lab, cuts, _folder) = open(Source::DataCite, set, |plan| {
        plan.caps = vec![(Source::DataCite, 20)];
        plan.live = Span::DAY.times(2);
        plan.adjust = Some(|truth| truth.live_share = 0.5);
    });
    lab.round().unwrap();
    let blind = cuts.take().len();
    lab.time.jump(Span::DAY.times(2));
    lab.round().unwrap();
    let knowing = cuts.take().len();
    println!("{blind} slices were cut without a history, {knowing} with one");
    assert!(blind >= 4 && knowing * 4 <= blind, "{blind} before, {knowing} after");
    is_complete(&mut lab);
}
