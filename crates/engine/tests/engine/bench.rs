//! One plan on an in-memory ledger, worked off by the real executor on virtual time.

use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::id::Id;
use patra_core::plan::build::{self, NoPlan, PlanAsk};
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Clock, Gate, Inspect, Ledger, ListFilter, Noun, Only, Shown, Source};
use patra_core::spec::sample;
use patra_core::spec::snapshot::{RateSpec, RateWindow, SpecSnapshot};
use patra_core::time::{Span, Timestamp};
use patra_engine::executor::{Executor, Outside};
use patra_engine::gate::LocalGate;
use patra_engine::notice::Silent;
use patra_engine::settings::Settings;
use patra_sim::blocking::BlockingLedger;
use patra_sim::transport::SeededRandom;
use patra_sim::vtime::{Scheduler, VirtualTime};
use patra_store::{Options, Store};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::shelf::Shelf;

/// Where the sample's window begins; records are dated from here on.
pub const ORIGIN: Timestamp = Timestamp::from_seconds(1_767_225_600);

pub struct Bench {
    pub runtime: Arc<Runtime>,
    pub time: VirtualTime,
    pub store: Arc<Store>,
    pub ledger: Arc<dyn Ledger>,
}

impl Bench {
    /// A ledger ten days after the origin.
    pub fn open() -> Bench {
        let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().build().unwrap());
        let time = VirtualTime::starting_at(ORIGIN.plus(Span::DAY.times(10)));
        let store = runtime.block_on(Store::open(":memory:", Options::new(Arc::new(time.clone()), 7))).unwrap();
        let ledger = Arc::new(BlockingLedger::new(store.clone(), runtime.clone()));
        Bench { runtime, time, store, ledger }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.time.clone())
    }

    /// Records `1..=count`, one every `step` from the origin on.
    pub fn shelf(&self, count: u32, step: Span) -> Shelf {
        let at = |number: u32| ORIGIN.plus(step.times(i64::from(number) - 1));
        Shelf::new(self.clock(), (1..=count).map(|number| (number.to_string(), at(number))).collect())
    }

    /// Plans the first hours of the source; `None` when nothing is owed.
    pub fn plan(&self, spec: &SpecSnapshot, hours: i64) -> Result<Option<Id>, NoPlan> {
        let namespace = build::namespace_of(spec);
        let view = self.runtime.block_on(self.store.planning_view(&namespace)).unwrap();
        let until = Some(ORIGIN.plus(Span::HOUR.times(hours)));
        let ids = self.store.ids();
        let ask = PlanAsk {
            stock_max: u32::MAX,
            instance: ids.next(),
            spec: Arc::new(spec.clone()),
            now: self.time.now(),
            until,
            campaign: Campaign::default(),
            estimate: None,
        };
        let Some(plan) = build::plan(&ask, &view, &ids)? else { return Ok(None) };
        let id = plan.id;
        self.runtime.block_on(self.store.publish_plan(plan)).unwrap();
        Ok(Some(id))
    }

    pub fn executor(&self, source: Arc<dyn Source>, settings: Settings) -> Arc<Executor> {
        let gate: Arc<dyn Gate> = Arc::new(LocalGate::new(self.clock(), Failpoints::none()));
        let outside = Outside {
            ledger: self.ledger.clone(),
            source,
            gate,
            clock: self.clock(),
            random: Arc::new(SeededRandom::new(1)),
            ids: self.store.ids(),
            notices: Arc::new(Silent),
            failpoints: Failpoints::none(),
            settings,
            slot_owner: Some(patra_store::worker_name("patra", 7)),
        };
        Arc::new(Executor::new(outside, Only::default(), CancellationToken::new()))
    }

    /// Works off everything there is.
    pub fn work(&self, source: Arc<dyn Source>) {
        let executor = self.executor(source, Settings::default());
        let mut scheduler = Scheduler::new(self.time.clone(), 1);
        scheduler.spawn(async move { executor.drain("w").await.unwrap() });
        scheduler.run();
    }

    /// Plans one slice over the first hours and works it off.
    pub fn harvest(&self, spec: &SpecSnapshot, hours: i64, source: Arc<dyn Source>) {
        self.plan(spec, hours).unwrap().expect("something is owed");
        self.work(source);
    }

    pub fn rows(&self, noun: Noun) -> Vec<Shown> {
        let filter = ListFilter { limit: 1_000, ..ListFilter::default() };
        let mut rows = self.runtime.block_on(self.store.list(noun, &filter)).unwrap();
        rows.reverse();
        rows
    }

    /// States of all slices with their reasons, oldest first.
    pub fn slices(&self) -> Vec<(String, String)> {
        let text = |row: &Shown, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        self.rows(Noun::Slice).iter().map(|row| (text(row, "status_code"), text(row, "reason"))).collect()
    }

    pub fn states(&self) -> Vec<String> {
        self.slices().into_iter().map(|(state, _)| state).collect()
    }

    pub fn record_ids(&self) -> Vec<String> {
        let rows = self.rows(Noun::Record);
        let mut ids: Vec<String> = rows.iter().map(|row| row["provider_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }

    pub fn watermark(&self, spec: &SpecSnapshot) -> Option<Timestamp> {
        self.runtime.block_on(self.store.planning_view(&build::namespace_of(spec))).unwrap().watermark
    }
}

/// The sample with pages of four, a fast gate and one slice for everything.
pub fn spec(change: impl FnOnce(&mut SpecSnapshot)) -> SpecSnapshot {
    let mut spec = sample::snapshot();
    spec.pagination.size = 4;
    spec.pagination.overlap = 0;
    spec.window.slice = Span::DAY;
    spec.window.lookback = Span::ZERO;
    let windows = vec![RateWindow { requests: 1_000, per: Span::SECOND }];
    spec.rate = RateSpec { windows, burst: 1_000, ..spec.rate };
    change(&mut spec);
    spec
}

/// Texts `1..=count`, sorted as text.
pub fn numbers(count: u32) -> Vec<String> {
    let mut ids: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    ids.sort();
    ids
}
