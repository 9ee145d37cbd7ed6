//! Triggers and plans: what was asked, and the plan that came of it.
//!
//! A plan, its slices and its tasks appear in one commit (INV-38). The unique `live_key` holds the namespace while
//! the plan is live, so a second trigger meets the first plan instead of making another (INV-39).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use patra_core::id::Id;
use patra_core::plan::portion::tasks_now;
use patra_core::ports::{LedgerError, Namespace, NewInstance, NewPlan, PlanView, Published};
use patra_core::spec::snapshot::{FORMAT, SpecSnapshot};
use patra_core::states::{PlanEvent, PlanState};
use patra_core::time::Timestamp;

use crate::circuit;
use crate::db::Tx;
use crate::dispatch;
use crate::error::DbError;
use crate::rows::{Lineage, insert_slices, insert_waiting, operation_from, scope_from};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

const INSERT_INSTANCE: &str = "-- instance.insert
    INSERT INTO ing_schedule_instance (id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code,
        triggered_at, trigger_params, provenance_code, endpoint_name, operation_code, channel, created_at, updated_at)
    VALUES (:id, :scheduler, :job_id, :log_id, :trigger_type, :now, :params, :provenance, :endpoint, :operation,
        :channel, :now, :now)
    {insert_new:id}";
const REMARK_INSTANCE: &str = "-- instance.remark
    UPDATE ing_schedule_instance SET record_remarks = :remarks, updated_at = :now WHERE id = :id";
const PIN_INSTANCE: &str = "-- instance.pin
    UPDATE ing_schedule_instance SET provenance_config_snapshot = :fingerprint, expr_proto_hash = :expr_hash,
        expr_proto_snapshot = :expr, updated_at = :now
     WHERE id = :id";
pub(crate) const LIVE_PLAN: &str = "-- plan.live
    SELECT id, schedule_instance_id FROM ing_plan WHERE live_key = :live_key";
pub(crate) const PLAN_BY_KEY: &str = "-- plan.by_key
    SELECT id FROM ing_plan WHERE plan_key = :plan_key";
const INSERT_PLAN: &str = "-- plan.insert
    INSERT INTO ing_plan (id, schedule_instance_id, plan_key, live_key, provenance_code, endpoint_name, operation_code,
        cursor_key, namespace_scope_code, namespace_key, namespace_hash, window_from, window_to, slice_strategy_code,
        slice_params, expr_proto_hash, expr_proto_snapshot, spec_fingerprint, spec_snapshot, registry_version,
        format_version, slice_count, open_slice_count, status_code, record_remarks, created_at, updated_at)
    VALUES (:id, :instance, :plan_key, :live_key, :provenance, :endpoint, :operation, :cursor_key, :scope,
        :namespace_key, :namespace_hash, :window_from, :window_to, :strategy, :slice_params, :expr_hash, :expr,
        :fingerprint, :spec, :registry_version, :format, :slices, :open, :status, :remarks, :now, :now)";
const SET_PLAN_STATUS: &str = "-- plan.status
    UPDATE ing_plan SET status_code = :status, live_key = :live_key, updated_at = :now WHERE id = :id";
const SET_FINISHED_TO: &str = "-- cursor.finished_to
    UPDATE ing_cursor SET finished_to = :finished_to
     WHERE namespace_hash = :namespace_hash AND (finished_to IS NULL OR finished_to < :finished_to)";
const READ_PLAN: &str = "-- plan.read
    SELECT id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
        window_from, window_to, spec_snapshot, spec_fingerprint, expr_proto_hash, format_version
      FROM ing_plan WHERE id = :id";

/// Plans read lately. A published plan's specification never changes, so they are never wrong.
#[derive(Default)]
pub(crate) struct Plans(Mutex<HashMap<Id, PlanView>>);

const PLANS_MAX: usize = 64;

impl Plans {
    fn get(&self, id: Id) -> Option<PlanView> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn put(&self, plan: PlanView) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PLANS_MAX {
            known.clear();
        }
        known.insert(plan.id, plan);
    }
}

