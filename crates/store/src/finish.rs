//! T2, the end of a slice: task, slice, run, plan, coverage, cursor event and cursor move together.
//!
//! Locks are taken in the order task, slice, plan, cursor. A finish that is repeated after an unknown COMMIT finds
//! its task already ended by its own run and says what happened then.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::plan::build::walk_of;
use patra_core::ports::{CutAtPrefix, Finished, Lease, LedgerError, SliceOutcome};
use patra_core::states::{PlanEvent, PlanState, RunEvent, SliceEvent, SliceState, TaskEvent, TaskState};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;
use serde_json::{Map, Value};

use crate::control;
use crate::coverage::{Mover, cover_parents, walk};
use crate::db::Tx;
use crate::error::DbError;
use crate::plan;
use crate::prefix;
use crate::rows::{RunEnd, end_run, skip_open_batches};
use crate::stats;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

pub(crate) const END_TASK: &str = "-- task.end
    UPDATE ing_task SET status_code = :status, leased_until = NULL, error = :error, finished_at = :now,
        lease_epoch = lease_epoch + :bump, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";
pub(crate) const TASK_END: &str = "-- task.ended
    SELECT id, plan_id, slice_id, status_code, run_uuid, schedule_instance_id, expr_hash FROM ing_task
     WHERE id = :task";
const SLICE_STATE: &str = "-- slice.state
    SELECT id, status_code, window_from, window_to, part, slice_no FROM ing_plan_slice WHERE id = :slice";
const END_SLICE: &str = "-- slice.end
    UPDATE ing_plan_slice SET status_code = :status, reason = :reason, read_at = :read_at, stats = :stats,
        record_remarks = :remarks, updated_at = :now
     WHERE id = :slice";
pub(crate) const RUN_STATS: &str = "-- run.stats_of_task
    SELECT id, stats FROM ing_task_run WHERE task_id = :task";
const CLOSE_SLICES: &str = "-- plan.close_slice
    UPDATE ing_plan SET open_slice_count = open_slice_count - :ended, updated_at = :now WHERE id = :plan";
const PLAN_STATE: &str = "-- plan.state
    SELECT id, status_code, open_slice_count, record_remarks FROM ing_plan WHERE id = :plan";
pub(crate) const OUTCOMES: &str = "-- slice.outcomes
    SELECT status_code, COUNT(*) AS slices FROM ing_plan_slice WHERE plan_id = :plan GROUP BY status_code";
const COMPLETE_PLAN: &str = "-- plan.complete
    UPDATE ing_plan SET status_code = :status, live_key = NULL, record_remarks = :remarks, updated_at = :now
     WHERE id = :plan";
pub(crate) const EVENT_OF_RUN: &str = "-- cursor_event.of_run
    SELECT id, prev_instant, new_instant FROM ing_cursor_event
     WHERE plan_id = :plan AND slice_id = :slice AND task_id = :task AND run_id = :run";
const SOURCE_BEHIND: &str = "-- control.source_behind
    INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, source_behind_us, updated_at)
    VALUES (:id, :provenance, :endpoint, 0, 0, :behind, :now)
    {upsert:provenance_code, endpoint_name;source_behind_us, updated_at}";

/// How a task, its slice and its run end, together.
pub(crate) struct Ending<'a> {
    pub task: TaskEvent,
    pub slice: SliceEvent,
    pub run: RunEvent,
    pub reason: Option<&'a str>,
    pub error: Option<&'a str>,
    pub read_at: Option<Timestamp>,
    pub remarks: Option<&'a Value>,
    /// A split raises the epoch, so that the executor of the parent is fenced even by epoch alone.
    pub raises_epoch: bool,
}

