//! One laboratory: a world, a database, a planner and workers, all on one virtual clock.

mod judge;
mod rules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Clock, Gate, Inspect, Ledger, ListFilter, Noun, Only, Registry};
use patra_core::registry::{decode, dictionary_rows, new_version};
use patra_core::spec::overrides::TriggerOverrides;
use patra_core::spec::snapshot::Operation;
use patra_core::time::{Span, Timestamp};
use patra_engine::executor::{Executor, Outside};
use patra_engine::gate::LocalGate;
use patra_engine::notice::Notices;
use patra_engine::planner::{PlanError, Planned, Planner, Trigger};
use patra_engine::settings::Settings;
use patra_sim::blocking::BlockingLedger;
use patra_sim::transport::{HOST, SeededRandom, SimTransport};
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};
use patra_sim::{FaultLevel, FaultPlan, SharedWorld, Source, TruthPlan, World, WorldPlan};
use patra_source::{EnvFileSecrets, SourceReader};
use patra_store::{Durability, Options, Store, Time};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::clocks::Clocks;
pub use judge::add_seen;
pub use rules::{definition_of, rules_of};

/// 2026-03-01T00:00:00Z, the first day of every laboratory's history.
pub const HISTORY_FROM: Timestamp = Timestamp::from_seconds(1_772_323_200);

/// A laboratory that takes more turns than this to work something off stands still.
const TURNS_MAX: u64 = 5_000_000;

/// What a laboratory is to be.
#[derive(Clone, Debug)]
pub struct LabPlan {
    pub seed: u64,
    pub records: u64,
    pub sources: Vec<Source>,
    pub faults: FaultLevel,
    pub history: Span,
    /// How long after the history new versions go on to appear.
    pub live: Span,
    pub workers: usize,
    /// A file or the URL of a server.
    pub database: PathBuf,
    pub settings: Settings,
    /// `--set` for every source.
    pub set: Vec<(String, String)>,
    /// Smaller result caps than the real ones, so that small worlds are split too.
    pub caps: Vec<(Source, usize)>,
    pub mutate_every: u32,
    pub mutate_burst: u32,
    /// `--set` for one source.
    pub set_for: Vec<(Source, &'static str, &'static str)>,
    /// Situations that are switched on from the start.
    pub scenarios: Vec<String>,
    /// What the clocks of database and processes show.
    pub clocks: Clocks,
    /// Where the harvest begins.
    pub since: Timestamp,
    /// A last change to what the sources hold.
    pub adjust: Option<fn(&mut TruthPlan)>,
}

impl LabPlan {
    pub fn new(seed: u64, records: u64, database: impl Into<PathBuf>) -> LabPlan {
        LabPlan {
            seed,
            records,
            sources: Source::ALL.to_vec(),
            faults: FaultLevel::None,
            history: Span::DAY.times(4),
            live: Span::DAY,
            workers: 4,
            database: database.into(),
            settings: Settings { poll: Span::from_seconds(5), ..Settings::default() },
            set: Vec::new(),
            caps: Vec::new(),
            mutate_every: 7,
            mutate_burst: 1,
            set_for: Vec::new(),
            scenarios: Vec::new(),
            clocks: Clocks::default(),
            since: HISTORY_FROM,
            adjust: None,
        }
    }
}

/// A laboratory with its doors closed: everything that happens in it follows from the plan.
pub struct Lab {
    pub plan: LabPlan,
    pub runtime: Arc<Runtime>,
    pub time: VirtualTime,
    pub world: SharedWorld,
    pub store: Arc<Store>,
    pub ledger: Arc<dyn Ledger>,
    pub failpoints: Failpoints,
    notices: Arc<dyn Notices>,
    stop: CancellationToken,
    starts: u64,
}

/// A laboratory that cannot be set up is a defect, told as text.
pub type LabResult<T> = Result<T, String>;

impl Lab {
    /// Builds the world, opens the database and publishes the definitions.
    pub fn open(plan: LabPlan, failpoints: Failpoints, notices: Arc<dyn Notices>) -> LabResult<Lab> {
        let time = VirtualTime::starting_at(HISTORY_FROM.plus(plan.history));
        Lab::open_on(plan, time, failpoints, notices)
    }