pub(crate) async fn open_instance(store: Arc<Inner>, instance: NewInstance) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let row = params! {
        id: instance.id,
        scheduler: instance.scheduler,
        job_id: instance.job_id,
        log_id: instance.log_id,
        trigger_type: instance.trigger_type,
        now: tx.now(),
        params: instance.params,
        provenance: instance.provenance,
        endpoint: instance.endpoint,
        operation: instance.operation.code(),
        channel: instance.channel,
    };
    let result = tx.execute(INSERT_INSTANCE, row).await.map(|_| ());
    ended(tx, result).await
}

pub(crate) async fn remark_instance(store: Arc<Inner>, id: Id, remarks: serde_json::Value) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let row = params! { id: id, remarks: remarks, now: tx.now() };
    let result = match tx.execute(REMARK_INSTANCE, row).await {
        Ok(0) => Err(LedgerError::Missing { what: format!("instance {id}") }.into()),
        other => other.map(|_| ()),
    };
    ended(tx, result).await
}

pub(crate) async fn publish(store: Arc<Inner>, plan: Arc<NewPlan>) -> Result<Published, DbError> {
    store.fail.hit("plan.publish.begin")?;
    let mut tx = store.db.write().await?;
    let result = publish_in(&mut tx, &store, &plan).await;
    ended(tx, result).await
}

async fn publish_in(tx: &mut Tx, store: &Inner, plan: &NewPlan) -> Result<Published, DbError> {
    if let Some(existing) = existing_plan(tx, plan).await? {
        return Ok(existing);
    }
    let now = tx.now();
    insert_plan(tx, plan, now).await?;
    let lineage = Lineage {
        instance: plan.instance,
        plan: plan.id,
        provenance: plan.namespace.provenance.as_str().into(),
        endpoint: plan.namespace.endpoint.as_str().into(),
        operation: plan.namespace.operation.code().into(),
        namespace_hash: plan.namespace.hash(),
    };
    let found = dispatch::stocked(tx, &plan.namespace, &plan.portion).await?;
    let expected = plan.slices.iter().map(|slice| slice.task.expected_requests);
    let given = tasks_now(plan.portion.stock_max, &found, expected);
    store.fail.hit("plan.publish.slices")?;
    insert_slices(tx, &lineage, None, &plan.slices[..given], now).await?;
    insert_waiting(tx, &lineage, &plan.slices[given..], now).await?;
    dispatch_plan(tx, plan, given, now).await?;
    circuit::lower_lag(tx, &plan.namespace).await?;
    store.fail.hit("plan.publish.commit")?;
    Ok(Published::Created(plan.id))
}

/// The plan in the way of this one: published by the same trigger, or live in the same namespace.
async fn existing_plan(tx: &mut Tx, plan: &NewPlan) -> Result<Option<Published>, DbError> {
    if let Some(row) = tx.row("ing_plan", PLAN_BY_KEY, params! { plan_key: &plan.plan_key }).await? {
        let id = row.id("id")?;
        return Ok(Some(if id == plan.id { Published::Created(id) } else { Published::Repeated(id) }));
    }
    let live = tx.row("ing_plan", LIVE_PLAN, params! { live_key: plan.namespace.hash() }).await?;
    Ok(live.map(|row| row.id("id")).transpose()?.map(Published::Existing))
}

