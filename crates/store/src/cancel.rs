//! Cancelling: an operator's stop, after which no page of the task commits (INV-42).
//!
//! The task is ended by one update that asks for its state, so cancel or complete wins and never both (INV-23); its
//! epoch rises, which fences a holder even by epoch alone. A plan is cancelled in pieces, each a transaction of its
//! own, until nothing of it is open: what a split adds meanwhile is found by the next look.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::{Cancelled, Intervention, LedgerError};
use patra_core::states::{RunEvent, RunState, SliceEvent, SliceState, TaskEvent, TaskState};
use patra_core::time::Timestamp;
use serde_json::json;

use crate::claim::OPEN_RUNS;
use crate::db::Tx;
use crate::dispatch::{self, WAITING};
use crate::error::DbError;
use crate::finish::{Ending, TASK_END, close_in_plan, close_slice};
use crate::rows::{RunEnd, end_run, skip_open_batches};
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

/// Tasks cancelled in one transaction.
const TASKS_AT_ONCE: i64 = 100;
const REASON: &str = "CANCELLED";

pub(crate) const CANCEL_TASK: &str = "-- task.cancel
    UPDATE ing_task SET status_code = :cancelled, leased_until = NULL, error = :error, finished_at = :now,
        lease_epoch = lease_epoch + 1, updated_at = :now
     WHERE id = :task AND status_code IN (:queued, :running)";
/// Without skipping what others hold: a page that is being committed must be waited for, not overlooked.
pub(crate) const OPEN_TASKS: &str = "-- task.open_of_plan
    SELECT id FROM ing_task WHERE plan_id = :plan AND status_code = :status ORDER BY id {limit:limit}";
const PLAN_KNOWN: &str = "-- plan.known
    SELECT id FROM ing_plan WHERE id = :plan";
const SLICE_KNOWN: &str = "-- slice.known
    SELECT id, plan_id, status_code FROM ing_plan_slice WHERE id = :slice";
const CANCEL_WAITING: &str = "-- slice.cancel_waiting
    UPDATE ing_plan_slice SET status_code = :cancelled, reason = :reason, record_remarks = :remarks, held_task = NULL,
        updated_at = :now
     WHERE plan_id = :plan AND status_code = :pending";
const CANCEL_WAITING_SLICE: &str = "-- slice.cancel_one_waiting
    UPDATE ing_plan_slice SET status_code = :cancelled, reason = :reason, record_remarks = :remarks, held_task = NULL,
        updated_at = :now
     WHERE id = :slice AND status_code = :pending";
const TASKS_OF_SLICE: &str = "-- task.of_slice
    SELECT id, status_code FROM ing_task WHERE slice_id = :slice";
const CHILDREN: &str = "-- slice.children
    SELECT id FROM ing_plan_slice WHERE parent_slice_id = :slice";
const AUDIT: &str = "-- audit.insert
    INSERT INTO ing_audit (id, actor, action_code, target, detail, created_at)
    VALUES (:id, :actor, :action, :target, :detail, :now)";

pub(crate) async fn task(store: Arc<Inner>, task: Id, act: Arc<Intervention>) -> Result<Cancelled, DbError> {
    store.fail.hit("cancel.begin")?;
    let mut tx = store.db.write().await?;
    let result = task_in(&mut tx, &store, task, &act).await;
    ended(tx, result).await
}

async fn task_in(tx: &mut Tx, store: &Inner, task: Id, act: &Intervention) -> Result<Cancelled, DbError> {
    let now = tx.now();
    let outcome = one(tx, now, task, act).await?;
    if outcome == Cancelled::Now {
        audit(tx, store, "TASK_CANCEL", &format!("task:{task}"), act, json!({})).await?;
    }
    store.fail.hit("cancel.commit")?;
    Ok(outcome)
}

async fn one(tx: &mut Tx, now: Timestamp, task: Id, act: &Intervention) -> Result<Cancelled, DbError> {
    let cancelled = params! {
        cancelled: TaskState::Running.on(TaskEvent::Cancelled)?.code(),
        queued: TaskState::Queued.code(),
        running: TaskState::Running.code(),
        error: &act.reason,
        now: now,
        task: task,
    };
    let taken = tx.execute(CANCEL_TASK, cancelled).await?;
    let row = tx.row("ing_task", TASK_END, params! { task: task }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("task {task}") })?;
    if taken == 0 {
        return Ok(Cancelled::EndedBefore(row.code("status_code", TaskState::from_code)?));
    }
    skip_open_batches(tx, task, REASON).await?;
    for run in tx.rows("ing_task_run", OPEN_RUNS, params! { task: task, running: RunState::Running.code() }).await? {
        let end = RunEnd { reason: Some(REASON), error: Some(&act.reason) };
        end_run(tx, run.id("id")?, RunEvent::Cancelled, end, now).await?;
    }
    let ending = Ending {
        task: TaskEvent::Cancelled,
        slice: SliceEvent::Cancelled,
        run: RunEvent::Cancelled,
        reason: Some(REASON),
        error: Some(&act.reason),
        read_at: None,
        remarks: None,
        raises_epoch: true,
    };
    close_slice(tx, task, row.id("slice_id")?, &ending, now).await?;
    close_in_plan(tx, row.id("plan_id")?, 1, now).await?;
    Ok(Cancelled::Now)
}

/// Cancels some open tasks of the plan; how many, zero when none is open any more.
pub(crate) async fn some_of_plan(store: Arc<Inner>, plan: Id, act: Arc<Intervention>) -> Result<u64, DbError> {
    store.fail.hit("cancel.begin")?;
    let mut tx = store.db.write().await?;
    let result = some_in(&mut tx, &store, plan, &act).await;
    ended(tx, result).await
}

