//! What is due beside the tasks: keeping the slot of the id generator, the reconciler of T2, and the rest of plans.
//!
//! One worker does it for all of its process, between two tasks or from its heartbeat, so it neither waits for a long
//! task nor outlives the last one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};

use patra_core::plan::build::walk_of;
use patra_core::ports::LedgerError;
use patra_core::time::{Span, Timestamp};

use super::Executor;
use crate::dispatcher::Dispatcher;

/// When each chore is due next; zero is at once.
#[derive(Default)]
pub(super) struct Chores {
    slot_at: AtomicI64,
    reconcile_at: AtomicI64,
    dispatch_at: AtomicI64,
}

/// True for one caller when the time has come; the next time is `every` later.
fn is_due(at: &AtomicI64, now: Timestamp, every: Span) -> bool {
    let due = at.load(Ordering::SeqCst);
    let next = now.plus(every).micros();
    now.micros() >= due && at.compare_exchange(due, next, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

impl Executor {
    /// Fails only when the slot is lost: then this process must not go on.
    pub(super) async fn chores(&self) -> Result<(), LedgerError> {
        let now = self.outside.clock.now();
        if let Some(keeper) = &self.keeper
            && is_due(&self.chores.slot_at, now, keeper.every())
            && !keeper.keep().await?
        {
            self.chores.slot_at.store(0, Ordering::SeqCst);
        }
        if is_due(&self.chores.reconcile_at, now, self.outside.settings.reconcile_every) {
            self.reconcile().await;
        }
        if let Some(every) = self.outside.settings.dispatch_every
            && is_due(&self.chores.dispatch_at, now, every)
        {
            self.dispatch().await;
        }
        Ok(())
    }

    /// Where nobody else does it: tasks for slices that have none yet. What fails now is tried again.
    async fn dispatch(&self) {
        let stock_max = self.outside.settings.thresholds.stock_max;
        let dispatcher = Dispatcher { ledger: self.outside.ledger.clone(), stock_max };
        if let Err(error) = dispatcher.go_on(&self.only).await {
            tracing::warn!("plans are gone on with later: {error}");
        }
    }

    /// Walks the coverage of every namespace this process works for once more. Nothing depends on it: each T2 has
    /// walked already.
    async fn reconcile(&self) {
        let mut walked = HashSet::new();
        for plan in self.known_plans() {
            if !walked.insert(plan.namespace.hash()) {
                continue;
            }
            match self.outside.ledger.reconcile(&walk_of(&plan)).await {
                Ok(false) => {}
                Ok(true) => tracing::warn!("the watermark of {} was behind its coverage", plan.namespace.provenance),
                Err(error) => tracing::warn!("reconciling {} failed: {error}", plan.namespace.provenance),
            }
        }
    }
}
