//! Compares the outbox with what a stream holds (INV-47): a broker forgets ids after its window and can lose messages
//! that it had acknowledged.

use patra_core::id::Id;
use patra_core::outbox::SHARDS;
use patra_core::ports::{LedgerError, Outbox, Stream, StreamError};
use patra_core::time::{Span, Timestamp};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    pub compared: u64,
    /// Rows whose event the stream should hold and does not.
    pub missing: Vec<Id>,
    /// Different events in the stream.
    pub held: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Rows that are sent while the stream is being read are left to the next time.
pub async fn reconcile(
    outbox: &dyn Outbox,
    stream: &dyn Stream,
    since: Timestamp,
    now: Timestamp,
) -> Result<Reconciled, ReconcileError> {
    let view = stream.view().await?;
    // What the stream is about to let go by itself is not missing.
    let kept_from = view.keeps.map_or(Timestamp::MIN, |keeps| now.minus(keeps).plus(Span::MINUTE));
    let mut found = Reconciled { held: view.held.len() as u64, ..Reconciled::default() };
    for shard in 0..SHARDS {
        let mut after = None;
        loop {
            let rows = outbox.sent_events(shard, since, now, after, 1_000).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.row);
            for row in rows.iter().filter(|row| row.sent_at < now && row.sent_at >= kept_from) {
                found.compared += 1;
                if !view.held.contains(&row.event_id) {
                    found.missing.push(row.row);
                }
            }
        }
    }
    Ok(found)
}