async fn some_in(tx: &mut Tx, store: &Inner, plan: Id, act: &Intervention) -> Result<u64, DbError> {
    if tx.row("ing_plan", PLAN_KNOWN, params! { plan: plan }).await?.is_none() {
        return Err(LedgerError::Missing { what: format!("plan {plan}") }.into());
    }
    let waiting = waiting_of_plan(tx, plan, act).await?;
    if waiting > 0 {
        // By themselves: this transaction holds the plan, and a task that ends holds itself first.
        audit(tx, store, "PLAN_CANCEL", &format!("plan:{plan}"), act, json!({ "slices": waiting })).await?;
        store.fail.hit("cancel.commit")?;
        return Ok(waiting);
    }
    let mut open = Vec::new();
    for state in [TaskState::Running, TaskState::Queued] {
        let asked = params! { plan: plan, status: state.code(), limit: TASKS_AT_ONCE };
        for row in tx.rows("ing_task", OPEN_TASKS, asked).await? {
            open.push(row.id("id")?);
        }
    }
    let (mut cancelled, now) = (0, tx.now());
    for task in open {
        cancelled += u64::from(one(tx, now, task, act).await? == Cancelled::Now);
    }
    if cancelled > 0 {
        audit(tx, store, "PLAN_CANCEL", &format!("plan:{plan}"), act, json!({ "tasks": cancelled })).await?;
    }
    store.fail.hit("cancel.commit")?;
    Ok(cancelled)
}

/// Ends the slices of a plan that have no task yet; how many.
async fn waiting_of_plan(tx: &mut Tx, plan: Id, act: &Intervention) -> Result<u64, DbError> {
    let pending = SliceState::Pending;
    let asked = params! { plan: plan, pending: pending.code(), limit: 1_i64 };
    if tx.rows("ing_plan_slice", WAITING, asked).await?.is_empty() {
        return Ok(0);
    }
    dispatch::lock(tx, plan).await?;
    let now = tx.now();
    let row = params! {
        plan: plan,
        cancelled: pending.on(SliceEvent::Cancelled)?.code(),
        pending: pending.code(),
        reason: REASON,
        remarks: json!({ "reason": act.reason }),
        now: now,
    };
    let ended = tx.execute(CANCEL_WAITING, row).await?;
    if ended > 0 {
        close_in_plan(tx, plan, ended, now).await?;
    }
    Ok(ended)
}

/// Ends one slice if it has no task yet.
async fn waiting_slice(tx: &mut Tx, plan: Id, slice: Id, act: &Intervention) -> Result<u64, DbError> {
    dispatch::lock(tx, plan).await?;
    let (pending, now) = (SliceState::Pending, tx.now());
    let row = params! {
        slice: slice,
        cancelled: pending.on(SliceEvent::Cancelled)?.code(),
        pending: pending.code(),
        reason: REASON,
        remarks: json!({ "reason": act.reason }),
        now: now,
    };
    let ended = tx.execute(CANCEL_WAITING_SLICE, row).await?;
    if ended > 0 {
        close_in_plan(tx, plan, ended, now).await?;
    }
    Ok(ended)
}

/// Cancels what is open now of a slice and below it; how many tasks, zero when none is open any more.
pub(crate) async fn some_of_slice(store: Arc<Inner>, slice: Id, act: Arc<Intervention>) -> Result<u64, DbError> {
    store.fail.hit("cancel.begin")?;
    let mut tx = store.db.write().await?;
    let result = some_of_slice_in(&mut tx, &store, slice, &act).await;
    ended(tx, result).await
}

async fn some_of_slice_in(tx: &mut Tx, store: &Inner, slice: Id, act: &Intervention) -> Result<u64, DbError> {
    let row = tx.row("ing_plan_slice", SLICE_KNOWN, params! { slice: slice }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("slice {slice}") })?;
    let (mut cancelled, now, mut below) = (0, tx.now(), vec![slice]);
    // Only a slice that the planner cut waits for its task, and such a one has no children.
    if row.code("status_code", SliceState::from_code)? == SliceState::Pending {
        cancelled = waiting_slice(tx, row.id("plan_id")?, slice, act).await?;
    }
    while let Some(one_slice) = below.pop() {
        for row in tx.rows("ing_task", TASKS_OF_SLICE, params! { slice: one_slice }).await? {
            if matches!(row.code("status_code", TaskState::from_code)?, TaskState::Queued | TaskState::Running) {
                cancelled += u64::from(one(tx, now, row.id("id")?, act).await? == Cancelled::Now);
            }
        }
        for row in tx.rows("ing_plan_slice", CHILDREN, params! { slice: one_slice }).await? {
            below.push(row.id("id")?);
        }
    }
    if cancelled > 0 {
        audit(tx, store, "SLICE_CANCEL", &format!("slice:{slice}"), act, json!({ "tasks": cancelled })).await?;
    }
    store.fail.hit("cancel.commit")?;
    Ok(cancelled)
}

/// An act that has its own transaction elsewhere.
pub(crate) async fn note(
    store: Arc<Inner>,
    action: &'static str,
    target: Arc<str>,
    act: Arc<Intervention>,
    detail: serde_json::Value,
) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let result = audit(&mut tx, &store, action, &target, &act, detail).await;
    ended(tx, result).await
}

/// Every operator action leaves a row that is never changed (S-26).
pub(crate) async fn audit(
    tx: &mut Tx,
    store: &Inner,
    action: &str,
    target: &str,
    act: &Intervention,
    mut detail: serde_json::Value,
) -> Result<(), DbError> {
    detail["reason"] = json!(act.reason);
    let row = params! {
        id: store.ids.next(),
        actor: &act.actor,
        action: action,
        target: target,
        detail: &detail,
        now: tx.now(),
    };
    tx.execute(AUDIT, row).await?;
    Ok(())
}
