//! One snapshot of the ledger: every table the checks look at, as plain rows. Payloads are hashed as they pass by, so
//! memory does not hold them.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;

use crate::rows::{Columns, DumpError, FromColumns, load, load_in_pages};
use crate::time;

/// Rows with payloads read at a time.
const PAGE_ROWS: i64 = 2_000;

pub type Sha = [u8; 32];

pub fn sha256(bytes: &[u8]) -> Sha {
    Sha256::digest(bytes).into()
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $table:literal, $select:expr, { $($field:ident: $type:ty = $read:expr),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name { $(pub $field: $type),+ }

        impl FromColumns for $name {
            const TABLE: &'static str = $table;
            const SELECT: &'static str = $select;
            fn read(columns: &mut Columns<'_>) -> Result<Self, DumpError> {
                // Fields are evaluated in the order written, which is the order selected.
                Ok($name { $($field: ($read)(columns)?),+ })
            }
        }
    };
}

table! {
    Plan, "ing_plan",
    "SELECT id, provenance_code, operation_code, namespace_hash, live_key, window_from, window_to,
            open_slice_count, status_code, created_at, slice_params FROM ing_plan ORDER BY id",
    {
        id: i64 = Columns::int, provenance: String = Columns::text,
        operation: String = Columns::text, namespace: Vec<u8> = Columns::blob, live_key: Option<Vec<u8>> = Columns::blob_opt,
        from: i64 = Columns::time, to: i64 = Columns::time, open_slice_count: i64 = Columns::int,
        status: String = Columns::text, created_at: i64 = Columns::time, slice_params: String = Columns::text,
    }
}

table! {
    Slice, "ing_plan_slice",
    "SELECT id, plan_id, parent_slice_id, provenance_code, namespace_hash, window_from, window_to, part,
            read_at, status_code, stats, updated_at FROM ing_plan_slice ORDER BY id",
    {
        id: i64 = Columns::int, plan_id: i64 = Columns::int, parent: Option<i64> = Columns::int_opt,
        provenance: String = Columns::text, namespace: Vec<u8> = Columns::blob,
        from: i64 = Columns::time, to: i64 = Columns::time, part: Option<String> = Columns::text_opt,
        read_at: Option<i64> = Columns::time_opt, status: String = Columns::text, stats: Option<Counts> = counts,
        updated_at: i64 = Columns::time,
    }
}

table! {
    Task, "ing_task",
    "SELECT id, plan_id, slice_id, provenance_code, first_token, status_code, scheduled_at, lease_epoch
       FROM ing_task ORDER BY id",
    {
        id: i64 = Columns::int, plan_id: i64 = Columns::int, slice_id: i64 = Columns::int,
        provenance: String = Columns::text, first_token: String = Columns::text, status: String = Columns::text,
        scheduled_at: i64 = Columns::time, lease_epoch: i64 = Columns::int,
    }
}

table! {
    Run, "ing_task_run",
    "SELECT id, run_uuid, task_id, slice_id, plan_id, lease_epoch, provenance_code, status_code, stats, started_at
       FROM ing_task_run ORDER BY id",
    {
        id: i64 = Columns::int, uuid: Vec<u8> = Columns::blob, task_id: i64 = Columns::int, slice_id: i64 = Columns::int,
        plan_id: i64 = Columns::int, lease_epoch: i64 = Columns::int, provenance: String = Columns::text,
        status: String = Columns::text, stats: Option<Counts> = counts, started_at: i64 = Columns::time,
    }
}

table! {
    Batch, "ing_task_run_batch",
    "SELECT id, run_id, task_id, slice_id, plan_id, provenance_code, operation_code, lease_epoch, phase, pass_no, seq_no, before_token,
            after_token, record_count, asked_at, fetched_at, response_hash, stats, status_code, committed_at
       FROM ing_task_run_batch ORDER BY id",
    {
        id: i64 = Columns::int, run_id: i64 = Columns::int, task_id: i64 = Columns::int, slice_id: i64 = Columns::int,
        plan_id: i64 = Columns::int, provenance: String = Columns::text, operation: String = Columns::text, lease_epoch: i64 = Columns::int,
        phase: String = Columns::text, pass_no: i64 = Columns::int, seq_no: i64 = Columns::int,
        before_token: String = Columns::text, after_token: Option<String> = Columns::text_opt,
        record_count: i64 = Columns::int, asked_at: Option<i64> = Columns::time_opt,
        fetched_at: Option<i64> = Columns::time_opt, response_hash: Option<Vec<u8>> = Columns::blob_opt,
        stats: Option<Counts> = counts, status: String = Columns::text, committed_at: Option<i64> = Columns::time_opt,
    }
}

impl Batch {
    pub fn committed(&self) -> bool {
        self.status == "SUCCEEDED"
    }
}

