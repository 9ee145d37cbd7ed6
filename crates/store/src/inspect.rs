//! The read side: rows as people and programs want to see them, paged by key, in short snapshots (INV-53).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::mask::masked;
use patra_core::ports::{Inspect, LedgerError, ListFilter, Noun, Shown, SourceSummary};
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, Value, params};

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 1_000;
/// Left out of listings.
const BULKY: [&str; 13] = [
    "payload",
    "raw",
    "page_ids",
    "id_list",
    "spec_snapshot",
    "slice_spec",
    "expr_snapshot",
    "expr_proto_snapshot",
    "request_digest",
    "response_digest",
    "slice_params",
    "params",
    "before_token_hash",
];
/// Columns that hold JSON.
const JSON: [&str; 15] = [
    "trigger_params",
    "record_remarks",
    "slice_params",
    "expr_proto_snapshot",
    "spec_snapshot",
    "slice_spec",
    "expr_snapshot",
    "part",
    "params",
    "stats",
    "checkpoint",
    "request_digest",
    "response_digest",
    "fields",
    "id_list",
];

pub(crate) const RECORD_OF_SOURCE: &str = "-- inspect.record
    SELECT id FROM ing_record
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND provider_id = :name";
pub(crate) const NEXT_SOURCE: &str = "-- inspect.next_source
    SELECT provenance_code, endpoint_name FROM ing_record
     WHERE (provenance_code, endpoint_name) > (:provenance, :entity)
     ORDER BY provenance_code, endpoint_name LIMIT 1";
const RECORD_COUNT: &str = "-- inspect.records
    SELECT provenance_code, endpoint_name, COUNT(*) AS found FROM ing_record GROUP BY provenance_code, endpoint_name";
const OUTBOX_COUNT: &str = "-- inspect.outbox
    SELECT provenance_code, endpoint_name, COUNT(*) AS found FROM ing_outbox WHERE status_code = 'PENDING'
     GROUP BY provenance_code, endpoint_name";
const QUARANTINE_COUNT: &str = "-- inspect.quarantine
    SELECT provenance_code, endpoint_name, COUNT(*) AS found FROM ing_quarantine WHERE status_code = 'OPEN'
     GROUP BY provenance_code, endpoint_name";
const TASK_COUNT: &str = "-- inspect.tasks
    SELECT provenance_code, endpoint_name, status_code, COUNT(*) AS found FROM ing_task
     GROUP BY provenance_code, endpoint_name, status_code";
const WATERMARKS: &str = "-- inspect.watermarks
    SELECT provenance_code, endpoint_name, MIN(normalized_instant) AS watermark FROM ing_cursor
     WHERE operation_code = 'HARVEST' GROUP BY provenance_code, endpoint_name";
const CONTROLS: &str = "-- inspect.controls
    SELECT provenance_code, endpoint_name, paused, fuse_blown, reason FROM ing_source_control
     WHERE paused = 1 OR fuse_blown = 1";
const FAILED_RUNS: &str = "-- inspect.errors
    SELECT r.provenance_code, r.endpoint_name, r.reason, r.error
      FROM ing_task_run r
      JOIN (SELECT MAX(id) AS id FROM ing_task_run WHERE status_code = 'FAILED'
             GROUP BY provenance_code, endpoint_name) last ON last.id = r.id";

fn table_of(noun: Noun) -> &'static str {
    match noun {
        Noun::Plan => "ing_plan",
        Noun::Slice => "ing_plan_slice",
        Noun::Task => "ing_task",
        Noun::Run => "ing_task_run",
        Noun::Batch => "ing_task_run_batch",
        Noun::Cursor => "ing_cursor",
        Noun::CursorEvent => "ing_cursor_event",
        Noun::Record => "ing_record",
        Noun::Quarantine => "ing_quarantine",
        Noun::MissingId => "ing_missing_id",
        Noun::Instance => "ing_schedule_instance",
        Noun::Outbox => "ing_outbox",
        Noun::SourceControl => "ing_source_control",
        Noun::Signal => "ing_signal",
        Noun::Alarm => "ing_alarm",
        Noun::Budget => "ing_quota",
    }
}

#[async_trait]
impl Inspect for Store {
    async fn list(&self, noun: Noun, filter: &ListFilter) -> Result<Vec<Shown>, LedgerError> {
        let filter = Arc::new(filter.clone());
        self.retried("list", move |store| list(store, noun, filter.clone())).await
    }

    async fn show(&self, noun: Noun, name: &str) -> Result<Option<Shown>, LedgerError> {
        let name: Arc<str> = name.into();
        self.retried("show", move |store| show(store, noun, name.clone())).await
    }

