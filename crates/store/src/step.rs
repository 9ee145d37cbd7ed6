//! Running a step of the ledger: in a task of its own, again when the database was busy.
//!
//! A step that is run again looks first whether it has happened: its ids were chosen before the first try. That is
//! also how the unknown outcome of a COMMIT is resolved (INV-33): on a new connection, under the write lock, the
//! step finds its own rows or writes them.

use std::sync::Arc;

use patra_core::ports::LedgerError;
use patra_core::time::Span;

use crate::db::Tx;
use crate::error::DbError;
use crate::store::{Inner, Store};

const TRIES_MAX: u32 = 6;
const FIRST_WAIT: Span = Span::from_millis(5);
/// Steps that make the slot live again.
const SLOT_STEPS: [&str; 2] = ["lease_worker_slot", "renew_worker_slot"];

impl Store {
    /// Runs `body` until it is known to have happened or to have failed. A crash inside is raised here.
    pub(crate) async fn retried<T, F, Fut>(&self, step: &'static str, body: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: Fn(Arc<Inner>) -> Fut + Send,
        Fut: Future<Output = Result<T, DbError>> + Send + 'static,
    {
        let (mut tries, mut unknown) = (0, false);
        loop {
            // Checked here and not where ids are made: what counts is that none is written.
            if !self.inner.ids.is_live() && !SLOT_STEPS.contains(&step) {
                return Err(LedgerError::SlotLost { slot: self.inner.ids.slot() });
            }
            let error = match spawned(body(self.inner.clone())).await {
                Ok(value) => {
                    if unknown {
                        tracing::info!(step, "the unknown commit of {step} is resolved: it has happened once");
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            tries += 1;
            unknown |= matches!(error, DbError::CommitUnknown(_));
            // A unique key that was taken meanwhile is found by the next try, which looks first.
            let again =
                matches!(error, DbError::Busy(_) | DbError::Stale(_) | DbError::Unique(_) | DbError::CommitUnknown(_));
            if !again || tries >= TRIES_MAX {
                tell_end(step, unknown, &error);
                return Err(error.into_ledger(step));
            }
            tracing::warn!(step, tries, "the database did not take {step}: {}", error.message());
            let wait = FIRST_WAIT.times(1 << tries);
            let jitter = Span::from_micros((self.inner.spread() % 5_000) as i64);
            self.inner.clock.sleep(wait.plus(jitter)).await;
        }
    }
}

/// Says what is seen here alone: a write that came too late, a commit of which nobody knows.
fn tell_end(step: &'static str, unknown: bool, error: &DbError) {
    match error {
        DbError::Ledger(LedgerError::LeaseLost { task }) => {
            tracing::warn!(step, task.id = %task, "task {task} has another holder: {step} was refused");
        }
        _ if unknown => {
            tracing::warn!(step, "whether {step} was committed is left to the next look: {}", error.message());
        }
        _ => {}
    }
}

/// Awaits `work` as a task, so that dropping the caller does not cut it in the middle.
async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T, DbError>> + Send + 'static,
) -> Result<T, DbError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(DbError::Unavailable("the runtime is shutting down".into())),
    }
}

/// Commits when the body went well, else rolls back.
pub(crate) async fn ended<T>(tx: Tx, result: Result<T, DbError>) -> Result<T, DbError> {
    match result {
        Ok(value) => tx.commit().await.map(|()| value),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}
