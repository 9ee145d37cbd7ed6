//! Rows that several steps write: slices with their tasks, the open row of a page, the end of a run.

use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::page::Part;
use patra_core::ports::{Lease, LedgerError, NewSlice, NewTask, OpenBatch, Phase};
use patra_core::spec::snapshot::{NamespaceScope, Operation};
use patra_core::states::{BatchEvent, BatchState, RunEvent, RunState, SliceEvent, SliceState, TaskState};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::value::{Row, Value, params};

const INSERT_SLICES: &str = "-- slice.insert
    INSERT INTO ing_plan_slice (id, plan_id, parent_slice_id, provenance_code, endpoint_name, operation_code,
        namespace_hash, slice_no, slice_signature_hash, slice_spec, expr_hash, expr_snapshot, window_from, window_to,
        part, status_code, held_task, created_at, updated_at)
    VALUES {rows:19}";
const END_BORN: &str = "-- slice.end_born
    UPDATE ing_plan_slice SET reason = :reason, read_at = :read_at WHERE id = :slice";
const INSERT_TASKS: &str = "-- task.insert
    INSERT INTO ing_task (id, schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name, operation_code,
        credential_id, params, first_token, idempotent_key, expr_hash, priority, status_code, scheduled_at,
        expected_requests, created_at, updated_at)
    VALUES {rows:18}";
const INSERT_BATCH: &str = "-- batch.open
    INSERT INTO ing_task_run_batch (id, run_id, task_id, slice_id, plan_id, expr_hash, provenance_code, endpoint_name,
        operation_code, lease_epoch, batch_no, phase, pass_no, seq_no, before_token, before_token_hash,
        idempotent_key, status_code, started_at)
    VALUES (:id, :run, :task, :slice, :plan, :expr_hash, :provenance, :endpoint, :operation, :epoch, :batch_no, :phase,
        :pass_no, :seq_no, :token, :key, :key, :running, :now)";
pub(crate) const SKIP_BATCHES: &str = "-- batch.skip
    UPDATE ing_task_run_batch SET status_code = :skipped, error = :reason
     WHERE task_id = :task AND status_code = :running";
pub(crate) const END_RUN: &str = "-- run.end
    UPDATE ing_task_run SET status_code = :status, reason = :reason, error = :error, finished_at = :now,
        updated_at = :now
     WHERE id = :run AND status_code = :running";

const SLICE_COLUMNS: usize = 19;
/// Where `held_task` stands among them.
const HELD_TASK: usize = 16;
const TASK_COLUMNS: usize = 18;

/// What slices, tasks and batches repeat of their plan, so that every row can be found by its source.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub instance: Id,
    pub plan: Id,
    pub provenance: Arc<str>,
    pub endpoint: Arc<str>,
    pub operation: Arc<str>,
    pub namespace_hash: Hash32,
}

/// Slices become DISPATCHED and their tasks QUEUED.
pub(crate) async fn insert_slices(
    tx: &mut Tx,
    lineage: &Lineage,
    parent: Option<Id>,
    slices: &[NewSlice],
    now: Timestamp,
) -> Result<(), DbError> {
    let state = SliceState::Pending.on(SliceEvent::Dispatched)?;
    let rows = slices.iter().flat_map(|slice| slice_row(lineage, parent, slice, state, now)).collect();
    tx.execute_rows(INSERT_SLICES, SLICE_COLUMNS, rows).await?;
    insert_tasks(tx, lineage, slices.iter().map(|slice| (slice.expr_hash.to_string(), slice.id, &slice.task)), now)
        .await
}

/// Slices stay PENDING and keep the tasks they are going to have.
pub(crate) async fn insert_waiting(
    tx: &mut Tx,
    lineage: &Lineage,
    slices: &[NewSlice],
    now: Timestamp,
) -> Result<(), DbError> {
    let mut rows = Vec::new();
    for slice in slices {
        let mut row = slice_row(lineage, None, slice, SliceState::Pending, now);
        row[HELD_TASK] = serde_json::to_string(&slice.task).map_err(|error| DbError::Data(error.to_string()))?.into();
        rows.extend(row);
    }
    tx.execute_rows(INSERT_SLICES, SLICE_COLUMNS, rows).await?;
    Ok(())
}

/// QUEUED tasks of slices, each with the expression of its slice.
pub(crate) async fn insert_tasks<'a>(
    tx: &mut Tx,
    lineage: &Lineage,
    tasks: impl Iterator<Item = (String, Id, &'a NewTask)>,
    now: Timestamp,
) -> Result<(), DbError> {
    let rows = tasks.flat_map(|(expr_hash, slice, task)| task_row(lineage, slice, expr_hash, task, now)).collect();
    tx.execute_rows(INSERT_TASKS, TASK_COLUMNS, rows).await?;
    Ok(())
}

/// How a slice ended that was read with its parent and has no task of its own.
pub(crate) struct BornEnded<'a> {
    pub event: SliceEvent,
    pub reason: Option<&'a str>,
    pub read_at: Option<Timestamp>,
}

/// A child that ends in the transaction it is born in.
pub(crate) async fn insert_ended(
    tx: &mut Tx,
    lineage: &Lineage,
    parent: Id,
    slice: &NewSlice,
    end: BornEnded<'_>,
    now: Timestamp,
) -> Result<(), DbError> {
    let state = SliceState::Pending.on(end.event)?;
    let row = slice_row(lineage, Some(parent), slice, state, now);
    tx.execute_rows(INSERT_SLICES, SLICE_COLUMNS, row.into()).await?;
    let ended = params! { reason: end.reason, read_at: end.read_at, slice: slice.id };
    tx.execute(END_BORN, ended).await?;
    Ok(())
}

