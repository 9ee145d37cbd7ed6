//! The other ways a run can go: a new pass, or giving the task back.

use std::sync::Arc;

use patra_core::ports::{Lease, LedgerError, NewPass, Release};
use patra_core::states::{BatchEvent, BatchState, RunEvent, TaskEvent, TaskState};
use serde_json::{Map, Value};

use crate::claim::READ_TASK;
use crate::commit::READ_RUN_STATS;
use crate::db::Tx;
use crate::error::DbError;
use crate::finish::ended_by_us;
use crate::rows::{BatchOwner, RunEnd, end_run, open_batch, skip_open_batches};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

pub(crate) const NEW_PASS: &str = "-- task.new_pass
    UPDATE ing_task SET last_pass = :pass_no, last_seq = -1, lost_count = 0, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running
       AND last_pass IN (:pass_no, :pass_before)";
const BATCH_STATE: &str = "-- batch.state
    SELECT id, status_code FROM ing_task_run_batch WHERE id = :batch";
const SKIP_BATCH: &str = "-- batch.skip_one
    UPDATE ing_task_run_batch SET status_code = :skipped, error = :reason
     WHERE id = :batch AND task_id = :task AND status_code = :running";
pub(crate) const RELEASE: &str = "-- task.release
    UPDATE ing_task SET status_code = :queued, scheduled_at = :due_at, leased_until = NULL, lease_owner = NULL,
        failure_count = failure_count + :failed, error = :error, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";
const SET_RUN_STATS: &str = "-- run.set_stats
    UPDATE ing_task_run SET stats = :stats WHERE id = :run";

pub(crate) async fn begin_pass(store: Arc<Inner>, lease: Lease, pass: Arc<NewPass>) -> Result<(), DbError> {
    store.fail.hit("pass.begin")?;
    let mut tx = store.db.write().await?;
    let result = begin_pass_in(&mut tx, &store, &lease, &pass).await;
    ended(tx, result).await
}

async fn begin_pass_in(tx: &mut Tx, store: &Inner, lease: &Lease, pass: &NewPass) -> Result<(), DbError> {
    let now = tx.now();
    let first = &pass.first;
    let fenced = params! {
        pass_no: first.pass_no,
        pass_before: first.pass_no.saturating_sub(1),
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    if tx.execute(NEW_PASS, fenced).await? != 1 {
        return Err(LedgerError::LeaseLost { task: lease.task }.into());
    }
    if tx.row("ing_task_run_batch", BATCH_STATE, params! { batch: first.id }).await?.is_some() {
        // An earlier try of the same step had committed.
        return Ok(());
    }
    let skipped = params! {
        skipped: BatchState::Running.on(BatchEvent::Skipped)?.code(),
        reason: &pass.reason,
        batch: pass.abandoned,
        task: lease.task,
        running: BatchState::Running.code(),
    };
    tx.execute(SKIP_BATCH, skipped).await?;
    let owner = BatchOwner::read(&read_task(tx, lease).await?)?;
    open_batch(tx, lease, &owner, first, now).await?;
    store.fail.hit("pass.commit")?;
    Ok(())
}

pub(crate) async fn release(store: Arc<Inner>, lease: Lease, release: Arc<Release>) -> Result<(), DbError> {
    store.fail.hit("release.begin")?;
    let mut tx = store.db.write().await?;
    let result = release_in(&mut tx, &store, &lease, &release).await;
    ended(tx, result).await
}

async fn release_in(tx: &mut Tx, store: &Inner, lease: &Lease, release: &Release) -> Result<(), DbError> {
    let now = tx.now();
    let queued = TaskState::Running.on(TaskEvent::Released)?;
    let error = release.failed.then_some(release.reason.as_str());
    let row = params! {
        queued: queued.code(),
        due_at: release.due_at,
        failed: release.failed,
        error: error,
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    if tx.execute(RELEASE, row).await? != 1 {
        let again = ended_by_us(tx, lease, queued).await?;
        return if again { Ok(()) } else { Err(LedgerError::LeaseLost { task: lease.task }.into()) };
    }
    skip_open_batches(tx, lease.task, &release.reason).await?;
    let event = if release.failed { RunEvent::Failed } else { RunEvent::Gave };
    if release.circuit_open {
        mark_circuit_open(tx, lease).await?;
    }
    let end = RunEnd { reason: Some(&release.reason), error };
    end_run(tx, lease.run, event, end, now).await?;
    store.fail.hit("release.commit")?;
    Ok(())
}

async fn mark_circuit_open(tx: &mut Tx, lease: &Lease) -> Result<(), DbError> {
    let row = tx.row("ing_task_run", READ_RUN_STATS, params! { run: lease.run }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("run {}", lease.run) })?;
    let mut stats: Map<String, Value> = row.opt_json("stats")?.unwrap_or_default();
    stats.insert("circuit_open".into(), true.into());
    tx.execute(SET_RUN_STATS, params! { stats: &Value::Object(stats), run: lease.run }).await?;
    Ok(())
}

pub(crate) async fn read_task(tx: &mut Tx, lease: &Lease) -> Result<Row, DbError> {
    let row = tx.row("ing_task", READ_TASK, params! { task: lease.task }).await?;
    Ok(row.ok_or_else(|| LedgerError::Missing { what: format!("task {}", lease.task) })?)
}