impl<'a> Ending<'a> {
    fn of(outcome: &'a SliceOutcome) -> Ending<'a> {
        let plain = Ending {
            task: TaskEvent::Gave,
            slice: SliceEvent::Gave,
            run: RunEvent::Gave,
            reason: None,
            error: None,
            read_at: None,
            remarks: None,
            raises_epoch: false,
        };
        match outcome {
            SliceOutcome::Succeeded { read_at, remarks, .. } => Ending {
                task: TaskEvent::Succeeded,
                slice: SliceEvent::Succeeded,
                run: RunEvent::Succeeded,
                read_at: Some(*read_at),
                remarks: Some(remarks),
                ..plain
            },
            SliceOutcome::Partial { reason, .. } => Ending { reason: Some(reason), ..plain },
            SliceOutcome::Failed { class, reason, .. } => Ending {
                task: TaskEvent::Failed,
                slice: SliceEvent::Failed,
                run: RunEvent::Failed,
                reason: Some(class),
                error: Some(reason),
                ..plain
            },
        }
    }
}

pub(crate) async fn once(store: Arc<Inner>, lease: Lease, outcome: Arc<SliceOutcome>) -> Result<Finished, DbError> {
    store.fail.hit("t2.begin")?;
    let mut tx = store.db.write().await?;
    let result = finish_in(&mut tx, &store, &lease, &outcome).await;
    let finished = ended(tx, result).await?;
    store.fail.hit("t2.done")?;
    Ok(finished)
}

async fn finish_in(tx: &mut Tx, store: &Inner, lease: &Lease, outcome: &SliceOutcome) -> Result<Finished, DbError> {
    let now = tx.now();
    let mut ending = Ending::of(outcome);
    store.fail.hit("t2.fence")?;
    if !end_task(tx, lease, &ending, now).await? {
        return finished_before(tx, lease, TaskState::Running.on(ending.task)?).await;
    }
    let whole = ending.slice;
    let cut = cut_of(outcome);
    if cut.is_some() {
        ending.slice = SliceEvent::Split;
    }
    let slice = end_slice(tx, lease, &ending, now).await?;
    if let Some(cut) = cut {
        prefix::insert_ended_children(tx, lease, &slice, cut, (whole, ending.reason), now).await?;
    }
    store.fail.hit("t2.plan")?;
    let plan_completed = close_in_plan(tx, lease.plan, 1, now).await?;
    // After the plan, as whoever finishes another slice of it takes them.
    if let SliceOutcome::Failed { stops_source: true, reason, .. } = outcome {
        let plan = plan::cached_in(tx, store, lease.plan).await?;
        control::blow(tx, store, &plan.namespace, reason).await?;
    }
    store.fail.hit("t2.walk")?;
    let moved = match (outcome, cut) {
        (SliceOutcome::Succeeded { source_behind, .. }, _) => {
            if slice.part {
                cover_parents(tx, lease.slice, now).await?;
            }
            credit(tx, store, lease, &slice, (slice.row.window()?, *source_behind)).await?
        }
        (_, Some(CutAtPrefix { proven, .. })) => {
            credit(tx, store, lease, &slice, (proven.slice.window, proven.source_behind)).await?
        }
        (SliceOutcome::Partial { .. } | SliceOutcome::Failed { .. }, None) => None,
    };
    store.fail.hit("t2.commit")?;
    Ok(Finished { moved, plan_completed })
}

fn cut_of(outcome: &SliceOutcome) -> Option<&CutAtPrefix> {
    match outcome {
        SliceOutcome::Succeeded { .. } => None,
        SliceOutcome::Partial { prefix, .. } | SliceOutcome::Failed { prefix, .. } => prefix.as_deref(),
    }
}

/// Ends the task; false when the lease is not ours any more.
pub(crate) async fn end_task(tx: &mut Tx, lease: &Lease, ending: &Ending<'_>, now: Timestamp) -> Result<bool, DbError> {
    let error = ending.error.or(ending.reason);
    let row = params! {
        status: TaskState::Running.on(ending.task)?.code(),
        error: error,
        now: now,
        bump: ending.raises_epoch,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    Ok(tx.execute(END_TASK, row).await? == 1)
}

/// A slice that has just ended.
pub(crate) struct EndedSlice {
    pub row: Row,
    pub part: bool,
    sums: Map<String, Value>,
}

/// The slice with the sums of its runs, the run, and what was left open of its pages.
pub(crate) async fn end_slice(
    tx: &mut Tx,
    lease: &Lease,
    ending: &Ending<'_>,
    now: Timestamp,
) -> Result<EndedSlice, DbError> {
    skip_open_batches(tx, lease.task, ending.reason.unwrap_or("FINISHED")).await?;
    let end = RunEnd { reason: ending.reason, error: ending.error };
    end_run(tx, lease.run, ending.run, end, now).await?;
    close_slice(tx, lease.task, lease.slice, ending, now).await
}

/// The slice itself, with the sums of the runs of its task.
pub(crate) async fn close_slice(
    tx: &mut Tx,
    task: Id,
    slice: Id,
    ending: &Ending<'_>,
    now: Timestamp,
) -> Result<EndedSlice, DbError> {
    let row = tx.row("ing_plan_slice", SLICE_STATE, params! { slice: slice }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("slice {slice}") })?;
    let state = row.code("status_code", SliceState::from_code)?.on(ending.slice)?;
    let mut sums = Map::new();
    for run in tx.rows("ing_task_run", RUN_STATS, params! { task: task }).await? {
        stats::add(&mut sums, &run.opt_json("stats")?.unwrap_or_default());
    }
    let ended = params! {
        status: state.code(),
        reason: ending.reason,
        read_at: ending.read_at,
        stats: Value::Object(sums.clone()),
        remarks: ending.remarks,
        now: now,
        slice: slice,
    };
    tx.execute(END_SLICE, ended).await?;
    let part = row.opt_text("part")?.is_some();
    Ok(EndedSlice { row, part, sums })
}

/// So many slices fewer are open; the last one completes the plan and frees its namespace.
pub(crate) async fn close_in_plan(tx: &mut Tx, plan: Id, ended: u64, now: Timestamp) -> Result<bool, DbError> {
    tx.execute(CLOSE_SLICES, params! { plan: plan, ended: ended, now: now }).await?;
    let row = tx.row("ing_plan", PLAN_STATE, params! { plan: plan }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("plan {plan}") })?;
    let open = row.int("open_slice_count")?;
    if open < 0 {
        return Err(row.corrupt("open_slice_count", "more slices ended than there were").into());
    }
    if open > 0 {
        return Ok(false);
    }
    let state = row.code("status_code", PlanState::from_code)?.on(PlanEvent::LastSliceEnded)?;
    let mut outcomes = Map::new();
    for outcome in tx.rows("ing_plan_slice", OUTCOMES, params! { plan: plan }).await? {
        outcomes.insert(outcome.string("status_code")?, outcome.int("slices")?.into());
    }
    let mut remarks = match row.opt_json("record_remarks")? {
        Some(Value::Object(remarks)) => remarks,
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("remarks".to_owned(), other)]),
    };
    remarks.insert("outcomes".into(), Value::Object(outcomes));
    let completed = params! { status: state.code(), remarks: Value::Object(remarks), now: now, plan: plan };
    tx.execute(COMPLETE_PLAN, completed).await?;
    Ok(true)
}