table! {
    Cursor, "ing_cursor",
    "SELECT id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_hash,
            cursor_value, normalized_instant, finished_to, version FROM ing_cursor ORDER BY id",
    {
        id: i64 = Columns::int, provenance: String = Columns::text, endpoint: String = Columns::text,
        operation: String = Columns::text, key: String = Columns::text, scope: String = Columns::text, namespace: Vec<u8> = Columns::blob, value: String = Columns::text, instant: Option<i64> = Columns::time_opt,
        finished_to: Option<i64> = Columns::time_opt, version: i64 = Columns::int,
    }
}

table! {
    CursorEvent, "ing_cursor_event",
    "SELECT id, provenance_code, namespace_hash, event_no, cause_code, prev_value, new_value,
            prev_instant, new_instant, prev_numeric, new_numeric, idempotent_key, slice_id, created_at, record_remarks
       FROM ing_cursor_event ORDER BY namespace_hash, event_no, id",
    {
        id: i64 = Columns::int, provenance: String = Columns::text,
        namespace: Vec<u8> = Columns::blob, event_no: i64 = Columns::int, cause: String = Columns::text,
        prev_value: String = Columns::text, new_value: String = Columns::text,
        prev_instant: Option<i64> = Columns::time_opt, new_instant: Option<i64> = Columns::time_opt,
        prev_numeric: Option<i64> = Columns::int_opt, new_numeric: Option<i64> = Columns::int_opt,
        idempotent_key: Vec<u8> = Columns::blob, slice_id: Option<i64> = Columns::int_opt,
        created_at: i64 = Columns::time, remarks: Option<String> = Columns::text_opt,
    }
}

table! {
    Record, "ing_record",
    "SELECT id, provenance_code, endpoint_name, provider_id, version_no, fetched_at, content_hash, deleted, batch_id, gone_at,
            fields_hash, CASE WHEN fields_hash IS NULL THEN '' ELSE fields END, payload
       FROM ing_record WHERE id > ? ORDER BY id LIMIT ?",
    {
        id: i64 = Columns::int, provenance: String = Columns::text, entity: String = Columns::text,
        provider_id: String = Columns::text, version_no: i64 = Columns::int, fetched_at: i64 = Columns::time,
        content_hash: Vec<u8> = Columns::blob, deleted: i64 = Columns::int, batch_id: i64 = Columns::int,
        gone_at: Option<i64> = Columns::time_opt, fields_hash: Option<Vec<u8>> = Columns::blob_opt,
        fields: String = Columns::text,
        payload: Sha = |columns: &mut Columns<'_>| columns.with_blob(sha256),
    }
}

table! {
    Outbox, "ing_outbox",
    "SELECT id, record_id, version_no, event_id, provenance_code, endpoint_name, provider_id, change_code, updated_at,
            content_hash, batch_id FROM ing_outbox ORDER BY record_id, version_no, id",
    {
        id: i64 = Columns::int, record_id: i64 = Columns::int, version_no: i64 = Columns::int,
        event_id: Vec<u8> = Columns::blob, provenance: String = Columns::text, entity: String = Columns::text,
        provider_id: String = Columns::text, change: String = Columns::text, updated_at: Option<i64> = Columns::time_opt,
        content_hash: Vec<u8> = Columns::blob, batch_id: i64 = Columns::int,
    }
}

table! {
    Quarantine, "ing_quarantine",
    "SELECT id, provenance_code, provider_id, batch_id, status_code, raw FROM ing_quarantine WHERE id > ? ORDER BY id LIMIT ?",
    {
        id: i64 = Columns::int, provenance: String = Columns::text, provider_id: Option<String> = Columns::text_opt,
        batch_id: i64 = Columns::int, status: String = Columns::text, raw: Sha = |columns: &mut Columns<'_>| columns.with_blob(sha256),
    }
}

table! {
    MissingId, "ing_missing_id",
    "SELECT provenance_code, provider_id, batch_id, sightings, reason, first_asked_at, last_asked_at, status_code
       FROM ing_missing_id ORDER BY id",
    {
        provenance: String = Columns::text, provider_id: String = Columns::text, batch_id: i64 = Columns::int, sightings: i64 = Columns::int,
        reason: String = Columns::text, first_asked_at: i64 = Columns::time, last_asked_at: i64 = Columns::time,
        status: String = Columns::text,
    }
}

table! {
    Waiver, "ing_waiver",
    "SELECT namespace_hash, window_from, window_to, created_at FROM ing_waiver ORDER BY id",
    {
        namespace: Vec<u8> = Columns::blob, from: i64 = Columns::time, to: i64 = Columns::time,
        created_at: i64 = Columns::time,
    }
}

table! {
    /// A source that a person or the fuse has stopped.
    Stopped, "ing_source_control",
    "SELECT provenance_code FROM ing_source_control WHERE paused <> 0 OR fuse_blown <> 0 ORDER BY id",
    { provenance: String = Columns::text }
}

