//! Cancelling: an operator's stop, after which no page of the task commits (INV-42).
//!
//! The task is ended by one update that asks for its state, so cancel or complete wins and never both (INV-23); its
//! epoch rises, which fences a holder even by epoch alone. A plan is cancelled in pieces, each a transaction of its
//! own, until nothing of it is open: what a split adds meanwhile is found by the next look.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::{Cancelled, Intervention, LedgerError};
use patra_core::states::{RunEvent, RunState, SliceEvent, TaskEvent, TaskState};
use patra_core::time::Timestamp;
use serde_json::json;

use crate::claim::OPEN_RUNS;
use crate::db::Tx;
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
    close_in_plan(tx, row.id("plan_id")?, now).await?;
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