/// The watermark moves as far as the coverage now reaches without a gap.
pub(crate) async fn credit(
    tx: &mut Tx,
    store: &Inner,
    lease: &Lease,
    slice: &EndedSlice,
    (window, source_behind): (Window, Span),
) -> Result<Option<(Timestamp, Timestamp)>, DbError> {
    let plan = plan::cached_in(tx, store, lease.plan).await?;
    let task = tx.row("ing_task", TASK_END, params! { task: lease.task }).await?;
    let task = task.ok_or_else(|| LedgerError::Missing { what: format!("task {}", lease.task) })?;
    let behind = params! {
        id: store.ids.next(),
        provenance: &plan.namespace.provenance,
        endpoint: &plan.namespace.endpoint,
        behind: source_behind.micros().max(0),
        now: tx.now(),
    };
    tx.execute(SOURCE_BEHIND, behind).await?;
    let mover = Mover {
        instance: Some(task.id("schedule_instance_id")?),
        lease: Some(lease.clone()),
        batch: None,
        window: Some(window),
        expr_hash: Some(task.string("expr_hash")?),
        observed_max: stats::observed_max(&slice.sums),
    };
    walk(tx, store, &walk_of(&plan), &mover).await
}

/// The same finish, run again: what it did the first time. Anyone else's end is a lost lease.
async fn finished_before(tx: &mut Tx, lease: &Lease, want: TaskState) -> Result<Finished, DbError> {
    if !ended_by_us(tx, lease, want).await? {
        return Err(LedgerError::LeaseLost { task: lease.task }.into());
    }
    let asked = params! { plan: lease.plan, slice: lease.slice, task: lease.task, run: lease.run };
    let moved = match tx.row("ing_cursor_event", EVENT_OF_RUN, asked).await? {
        Some(row) => Some((row.time("prev_instant")?, row.time("new_instant")?)),
        None => None,
    };
    let plan = tx.row("ing_plan", PLAN_STATE, params! { plan: lease.plan }).await?;
    let state = plan.map(|row| row.code("status_code", PlanState::from_code)).transpose()?;
    Ok(Finished { moved, plan_completed: state == Some(PlanState::Completed) })
}

/// Whether the task is in the state that a step of this very run would have left it in.
pub(crate) async fn ended_by_us(tx: &mut Tx, lease: &Lease, want: TaskState) -> Result<bool, DbError> {
    let Some(row) = tx.row("ing_task", TASK_END, params! { task: lease.task }).await? else { return Ok(false) };
    if row.get("run_uuid")? == &crate::value::Value::Null {
        return Ok(false);
    }
    Ok(row.code("status_code", TaskState::from_code)? == want && row.uuid("run_uuid")? == lease.run_uuid)
}
