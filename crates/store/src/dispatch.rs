//! Going on with a plan of which some slices have no task yet (PARTIAL).
//!
//! ```text
//! publish:  slices [1..n] DISPATCHED with tasks | slices [n+1..] PENDING, each with the task it is going to have
//! dispatch: the first PENDING ones DISPATCHED and their tasks QUEUED, in one commit; the last of them makes it READY
//! ```
//! Whoever changes PENDING slices holds the row of their plan first, so a slice gets one task and a cancelled one none.
//! They are no coverage: only SUCCEEDED is.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::plan::portion::{Portion, Stocked, tasks_now};
use patra_core::planted::{Defect, planted};
use patra_core::ports::{LedgerError, Namespace, NewTask, Only, Partition};
use patra_core::spec::snapshot::Operation;
use patra_core::states::{PlanEvent, PlanState, SliceEvent, SliceState, TaskState};
use patra_core::time::Timestamp;

use crate::coverage::QUEUED_COUNT;
use crate::db::Tx;
use crate::error::DbError;
use crate::plan;
use crate::quota;
use crate::rows::{Lineage, insert_tasks};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

/// Tasks of one dispatch; more come with the next.
const TASKS_AT_ONCE: u64 = 5_000;
/// PARTIAL plans looked at in one go.
const PLANS_MAX: u32 = 1_000;

pub(crate) const PARTIAL: &str = "-- plan.partial
    SELECT id, provenance_code, endpoint_name, operation_code FROM ing_plan
     WHERE status_code = :partial ORDER BY created_at {limit:limit}";
const LOCK_PLAN: &str = "-- plan.lock
    SELECT id, schedule_instance_id, status_code, namespace_hash FROM ing_plan WHERE id = :plan {for_update}";
pub(crate) const WAITING: &str = "-- slice.waiting
    SELECT id, expr_hash, held_task, held_priority FROM ing_plan_slice
     WHERE plan_id = :plan AND status_code = :pending ORDER BY id {limit:limit}";
const DISPATCH: &str = "-- slice.dispatch
    UPDATE ing_plan_slice SET status_code = :dispatched, held_task = NULL, held_priority = NULL, updated_at = :now
     WHERE plan_id = :plan AND status_code = :pending AND id <= :last";
const SET_STATUS: &str = "-- plan.dispatched
    UPDATE ing_plan SET status_code = :status, updated_at = :now WHERE id = :plan";
/// Grows with the open tasks of one source, not with the ledger; asked only where there is a budget.
const RESERVED: &str = "-- task.reserved
    SELECT endpoint_name, expected_requests, COUNT(*) AS tasks FROM ing_task
     WHERE status_code = :status AND provenance_code = :provenance AND operation_code = :operation
     GROUP BY endpoint_name, expected_requests";
const STANDS: &str = "-- control.stands
    SELECT id FROM ing_source_control
     WHERE provenance_code = :provenance AND endpoint_name IN ('', :endpoint)
       AND (paused = 1 OR fuse_blown = 1 OR held_until > :now)";

/// A plan with slices that wait.
pub(crate) struct PartialPlan {
    pub id: Id,
    pub partition: Partition,
}

/// Oldest first.
pub(crate) async fn partial_in(tx: &mut Tx) -> Result<Vec<PartialPlan>, DbError> {
    let asked = params! { partial: PlanState::Partial.code(), limit: PLANS_MAX };
    let rows = tx.rows("ing_plan", PARTIAL, asked).await?;
    let plan = |row: &Row| {
        let partition = Partition {
            provenance: row.string("provenance_code")?,
            endpoint: row.string("endpoint_name")?,
            operation: row.string("operation_code")?,
        };
        Ok(PartialPlan { id: row.id("id")?, partition })
    };
    rows.iter().map(plan).collect()
}

pub(crate) async fn partial(store: Arc<Inner>, only: Arc<Only>) -> Result<Vec<Id>, DbError> {
    let mut tx = store.db.read().await?;
    let found = partial_in(&mut tx).await;
    let mut plans = ended(tx, found).await?;
    plans.retain(|plan| only.wants(&plan.partition));
    let order = [Operation::Harvest, Operation::Update, Operation::Backfill];
    plans.sort_by_key(|plan| order.iter().position(|operation| operation.code() == plan.partition.operation));
    Ok(plans.into_iter().map(|plan| plan.id).collect())
}

pub(crate) async fn dispatch(store: Arc<Inner>, plan: Id, portion: Arc<Portion>) -> Result<u64, DbError> {
    store.fail.hit("dispatch.begin")?;
    let mut tx = store.db.write().await?;
    let result = dispatch_in(&mut tx, &store, plan, &portion).await;
    ended(tx, result).await
}

async fn dispatch_in(tx: &mut Tx, store: &Inner, id: Id, portion: &Portion) -> Result<u64, DbError> {
    let row = lock(tx, id).await?;
    if row.code("status_code", PlanState::from_code)? != PlanState::Partial {
        return Ok(0);
    }
    let namespace = plan::cached_in(tx, store, id).await?.namespace;
    if stands(tx, &namespace).await? {
        return Ok(0);
    }
    let waiting = waiting(tx, id, TASKS_AT_ONCE.min(portion.stock_max)).await?;
    let found = stocked(tx, &namespace, portion).await?;
    let given = tasks_now(portion.stock_max, &found, waiting.iter().map(|one| one.task.expected_requests));
    let now = tx.now();
    if let Some(last) = given.checked_sub(1).and_then(|last| waiting.get(last)) {
        let lineage = lineage(&row, id, &namespace)?;
        store.fail.hit("dispatch.tasks")?;
        let tasks = waiting[..given].iter().map(|one| (one.expr_hash.clone(), one.slice, &one.task));
        insert_tasks(tx, &lineage, tasks, now).await?;
        begin(tx, id, last.slice, now).await?;
    }
    settle(tx, id, given, now).await?;
    store.fail.hit("dispatch.commit")?;
    Ok(given as u64)
}