fn slice_row(
    lineage: &Lineage,
    parent: Option<Id>,
    slice: &NewSlice,
    state: SliceState,
    now: Timestamp,
) -> [Value; SLICE_COLUMNS] {
    [
        slice.id.into(),
        lineage.plan.into(),
        parent.into(),
        lineage.provenance.clone().into(),
        lineage.endpoint.clone().into(),
        lineage.operation.clone().into(),
        lineage.namespace_hash.into(),
        slice.slice_no.into(),
        slice.signature_hash.to_string().into(),
        (&slice.slice_spec).into(),
        slice.expr_hash.to_string().into(),
        (&slice.expr).into(),
        slice.window.from().into(),
        slice.window.to().into(),
        part_value(slice.part.as_ref()),
        state.code().into(),
        Value::Null,
        now.into(),
        now.into(),
    ]
}

fn task_row(lineage: &Lineage, slice: Id, expr_hash: String, task: &NewTask, now: Timestamp) -> [Value; TASK_COLUMNS] {
    [
        task.id.into(),
        lineage.instance.into(),
        lineage.plan.into(),
        slice.into(),
        lineage.provenance.clone().into(),
        lineage.endpoint.clone().into(),
        lineage.operation.clone().into(),
        task.credential.as_deref().into(),
        (&task.params).into(),
        task.first_token.as_str().into(),
        task.idempotent_key.into(),
        expr_hash.into(),
        // The claim asks for each of the nine priorities in turn.
        task.priority.clamp(1, 9).into(),
        TaskState::Queued.code().into(),
        task.scheduled_at.into(),
        task.expected_requests.into(),
        now.into(),
        now.into(),
    ]
}

/// What a batch row repeats of its task.
#[derive(Clone, Debug)]
pub(crate) struct BatchOwner {
    pub expr_hash: String,
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
}

impl BatchOwner {
    pub fn read(row: &Row) -> Result<BatchOwner, LedgerError> {
        Ok(BatchOwner {
            expr_hash: row.string("expr_hash")?,
            provenance: row.string("provenance_code")?,
            endpoint: row.string("endpoint_name")?,
            operation: row.code("operation_code", operation_from)?,
        })
    }
}

/// The RUNNING row of a page that is to be read.
pub(crate) async fn open_batch(
    tx: &mut Tx,
    lease: &Lease,
    owner: &BatchOwner,
    batch: &OpenBatch,
    now: Timestamp,
) -> Result<(), DbError> {
    let row = params! {
        id: batch.id,
        run: lease.run,
        task: lease.task,
        slice: lease.slice,
        plan: lease.plan,
        expr_hash: &owner.expr_hash,
        provenance: &owner.provenance,
        endpoint: &owner.endpoint,
        operation: owner.operation.code(),
        epoch: lease.epoch,
        batch_no: batch.batch_no,
        phase: batch.phase.code(),
        pass_no: batch.pass_no,
        seq_no: batch.seq_no,
        token: &batch.before_token,
        key: batch_key(lease.run, batch),
        running: BatchState::Running.code(),
        now: now,
    };
    tx.execute(INSERT_BATCH, row).await?;
    Ok(())
}

/// Tokens may repeat within a run, so the place in the pass is part of the key.
fn batch_key(run: Id, batch: &OpenBatch) -> Hash32 {
    Hash32::of_parts(&[
        &run.0.to_be_bytes(),
        &batch.pass_no.to_be_bytes(),
        batch.phase.code().as_bytes(),
        &batch.seq_no.to_be_bytes(),
        batch.before_token.as_bytes(),
    ])
}

/// Closes the rows of pages that will not be committed.
pub(crate) async fn skip_open_batches(tx: &mut Tx, task: Id, reason: &str) -> Result<(), DbError> {
    let skipped = BatchState::Running.on(BatchEvent::Skipped)?.code();
    let running = BatchState::Running.code();
    tx.execute(SKIP_BATCHES, params! { skipped: skipped, reason: reason, task: task, running: running }).await?;
    Ok(())
}

/// Why a run ended: a short code, and what went wrong in words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunEnd<'a> {
    pub reason: Option<&'a str>,
    pub error: Option<&'a str>,
}

impl<'a> RunEnd<'a> {
    pub fn because(reason: &'a str) -> RunEnd<'a> {
        RunEnd { reason: Some(reason), error: None }
    }
}

/// Ends a run that is RUNNING.
pub(crate) async fn end_run(
    tx: &mut Tx,
    run: Id,
    event: RunEvent,
    end: RunEnd<'_>,
    now: Timestamp,
) -> Result<(), DbError> {
    let running = RunState::Running;
    let row = params! {
        status: running.on(event)?.code(),
        reason: end.reason,
        error: end.error,
        now: now,
        run: run,
        running: running.code(),
    };
    tx.execute(END_RUN, row).await?;
    Ok(())
}

pub(crate) fn part_value(part: Option<&Part>) -> Value {
    part.and_then(|part| serde_json::to_string(part).ok()).into()
}

/// Tokens of detail steps begin with `d:`.
pub(crate) fn phase_of(token: &str) -> Phase {
    if token.starts_with("d:") { Phase::Detail } else { Phase::Search }
}

pub(crate) fn phase_from(code: &str) -> Option<Phase> {
    [Phase::Search, Phase::Detail].into_iter().find(|phase| phase.code() == code)
}

pub(crate) fn operation_from(code: &str) -> Option<Operation> {
    [Operation::Harvest, Operation::Backfill, Operation::Update].into_iter().find(|known| known.code() == code)
}

pub(crate) fn scope_from(code: &str) -> Option<NamespaceScope> {
    let all = [NamespaceScope::Global, NamespaceScope::Expr, NamespaceScope::Custom];
    all.into_iter().find(|known| known.code() == code)
}
