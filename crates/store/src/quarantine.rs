//! Quarantined records that are settled: stored after all, as their page would have, or given up.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::id::Id;
use patra_core::ports::{Intervention, Lease, LedgerError, Mended, Quarantine, Quarantined};
use patra_core::refit::Policy;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::records::{PageOwner, store_records};
use crate::rows::phase_from;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, params};

const READ: &str = "-- quarantine.read
    SELECT q.id, q.provenance_code, q.endpoint_name AS entity, q.raw, q.status_code, q.plan_id, q.slice_id, q.task_id,
        q.run_id, q.batch_id, b.endpoint_name, b.phase, b.fetched_at, b.expr_hash
      FROM ing_quarantine q JOIN ing_task_run_batch b ON b.id = q.batch_id
     WHERE q.id = :id";
const CLOSE: &str = "-- quarantine.close
    UPDATE ing_quarantine SET status_code = 'CLOSED' WHERE id = :id AND status_code = 'OPEN'";

#[async_trait]
impl Quarantine for Store {
    async fn quarantined(&self, id: Id) -> Result<Quarantined, LedgerError> {
        self.retried("quarantined", move |store| look(store, id)).await
    }

    async fn mend(&self, mended: Mended) -> Result<bool, LedgerError> {
        let mended = Arc::new(mended);
        self.retried("mend", move |store| mend(store, mended.clone())).await
    }

    async fn discard(&self, id: Id, act: &Intervention) -> Result<bool, LedgerError> {
        let act = Arc::new(act.clone());
        self.retried("discard", move |store| discard(store, id, act.clone())).await
    }
}

async fn look(store: Arc<Inner>, id: Id) -> Result<Quarantined, DbError> {
    let mut tx = store.db.read().await?;
    let found = match read(&mut tx, id).await {
        Ok(row) => quarantined(&row).map_err(DbError::from),
        Err(error) => Err(error),
    };
    ended(tx, found).await
}

async fn read(tx: &mut Tx, id: Id) -> Result<Row, DbError> {
    let row = tx.row("ing_quarantine", READ, params! { id: id }).await?;
    Ok(row.ok_or_else(|| LedgerError::Missing { what: format!("quarantined record {id}") })?)
}

fn quarantined(row: &Row) -> Result<Quarantined, LedgerError> {
    Ok(Quarantined {
        id: row.id("id")?,
        provenance: row.string("provenance_code")?,
        endpoint: row.string("endpoint_name")?,
        phase: row.code("phase", phase_from)?,
        raw: Bytes::copy_from_slice(row.bytes("raw")?),
        fetched_at: row.time("fetched_at")?,
        open: row.text("status_code")? == "OPEN",
    })
}

async fn mend(store: Arc<Inner>, mended: Arc<Mended>) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = mend_in(&mut tx, &store, &mended).await;
    ended(tx, result).await
}

async fn mend_in(tx: &mut Tx, store: &Inner, mended: &Mended) -> Result<bool, DbError> {
    // The row is the fence: who closes it stores the record, and a repeated try finds it closed.
    if tx.execute(CLOSE, params! { id: mended.id }).await? != 1 {
        return Ok(false);
    }
    let row = read(tx, mended.id).await?;
    let now = tx.now();
    let lease = lineage(&row, now)?;
    let owner = PageOwner {
        lease: &lease,
        batch: row.id("batch_id")?,
        provenance: row.text("provenance_code")?.into(),
        entity: row.text("entity")?.into(),
        expr_hash: row.text("expr_hash")?.into(),
        mapping_hash: mended.mapping_hash,
        operation: Operation::Harvest,
        policy: Policy::Newest,
        now,
    };
    let counts = store_records(tx, store, &owner, std::slice::from_ref(&mended.record)).await?.counts;
    let detail = json!({ "providerId": mended.record.provider_id, "stored": counts.inserted + counts.updated });
    audit(tx, store, "QUARANTINE_RETRY", &format!("quarantine:{}", mended.id), &mended.act, detail).await?;
    Ok(true)
}

/// The run that met the record; nothing is written in its name but where the record came from.
fn lineage(row: &Row, now: Timestamp) -> Result<Lease, LedgerError> {
    Ok(Lease {
        task: row.id("task_id")?,
        epoch: 0,
        run_uuid: Uuid::nil(),
        run: row.id("run_id")?,
        slice: row.id("slice_id")?,
        plan: row.id("plan_id")?,
        expires_at: now,
    })
}

async fn discard(store: Arc<Inner>, id: Id, act: Arc<Intervention>) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = discard_in(&mut tx, &store, id, &act).await;
    ended(tx, result).await
}

async fn discard_in(tx: &mut Tx, store: &Inner, id: Id, act: &Intervention) -> Result<bool, DbError> {
    read(tx, id).await?;
    if tx.execute(CLOSE, params! { id: id }).await? != 1 {
        return Ok(false);
    }
    audit(tx, store, "QUARANTINE_DISCARD", &format!("quarantine:{id}"), act, json!({})).await?;
    Ok(true)
}