/// Holds the row of a plan until the commit.
pub(crate) async fn lock(tx: &mut Tx, plan: Id) -> Result<Row, DbError> {
    let row = tx.row("ing_plan", LOCK_PLAN, params! { plan: plan }).await?;
    Ok(row.ok_or_else(|| LedgerError::Missing { what: format!("plan {plan}") })?)
}

/// A person, a fuse or a healer holds planning.
async fn stands(tx: &mut Tx, namespace: &Namespace) -> Result<bool, DbError> {
    let asked = params! { provenance: &namespace.provenance, endpoint: &namespace.endpoint, now: tx.now() };
    Ok(tx.row("ing_source_control", STANDS, asked).await?.is_some())
}

/// A slice that waits, with the task it is going to have.
struct Waiting {
    slice: Id,
    expr_hash: String,
    task: NewTask,
}

async fn waiting(tx: &mut Tx, plan: Id, most: u64) -> Result<Vec<Waiting>, DbError> {
    let now = tx.now();
    let asked = params! { plan: plan, pending: SliceState::Pending.code(), limit: most };
    let mut found = Vec::new();
    for row in tx.rows("ing_plan_slice", WAITING, asked).await? {
        let mut task: NewTask = row.json("held_task")?;
        task.scheduled_at = now;
        if let Some(priority) = row.opt_int("held_priority")? {
            task.priority = u8::try_from(priority).unwrap_or(task.priority);
        }
        found.push(Waiting { slice: row.id("id")?, expr_hash: row.string("expr_hash")?, task });
    }
    Ok(found)
}

fn lineage(row: &Row, plan: Id, namespace: &Namespace) -> Result<Lineage, LedgerError> {
    Ok(Lineage {
        instance: row.id("schedule_instance_id")?,
        plan,
        provenance: namespace.provenance.as_str().into(),
        endpoint: namespace.endpoint.as_str().into(),
        operation: namespace.operation.code().into(),
        namespace_hash: row.hash("namespace_hash")?,
    })
}

/// Everything that waits up to this slice is dispatched.
async fn begin(tx: &mut Tx, plan: Id, last: Id, now: Timestamp) -> Result<(), DbError> {
    let pending = SliceState::Pending;
    let dispatched = pending.on(SliceEvent::Dispatched)?.code();
    let row = params! { plan: plan, pending: pending.code(), dispatched: dispatched, last: last, now: now };
    tx.execute(DISPATCH, row).await?;
    Ok(())
}

/// READY when nothing waits any more.
async fn settle(tx: &mut Tx, plan: Id, given: usize, now: Timestamp) -> Result<(), DbError> {
    let left = !waiting(tx, plan, 1).await?.is_empty();
    let state = if left { PlanState::Partial } else { PlanState::Partial.on(PlanEvent::AllDispatched)? };
    if given > 0 || !left {
        tx.execute(SET_STATUS, params! { plan: plan, status: state.code(), now: now }).await?;
    }
    Ok(())
}

/// The state of a new plan when so many of its slices have tasks.
pub(crate) fn published(slices: usize, given: usize) -> Result<PlanState, DbError> {
    let all = given == slices || planted(Defect::RestForgotten);
    let event = if all { PlanEvent::AllDispatched } else { PlanEvent::SomeDispatched };
    Ok(PlanState::Slicing.on(event)?)
}

/// What is queued, reserved and left for a partition.
pub(crate) async fn stocked(tx: &mut Tx, namespace: &Namespace, portion: &Portion) -> Result<Stocked, DbError> {
    let asked = params! {
        provenance: &namespace.provenance,
        endpoint: &namespace.endpoint,
        operation: namespace.operation.code(),
        queued: TaskState::Queued.code(),
    };
    let mut found = Stocked { queued: 0, reserved: 0, left: u64::MAX };
    if portion.stock_max < u64::MAX {
        let row = tx.row("ing_task", QUEUED_COUNT, asked).await?;
        found.queued = row.map_or(Ok(0), |row| row.count("queued"))?;
    }
    let Some(budget) = &portion.budget else { return Ok(found) };
    for operation in budget.ahead() {
        for state in [TaskState::Queued, TaskState::Running] {
            let asked =
                params! { provenance: &namespace.provenance, operation: operation.code(), status: state.code() };
            for row in tx.rows("ing_task", RESERVED, asked).await? {
                if !budget.by_endpoint || row.text("endpoint_name")? == namespace.endpoint {
                    let cost: u64 = row.count("expected_requests")?;
                    found.reserved = found.reserved.saturating_add(cost.saturating_mul(row.count("tasks")?));
                }
            }
        }
    }
    found.left = 0;
    for key in &budget.keys {
        let used = quota::used_of(tx, key, &budget.budgets).await?;
        found.left = found.left.saturating_add(budget.left(&used));
    }
    Ok(found)
}
