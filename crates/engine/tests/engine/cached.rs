//! A cached registry: no query within the life of an answer, nothing older than that life.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use patra_core::failpoint::Failpoints;
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Clock, DictionaryRows, LedgerError, NewVersion, Registry, StoredVersion};
use patra_core::registry::{catalogue, decode, new_version};
use patra_core::spec::overrides::TriggerOverrides;
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_engine::cached_registry::CachedRegistry;
use patra_engine::planner::{PlanError, Planner, Trigger};
use patra_sim::vtime::VirtualTime;
use patra_store::Store;

use crate::bench::Bench;

const LIFE: Span = Span::from_seconds(5);

/// Counts what is asked; answering may take a while.
struct Counted {
    store: Arc<Store>,
    time: VirtualTime,
    answer_takes: Span,
    asked: AtomicUsize,
}

impl Counted {
    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    fn answered(&self) {
        self.time.jump(self.answer_takes);
    }
}

#[async_trait]
impl Registry for Counted {
    async fn publish_version(&self, version: NewVersion) -> Result<i64, LedgerError> {
        self.store.publish_version(version).await
    }

    async fn version_at(&self, of: &str, channel: &str, at: Timestamp) -> Result<Option<StoredVersion>, LedgerError> {
        self.ask();
        let answer = self.store.version_at(of, channel, at).await;
        self.answered();
        answer
    }

    async fn version(&self, provenance: &str, version: i64) -> Result<Option<StoredVersion>, LedgerError> {
        self.ask();
        self.store.version(provenance, version).await
    }

    async fn versions(&self, provenance: Option<&str>) -> Result<Vec<StoredVersion>, LedgerError> {
        self.ask();
        self.store.versions(provenance).await
    }

    async fn seed_dictionary(&self, rows: &DictionaryRows) -> Result<(), LedgerError> {
        self.store.seed_dictionary(rows).await
    }

    async fn dictionary(&self) -> Result<DictionaryRows, LedgerError> {
        self.store.dictionary().await
    }
}

struct Stage {
    bench: Bench,
    counted: Arc<Counted>,
    planner: Planner,
}

impl Stage {
    fn new(answer_takes: Span) -> Stage {
        let bench = Bench::open();
        let (store, time) = (bench.store.clone(), bench.time.clone());
        let counted = Arc::new(Counted { store: store.clone(), time, answer_takes, asked: AtomicUsize::new(0) });
        let registry = Arc::new(CachedRegistry::new(counted.clone(), bench.clock(), LIFE));
        let planner = Planner {
            ledger: store.clone(),
            registry,
            ids: store.ids(),
            failpoints: Failpoints::none(),
            gate: None,
            stock_max: 100,
        };
        Stage { bench, counted, planner }
    }

    /// Another process publishes, from `after` now on.
    fn publish(&self, name: &str, after: Span) {
        let entry = catalogue::ALL.iter().find(|entry| entry.source == "doaj").unwrap();
        let text = entry.text.replace("name: Directory", &format!("name: {name}"));
        assert!(text.contains(name));
        let from = self.bench.time.now().plus(after);
        let version = new_version(&decode("doaj.yaml", &text).unwrap(), &text, "stable", from, "me", "");
        self.bench.runtime.block_on(self.bench.store.publish_version(version)).unwrap();
    }

    /// The registry version that a plan would be made from now, and the queries that this took.
    fn compile(&self) -> Result<(i64, usize), PlanError> {
        let before = self.counted.asked.load(Ordering::SeqCst);
        let compiled = self.bench.runtime.block_on(self.planner.compile(&trigger()))?;
        Ok((compiled.spec.registry_version, self.counted.asked.load(Ordering::SeqCst) - before))
    }

    fn wait(&self, span: Span) {
        self.bench.time.jump(span);
    }
}

fn trigger() -> Trigger {
    Trigger {
        provenance: "doaj".into(),
        endpoint: None,
        operation: Operation::Harvest,
        channel: "stable".into(),
        since: None,
        until: None,
        query: None,
        overrides: TriggerOverrides::default(),
        scheduler: String::new(),
        job_id: String::new(),
        log_id: String::new(),
        trigger_type: String::new(),
        campaign: Campaign::default(),
    }
}

const MOMENT: Span = Span::from_millis(1);

#[test]
fn within_its_life_an_answer_is_not_asked_for_again_and_after_it_the_change_is_seen() {
    let stage = Stage::new(Span::ZERO);
    stage.publish("One", Span::ZERO);
    assert_eq!(stage.compile().unwrap(), (1, 1));
    stage.publish("Two", Span::ZERO);
    stage.wait(Span::from_micros(LIFE.micros() - MOMENT.micros()));
    assert_eq!(stage.compile().unwrap(), (1, 0));
    stage.wait(MOMENT);
    assert_eq!(stage.compile().unwrap(), (2, 1));
    assert_eq!(stage.compile().unwrap(), (2, 0));
}

#[test]
fn the_life_begins_when_the_registry_is_asked_not_when_it_answers() {
    let stage = Stage::new(Span::from_seconds(4));
    stage.publish("One", Span::ZERO);
    assert_eq!(stage.compile().unwrap(), (1, 1));
    stage.publish("Two", Span::ZERO);
    stage.wait(Span::from_seconds(1));
    assert_eq!(stage.compile().unwrap(), (2, 1));
}

#[test]
fn an_end_that_is_known_is_kept_to_within_the_life() {
    let stage = Stage::new(Span::ZERO);
    stage.publish("One", Span::ZERO);
    stage.publish("Two", Span::from_seconds(2));
    assert_eq!(stage.compile().unwrap(), (1, 1));
    stage.wait(Span::from_seconds(2));
    assert_eq!(stage.compile().unwrap(), (2, 1));
}

#[test]
fn a_source_that_did_not_exist_is_seen_at_once() {
    let stage = Stage::new(Span::ZERO);
    assert!(matches!(stage.compile(), Err(PlanError::UnknownSource { .. })));
    stage.publish("One", Span::ZERO);
    assert_eq!(stage.compile().unwrap(), (1, 1));
}
