//! The priority of work that is not done: changed while executors run, effective at the next claim.

use std::sync::Arc;

use patra_core::ports::{Intervention, LedgerError, Target};
use patra_core::states::{SliceState, TaskState};
use serde_json::json;

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const OF_PLAN: &str = "-- task.priority_of_plan
    UPDATE ing_task SET priority = :priority, updated_at = :now
     WHERE plan_id = :id AND status_code IN (:queued, :running)";
const OF_SLICE: &str = "-- task.priority_of_slice
    UPDATE ing_task SET priority = :priority, updated_at = :now
     WHERE slice_id = :id AND status_code IN (:queued, :running)";
const OF_TASK: &str = "-- task.priority
    UPDATE ing_task SET priority = :priority, updated_at = :now WHERE id = :id AND status_code IN (:queued, :running)";
const OF_WAITING_PLAN: &str = "-- slice.priority_of_plan
    UPDATE ing_plan_slice SET held_priority = :priority, updated_at = :now WHERE plan_id = :id AND status_code = :pending";
const OF_WAITING_SLICE: &str = "-- slice.priority
    UPDATE ing_plan_slice SET held_priority = :priority, updated_at = :now WHERE id = :id AND status_code = :pending";
const PLAN_KNOWN: &str = "-- plan.there
    SELECT id FROM ing_plan WHERE id = :id";
const SLICE_KNOWN: &str = "-- slice.there
    SELECT id FROM ing_plan_slice WHERE id = :id";
const TASK_KNOWN: &str = "-- task.there
    SELECT id FROM ing_task WHERE id = :id";

pub(crate) async fn set(
    store: Arc<Inner>,
    target: Target,
    priority: u8,
    act: Arc<Intervention>,
) -> Result<u64, DbError> {
    let mut tx = store.db.write().await?;
    let result = set_in(&mut tx, &store, target, priority, &act).await;
    ended(tx, result).await
}

async fn set_in(tx: &mut Tx, store: &Inner, target: Target, priority: u8, act: &Intervention) -> Result<u64, DbError> {
    let (name, id, table, known, change) = match target {
        Target::Plan(id) => ("plan", id, "ing_plan", PLAN_KNOWN, OF_PLAN),
        Target::Slice(id) => ("slice", id, "ing_plan_slice", SLICE_KNOWN, OF_SLICE),
        Target::Task(id) => ("task", id, "ing_task", TASK_KNOWN, OF_TASK),
    };
    if tx.row(table, known, params! { id: id }).await?.is_none() {
        return Err(LedgerError::Missing { what: format!("{name} {id}") }.into());
    }
    let row = params! {
        id: id,
        priority: priority,
        queued: TaskState::Queued.code(),
        running: TaskState::Running.code(),
        now: tx.now(),
    };
    let mut changed = tx.execute(change, row).await?;
    let held = match target {
        Target::Plan(_) => Some(OF_WAITING_PLAN),
        Target::Slice(_) => Some(OF_WAITING_SLICE),
        Target::Task(_) => None,
    };
    if let Some(held) = held {
        let pending = SliceState::Pending.code();
        changed += tx.execute(held, params! { id: id, priority: priority, pending: pending, now: tx.now() }).await?;
    }
    if changed > 0 {
        let detail = json!({ "priority": priority, "tasks": changed });
        audit(tx, store, "PRIORITY", &format!("{name}:{id}"), act, detail).await?;
    }
    Ok(changed)
}
