//! The executor: `acquire → { wait_gate → fetch → accept → commit }* → finish`.
//!
//! A worker takes one task at a time. Everything it knows of a task it reads from the ledger after the claim, and
//! every write it makes carries the lease, so it may die or be overtaken at any moment.

mod chores;
mod commit;
mod crowd;
mod details;
mod door;
mod fetch;
mod healer;
mod keyring;
mod outcome;
mod purse;
mod reading;
mod vitals;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use patra_core::failpoint::Failpoints;
use patra_core::healing::Site;
use patra_core::id::{Id, IdGen};
use patra_core::ports::{
    Claim, Clock, Gate, Leased, Ledger, LedgerError, Only, Partition, PlanView, Random, RateKey, Source,
};
use patra_core::time::Span;
use tokio_util::sync::CancellationToken;

use crate::notice::{Notice, Notices};
use crate::settings::Settings;
use crate::slot::SlotKeeper;
use reading::Reading;

/// Plans whose specs are kept decoded; a fleet has few live plans at a time.
const PLANS_KEPT: usize = 256;

/// Everything a worker needs of the outside.
pub struct Outside {
    pub ledger: Arc<dyn Ledger>,
    pub source: Arc<dyn Source>,
    pub gate: Arc<dyn Gate>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub ids: Arc<IdGen>,
    pub notices: Arc<dyn Notices>,
    pub failpoints: Failpoints,
    pub settings: Settings,
    /// Name under which the slot of `ids` is leased; `None` where somebody else keeps it.
    pub slot_owner: Option<String>,
}

/// Shared by the workers of one process.
pub struct Executor {
    outside: Outside,
    /// Only these tasks are taken.
    only: Only,
    stop: CancellationToken,
    plans: Mutex<HashMap<Id, Arc<PlanView>>>,
    chores: chores::Chores,
    keeper: Option<SlotKeeper>,
    desk: Desk,
    /// What the workers of this process run, by partition.
    running: Mutex<BTreeMap<Partition, u32>>,
    /// One worker claims at a time, so that none counts on room that another has just taken.
    claiming: futures::lock::Mutex<()>,
}

/// What the workers of one process tell each other about their sources.
#[derive(Default)]
pub(crate) struct Desk {
    door: door::Door,
    purse: purse::Purse,
    keyring: keyring::Keyring,
    healer: healer::Healer,
    vitals: vitals::PartitionVitals,
}

/// Why a run stopped before its own end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The ledger refused; the lease runs out or was lost.
    Ledger(LedgerError),
    /// SIGTERM.
    Shutdown,
    /// A person or a fuse has stopped the source.
    Stopped,
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Halt {
        Halt::Ledger(error)
    }
}

impl Executor {
    pub fn new(outside: Outside, only: Only, stop: CancellationToken) -> Executor {
        let keeper = outside.slot_owner.clone().map(|owner| SlotKeeper {
            ledger: outside.ledger.clone(),
            clock: outside.clock.clone(),
            ids: outside.ids.clone(),
            owner,
            ttl: outside.settings.slot_ttl,
            stop: stop.clone(),
        });
        Executor {
            outside,
            only,
            stop,
            keeper,
            plans: Mutex::default(),
            chores: chores::Chores::default(),
            desk: Desk::default(),
            running: Mutex::default(),
            claiming: futures::lock::Mutex::new(()),
        }
    }

    /// Works until nothing is queued or running any more, or until stopped.
    pub async fn drain(&self, who: &str) -> Result<(), LedgerError> {
        while !self.stop.is_cancelled() {
            self.chores().await?;
            if self.work_once(who).await? {
                continue;
            }
            if !self.wait_for_work().await? {
                self.desk.purse.hand_back(&self.outside).await;
                return Ok(());
            }
        }
        self.outside.failpoints.hit("shutdown.done")?;
        self.desk.purse.hand_back(&self.outside).await;
        Ok(())
    }

