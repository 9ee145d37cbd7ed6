//! Cursors and their events after the fact: looking for gaps, rebuilding a cursor, thinning old events.
//!
//! Each namespace is one transaction that locks the cursor first, as every move does, so all of this may be done while
//! executors run. What follows from the events is decided by `patra_core::cursor`.

use std::sync::Arc;

use patra_core::cursor::{CursorMove, CursorState, CursorType, Lineage, Place, faults, fold, summary, thinnable};
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{CursorReport, CursorWork, Intervention, LedgerError};
use patra_core::time::Timestamp;
use serde_json::{Value as Json, json};

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::shared::LOCK;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, Value, params};

const NAMESPACES: &str = "-- cursor_event.namespaces
    SELECT DISTINCT provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
        namespace_hash FROM ing_cursor_event";
const CURSORS: &str = "-- cursor.namespaces
    SELECT DISTINCT provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
        namespace_hash FROM ing_cursor";
pub(crate) const EVENTS: &str = "-- cursor_event.of_namespace
    SELECT id, cursor_type_code, event_no, cause_code, prev_value, new_value, prev_instant, new_instant, prev_numeric,
        new_numeric, observed_max_value, idempotent_key, schedule_instance_id, plan_id, slice_id, task_id, run_id,
        batch_id, expr_hash, record_remarks, created_at
      FROM ing_cursor_event WHERE namespace_hash = :namespace ORDER BY event_no";
const WHOLE_CURSOR: &str = "-- cursor.whole
    SELECT id, cursor_type_code, cursor_value, normalized_instant, normalized_numeric, observed_max_value, finished_to,
        version, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_id, expr_hash, created_at, updated_at
      FROM ing_cursor WHERE namespace_hash = :namespace";
const FINISHED_OF_PLANS: &str = "-- plan.finished
    SELECT id, slice_params FROM ing_plan
     WHERE provenance_code = :provenance AND operation_code = :operation AND namespace_hash = :namespace";
const PUT_CURSOR: &str = "-- cursor.put
    INSERT INTO ing_cursor (id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
        namespace_key, namespace_hash, cursor_type_code, cursor_value, normalized_instant, normalized_numeric,
        observed_max_value, finished_to, version, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_id,
        expr_hash, created_at, updated_at)
    VALUES (:id, :provenance, :endpoint, :operation, :cursor_key, :scope, :namespace_key, :namespace, :kind, :value,
        :instant, :numeric, :observed_max, :finished_to, :version, :instance, :plan, :slice, :task, :run, :batch,
        :expr_hash, :created_at, :updated_at)
    {upsert:namespace_hash;id, cursor_type_code, cursor_value, normalized_instant, normalized_numeric, observed_max_value, finished_to, version, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_id, expr_hash, created_at, updated_at}";
const DROP_EVENT: &str = "-- cursor_event.drop
    DELETE FROM ing_cursor_event WHERE id = :id";
const SUMMARISE: &str = "-- cursor_event.summarise
    UPDATE ing_cursor_event SET event_no = :event_no, cause_code = :cause, new_value = :value, new_instant = :instant,
        new_numeric = :numeric, observed_max_value = :observed_max, idempotent_key = :key, schedule_instance_id = NULL,
        plan_id = NULL, slice_id = NULL, task_id = NULL, run_id = NULL, batch_id = NULL, expr_hash = NULL,
        window_from = NULL, window_to = NULL, record_remarks = :remarks
     WHERE id = :id";

/// Which cursor, by everything that makes its namespace.
#[derive(Clone)]
pub(crate) struct Named {
    provenance: String,
    endpoint: String,
    operation: String,
    cursor_key: String,
    scope: String,
    key: String,
    pub hash: Hash32,
}

impl Named {
    fn read(row: &Row) -> Result<Named, LedgerError> {
        Ok(Named {
            provenance: row.string("provenance_code")?,
            endpoint: row.string("endpoint_name")?,
            operation: row.string("operation_code")?,
            cursor_key: row.string("cursor_key")?,
            scope: row.string("namespace_scope_code")?,
            key: row.string("namespace_key")?,
            hash: row.hash("namespace_hash")?,
        })
    }
}

/// Every namespace that has events or a cursor, by name.
pub(crate) async fn namespaces(store: Arc<Inner>, source: Option<Arc<str>>) -> Result<Vec<Named>, DbError> {
    let mut tx = store.db.read().await?;
    let result = namespaces_in(&mut tx, source.as_deref()).await;
    ended(tx, result).await
}