/// The counts of INV-19 as a `stats` column holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub fetched: u64,
    pub inserted: u64,
    pub updated: u64,
    pub unchanged: u64,
    pub stale: u64,
    pub duplicate: u64,
    pub quarantined: u64,
    pub filtered: u64,
    /// Of `filtered`, what the plan's query did not want.
    #[serde(rename = "filteredByQuery")]
    pub by_query: u64,
    /// Records that are gone because the page lacked them.
    pub tombstoned: u64,
}

impl Counts {
    pub fn parts(&self) -> [u64; 8] {
        let Counts { fetched, inserted, updated, unchanged, stale, duplicate, quarantined, filtered, .. } = *self;
        [fetched, inserted, updated, unchanged, stale, duplicate, quarantined, filtered]
    }

    pub fn add(&mut self, other: &Counts) {
        self.fetched += other.fetched;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.stale += other.stale;
        self.duplicate += other.duplicate;
        self.quarantined += other.quarantined;
        self.filtered += other.filtered;
        self.by_query += other.by_query;
        self.tombstoned += other.tombstoned;
    }
}

/// `None` when there are no statistics or they hold no counts.
fn counts(columns: &mut Columns<'_>) -> Result<Option<Counts>, DumpError> {
    let Some(text) = columns.text_opt()? else { return Ok(None) };
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return Ok(None) };
    let holder = if value.get("fetched").is_some() { Some(&value) } else { value.get("counts") };
    Ok(holder.and_then(|holder| Counts::deserialize(holder).ok()))
}

/// The whole ledger.
#[derive(Debug, Default)]
pub struct Dump {
    pub plans: Vec<Plan>,
    pub slices: Vec<Slice>,
    pub tasks: Vec<Task>,
    pub runs: Vec<Run>,
    pub batches: Vec<Batch>,
    pub cursors: Vec<Cursor>,
    pub cursor_events: Vec<CursorEvent>,
    pub records: Vec<Record>,
    pub outbox: Vec<Outbox>,
    pub quarantine: Vec<Quarantine>,
    pub missing_ids: Vec<MissingId>,
    pub waivers: Vec<Waiver>,
    pub stopped: Vec<Stopped>,
}

impl CursorEvent {
    fn summary(&self) -> Option<serde_json::Value> {
        let remarks: serde_json::Value = serde_json::from_str(self.remarks.as_deref()?).ok()?;
        remarks.get("summary").cloned()
    }

    /// The first event that this one stands for: its own number, unless older ones were thinned into it.
    pub fn first_no(&self) -> i64 {
        self.summary().and_then(|summary| summary.get("from")?.as_i64()).unwrap_or(self.event_no)
    }

    /// When the cursor had moved to where this event ends.
    pub fn told_at(&self) -> i64 {
        let last = |summary: serde_json::Value| time::instant(summary.get("last_created_at")?.as_str()?);
        self.summary().and_then(last).unwrap_or(self.created_at)
    }
}

impl Plan {
    /// The windows that a plan was restricted to, if it was: what it leaves out is owed to the next one.
    pub fn only(&self) -> Option<Vec<(i64, i64)>> {
        let params: serde_json::Value = serde_json::from_str(&self.slice_params).ok()?;
        let windows = params.get("only")?.as_array()?;
        let edge = |window: &serde_json::Value, key: &str| time::instant(window.get(key)?.as_str()?);
        windows.iter().map(|window| Some((edge(window, "from")?, edge(window, "to")?))).collect()
    }
}

impl Dump {
    pub async fn load(connection: &mut SqliteConnection) -> Result<Dump, DumpError> {
        Ok(Dump {
            plans: load(connection).await?,
            slices: load(connection).await?,
            tasks: load(connection).await?,
            runs: load(connection).await?,
            batches: load(connection).await?,
            cursors: load(connection).await?,
            cursor_events: load(connection).await?,
            records: load_in_pages(connection, PAGE_ROWS).await?,
            outbox: load(connection).await?,
            quarantine: load_in_pages(connection, PAGE_ROWS).await?,
            missing_ids: load(connection).await?,
            waivers: load(connection).await?,
            stopped: load(connection).await?,
        })
    }

    /// Rows by id.
    pub fn by_id<T>(rows: &[T], id: impl Fn(&T) -> i64) -> HashMap<i64, &T> {
        rows.iter().map(|row| (id(row), row)).collect()
    }

    /// Committed batches of each task, in the order of pass and page.
    pub fn chains(&self) -> BTreeMap<i64, Vec<&Batch>> {
        let mut chains: BTreeMap<i64, Vec<&Batch>> = BTreeMap::new();
        for batch in self.batches.iter().filter(|batch| batch.committed()) {
            chains.entry(batch.task_id).or_default().push(batch);
        }
        for chain in chains.values_mut() {
            chain.sort_by_key(|batch| (batch.pass_no, batch.seq_no, batch.id));
        }
        chains
    }
}
