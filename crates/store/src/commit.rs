//! T1, the batch commit: one page becomes records.
//!
//! Fence, records, outbox, quarantine, body, batch row, the row of the next page: visible together or not at all
//! (INV-26). What needs no lock (compressing, hashing, sorting) is done before the transaction begins. A commit that
//! is repeated with the same batch id finds its own row and changes nothing.

use std::cell::RefCell;
use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::page::BadItem;
use patra_core::planted::{Defect, planted};
use patra_core::ports::{BatchCommit, Committed, Counts, Lease, LedgerError, OpenBatch};
use patra_core::record::{NewRecord, dedupe};
use patra_core::states::{BatchEvent, BatchState, TaskState};
use patra_core::time::Timestamp;
use serde_json::{Map, json};
use zstd::bulk::Compressor;

use crate::bisect::quarantine_refused;
use crate::db::Tx;
use crate::error::DbError;
use crate::hint;
use crate::missing;
use crate::records::{PageOwner, store_records};
use crate::rows::{BatchOwner, open_batch};
use crate::stats;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, Value, params};

/// Raw bytes kept of a quarantined record.
const RAW_MAX: usize = 64 * 1024;
/// Bodies above this are compressed off the runtime's threads.
const INLINE_BODY_MAX: usize = 256 * 1024;
const ZSTD_LEVEL: i32 = 1;

pub(crate) const FENCE: &str = "-- task.fence
    UPDATE ing_task SET last_pass = :pass_no, last_seq = :seq_no, lost_count = 0, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";
pub(crate) const READ_BATCH: &str = "-- batch.read
    SELECT id, expr_hash, provenance_code, endpoint_name, operation_code, pass_no, seq_no, status_code, stats
      FROM ing_task_run_batch WHERE id = :batch AND task_id = :task";
const INSERT_QUARANTINE: &str = "-- quarantine.insert
    INSERT INTO ing_quarantine (id, provenance_code, endpoint_name, provider_id, reason_code, path, message, raw,
        plan_id, slice_id, task_id, run_id, batch_id, status_code, created_at)
    VALUES {rows:15}";
const INSERT_BODY: &str = "-- body.insert
    INSERT INTO ing_page_body (hash, whole, bytes_raw, body_zstd, created_at)
    VALUES (:hash, :whole, :bytes_raw, :body, :now) {insert_new:hash}";
pub(crate) const COMPLETE_BATCH: &str = "-- batch.complete
    UPDATE ing_task_run_batch SET status_code = :succeeded, after_token = :after_token, record_count = :items,
        total_hint = :total, page_ids = :page_ids, id_list = :id_list, spec_fingerprint = :fingerprint,
        source_now = :source_now, asked_at = :asked_at, fetched_at = :fetched_at, response_hash = :response_hash,
        body_hash = :body_hash, request_digest = :request, response_digest = :response, stats = :stats,
        committed_at = :now
     WHERE id = :batch AND run_id = :run AND status_code = :running";
pub(crate) const READ_RUN_STATS: &str = "-- run.stats
    SELECT id, stats FROM ing_task_run WHERE id = :run";
const UPDATE_RUN: &str = "-- run.progress
    UPDATE ing_task_run SET checkpoint = :checkpoint, stats = :stats, updated_at = :now WHERE id = :run";

/// A page with everything done that needs no lock.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub batch: BatchCommit,
    duplicates: usize,
    body: Option<PackedBody>,
}

#[derive(Clone)]
struct PackedBody {
    hash: Hash32,
    whole: bool,
    bytes_raw: usize,
    packed: Vec<u8>,
}

impl Prepared {
    pub async fn new(mut batch: BatchCommit) -> Result<Prepared, LedgerError> {
        // No back-end may keep an id that another one cannot: PostgreSQL has no NUL in text.
        let nul = |record: &NewRecord| record.provider_id.contains('\0').then(|| "the id holds NUL".to_owned());
        quarantine_refused(&mut batch, nul)?;
        let duplicates = dedupe(&mut batch.records);
        batch.missing.sort_by(|(left, _), (right, _)| left.cmp(right));
        batch.missing.dedup_by(|(later, _), (earlier, _)| later == earlier);
        let body = match batch.body.take() {
            Some(kept) if kept.bytes.len() > INLINE_BODY_MAX => {
                let packed = tokio::task::spawn_blocking(move || pack(kept.bytes, kept.whole)).await;
                Some(packed.map_err(|error| LedgerError::Data { message: error.to_string() })??)
            }
            Some(kept) => Some(pack(kept.bytes, kept.whole)?),
            None => None,
        };
        Ok(Prepared { batch, duplicates, body })
    }
}