async fn namespaces_in(tx: &mut Tx, source: Option<&str>) -> Result<Vec<Named>, DbError> {
    let mut found: Vec<Named> = Vec::new();
    for (table, text) in [("ing_cursor_event", NAMESPACES), ("ing_cursor", CURSORS)] {
        for row in tx.rows(table, text, params! {}).await? {
            let named = Named::read(&row)?;
            let wanted = source.is_none_or(|source| source == named.provenance);
            if wanted && !found.iter().any(|known| known.hash == named.hash) {
                found.push(named);
            }
        }
    }
    found.sort_by(|a, b| {
        (&a.provenance, &a.endpoint, &a.operation, &a.key).cmp(&(&b.provenance, &b.endpoint, &b.operation, &b.key))
    });
    Ok(found)
}

/// One cursor, looked at or mended.
pub(crate) async fn tend(
    store: Arc<Inner>,
    named: Named,
    work: Arc<CursorWork>,
    act: Arc<Intervention>,
) -> Result<CursorReport, DbError> {
    let mut tx = match *work {
        CursorWork::Verify => store.db.read().await?,
        CursorWork::Rebuild | CursorWork::Thin { .. } => store.db.write().await?,
    };
    let result = tend_in(&mut tx, &store, &named, &work, &act).await;
    ended(tx, result).await
}

async fn tend_in(
    tx: &mut Tx,
    store: &Inner,
    named: &Named,
    work: &CursorWork,
    act: &Intervention,
) -> Result<CursorReport, DbError> {
    if *work != CursorWork::Verify {
        tx.row("ing_cursor", LOCK, params! { namespace: named.hash }).await?;
    }
    let stored = tx.row("ing_cursor", WHOLE_CURSOR, params! { namespace: named.hash }).await?;
    let events = events_of(tx, named.hash).await?;
    let folded = fold(&events);
    let mut report = CursorReport {
        provenance: named.provenance.clone(),
        endpoint: named.endpoint.clone(),
        operation: named.operation.clone(),
        cursor_key: named.cursor_key.clone(),
        namespace: named.hash,
        events: events.len() as u64,
        faults: faults(named.hash, &events),
        changed: 0,
    };
    let same = match &stored {
        Some(row) => Some(state_of(row)?) == folded,
        None => folded.is_none(),
    };
    match work {
        CursorWork::Verify if !same => report.faults.push(difference(stored.is_some(), folded.as_ref())),
        CursorWork::Rebuild if !same && report.faults.is_empty() => {
            let Some(folded) = folded else {
                report.faults.push("it has no events to be rebuilt from".into());
                return Ok(report);
            };
            put(tx, named, &folded).await?;
            let target = format!("cursor:{}", named.hash);
            audit(tx, store, "CURSOR_REBUILD", &target, act, json!({ "version": folded.version })).await?;
            report.changed = 1;
        }
        CursorWork::Thin { before } if report.faults.is_empty() => {
            report.changed = thin(tx, named.hash, &events, *before).await?;
            if report.changed > 0 {
                let target = format!("cursor:{}", named.hash);
                let detail = json!({ "events": report.changed, "before": before });
                audit(tx, store, "CURSOR_THIN", &target, act, detail).await?;
            }
        }
        _ => {}
    }
    Ok(report)
}

fn difference(stored: bool, folded: Option<&CursorState>) -> String {
    match (stored, folded) {
        (false, Some(folded)) => {
            format!("the cursor is gone; its {} events lead to `{}`", folded.version, folded.place.value)
        }
        (_, Some(folded)) => {
            format!("the cursor is not what its events lead to: event {} at `{}`", folded.version, folded.place.value)
        }
        (_, None) => "the cursor has no events".into(),
    }
}

async fn events_of(tx: &mut Tx, namespace: Hash32) -> Result<Vec<CursorMove>, DbError> {
    let rows = tx.rows("ing_cursor_event", EVENTS, params! { namespace: namespace }).await?;
    rows.iter().map(|row| Ok(event_of(row)?)).collect()
}

