//! The executor: `acquire → { wait_gate → fetch → accept → commit }* → finish`.
//!
//! A worker takes one task at a time. Everything it knows of a task it reads from the ledger after the claim, and
//! every write it makes carries the lease, so it may die or be overtaken at any moment.

mod commit;
mod details;
mod fetch;
mod outcome;
mod reading;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use patra_core::failpoint::Failpoints;
use patra_core::id::{Id, IdGen};
use patra_core::ports::{Clock, Gate, Leased, Ledger, LedgerError, PlanView, Random, Source};
use patra_core::time::Span;
use tokio_util::sync::CancellationToken;

use crate::notice::{Notice, Notices};
use crate::settings::Settings;
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
}

/// Shared by the workers of one process.
pub struct Executor {
    outside: Outside,
    /// Only tasks of this source are taken; all when `None`.
    only: Option<String>,
    stop: CancellationToken,
    plans: Mutex<HashMap<Id, Arc<PlanView>>>,
}

/// Why a run stopped before its own end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The ledger refused; the lease runs out or was lost.
    Ledger(LedgerError),
    /// SIGTERM.
    Shutdown,
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Halt {
        Halt::Ledger(error)
    }
}

impl Executor {
    pub fn new(outside: Outside, only: Option<String>, stop: CancellationToken) -> Executor {
        Executor { outside, only, stop, plans: Mutex::new(HashMap::new()) }
    }

    /// Works until nothing is queued or running any more, or until stopped.
    pub async fn drain(&self, who: &str) -> Result<(), LedgerError> {
        while !self.stop.is_cancelled() {
            if self.work_once(who).await? {
                continue;
            }
            if !self.wait_for_work().await? {
                return Ok(());
            }
        }
        self.outside.failpoints.hit("shutdown.done")?;
        Ok(())
    }

    /// Takes and runs one task; false when none was due.
    pub async fn work_once(&self, who: &str) -> Result<bool, LedgerError> {
        let ttl = self.outside.settings.lease_ttl;
        let taken = match self.outside.ledger.acquire_tasks(who, 1, ttl, self.only.as_deref()).await {
            Ok(taken) => taken,
            Err(error @ (LedgerError::Unavailable { .. } | LedgerError::Struck(_))) => {
                // Claims pause while the database is away or full; nothing is lost by waiting.
                tracing::warn!("claiming failed, waiting: {error}");
                self.outside.clock.sleep(Span::SECOND).await;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let Some(leased) = taken.into_iter().next() else { return Ok(false) };
        self.run(leased).await;
        Ok(true)
    }

    /// Returns when a task is due, or when stopped; false when none ever will be. An idle worker only looks: claims
    /// take the write lock, and the ones at work need it.
    async fn wait_for_work(&self) -> Result<bool, LedgerError> {
        let ledger = &self.outside.ledger;
        loop {
            let Some(due) = ledger.next_due(self.only.as_deref()).await? else { return Ok(false) };
            self.idle(due.since(ledger.database_now())).await;
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

    async fn run(&self, leased: Leased) {
        let owned = leased.task.clone();
        let (provenance, task) = (owned.provenance.clone(), owned.id);
        self.outside.notices.tell(Notice::TaskAcquired {
            provenance: provenance.clone(),
            task,
            window: leased.task.window,
            attempt: leased.task.attempt_no,
        });
        let lease = leased.lease.clone();
        match self.read(leased).await {
            Ok(()) => {}
            Err(Halt::Ledger(LedgerError::LeaseLost { .. })) => {
                self.outside.notices.tell(Notice::LeaseLost { provenance, task });
            }
            Err(Halt::Ledger(error)) => {
                tracing::warn!(task.id = %task, "task {task} stopped: {error}");
                outcome::give_back_after_error(&self.outside, &lease, &owned, &error).await;
            }
            Err(Halt::Shutdown) => outcome::give_back_on_shutdown(&self.outside, &lease, &provenance).await,
        }
    }

    async fn read(&self, leased: Leased) -> Result<(), Halt> {
        let plan = self.plan(leased.lease.plan).await?;
        let mut reading = Reading::begin(&self.outside, &self.stop, plan, leased)?;
        let progress = reading.progress();
        let lease = reading.lease().clone();
        let heart = self.heartbeat(lease, progress).fuse();
        let run = reading.run().fuse();
        futures::pin_mut!(heart, run);
        futures::select_biased! {
            ended = run => ended,
            lost = heart => Err(Halt::Ledger(lost)),
        }
    }

    /// Renews the lease while pages are committed; ends when the lease is lost or progress stops. How long it has
    /// stood still is counted in beats: a sleep takes its time also where the wall clock is set (INV-24).
    async fn heartbeat(&self, lease: patra_core::ports::Lease, progress: Arc<AtomicU64>) -> LedgerError {
        let settings = &self.outside.settings;
        let beat = Span::from_micros(settings.lease_ttl.micros() / 3);
        let (mut seen, mut still) = (0, Span::ZERO);
        loop {
            self.outside.clock.sleep(beat).await;
            let pages = progress.load(Ordering::Relaxed);
            still = if pages == seen { still.plus(beat) } else { Span::ZERO };
            seen = pages;
            if still > settings.progress_limit {
                // The lease runs out by itself; another worker takes over and counts it.
                return LedgerError::LeaseLost { task: lease.task };
            }
            match self.outside.ledger.renew(&lease, settings.lease_ttl).await {
                Ok(_) => {}
                Err(lost @ LedgerError::LeaseLost { .. }) => return lost,
                Err(error) => tracing::warn!(task.id = %lease.task, "heartbeat failed, trying again: {error}"),
            }
        }
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
