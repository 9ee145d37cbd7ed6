//! Leases: taking tasks, keeping them, and knowing when the next one is due.
//!
//! A claim selects candidates and then takes each by a fenced update that repeats what it saw (INV-20, INV-23). A
//! RUNNING task whose lease ran out is taken over with a higher epoch; its old holder is fenced from that commit
//! on. Which tasks are offered, and in which order, is the affair of `queue`.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::planted::{Defect, planted};
use patra_core::ports::{BatchTrace, Claim, Lease, Leased, LedgerError, Only, OpenBatch, Partition, Task};
use patra_core::spec::snapshot::Operation;
use patra_core::states::{BatchState, RunEvent, RunState, SliceEvent, SliceState, TaskEvent, TaskState};
use patra_core::time::{Span, Timestamp};

use crate::circuit;
use crate::db::Tx;
use crate::error::DbError;
use crate::queue::{Candidate, Wanted};
use crate::rows::{BatchOwner, RunEnd, end_run, open_batch, operation_from, phase_from, phase_of, skip_open_batches};
use crate::stats;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, Value, params};

/// Most tasks one call may take.
const CLAIM_MAX: u32 = 256;

pub(crate) const TAKE: &str = "-- task.take
    UPDATE ing_task SET status_code = :running, lease_owner = :who, run_uuid = :run_uuid,
        lease_epoch = lease_epoch + :step, leased_until = :until, lease_count = lease_count + 1,
        attempt_no = attempt_no + 1, lost_count = lost_count + CASE WHEN lost_count = 0 OR asked_epoch = :epoch THEN :lost ELSE 0 END,
        started_at = COALESCE(started_at, :now),
        updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch
       AND (status_code = :queued OR (status_code = :running AND leased_until < :now))";
pub(crate) const READ_TASK: &str = "-- task.read
    SELECT id, schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name, operation_code, expr_hash,
        priority, first_token, params, lease_epoch, attempt_no, failure_count, lost_count, last_pass, last_seq
      FROM ing_task WHERE id = :task";
const READ_SLICE: &str = "-- slice.read
    SELECT id, window_from, window_to, part, status_code FROM ing_plan_slice WHERE id = :slice";
const START_SLICE: &str = "-- slice.start
    UPDATE ing_plan_slice SET status_code = :status, updated_at = :now WHERE id = :slice";
pub(crate) const OPEN_RUNS: &str = "-- run.open
    SELECT id FROM ing_task_run WHERE task_id = :task AND status_code = :running";
const INSERT_RUN: &str = "-- run.insert
    INSERT INTO ing_task_run (id, run_uuid, task_id, slice_id, plan_id, attempt_no, lease_epoch, worker,
        provenance_code, endpoint_name, operation_code, status_code, window_from, window_to, started_at, created_at,
        updated_at)
    VALUES (:id, :run_uuid, :task, :slice, :plan, :attempt, :epoch, :worker, :provenance, :endpoint, :operation,
        :status, :window_from, :window_to, :now, :now, :now)";
pub(crate) const TRACE: &str = "-- batch.trace
    SELECT id, pass_no, seq_no, phase, before_token, after_token, record_count, total_hint, page_ids, source_now,
        committed_at, stats
      FROM ing_task_run_batch WHERE task_id = :task AND status_code = :succeeded
     ORDER BY pass_no, seq_no";
pub(crate) const MARK_ASKED: &str = "-- task.mark_asked
    UPDATE ing_task SET asked_epoch = lease_epoch, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";
pub(crate) const RENEW: &str = "-- task.renew
    UPDATE ing_task SET leased_until = :until, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";

pub(crate) async fn acquire(store: Arc<Inner>, claim: Arc<Claim>) -> Result<Vec<Leased>, DbError> {
    let mut tx = store.db.write().await?;
    let result = acquire_in(&mut tx, &store, &claim).await;
    let leased = ended(tx, result).await?;
    store.fail.hit("claim.done")?;
    Ok(leased)
}

async fn acquire_in(tx: &mut Tx, store: &Inner, claim: &Claim) -> Result<Vec<Leased>, DbError> {
    store.fail.hit("claim.select")?;
    let now = tx.now();
    let room = |partition: &Partition, state: TaskState| match state {
        TaskState::Queued => claim.room(partition),
        _ => claim.room_for_lost(partition),
    };
    let wanted = Wanted { limit: claim.limit.min(CLAIM_MAX), only: &claim.only, room: &room };
    let mut leased = Vec::new();
    for candidate in store.queue.candidates(tx, &wanted).await? {
        store.fail.hit("claim.take")?;
        let probe = match candidate.probe {
            Some(seen) => circuit::take_probe(tx, &candidate.site(), seen).await?,
            None => None,
        };
        if candidate.probe.is_some() && probe.is_none() {
            continue;
        }
        if let Some(one) = take(tx, store, &candidate, &claim.who, now, claim.ttl).await? {
            leased.push(Leased { probe, ..one });
        }
    }
    store.fail.hit("claim.commit")?;
    Ok(leased)
}

