//! The outbox on its way out: shards are leased, waiting events read by state, verdicts written back.
//!
//! A version is handed out only when no earlier version of its record is PENDING or PARKED, whatever shard or id it has:
//! ids come from the clocks of several processes and say nothing about order (INV-45, INV-46). The commit that wrote
//! version n + 1 read version n, so a reader that sees the later one sees the earlier one too.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::outbox::{Event, Lineage, Settlement, shard_of};
use patra_core::ports::{LedgerError, Outbox, OutboxCounts, Republish, SentEvent, ShardLease};
use patra_core::record::ChangeKind;
use patra_core::time::{Span, Timestamp};

use crate::db::Tx;
use crate::error::DbError;
use crate::outbox_kept as kept;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, Value, params};

/// Most events one call hands out.
const EVENTS_MAX: u32 = 1_000;
/// Shards tried before saying that all are taken.
const CANDIDATES: u32 = 8;

pub(crate) const UNSHARDED: &str = "-- outbox.unsharded
    SELECT id, provenance_code, endpoint_name, provider_id FROM ing_outbox
     WHERE status_code = 'PENDING' AND shard_no IS NULL LIMIT 1000";
pub(crate) const SET_SHARD: &str = "-- outbox.set_shard
    UPDATE ing_outbox SET shard_no = :shard WHERE id IN ({list})";
/// One seek for each of the shards.
const WAITING_SHARDS: &str = "-- outbox.shards
    SELECT s.shard_no, s.lease_epoch FROM ing_outbox_shard s
     WHERE s.leased_until < :now
       AND EXISTS (SELECT 1 FROM ing_outbox o WHERE o.status_code = 'PENDING' AND o.shard_no = s.shard_no)
     ORDER BY s.served_at, s.shard_no {limit:limit}";
pub(crate) const TAKE_SHARD: &str = "-- outbox.take_shard
    UPDATE ing_outbox_shard SET owner = :who, lease_epoch = lease_epoch + 1, leased_until = :until, served_at = :now
     WHERE shard_no = :shard AND lease_epoch = :epoch AND leased_until < :now";
pub(crate) const KEEP_SHARD: &str = "-- outbox.keep_shard
    UPDATE ing_outbox_shard SET leased_until = :until
     WHERE shard_no = :shard AND lease_epoch = :epoch AND owner = :who";
pub(crate) const FENCE_SHARD: &str = "-- outbox.fence
    UPDATE ing_outbox_shard SET served_at = :now
     WHERE shard_no = :shard AND lease_epoch = :epoch AND owner = :who";
pub(crate) const WAITING: &str = "-- outbox.waiting
    SELECT o.id, o.record_id, o.version_no, o.event_id, o.resend_no, o.provenance_code, o.endpoint_name, o.provider_id,
        o.change_code, o.updated_at, o.content_hash, o.fields, o.merged_into, o.batch_id, o.created_at, b.plan_id, b.slice_id,
        b.task_id, b.run_id, b.spec_fingerprint,
        (SELECT MIN(p.version_no) FROM ing_outbox p
          WHERE p.record_id = o.record_id AND p.version_no < o.version_no AND p.status_code = 'PARKED') AS behind
      FROM ing_outbox o LEFT JOIN ing_task_run_batch b ON b.id = o.batch_id
     WHERE o.status_code = 'PENDING' AND o.shard_no = :shard
       AND NOT EXISTS (SELECT 1 FROM ing_outbox e
          WHERE e.record_id = o.record_id AND e.version_no < o.version_no AND e.status_code = 'PENDING')
     ORDER BY o.id {limit:limit}";
/// The state is compared in a way that no index can serve, or SQLite would walk all waiting rows.
pub(crate) const SENT: &str = "-- outbox.sent
    UPDATE ing_outbox SET status_code = 'SENT', sent_at = :now WHERE id IN ({list}) AND status_code NOT IN ('SENT', 'PARKED')";
pub(crate) const PARK: &str = "-- outbox.park
    UPDATE ing_outbox SET status_code = 'PARKED', parked_at = :now, parked_reason = :reason
     WHERE id IN ({list}) AND status_code NOT IN ('SENT', 'PARKED')";

#[async_trait]
impl Outbox for Store {
    async fn lease_shard(&self, who: &str, ttl: Span) -> Result<Option<ShardLease>, LedgerError> {
        let who: Arc<str> = who.into();
        self.retried("lease_shard", move |store| lease(store, who.clone(), ttl)).await
    }