    async fn summary(&self) -> Result<Vec<SourceSummary>, LedgerError> {
        self.retried("summary", summary).await
    }
}

async fn list(store: Arc<Inner>, noun: Noun, filter: Arc<ListFilter>) -> Result<Vec<Shown>, DbError> {
    let mut tx = store.db.read().await?;
    let result = list_in(&mut tx, noun, &filter).await;
    ended(tx, result).await
}

async fn list_in(tx: &mut Tx, noun: Noun, filter: &ListFilter) -> Result<Vec<Shown>, DbError> {
    let table = table_of(noun);
    let columns = tx.schema().await?.get(table).cloned().unwrap_or_default();
    let mut conditions = Vec::new();
    let mut values = Vec::new();
    for (column, value) in restrictions(noun, filter) {
        if !columns.iter().any(|known| known == column) {
            return Err(LedgerError::Missing { what: format!("column {column} to restrict {table} by") }.into());
        }
        values.push(value);
        conditions.push(format!("{column} = ?"));
    }
    if let Some(before) = filter.before_id {
        values.push(before.into());
        conditions.push("id < ?".to_owned());
    }
    let limit = if filter.limit == 0 { LIMIT_DEFAULT } else { filter.limit.min(LIMIT_MAX) };
    values.push(limit.into());
    let shown: Vec<&str> = columns.iter().map(String::as_str).filter(|column| !BULKY.contains(column)).collect();
    let condition = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let text = format!("SELECT {} FROM {table} {condition} ORDER BY id DESC LIMIT ?", shown.join(", "));
    let rows = tx.rows_composed(table, &text, values).await?;
    Ok(rows.iter().map(shown_row).collect())
}

/// (column, value) of every given restriction.
fn restrictions(noun: Noun, filter: &ListFilter) -> Vec<(&'static str, Value)> {
    let own = |of: Noun, column: &'static str| if noun == of { "id" } else { column };
    let mut found = Vec::new();
    found.extend(filter.provenance.as_ref().map(|value| ("provenance_code", value.into())));
    found.extend(filter.status.as_ref().map(|value| ("status_code", value.into())));
    found.extend(filter.plan.map(|id| (own(Noun::Plan, "plan_id"), id.into())));
    found.extend(filter.slice.map(|id| (own(Noun::Slice, "slice_id"), id.into())));
    found.extend(filter.task.map(|id| (own(Noun::Task, "task_id"), id.into())));
    found.extend(filter.namespace.map(|hash| ("namespace_hash", hash.into())));
    found.extend(filter.run.map(|id| (own(Noun::Run, "run_id"), id.into())));
    found
}

async fn show(store: Arc<Inner>, noun: Noun, name: Arc<str>) -> Result<Option<Shown>, DbError> {
    let mut tx = store.db.read().await?;
    let result = show_in(&mut tx, noun, &name).await;
    ended(tx, result).await
}

async fn show_in(tx: &mut Tx, noun: Noun, name: &str) -> Result<Option<Shown>, DbError> {
    let table = table_of(noun);
    let mut found = if noun == Noun::Record { records_named(tx, name).await? } else { Vec::new() };
    if found.is_empty() {
        found = ids_beginning(tx, table, name).await?;
    }
    match found.as_slice() {
        [] => Ok(None),
        [id] => {
            let text = format!("SELECT * FROM {table} WHERE id = ?");
            let rows = tx.rows_composed(table, &text, vec![(*id).into()]).await?;
            Ok(rows.first().map(shown_row))
        }
        _ => Err(LedgerError::Missing { what: format!("single row that `{name}` names; it names several") }.into()),
    }
}

/// Records with this provider id, one lookup per source: there are few sources and many records.
pub(crate) async fn records_named(tx: &mut Tx, name: &str) -> Result<Vec<Id>, DbError> {
    let mut found = Vec::new();
    let (mut provenance, mut entity) = (String::new(), String::new());
    loop {
        let after = params! { provenance: &provenance, entity: &entity };
        let Some(source) = tx.row("ing_record", NEXT_SOURCE, after).await? else { return Ok(found) };
        (provenance, entity) = (source.string("provenance_code")?, source.string("endpoint_name")?);
        let asked = params! { provenance: &provenance, entity: &entity, name: name };
        for row in tx.rows("ing_record", RECORD_OF_SOURCE, asked).await? {
            found.push(row.id("id")?);
        }
    }
}