/// `None` when someone else was faster.
async fn take(
    tx: &mut Tx,
    store: &Inner,
    seen: &Candidate,
    who: &str,
    now: Timestamp,
    ttl: Span,
) -> Result<Option<Leased>, DbError> {
    let run_uuid = store.run_uuid();
    let until = now.plus(ttl);
    let lost = seen.state == TaskState::Running;
    let taken = params! {
        running: seen.state.on(TaskEvent::Acquired)?.code(),
        queued: TaskState::Queued.code(),
        who: who,
        run_uuid: run_uuid,
        until: until,
        lost: lost,
        step: i64::from(!(lost && planted(Defect::TakeoverKeepsEpoch))),
        now: now,
        task: seen.task,
        epoch: seen.epoch,
    };
    if tx.execute(TAKE, taken).await? != 1 {
        return Ok(None);
    }
    if lost {
        close_lost_run(tx, seen.task, now).await?;
    }
    let row = tx.row("ing_task", READ_TASK, params! { task: seen.task }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("task {}", seen.task) })?;
    let lease = Lease {
        task: seen.task,
        epoch: row.int("lease_epoch")?,
        run_uuid,
        run: store.ids.next(),
        slice: row.id("slice_id")?,
        plan: row.id("plan_id")?,
        expires_at: until,
    };
    let task = start_slice(tx, &row, &lease, now).await?;
    store.fail.hit("claim.run")?;
    insert_run(tx, &task, &lease, who, now).await?;
    let trace = read_trace(tx, seen.task).await?;
    let batch = open_next(tx, store, &row, &lease, &trace, now).await?;
    Ok(Some(Leased { lease, task, trace, batch, probe: None }))
}

/// The pages and the run of the holder that is gone.
async fn close_lost_run(tx: &mut Tx, task: Id, now: Timestamp) -> Result<(), DbError> {
    skip_open_batches(tx, task, "LEASE_LOST").await?;
    for run in tx.rows("ing_task_run", OPEN_RUNS, params! { task: task, running: RunState::Running.code() }).await? {
        end_run(tx, run.id("id")?, RunEvent::Gave, RunEnd::because("LEASE_LOST"), now).await?;
    }
    Ok(())
}

async fn start_slice(tx: &mut Tx, row: &Row, lease: &Lease, now: Timestamp) -> Result<Task, DbError> {
    let slice = tx.row("ing_plan_slice", READ_SLICE, params! { slice: lease.slice }).await?;
    let slice = slice.ok_or_else(|| LedgerError::Missing { what: format!("slice {}", lease.slice) })?;
    let state = slice.code("status_code", SliceState::from_code)?;
    let started = state.on(SliceEvent::Started)?;
    if started != state {
        tx.execute(START_SLICE, params! { status: started.code(), slice: lease.slice, now: now }).await?;
    }
    Ok(Task {
        id: lease.task,
        provenance: row.string("provenance_code")?,
        endpoint: row.string("endpoint_name")?,
        operation: row.code("operation_code", operation_from)?,
        window: slice.window()?,
        part: slice.opt_json("part")?,
        ids: ids_of(row)?,
        expr_hash: row.hash("expr_hash")?,
        priority: row.count("priority")?,
        attempt_no: row.count("attempt_no")?,
        failure_count: row.count("failure_count")?,
        lost_count: row.count("lost_count")?,
    })
}

/// The ids that a refresh asks for.
fn ids_of(row: &Row) -> Result<Vec<String>, LedgerError> {
    if row.code("operation_code", operation_from)? != Operation::Update {
        return Ok(Vec::new());
    }
    let mut params: serde_json::Value = row.json("params")?;
    let ids = serde_json::from_value(params["ids"].take());
    ids.map_err(|error| row.corrupt("params", &format!("a refresh without its ids: {error}")))
}

async fn insert_run(tx: &mut Tx, task: &Task, lease: &Lease, who: &str, now: Timestamp) -> Result<(), DbError> {
    let run = params! {
        id: lease.run,
        run_uuid: lease.run_uuid,
        task: lease.task,
        slice: lease.slice,
        plan: lease.plan,
        attempt: task.attempt_no,
        epoch: lease.epoch,
        worker: who,
        provenance: &task.provenance,
        endpoint: &task.endpoint,
        operation: task.operation.code(),
        status: RunState::Planned.on(RunEvent::Started)?.code(),
        window_from: task.window.from(),
        window_to: task.window.to(),
        now: now,
    };
    tx.execute(INSERT_RUN, run).await?;
    Ok(())
}