    /// Works until stopped: waits for tasks that are not there yet, and for a database that is away.
    pub async fn serve(&self, who: &str) -> Result<(), LedgerError> {
        while !self.stop.is_cancelled() {
            self.chores().await?;
            if self.work_once(who).await? {
                continue;
            }
            match self.wait_for_work().await {
                Ok(true) => {}
                Ok(false) => self.idle(self.outside.settings.poll).await,
                Err(error @ LedgerError::Unavailable { .. }) => {
                    tracing::warn!("looking for tasks failed, waiting: {error}");
                    self.idle(Span::SECOND).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.outside.failpoints.hit("shutdown.done")?;
        self.desk.purse.hand_back(&self.outside).await;
        Ok(())
    }

    /// Takes and runs one task; false when none was due.
    pub async fn work_once(&self, who: &str) -> Result<bool, LedgerError> {
        let leased = match self.claim(who).await {
            Ok(leased) => leased,
            Err(error @ (LedgerError::Unavailable { .. } | LedgerError::Struck(_))) => {
                // Claims pause while the database is away or full; nothing is lost by waiting.
                tracing::warn!("claiming failed, waiting: {error}");
                self.outside.clock.sleep(Span::SECOND).await;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let Some(leased) = leased else { return Ok(false) };
        let at = Partition::of_task(&leased.task);
        self.run(&at, leased).await;
        self.count(&at, -1);
        self.outside.notices.tell(&at, Notice::TaskLeft);
        Ok(true)
    }

    async fn claim(&self, who: &str) -> Result<Option<Leased>, LedgerError> {
        let _turn = self.claiming.lock().await;
        let settings = &self.outside.settings;
        let claim = Claim {
            only: self.only.clone(),
            partition_max: settings.partition_max,
            running: self.running.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            crowded: self.crowded(),
            lowered: self.desk.vitals.lowered(),
            ..Claim::new(who, 1, settings.lease_ttl)
        };
        let leased = self.outside.ledger.acquire_tasks(&claim).await?.into_iter().next();
        if let Some(leased) = &leased {
            self.count(&Partition::of_task(&leased.task), 1);
        }
        Ok(leased)
    }

    /// Partitions for whose requests this process waits at the gate already, or whose budget is empty.
    fn crowded(&self) -> BTreeSet<Partition> {
        let (plans, now) = (self.known_plans(), self.outside.ledger.database_now());
        let crowded = plans.iter().filter(|plan| {
            let crowded = RateKey::each(&plan.spec).iter().all(|key| self.desk.door.crowd.is_at(key));
            crowded || self.desk.keyring.is_parked(&plan.spec, &self.desk.purse, now)
        });
        let partition = |plan: &Arc<PlanView>| Partition {
            provenance: plan.spec.provenance.clone(),
            endpoint: plan.spec.endpoint.clone(),
            operation: plan.spec.operation.code().to_owned(),
        };
        crowded.map(partition).collect()
    }

    fn count(&self, partition: &Partition, change: i32) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let count = running.entry(partition.clone()).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            running.remove(partition);
        }
    }

    /// Returns when a task is due, or when stopped; false when none ever will be. An idle worker only looks: claims
    /// take the write lock, and the ones at work need it.
    async fn wait_for_work(&self) -> Result<bool, LedgerError> {
        let ledger = &self.outside.ledger;
        loop {
            let Some(due) = ledger.next_due(&self.only).await? else { return Ok(false) };
            let wait = due.since(ledger.database_now());
            // Due, and yet not ours: its partition is full here, or someone was faster.
            self.idle(if wait > Span::ZERO { wait } else { self.outside.settings.poll }).await;
            // A budget may come back in a day; the slot must be kept until then.
            self.chores().await?;
            if self.stop.is_cancelled() || due <= ledger.database_now() {
                return Ok(true);
            }
        }
    }

    /// Sleeps, but not for longer than other processes may take to bring work.
    async fn idle(&self, span: Span) {
        let span = span.min(self.outside.settings.poll).max(Span::from_millis(1));
        futures::select_biased! {
            () = self.stop.cancelled().fuse() => {}
            () = self.outside.clock.sleep(span).fuse() => {}
        }
    }

    async fn run(&self, at: &Partition, leased: Leased) {
        let owned = leased.task.clone();
        let (task, window, attempt) = (owned.id, owned.window, owned.attempt_no);
        self.outside.notices.tell(at, Notice::TaskAcquired { task, window, attempt });
        let lease = leased.lease.clone();
        match self.read(leased).await {
            Ok(()) => {}
            Err(Halt::Ledger(LedgerError::LeaseLost { .. })) => {
                self.outside.notices.tell(at, Notice::LeaseLost { task });
            }
            Err(Halt::Ledger(error)) => {
                tracing::warn!(task.id = %task, "task {task} stopped: {error}");
                outcome::give_back_after_error(&self.outside, &lease, &owned, at, &error).await;
                if matches!(error, LedgerError::Unavailable { .. }) {
                    // A claim may find the space that a page does not: the next one would ask its source in vain too.
                    self.idle(Span::SECOND).await;
                }
            }
            Err(Halt::Shutdown) => outcome::give_back_on_shutdown(&self.outside, &lease, at).await,
            Err(Halt::Stopped) => outcome::give_back_stopped(&self.outside, &lease, at).await,
        }
    }

    async fn read(&self, leased: Leased) -> Result<(), Halt> {
        let plan = self.plan(leased.lease.plan).await?;
        let mut reading = Reading::begin(&self.outside, &self.stop, &self.desk, plan, leased)?;
        let progress = reading.progress();
        let (lease, site) = (reading.lease().clone(), reading.site().clone());
        let heart = self.heartbeat(lease, site, progress).fuse();
        let run = reading.run().fuse();
        futures::pin_mut!(heart, run);
        futures::select_biased! {
            ended = run => ended,
            halt = heart => Err(halt),
        }
    }

    /// Renews the lease while pages are committed; ends when the lease is lost, progress stops or somebody stops the
    /// source, so that within one lease nobody asks it any more. How long it has
    /// stood still is counted in beats: a sleep takes its time also where the wall clock is set (INV-24).
    async fn heartbeat(&self, lease: patra_core::ports::Lease, site: Site, progress: Arc<AtomicU64>) -> Halt {
        let settings = &self.outside.settings;
        let beat = Span::from_micros(settings.lease_ttl.micros() / 3);
        let (mut seen, mut still) = (0, Span::ZERO);
        loop {
            self.outside.clock.sleep(beat).await;
            if let Err(lost) = self.chores().await {
                return lost.into();
            }
            let pages = progress.load(Ordering::Relaxed);
            still = if pages == seen { still.plus(beat) } else { Span::ZERO };
            seen = pages;
            if still > settings.progress_limit {
                // The lease runs out by itself; another worker takes over and counts it.
                return LedgerError::LeaseLost { task: lease.task }.into();
            }
            match self.outside.ledger.renew(&lease, settings.lease_ttl).await {
                Ok(_) => {}
                Err(lost @ LedgerError::LeaseLost { .. }) => return lost.into(),
                Err(error) => tracing::warn!(task.id = %lease.task, "heartbeat failed, trying again: {error}"),
            }
            if let Ok(true) = self.outside.ledger.is_stopped(&site.provenance, &site.endpoint).await {
                return Halt::Stopped;
            }
        }
    }

    /// Oldest first, so that a repeated simulation does everything in the same order.
    fn known_plans(&self) -> Vec<Arc<PlanView>> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plans: Vec<Arc<PlanView>> = plans.values().cloned().collect();
        plans.sort_by_key(|plan| plan.id);
        plans
    }

    async fn plan(&self, id: Id) -> Result<Arc<PlanView>, LedgerError> {
        if let Some(plan) = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.outside.ledger.plan(id).await?);
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= PLANS_KEPT {
            plans.clear();
        }
        plans.insert(id, plan.clone());
        Ok(plan)
    }
}