fn event_of(row: &Row) -> Result<CursorMove, LedgerError> {
    let event_no = row.int("event_no")?;
    let remarks: Option<Json> = row.opt_json("record_remarks")?;
    let first_no = remarks.as_ref().and_then(|remarks| remarks["summary"]["from"].as_i64()).unwrap_or(event_no);
    Ok(CursorMove {
        id: row.id("id")?,
        first_no,
        event_no,
        kind: row.code("cursor_type_code", CursorType::from_code)?,
        prev: place_of(row, "prev_value", "prev_instant", "prev_numeric")?,
        next: place_of(row, "new_value", "new_instant", "new_numeric")?,
        cause: row.string("cause_code")?,
        observed_max: row.opt_time("observed_max_value")?,
        lineage: lineage_of(row)?,
        key: row.hash("idempotent_key")?,
        created_at: row.time("created_at")?,
    })
}

fn place_of(row: &Row, value: &str, instant: &str, numeric: &str) -> Result<Place, LedgerError> {
    Ok(Place { value: row.string(value)?, instant: row.opt_time(instant)?, numeric: row.opt_int(numeric)? })
}

fn lineage_of(row: &Row) -> Result<Lineage, LedgerError> {
    let id = |column: &str| row.opt_int(column).map(|id| id.map(Id));
    Ok(Lineage {
        instance: id("schedule_instance_id")?,
        plan: id("plan_id")?,
        slice: id("slice_id")?,
        task: id("task_id")?,
        run: id("run_id")?,
        batch: id("batch_id")?,
        expr_hash: row.opt_text("expr_hash")?.map(str::to_owned),
    })
}

fn state_of(row: &Row) -> Result<CursorState, LedgerError> {
    Ok(CursorState {
        id: row.id("id")?,
        kind: row.code("cursor_type_code", CursorType::from_code)?,
        place: place_of(row, "cursor_value", "normalized_instant", "normalized_numeric")?,
        observed_max: row.opt_time("observed_max_value")?,
        version: row.int("version")?,
        lineage: lineage_of(row)?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

async fn put(tx: &mut Tx, named: &Named, folded: &CursorState) -> Result<(), DbError> {
    let finished_to = finished_of_plans(tx, named).await?;
    let mut row = placed(&folded.place, folded.observed_max);
    row.extend(params! {
        id: folded.id,
        provenance: &named.provenance,
        endpoint: &named.endpoint,
        operation: &named.operation,
        cursor_key: &named.cursor_key,
        scope: &named.scope,
        namespace_key: &named.key,
        namespace: named.hash,
        kind: folded.kind.code(),
        finished_to: finished_to,
        version: folded.version,
        instance: folded.lineage.instance,
        plan: folded.lineage.plan,
        slice: folded.lineage.slice,
        task: folded.lineage.task,
        run: folded.lineage.run,
        batch: folded.lineage.batch,
        expr_hash: folded.lineage.expr_hash.as_deref(),
        created_at: folded.created_at,
        updated_at: folded.updated_at,
    });
    tx.execute(PUT_CURSOR, row).await?;
    Ok(())
}

fn placed(place: &Place, observed_max: Option<Timestamp>) -> Vec<(&'static str, Value)> {
    params! {
        value: &place.value,
        instant: place.instant,
        numeric: place.numeric,
        observed_max: observed_max,
    }
}

/// The shortcut for planning is no part of the events; each plan says which one it was computed from.
async fn finished_of_plans(tx: &mut Tx, named: &Named) -> Result<Option<Timestamp>, DbError> {
    let asked = params! { provenance: &named.provenance, operation: &named.operation, namespace: named.hash };
    let mut latest = None;
    for row in tx.rows("ing_plan", FINISHED_OF_PLANS, asked).await? {
        let params: Json = row.json("slice_params")?;
        let told = params["finishedTo"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        latest = latest.max(told);
    }
    Ok(latest)
}

/// How many events are gone.
async fn thin(tx: &mut Tx, namespace: Hash32, events: &[CursorMove], before: Timestamp) -> Result<u64, DbError> {
    let mut gone = 0;
    for run in thinnable(events, before) {
        let Some(whole) = summary(namespace, run) else { continue };
        for event in &run[1..] {
            tx.execute(DROP_EVENT, params! { id: event.id }).await?;
            gone += 1;
        }
        let last_at = run.last().map(|event| event.created_at);
        let remarks = json!({
            "reason": "SUMMARY",
            "summary": { "from": whole.first_no, "to": whole.event_no, "last_created_at": last_at },
        });
        let mut row = placed(&whole.next, whole.observed_max);
        row.extend(params! {
            id: whole.id,
            event_no: whole.event_no,
            cause: &whole.cause,
            key: whole.key,
            remarks: remarks,
        });
        tx.execute(SUMMARISE, row).await?;
    }
    Ok(gone)
}