thread_local! {
    /// Making a compressor costs more than packing a small page with it.
    static COMPRESSOR: RefCell<std::io::Result<Compressor<'static>>> = RefCell::new(Compressor::new(ZSTD_LEVEL));
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| match compressor {
        Ok(compressor) => compressor.compress(bytes),
        Err(error) => Err(error.kind().into()),
    })
}

fn pack(bytes: bytes::Bytes, whole: bool) -> Result<PackedBody, LedgerError> {
    let refused = |error| LedgerError::Data { message: format!("a body did not compress: {error}") };
    let mut packed = compress(&bytes).map_err(refused)?;
    // The library reserves as much as a body that does not shrink would need.
    packed.shrink_to_fit();
    Ok(PackedBody { hash: Hash32::of(&bytes), whole, bytes_raw: bytes.len(), packed })
}

pub(crate) async fn once(store: Arc<Inner>, lease: Lease, page: Arc<Prepared>) -> Result<Committed, DbError> {
    store.fail.hit("t1.begin")?;
    let mut tx = store.db.write().await?;
    let result = commit_in(&mut tx, &store, &lease, &page).await;
    if let Ok(repeated @ Committed { repeated: true, .. }) = result {
        tx.rollback().await;
        return Ok(repeated);
    }
    let committed = ended(tx, result).await?;
    store.fail.hit("t1.done")?;
    Ok(committed)
}

async fn commit_in(tx: &mut Tx, store: &Inner, lease: &Lease, page: &Prepared) -> Result<Committed, DbError> {
    let now = tx.now();
    store.fail.hit("t1.fence")?;
    let row = fence(tx, lease, page, now).await?;
    let state = row.code("status_code", BatchState::from_code)?;
    if state == BatchState::Succeeded {
        let stats: Map<String, serde_json::Value> = row.json("stats")?;
        return Ok(Committed { counts: stats::counts_of(&stats), repeated: true });
    }
    let succeeded = state.on(BatchEvent::Committed)?;
    let batch = &page.batch;
    let owner = BatchOwner::read(&row)?;
    let at = page_owner(lease, batch, &owner, now);
    let kept = store_records(tx, store, &at, &batch.records).await?;
    let mut counts = kept.counts;
    counts.duplicate = page.duplicates as u64;
    counts.quarantined = batch.bad.len() as u64;
    counts.filtered = u64::from(batch.filtered);
    counts.fetched = (batch.records.len() + page.duplicates + batch.bad.len()) as u64 + counts.filtered;
    store.fail.hit("t1.quarantine")?;
    write_quarantine(tx, store, &at, &batch.bad).await?;
    counts.tombstoned = missing::write(tx, store, &at, batch).await?;
    hint::write(tx, store, &at, batch, &kept.changed).await?;
    store.fail.hit("t1.body")?;
    write_body(tx, page.body.as_ref(), now).await?;
    store.fail.hit("t1.batch")?;
    complete_batch(tx, lease, page, succeeded, &counts, now).await?;
    if let Some(next) = &batch.next {
        follows(&row, batch, next)?;
        open_batch(tx, lease, &owner, next, now).await?;
    }
    store.fail.hit("t1.commit")?;
    Ok(Committed { counts, repeated: false })
}

pub(crate) fn page_owner<'a>(
    lease: &'a Lease,
    batch: &BatchCommit,
    owner: &BatchOwner,
    now: Timestamp,
) -> PageOwner<'a> {
    PageOwner {
        lease,
        batch: batch.batch.id,
        provenance: owner.provenance.as_str().into(),
        entity: batch.entity.as_str().into(),
        expr_hash: batch.expr_hash.to_string().into(),
        mapping_hash: batch.mapping_hash,
        operation: owner.operation,
        policy: batch.policy,
        now,
    }
}

/// Only the holder of the task passes; its batch row must be the page that follows the last committed one.
pub(crate) async fn fence(tx: &mut Tx, lease: &Lease, page: &Prepared, now: Timestamp) -> Result<Row, DbError> {
    let batch = &page.batch.batch;
    let fenced = params! {
        pass_no: batch.pass_no,
        seq_no: batch.seq_no,
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    if tx.execute(FENCE, fenced).await? != 1 {
        if !planted(Defect::NoFencing) {
            return Err(LedgerError::LeaseLost { task: lease.task }.into());
        }
        // The takeover has closed the row too; the defect must get past that.
        let again = params! { running: BatchState::Running.code(), batch: batch.id };
        tx.execute("-- planted\n    UPDATE ing_task_run_batch SET status_code = :running WHERE id = :batch", again)
            .await?;
    }
    let row = tx.row("ing_task_run_batch", READ_BATCH, params! { batch: batch.id, task: lease.task }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("batch {}", batch.id) })?;
    let place = (row.int("pass_no")?, row.int("seq_no")?);
    if place != (i64::from(batch.pass_no), i64::from(batch.seq_no)) {
        return Err(row.corrupt("seq_no", "the page is not the one the row was opened for").into());
    }
    Ok(row)
}