async fn read_trace(tx: &mut Tx, task: Id) -> Result<Vec<BatchTrace>, DbError> {
    let asked = params! { task: task, succeeded: BatchState::Succeeded.code() };
    let rows = tx.rows("ing_task_run_batch", TRACE, asked).await?;
    rows.iter().map(|row| Ok(trace_of(row)?)).collect()
}

fn trace_of(row: &Row) -> Result<BatchTrace, LedgerError> {
    let total = row.opt_int("total_hint")?;
    let page_ids = match row.get("page_ids")? {
        Value::Null => Vec::new(),
        _ => row.bytes("page_ids")?.chunks_exact(8).map(|eight| eight.iter().fold(0, shift_in)).collect(),
    };
    Ok(BatchTrace {
        id: row.id("id")?,
        pass_no: row.count("pass_no")?,
        seq_no: row.count("seq_no")?,
        phase: row.code("phase", phase_from)?,
        before_token: row.string("before_token")?,
        after_token: row.opt_text("after_token")?.map(str::to_owned),
        item_count: row.count("record_count")?,
        total: total.and_then(|total| u64::try_from(total).ok()),
        page_ids,
        times: row.opt_json::<stats::Times>("stats")?.and_then(|stats| stats.times),
        source_now: row.time("source_now")?,
        committed_at: row.time("committed_at")?,
    })
}

fn shift_in(number: u64, byte: &u8) -> u64 {
    (number << 8) | u64::from(*byte)
}

/// The page to be read next, after the last committed one of any run (INV-28). When that was the last page of its
/// pass, nothing is left to read and no row is written.
async fn open_next(
    tx: &mut Tx,
    store: &Inner,
    row: &Row,
    lease: &Lease,
    trace: &[BatchTrace],
    now: Timestamp,
) -> Result<OpenBatch, DbError> {
    let pass_no: u32 = row.count("last_pass")?;
    let last_seq = row.int("last_seq")?;
    let last = trace.iter().rfind(|batch| batch.pass_no == pass_no);
    if last.map_or(-1, |batch| i64::from(batch.seq_no)) != last_seq {
        return Err(row.corrupt("last_seq", "the committed pages end elsewhere").into());
    }
    let token = match last {
        None => Some(row.string("first_token")?),
        Some(batch) => batch.after_token.clone(),
    };
    let before_token = token.clone().unwrap_or_default();
    let seq_no = u32::try_from(last_seq + 1).map_err(|_| row.corrupt("last_seq", "the number is out of range"))?;
    let phase = phase_of(&before_token);
    let batch = OpenBatch { id: store.ids.next(), batch_no: 1, pass_no, seq_no, phase, before_token };
    if token.is_some() {
        open_batch(tx, lease, &BatchOwner::read(row)?, &batch, now).await?;
    }
    Ok(batch)
}

pub(crate) async fn next_due(store: Arc<Inner>, only: Arc<Only>) -> Result<Option<Timestamp>, DbError> {
    let mut tx = store.db.read().await?;
    let result = store.queue.next_due(&mut tx, &only).await;
    ended(tx, result).await
}

pub(crate) async fn mark_asked(store: Arc<Inner>, lease: Lease) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let row = holder(&lease, tx.now());
    let result = tx.execute(MARK_ASKED, row).await.and_then(|changed| held(changed, &lease));
    ended(tx, result).await
}

pub(crate) async fn renew(store: Arc<Inner>, lease: Lease, ttl: Span) -> Result<Timestamp, DbError> {
    store.fail.hit("heartbeat.before")?;
    let mut tx = store.db.write().await?;
    let until = tx.now().plus(ttl);
    let mut row = holder(&lease, tx.now());
    row.extend(params! { until: until });
    let result = tx.execute(RENEW, row).await.and_then(|changed| held(changed, &lease));
    ended(tx, result).await?;
    store.fail.hit("heartbeat.after")?;
    Ok(until)
}

/// The task as long as it is ours.
fn holder(lease: &Lease, now: Timestamp) -> Vec<(&'static str, Value)> {
    params! {
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    }
}

fn held(changed: u64, lease: &Lease) -> Result<(), DbError> {
    match changed {
        1 => Ok(()),
        _ => Err(LedgerError::LeaseLost { task: lease.task }.into()),
    }
}
