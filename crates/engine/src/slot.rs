//! Keeping the slot of the id generator: as long as a process makes ids, nobody else may make them under its number.

use std::sync::Arc;

use futures::FutureExt;
use patra_core::id::IdGen;
use patra_core::ports::{Clock, Ledger, LedgerError};
use patra_core::time::Span;
use tokio_util::sync::CancellationToken;

/// A renewal that failed is tried again after this.
const TRY_AGAIN: Span = Span::from_seconds(5);

pub struct SlotKeeper {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<IdGen>,
    /// Name under which the slot is leased.
    pub owner: String,
    pub ttl: Span,
    /// Everything that makes ids stops when the slot is lost.
    pub stop: CancellationToken,
}

impl SlotKeeper {
    /// How often to renew: several times within the life of a lease.
    pub fn every(&self) -> Span {
        Span::from_micros(self.ttl.micros() / 5)
    }

    /// Renews once; false when the database was away, and the slot is still ours until it runs out.
    pub async fn keep(&self) -> Result<bool, LedgerError> {
        let now = self.clock.now();
        match self.ledger.renew_worker_slot(&self.owner, self.ids.slot(), self.ttl).await {
            // Counted from before the renewal, never from its answer.
            Ok(()) => self.ids.keep_until(now.plus(self.ttl)),
            Err(lost @ LedgerError::SlotLost { .. }) => {
                self.ids.retire();
                self.stop.cancel();
                return Err(lost);
            }
            Err(error) => {
                tracing::warn!("the worker slot was not renewed, trying again: {error}");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the slot of a process that has no workers who do it, until it is stopped.
    pub async fn run(&self) -> Result<(), LedgerError> {
        while !self.stop.is_cancelled() {
            let pause = if self.keep().await? { self.every() } else { TRY_AGAIN };
            futures::select_biased! {
                () = self.stop.cancelled().fuse() => {}
                () = self.clock.sleep(pause).fuse() => {}
            }
        }
        Ok(())
    }
}