/// The next page of the pass begins where this one ends (INV-27).
fn follows(row: &Row, batch: &BatchCommit, next: &OpenBatch) -> Result<(), LedgerError> {
    let this = &batch.batch;
    let chained = next.pass_no == this.pass_no
        && next.seq_no == this.seq_no + 1
        && Some(&next.before_token) == batch.after_token.as_ref();
    if chained { Ok(()) } else { Err(row.corrupt("after_token", "the next page does not follow this one")) }
}

pub(crate) async fn write_quarantine(
    tx: &mut Tx,
    store: &Inner,
    at: &PageOwner<'_>,
    bad: &[BadItem],
) -> Result<(), DbError> {
    let mut rows: Vec<Value> = Vec::with_capacity(bad.len() * 15);
    for bad in bad {
        let reason = serde_json::to_value(bad.reason).map_err(|error| DbError::Data(error.to_string()))?;
        rows.extend([
            store.ids.next().into(),
            at.provenance.clone().into(),
            at.entity.clone().into(),
            bad.id.as_deref().into(),
            reason.as_str().unwrap_or_default().into(),
            bad.path.as_str().into(),
            bad.message.as_str().into(),
            (&bad.raw.slice(..bad.raw.len().min(RAW_MAX))).into(),
            at.lease.plan.into(),
            at.lease.slice.into(),
            at.lease.task.into(),
            at.lease.run.into(),
            at.batch.into(),
            "OPEN".into(),
            at.now.into(),
        ]);
    }
    tx.execute_rows(INSERT_QUARANTINE, 15, rows).await?;
    Ok(())
}

async fn write_body(tx: &mut Tx, body: Option<&PackedBody>, now: Timestamp) -> Result<(), DbError> {
    let Some(body) = body else { return Ok(()) };
    let row = params! {
        hash: body.hash,
        whole: body.whole,
        bytes_raw: body.bytes_raw,
        body: body.packed.clone(),
        now: now,
    };
    tx.execute(INSERT_BODY, row).await?;
    Ok(())
}

async fn complete_batch(
    tx: &mut Tx,
    lease: &Lease,
    page: &Prepared,
    state: BatchState,
    counts: &Counts,
    now: Timestamp,
) -> Result<(), DbError> {
    let batch = &page.batch;
    let stats = stats::of_batch(batch, counts, batch.missing.len());
    let id_list = batch.id_list.as_ref().map(|ids| json!(ids));
    let completed = params! {
        succeeded: state.code(),
        after_token: batch.after_token.as_deref(),
        items: batch.item_count,
        total: batch.total,
        page_ids: batch.page_ids.iter().flat_map(|id| id.to_be_bytes()).collect::<Vec<u8>>(),
        id_list: id_list,
        fingerprint: batch.spec_fingerprint.to_string(),
        source_now: batch.source_now,
        asked_at: batch.asked_at,
        fetched_at: batch.fetched_at,
        response_hash: batch.response_hash,
        body_hash: page.body.as_ref().map(|body| body.hash),
        request: &batch.request_digest,
        response: &batch.response_digest,
        stats: serde_json::Value::Object(stats.clone()),
        now: now,
        batch: batch.batch.id,
        run: lease.run,
        running: BatchState::Running.code(),
    };
    if tx.execute(COMPLETE_BATCH, completed).await? != 1 {
        return Err(LedgerError::Missing { what: format!("open batch {} of this run", batch.batch.id) }.into());
    }
    add_to_run(tx, lease, batch, &stats, now).await
}

/// The run keeps its sums and the place to go on at.
async fn add_to_run(
    tx: &mut Tx,
    lease: &Lease,
    batch: &BatchCommit,
    batch_stats: &Map<String, serde_json::Value>,
    now: Timestamp,
) -> Result<(), DbError> {
    let row = tx.row("ing_task_run", READ_RUN_STATS, params! { run: lease.run }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("run {}", lease.run) })?;
    let mut sums: Map<String, serde_json::Value> = row.opt_json("stats")?.unwrap_or_default();
    stats::add_batch(&mut sums, batch_stats);
    let checkpoint = json!({
        "batch": batch.batch.id,
        "pass": batch.batch.pass_no,
        "seq": batch.batch.seq_no,
        "resumeToken": batch.after_token,
    });
    let stats = serde_json::Value::Object(sums);
    tx.execute(UPDATE_RUN, params! { run: lease.run, checkpoint: checkpoint, stats: stats, now: now }).await?;
    Ok(())
}