    /// The same on a clock that someone else moves too.
    pub fn open_on(
        plan: LabPlan,
        time: VirtualTime,
        failpoints: Failpoints,
        notices: Arc<dyn Notices>,
    ) -> LabResult<Lab> {
        // No thread and no driver of its own: a step of the ledger hands over to the database's thread and back, and
        // nothing else waits. Sockets and timers do not exist here, time is virtual.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        if plan.database.to_string_lossy().contains("://") {
            // A server is reached by sockets; SQLite needs no driver of the runtime.
            runtime.enable_all();
        }
        let runtime = runtime.build().map_err(|error| error.to_string())?;
        let runtime = Arc::new(runtime);
        let world = SharedWorld::new(World::new(world_plan(&plan)));
        let mut options = Options::new(plan.clocks.database.on(&time), plan.seed);
        options.durability = Durability::Normal;
        options.time = Time::Injected;
        options.failpoints = failpoints.clone();
        let place = plan.database.to_string_lossy().into_owned();
        let store = runtime.block_on(Store::open(&place, options)).map_err(|error| error.to_string())?;
        let ledger = Arc::new(BlockingLedger::new(store.clone(), runtime.clone()));
        let stop = CancellationToken::new();
        let lab = Lab { plan, runtime, time, world, store, ledger, failpoints, notices, stop, starts: 0 };
        lab.publish_definitions()?;
        Ok(lab)
    }

    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    fn publish_definitions(&self) -> LabResult<()> {
        let known = self.runtime.block_on(self.store.versions(None)).map_err(|error| error.to_string())?;
        if !known.is_empty() {
            return Ok(());
        }
        let seeded = self.runtime.block_on(self.store.seed_dictionary(&dictionary_rows()));
        seeded.map_err(|error| error.to_string())?;
        for source in &self.plan.sources {
            let (file, text) = definition_of(*source);
            // In force for a database whose clock is years behind, too.
            self.publish_from(file, text, HISTORY_FROM.minus(Span::DAY.times(1_000)))?;
        }
        Ok(())
    }

    /// Whether something was planned on this database before.
    pub fn has_plans(&self) -> LabResult<bool> {
        let filter = ListFilter { limit: 1, ..ListFilter::default() };
        let plans = self.runtime.block_on(self.store.list(Noun::Plan, &filter));
        plans.map(|plans| !plans.is_empty()).map_err(|error| error.to_string())
    }

    /// Publishes a definition, as `patra registry apply` does.
    pub fn publish(&self, file: &str, text: &str) -> LabResult<i64> {
        self.publish_from(file, text, self.now())
    }

    fn publish_from(&self, file: &str, text: &str, from: Timestamp) -> LabResult<i64> {
        let definition = decode(file, text).map_err(|mistakes| join(&mistakes))?;
        let version = new_version(&definition, text, "stable", from, "lab", "");
        self.runtime.block_on(self.store.publish_version(version)).map_err(|error| error.to_string())
    }

    pub fn trigger(&self, source: Source) -> Trigger {
        let overrides = TriggerOverrides {
            base_url: Some(format!("http://{HOST}/{}", source.name())),
            allow_hosts: vec![format!("{HOST}:80")],
            params: self.settings_of(source),
            contact: Some("lab@example.org".into()),
            ..TriggerOverrides::default()
        };
        Trigger {
            provenance: source.name().to_owned(),
            endpoint: None,
            operation: Operation::Harvest,
            channel: "stable".into(),
            since: Some(self.plan.since),
            until: None,
            query: None,
            campaign: Campaign::default(),
            overrides,
            scheduler: "LAB".into(),
            job_id: String::new(),
            log_id: String::new(),
            trigger_type: "MANUAL".into(),
        }
    }

    fn settings_of(&self, source: Source) -> BTreeMap<String, String> {
        let own = self.plan.set_for.iter().filter(|(of, ..)| *of == source);
        let own = own.map(|(_, key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.plan.set.iter().cloned().chain(own).collect()
    }

    pub fn planner(&self) -> Planner {
        Planner {
            ledger: self.store.clone(),
            registry: self.store.clone(),
            ids: self.store.ids(),
            failpoints: self.failpoints.clone(),
            gate: None,
            stock_max: self.plan.settings.thresholds.stock_max,
        }
    }

    /// Plans one source; the error of a failpoint is passed on.
    pub fn plan_source(&self, source: Source) -> Result<Planned, PlanError> {
        self.runtime.block_on(self.planner().plan(&self.trigger(source)))
    }

    /// A fresh process: a gate and an executor of its own, sharing only the database and the world.
    pub fn process(&mut self) -> Arc<Executor> {
        self.starts += 1;
        let clock = self.clock_of_process();
        let gate: Arc<dyn Gate> = Arc::new(LocalGate::new(clock.clone(), self.failpoints.clone()));
        self.executor(Only::default(), gate, clock)
    }

    /// A process that takes only some tasks and shares a gate with others.
    pub fn process_for(&mut self, only: Only, gate: Arc<dyn Gate>) -> Arc<Executor> {
        self.starts += 1;
        self.executor(only, gate, self.clock_of_process())
    }

    fn executor(&self, only: Only, gate: Arc<dyn Gate>, clock: Arc<dyn Clock>) -> Arc<Executor> {
        let transport = Arc::new(SimTransport::new(self.world.clone(), Arc::new(self.time.clone())));
        let source = SourceReader::new(transport, Arc::new(EnvFileSecrets), gate.clone(), clock.clone());
        let outside = Outside {
            ledger: self.ledger.clone(),
            source: Arc::new(source),
            gate,
            clock,
            random: Arc::new(SeededRandom::new(self.plan.seed ^ (self.starts << 32))),
            ids: self.store.ids(),
            notices: self.notices.clone(),
            failpoints: self.failpoints.clone(),
            settings: self.plan.settings,
            slot_owner: None,
        };
        Arc::new(Executor::new(outside, only, self.stop.clone()))
    }

    fn clock_of_process(&self) -> Arc<dyn Clock> {
        let hands = &self.plan.clocks.executors;
        match hands.get(self.starts as usize % hands.len().max(1)) {
            Some(hand) => hand.on(&self.time),
            None => Arc::new(self.time.clone()),
        }
    }

    /// What SIGTERM does to every process started so far; later ones are not touched.
    pub fn terminate(&mut self) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
    }

    /// Adds a worker of a process to a scheduler.
    pub fn spawn(&self, scheduler: &mut Scheduler, process: &Arc<Executor>, name: String) -> usize {
        let process = process.clone();
        scheduler.spawn(async move {
            if let Err(error) = process.drain(&name).await {
                tracing::warn!("worker {name} stopped: {error}");
            }
        })
    }

    /// Works everything off with healthy workers of one process.
    pub fn drain(&mut self) -> LabResult<()> {
        let mut scheduler = Scheduler::new(self.time.clone(), self.plan.seed ^ self.starts);
        let process = self.process();
        for worker in 0..self.plan.workers {
            self.spawn(&mut scheduler, &process, format!("w{worker}"));
        }
        for _ in 0..TURNS_MAX {
            if scheduler.turn() == Turn::Idle {
                return Ok(());
            }
        }
        Err(format!("no end after {TURNS_MAX} turns, seed {}", self.plan.seed))
    }

    /// Plans every source and works the plans off.
    pub fn round(&mut self) -> LabResult<()> {
        for source in self.plan.sources.clone() {
            self.plan_source(source).map_err(|error| format!("{}: {error}", source.name()))?;
        }
        self.drain()
    }

    pub fn database(&self) -> &Path {
        &self.plan.database
    }
}

fn world_plan(plan: &LabPlan) -> WorldPlan {
    let (from, to) = (HISTORY_FROM.micros(), HISTORY_FROM.plus(plan.history).micros());
    let mut world = WorldPlan::new(plan.seed, plan.records, from, to);
    world.sources = plan.sources.clone();
    world.faults = FaultPlan::new(plan.faults, plan.seed);
    world.live_to = HISTORY_FROM.plus(plan.history).plus(plan.live).micros();
    world.lag_us = rules::LAG.micros();
    world.lookback_us = rules::LOOKBACK.micros();
    world.caps = plan.caps.clone();
    world.mutate_every = plan.mutate_every;
    world.mutate_burst = plan.mutate_burst;
    world.scenarios = plan.scenarios.clone();
    world.adjust = plan.adjust;
    world
}

fn join(mistakes: &[patra_core::registry::Diagnostic]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