    async fn renew_shard(&self, lease: &ShardLease, ttl: Span) -> Result<ShardLease, LedgerError> {
        let lease = lease.clone();
        self.retried("renew_shard", move |store| keep(store, lease.clone(), Some(ttl))).await
    }

    async fn release_shard(&self, lease: &ShardLease) -> Result<(), LedgerError> {
        let lease = lease.clone();
        match self.retried("release_shard", move |store| keep(store, lease.clone(), None)).await {
            Ok(_) | Err(LedgerError::ShardLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn pending_events(&self, lease: &ShardLease, limit: u32) -> Result<Vec<Event>, LedgerError> {
        let shard = lease.shard;
        let limit = limit.min(EVENTS_MAX);
        let waiting = self.retried("pending_events", move |store| waiting(store, shard, limit)).await?;
        let (free, behind): (Vec<Waiting>, Vec<Waiting>) = waiting.into_iter().partition(|one| one.behind.is_none());
        if !behind.is_empty() {
            let mut settlement = Settlement::default();
            for Waiting { event, behind } in behind {
                let parked = behind.unwrap_or_default();
                settlement.parked.push((event.id, format!("version {parked} of this record is parked")));
            }
            self.settle(lease, &settlement).await?;
        }
        Ok(free.into_iter().map(|waiting| waiting.event).collect())
    }

    async fn settle(&self, lease: &ShardLease, settlement: &Settlement) -> Result<(), LedgerError> {
        let (lease, settlement) = (lease.clone(), Arc::new(settlement.clone()));
        self.retried("settle", move |store| settle(store, lease.clone(), settlement.clone())).await
    }

    async fn outbox_counts(&self) -> Result<OutboxCounts, LedgerError> {
        self.retried("outbox_counts", kept::counts).await
    }

    async fn sent_events(
        &self,
        shard: u8,
        from: Timestamp,
        to: Timestamp,
        after: Option<Id>,
        limit: u32,
    ) -> Result<Vec<SentEvent>, LedgerError> {
        let rows = (after.map_or(Id::floor(from), |after| Id(after.0 + 1)), Id::floor(to));
        self.retried("sent_events", move |store| kept::sent(store, shard, rows, limit.min(EVENTS_MAX))).await
    }

    async fn republish(&self, which: &Republish) -> Result<u64, LedgerError> {
        kept::republish(self, which).await
    }

    async fn purge_sent(&self, shard: u8, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        self.retried("purge_sent", move |store| kept::purge(store, shard, before, limit.min(EVENTS_MAX))).await
    }
}

async fn lease(store: Arc<Inner>, who: Arc<str>, ttl: Span) -> Result<Option<ShardLease>, DbError> {
    adopt(&store).await?;
    // An idle relay must not take the write lock.
    for (shard, epoch) in candidates(&store).await? {
        let mut tx = store.db.write().await?;
        let now = tx.now();
        let until = now.plus(ttl);
        let taken = params! { who: &*who, until: until, now: now, shard: shard, epoch: epoch };
        let result = tx.execute(TAKE_SHARD, taken).await;
        if ended(tx, result).await? == 1 {
            let owner = who.as_ref().to_owned();
            return Ok(Some(ShardLease { shard, epoch: epoch + 1, owner, expires_at: until }));
        }
    }
    Ok(None)
}

async fn candidates(store: &Inner) -> Result<Vec<(u8, i64)>, DbError> {
    let mut tx = store.db.read().await?;
    let asked = params! { now: tx.now(), limit: CANDIDATES };
    let rows = tx.rows("ing_outbox_shard", WAITING_SHARDS, asked).await;
    tx.rollback().await;
    let read = |row: &Row| Ok((row.count("shard_no")?, row.int("lease_epoch")?));
    rows?.iter().map(read).collect::<Result<_, LedgerError>>().map_err(DbError::from)
}

/// Gives rows of an older release their shard. Two relays that do it at once write the same.
async fn adopt(store: &Inner) -> Result<(), DbError> {
    loop {
        let mut tx = store.db.read().await?;
        let rows = tx.rows("ing_outbox", UNSHARDED, params! {}).await;
        tx.rollback().await;
        let rows = rows?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut shards: BTreeMap<u8, Vec<Value>> = BTreeMap::new();
        for row in &rows {
            let shard = shard_of(row.text("provenance_code")?, row.text("endpoint_name")?, row.text("provider_id")?);
            shards.entry(shard).or_default().push(row.id("id")?.into());
        }
        let mut tx = store.db.write().await?;
        let mut result = Ok(0);
        for (shard, ids) in shards {
            if result.is_ok() {
                result = tx.execute_list(SET_SHARD, params! { shard: shard }, &ids).await;
            }
        }
        ended(tx, result).await?;
    }
}

/// Moves the end of a lease, to now when it is given back.
async fn keep(store: Arc<Inner>, lease: ShardLease, ttl: Option<Span>) -> Result<ShardLease, DbError> {
    let mut tx = store.db.write().await?;
    // A lease is free when its end has passed.
    let until = tx.now().plus(ttl.unwrap_or(Span::from_micros(-1)));
    let kept = params! { until: until, shard: lease.shard, epoch: lease.epoch, who: &lease.owner };
    let result = match tx.execute(KEEP_SHARD, kept).await {
        Ok(1) => Ok(ShardLease { expires_at: until, ..lease }),
        Ok(_) => Err(LedgerError::ShardLost { shard: lease.shard }.into()),
        Err(error) => Err(error),
    };
    ended(tx, result).await
}

/// An event, and the parked version of the same record that it stands behind.
struct Waiting {
    event: Event,
    behind: Option<i64>,
}

async fn waiting(store: Arc<Inner>, shard: u8, limit: u32) -> Result<Vec<Waiting>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = tx.rows("ing_outbox", WAITING, params! { shard: shard, limit: limit }).await;
    tx.rollback().await;
    let read = |row: &Row| Ok(Waiting { event: event_of(row)?, behind: row.opt_int("behind")? });
    rows?.iter().map(read).collect::<Result<_, LedgerError>>().map_err(DbError::from)
}

fn event_of(row: &Row) -> Result<Event, LedgerError> {
    let opt_id = |column: &str| row.opt_int(column).map(|id| id.map(Id));
    let fingerprint = row.opt_text("spec_fingerprint")?.map(|_| row.hash("spec_fingerprint")).transpose()?;
    Ok(Event {
        id: row.id("id")?,
        event_id: row.hash("event_id")?,
        resend_no: u32::try_from(row.opt_int("resend_no")?.unwrap_or(0)).unwrap_or(u32::MAX),
        provenance: row.string("provenance_code")?,
        entity: row.string("endpoint_name")?,
        provider_id: row.string("provider_id")?,
        version_no: row.int("version_no")?,
        change: row.code("change_code", ChangeKind::from_code)?,
        updated_at: row.opt_time("updated_at")?,
        content_hash: row.hash("content_hash")?,
        fields: row.string("fields")?,
        merged_into: row.opt_text("merged_into")?.map(str::to_owned),
        lineage: Lineage {
            plan_id: opt_id("plan_id")?,
            slice_id: opt_id("slice_id")?,
            task_id: opt_id("task_id")?,
            run_id: opt_id("run_id")?,
            batch_id: row.id("batch_id")?,
        },
        fingerprint,
        recorded_at: row.time("created_at")?,
    })
}

async fn settle(store: Arc<Inner>, lease: ShardLease, settlement: Arc<Settlement>) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let result = settle_in(&mut tx, &lease, &settlement).await;
    ended(tx, result).await
}

async fn settle_in(tx: &mut Tx, lease: &ShardLease, settlement: &Settlement) -> Result<(), DbError> {
    let now = tx.now();
    let fenced = params! { now: now, shard: lease.shard, epoch: lease.epoch, who: &lease.owner };
    if tx.execute(FENCE_SHARD, fenced).await? != 1 {
        return Err(LedgerError::ShardLost { shard: lease.shard }.into());
    }
    let sent: Vec<Value> = settlement.sent.iter().map(|id| (*id).into()).collect();
    tx.execute_list(SENT, params! { now: now }, &sent).await?;
    let mut reasons: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (id, reason) in &settlement.parked {
        reasons.entry(reason).or_default().push((*id).into());
    }
    for (reason, ids) in reasons {
        tx.execute_list(PARK, params! { now: now, reason: reason }, &ids).await?;
    }
    Ok(())
}
