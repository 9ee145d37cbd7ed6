//! The executor: `acquire → { wait_gate → fetch → accept → commit }* → finish`.
//!
//! A worker takes one task at a time. Everything it knows of a task it reads from the ledger after the claim, and
//! every write it makes carries the lease, so it may die or be overtaken at any moment.

mod chores;
mod commit;
mod details;
mod fetch;
mod outcome;
mod reading;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use patra_core::failpoint::Failpoints;
use patra_core::id::{Id, IdGen};
use patra_core::ports::{Clock, Gate, Leased, Ledger, LedgerError, PlanView, Random, Source};
use patra_core::time::{Span, Timestamp};
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
    /// Name under which the slot of `ids` is leased; `None` where somebody else keeps it.
    pub slot_owner: Option<String>,
}

/// Shared by the workers of one process.
pub struct Executor {
    outside: Outside,
    /// Only tasks of this source are taken; all when `None`.
    only: Option<String>,
    stop: CancellationToken,
    plans: Mutex<HashMap<Id, Arc<PlanView>>>,
    chores: chores::Chores,
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
        Executor { outside, only, stop, plans: Mutex::default(), chores: chores::Chores::default() }
    }

    /// Works until nothing is queued or running any more, or until stopped.
    pub async fn drain(&self, who: &str) -> Result<(), LedgerError> {
        while !self.stop.is_cancelled() {
            self.chores().await?;
            if self.work_once(who).await? {
                continue;
            }
            match self.outside.ledger.next_due(self.only.as_deref()).await? {
                None => return Ok(()),
                Some(due) => self.idle_until(due).await,
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

    async fn idle_until(&self, due: Timestamp) {
        let clock = &self.outside.clock;
        let until = due.min(clock.now().plus(self.outside.settings.poll)).max(clock.now().plus(Span::from_millis(1)));
        futures::select_biased! {
            () = self.stop.cancelled().fuse() => {}
            () = clock.sleep_until(until).fuse() => {}
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

    /// Renews the lease while pages are committed; ends when the lease is lost or progress stops.
    async fn heartbeat(&self, lease: patra_core::ports::Lease, progress: Arc<Mutex<Timestamp>>) -> LedgerError {
        let (clock, settings) = (&self.outside.clock, &self.outside.settings);
        loop {
            clock.sleep(Span::from_micros(settings.lease_ttl.micros() / 3)).await;
            if let Err(lost) = self.chores().await {
                return lost;
            }
            let last = *progress.lock().unwrap_or_else(PoisonError::into_inner);
            if clock.now().since(last) > settings.progress_limit {
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
