//! The outbox after the fact: how much waits, what was sent, sending again, and letting go of what is old.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::outbox::SHARDS;
use patra_core::ports::{LedgerError, OutboxCounts, Republish, SentEvent};
use patra_core::time::Timestamp;

use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, Value, params};

/// Rows made PENDING again by one commit.
const CHUNK: u32 = 500;

const COUNT: &str = "-- outbox.count
    SELECT COUNT(*) AS found, MIN(created_at) AS oldest FROM ing_outbox WHERE status_code = :status";
pub(crate) const SENT_ROWS: &str = "-- outbox.sent_rows
    SELECT id, event_id, sent_at FROM ing_outbox
     WHERE status_code = 'SENT' AND shard_no = :shard AND id >= :first AND id < :end
     ORDER BY id {limit:limit}";
pub(crate) const OLD_ROWS: &str = "-- outbox.old_rows
    SELECT id FROM ing_outbox
     WHERE status_code = 'SENT' AND shard_no = :shard AND id < :end AND sent_at < :before
     ORDER BY id {limit:limit}";
pub(crate) const DELETE: &str = "-- outbox.purge
    DELETE FROM ing_outbox WHERE id IN ({list}) AND status_code NOT IN ('PENDING', 'PARKED')";
pub(crate) const PARKED_ROWS: &str = "-- outbox.parked_rows
    SELECT id FROM ing_outbox WHERE status_code = 'PARKED' AND shard_no = :shard AND id >= :first
     ORDER BY id {limit:limit}";
pub(crate) const VERSIONS: &str = "-- outbox.versions
    SELECT o.id FROM ing_record r JOIN ing_outbox o ON o.record_id = r.id
     WHERE r.provenance_code = :provenance AND r.endpoint_name = :entity AND r.provider_id = :provider_id";
pub(crate) const AGAIN: &str = "-- outbox.again
    UPDATE ing_outbox SET status_code = 'PENDING', resend_no = COALESCE(resend_no, 0) + 1, sent_at = NULL,
        parked_at = NULL, parked_reason = NULL
     WHERE id IN ({list}) AND status_code <> 'PENDING'";

pub(crate) async fn counts(store: Arc<Inner>) -> Result<OutboxCounts, DbError> {
    let mut tx = store.db.read().await?;
    let pending = tx.row("ing_outbox", COUNT, params! { status: "PENDING" }).await;
    let parked = tx.row("ing_outbox", COUNT, params! { status: "PARKED" }).await;
    tx.rollback().await;
    let none = || LedgerError::Missing { what: "answer to a count".into() };
    let (pending, parked) = (pending?.ok_or_else(none)?, parked?.ok_or_else(none)?);
    Ok(OutboxCounts {
        pending: pending.count("found")?,
        parked: parked.count("found")?,
        oldest_pending_at: pending.opt_time("oldest")?,
    })
}

pub(crate) async fn sent(
    store: Arc<Inner>,
    shard: u8,
    (first, end): (Id, Id),
    limit: u32,
) -> Result<Vec<SentEvent>, DbError> {
    let mut tx = store.db.read().await?;
    let asked = params! { shard: shard, first: first, end: end, limit: limit };
    let rows = tx.rows("ing_outbox", SENT_ROWS, asked).await;
    tx.rollback().await;
    let read = |row: &Row| {
        Ok(SentEvent { row: row.id("id")?, event_id: row.hash("event_id")?, sent_at: row.time("sent_at")? })
    };
    rows?.iter().map(read).collect::<Result<_, LedgerError>>().map_err(DbError::from)
}

/// A row is older than its sending, so ids bound the rows that are looked at.
pub(crate) async fn purge(store: Arc<Inner>, shard: u8, before: Timestamp, limit: u32) -> Result<u64, DbError> {
    let mut tx = store.db.read().await?;
    let asked = params! { shard: shard, end: Id::floor(before), before: before, limit: limit };
    let rows = tx.rows("ing_outbox", OLD_ROWS, asked).await;
    tx.rollback().await;
    let ids = ids_of(&rows?)?;
    if ids.is_empty() {
        return Ok(0);
    }
    let mut tx = store.db.write().await?;
    let result = tx.execute_list(DELETE, params! {}, &ids).await;
    ended(tx, result).await
}

/// Each chunk is a commit of its own: half of a long one is no harm.
pub(crate) async fn republish(store: &Store, which: &Republish) -> Result<u64, LedgerError> {
    match which {
        Republish::Rows(rows) => again(store, rows.clone()).await,
        Republish::Record { provenance, entity, provider_id } => {
            let asked = params! { provenance: provenance, entity: entity, provider_id: provider_id };
            let rows = store.retried("republish", move |inner| ids(inner, VERSIONS, asked.clone())).await?;
            again(store, rows).await
        }
        Republish::Parked => by_shard(store, PARKED_ROWS, Id(0), None).await,
        Republish::Recorded { from, to } => by_shard(store, SENT_ROWS, Id::floor(*from), Some(Id::floor(*to))).await,
    }
}

/// Walks each shard once by id: what a relay has sent again meanwhile is behind us.
async fn by_shard(store: &Store, text: &'static str, first: Id, end: Option<Id>) -> Result<u64, LedgerError> {
    let mut changed = 0;
    for shard in 0..SHARDS {
        let mut first = first;
        loop {
            let mut asked = params! { shard: shard, first: first, limit: CHUNK };
            asked.extend(end.map(|end| ("end", Value::from(end))));
            let rows = store.retried("republish", move |inner| ids(inner, text, asked.clone())).await?;
            let Some(last) = rows.last() else { break };
            first = Id(last.0 + 1);
            changed += again(store, rows).await?;
        }
    }
    Ok(changed)
}

async fn ids(store: Arc<Inner>, text: &'static str, asked: crate::db::Params) -> Result<Vec<Id>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = tx.rows("ing_outbox", text, asked).await;
    tx.rollback().await;
    rows?.iter().map(|row| row.id("id").map_err(DbError::from)).collect()
}

async fn again(store: &Store, rows: Vec<Id>) -> Result<u64, LedgerError> {
    let mut changed = 0;
    for chunk in rows.chunks(CHUNK as usize) {
        let list: Arc<[Value]> = chunk.iter().map(|id| (*id).into()).collect();
        changed += store
            .retried("republish", move |inner| {
                let list = list.clone();
                async move {
                    let mut tx = inner.db.write().await?;
                    let result = tx.execute_list(AGAIN, params! {}, &list).await;
                    ended(tx, result).await
                }
            })
            .await?;
    }
    Ok(changed)
}

fn ids_of(rows: &[Row]) -> Result<Vec<Value>, LedgerError> {
    rows.iter().map(|row| row.id("id").map(Value::from)).collect()
}