async fn insert_plan(tx: &mut Tx, plan: &NewPlan, now: Timestamp) -> Result<(), DbError> {
    let namespace = &plan.namespace;
    let spec = serde_json::to_string(&*plan.spec).map_err(|error| DbError::Data(error.to_string()))?;
    let row = params! {
        id: plan.id,
        instance: plan.instance,
        plan_key: &plan.plan_key,
        live_key: namespace.hash(),
        provenance: &namespace.provenance,
        endpoint: &namespace.endpoint,
        operation: namespace.operation.code(),
        cursor_key: &namespace.cursor_key,
        scope: namespace.scope.code(),
        namespace_key: &namespace.key,
        namespace_hash: namespace.hash(),
        window_from: plan.window.from(),
        window_to: plan.window.to(),
        strategy: &plan.slice_strategy,
        slice_params: &plan.slice_params,
        expr_hash: plan.expr_proto_hash.to_string(),
        expr: &plan.expr_proto,
        fingerprint: plan.spec_fingerprint.to_string(),
        spec: spec,
        registry_version: plan.spec.registry_version,
        format: plan.spec.format,
        slices: plan.slices.len(),
        open: plan.slices.len(),
        status: PlanState::Draft.on(PlanEvent::SlicingBegan)?.code(),
        remarks: &plan.remarks,
        now: now,
    };
    tx.execute(INSERT_PLAN, row).await?;
    let pinned = params! {
        id: plan.instance,
        fingerprint: plan.spec_fingerprint.to_string(),
        expr_hash: plan.expr_proto_hash.to_string(),
        expr: &plan.expr_proto,
        now: now,
    };
    tx.execute(PIN_INSTANCE, pinned).await?;
    Ok(())
}

/// READY, PARTIAL while some slices have no task, or COMPLETED at once when there is nothing to read.
async fn dispatch_plan(tx: &mut Tx, plan: &NewPlan, given: usize, now: Timestamp) -> Result<(), DbError> {
    let ready = dispatch::published(plan.slices.len(), given)?;
    let (state, live_key) = if plan.slices.is_empty() {
        (ready.on(PlanEvent::LastSliceEnded)?, None)
    } else {
        (ready, Some(plan.namespace.hash()))
    };
    tx.execute(SET_PLAN_STATUS, params! { id: plan.id, status: state.code(), live_key: live_key, now: now }).await?;
    if let Some(finished_to) = plan.finished_to {
        let row = params! { namespace_hash: plan.namespace.hash(), finished_to: finished_to };
        tx.execute(SET_FINISHED_TO, row).await?;
    }
    Ok(())
}

pub(crate) async fn read(store: Arc<Inner>, id: Id) -> Result<PlanView, DbError> {
    if let Some(plan) = store.plans.get(id) {
        return Ok(plan);
    }
    let mut tx = store.db.read().await?;
    let result = read_in(&mut tx, id).await;
    let plan = ended(tx, result).await?;
    store.plans.put(plan.clone());
    Ok(plan)
}

/// As [`read`], inside a transaction that is already open.
pub(crate) async fn cached_in(tx: &mut Tx, store: &Inner, id: Id) -> Result<PlanView, DbError> {
    if let Some(plan) = store.plans.get(id) {
        return Ok(plan);
    }
    let plan = read_in(tx, id).await?;
    store.plans.put(plan.clone());
    Ok(plan)
}

async fn read_in(tx: &mut Tx, id: Id) -> Result<PlanView, DbError> {
    let row = tx.row("ing_plan", READ_PLAN, params! { id: id }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("plan {id}") })?;
    Ok(view_of(&row)?)
}

fn view_of(row: &Row) -> Result<PlanView, LedgerError> {
    let id = row.id("id")?;
    if row.int("format_version")? > i64::from(FORMAT) {
        return Err(LedgerError::TooNew { what: format!("plan {id}") });
    }
    Ok(PlanView {
        id,
        namespace: Namespace {
            provenance: row.string("provenance_code")?,
            endpoint: row.string("endpoint_name")?,
            operation: row.code("operation_code", operation_from)?,
            cursor_key: row.string("cursor_key")?,
            scope: row.code("namespace_scope_code", scope_from)?,
            key: row.string("namespace_key")?,
        },
        window: row.window()?,
        spec: Arc::new(row.json::<SpecSnapshot>("spec_snapshot")?),
        spec_fingerprint: row.hash("spec_fingerprint")?,
        expr_proto_hash: row.hash("expr_proto_hash")?,
    })
}