/// Up to two ids that begin with these digits; the id itself when it is written in full.
async fn ids_beginning(tx: &mut Tx, table: &'static str, digits: &str) -> Result<Vec<Id>, DbError> {
    let Ok(prefix) = digits.parse::<i64>() else { return Ok(Vec::new()) };
    let mut found: Vec<Id> = Vec::new();
    let (mut from, mut width) = (prefix, 1i64);
    loop {
        let to = from.saturating_add(width - 1);
        let text = format!("SELECT id FROM {table} WHERE id >= ? AND id <= ? LIMIT 2");
        for row in tx.rows_composed(table, &text, vec![from.into(), to.into()]).await? {
            found.push(row.id("id")?);
        }
        let exact = width == 1 && !found.is_empty();
        match (from.checked_mul(10), width.checked_mul(10)) {
            (Some(next), Some(wider)) if !exact && found.len() < 2 && prefix > 0 => (from, width) = (next, wider),
            _ => return Ok(found),
        }
    }
}

pub(crate) fn shown_row(row: &Row) -> Shown {
    row.names.iter().zip(&row.values).map(|(name, value)| (name.clone(), shown_value(name, value))).collect()
}

fn shown_value(name: &str, value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) if name == "id" || name.ends_with("_id") => number.to_string().into(),
        Value::Int(number) => (*number).into(),
        Value::Text(text) if JSON.contains(&name) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        // What could not be read is quoted in messages.
        Value::Text(text) if name == "message" => masked(text).into(),
        Value::Text(text) => text.clone().into(),
        Value::Shared(text) => text.to_string().into(),
        Value::Time(time) => time.to_string().into(),
        Value::Bytes(bytes) => shown_bytes(name, bytes),
    }
}

fn shown_bytes(name: &str, bytes: &[u8]) -> Json {
    match name {
        "payload" | "raw" => match std::str::from_utf8(bytes) {
            // A quarantined record is shown as a sample; `quarantine retry` reads it as it came.
            Ok(text) if name == "raw" => masked(text).into(),
            Ok(text) => text.into(),
            Err(_) => json!({ "bytes": bytes.len(), "hex": hex(bytes) }),
        },
        "run_uuid" => Uuid::from_slice(bytes).map_or_else(|_| hex(bytes).into(), |uuid| uuid.to_string().into()),
        "page_ids" => bytes.chunks(8).map(hex).collect::<Vec<_>>().into(),
        _ => hex(bytes).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn summary(store: Arc<Inner>) -> Result<Vec<SourceSummary>, DbError> {
    let mut tx = store.db.read().await?;
    let result = summary_in(&mut tx).await;
    ended(tx, result).await
}

async fn summary_in(tx: &mut Tx) -> Result<Vec<SourceSummary>, DbError> {
    let mut sources = Sources::default();
    for row in tx.rows("ing_record", RECORD_COUNT, params! {}).await? {
        sources.of(&row)?.records = row.count("found")?;
    }
    for row in tx.rows("ing_outbox", OUTBOX_COUNT, params! {}).await? {
        sources.of(&row)?.outbox_pending = row.count("found")?;
    }
    for row in tx.rows("ing_quarantine", QUARANTINE_COUNT, params! {}).await? {
        sources.of(&row)?.quarantined = row.count("found")?;
    }
    for row in tx.rows("ing_task", TASK_COUNT, params! {}).await? {
        sources.of(&row)?.tasks.insert(row.string("status_code")?, row.count("found")?);
    }
    for row in tx.rows("ing_cursor", WATERMARKS, params! {}).await? {
        sources.of(&row)?.watermark = row.opt_time("watermark")?;
    }
    for row in tx.rows("ing_source_control", CONTROLS, params! {}).await? {
        sources.of(&row)?.paused = Some(row.opt_text("reason")?.unwrap_or("paused").to_owned());
    }
    for row in tx.rows("ing_task_run", FAILED_RUNS, params! {}).await? {
        let error = row.opt_text("error")?.or(row.opt_text("reason")?).map(str::to_owned);
        sources.of(&row)?.last_error = error;
    }
    Ok(sources.0.into_values().collect())
}

#[derive(Default)]
struct Sources(BTreeMap<(String, String), SourceSummary>);

impl Sources {
    fn of(&mut self, row: &Row) -> Result<&mut SourceSummary, LedgerError> {
        let (provenance, endpoint) = (row.string("provenance_code")?, row.string("endpoint_name")?);
        let key = (provenance.clone(), endpoint.clone());
        Ok(self.0.entry(key).or_insert_with(|| SourceSummary { provenance, endpoint, ..SourceSummary::default() }))
    }
}
