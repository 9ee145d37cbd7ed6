//! Digests of ledger rows: every column but those that go on changing after a slice has ended, in the order of their ids,
//! each value with its name, so that no two different rows give one text. A time counts as its text, whatever the
//! database keeps it as.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use patra_core::hash::{Digesting, Hash32};
use patra_core::id::Id;
use patra_core::ports::{DigestAsk, LedgerError};
use patra_core::proof::{Columns, Digests};

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, Value};

const SLICE: &str = "ing_plan_slice";
const PLAN: &str = "ing_plan";
const TASK: &str = "ing_task";
const RUN: &str = "ing_task_run";
const BATCH: &str = "ing_task_run_batch";
const QUARANTINE: &str = "ing_quarantine";
const MISSING: &str = "ing_missing_id";
const WAIVER: &str = "ing_waiver";

/// (table, columns that change after the slices of a certificate have ended).
const BASIS: [(&str, &[&str]); 8] = [
    (SLICE, &[]),
    (PLAN, &["live_key", "status_code", "open_slice_count", "record_remarks", "updated_at"]),
    (TASK, &[]),
    (RUN, &[]),
    (BATCH, &[]),
    (QUARANTINE, &[]),
    (MISSING, &["sightings", "reason", "last_asked_at", "next_try_at"]),
    (WAIVER, &[]),
];

pub(crate) async fn columns(store: Arc<Inner>) -> Result<Columns, DbError> {
    let mut tx = store.db.read().await?;
    let schema = tx.schema().await;
    let columns = schema.map(|schema| {
        let of = |table: &str, left_out: &[&str]| {
            let known = schema.get(table).cloned().unwrap_or_default();
            known.into_iter().filter(|column| !left_out.contains(&column.as_str())).collect()
        };
        BASIS.iter().map(|(table, left_out)| ((*table).to_owned(), of(table, left_out))).collect()
    });
    ended(tx, columns).await
}

pub(crate) async fn read(store: Arc<Inner>, ask: Arc<DigestAsk>) -> Result<Digests, DbError> {
    let mut tx = store.db.read().await?;
    let result = read_in(&mut tx, &ask).await;
    ended(tx, result).await
}

async fn read_in(tx: &mut Tx, ask: &DigestAsk) -> Result<Digests, DbError> {
    let mut reader = Reader { lists: lists(tx, &ask.columns).await?, missing: HashMap::new() };
    reader.find_missing(tx, ask).await?;
    let mut digests = Digests::default();
    for slice in &ask.slices {
        if let Some(digest) = reader.slice(tx, *slice).await? {
            digests.slices.insert(*slice, digest);
        }
    }
    for waiver in &ask.waivers {
        let rows = reader.rows(tx, WAIVER, "id = ?", *waiver).await?;
        if !rows.is_empty() {
            digests.waivers.insert(*waiver, of_rows(&rows));
        }
    }
    Ok(digests)
}

/// The columns as a list for SELECT. They come with a certificate, so only names that the schema has are taken.
async fn lists(tx: &mut Tx, columns: &Columns) -> Result<BTreeMap<&'static str, String>, DbError> {
    let schema = tx.schema().await?;
    let mut lists = BTreeMap::new();
    for (table, _) in BASIS {
        let wanted = columns.get(table).map(Vec::as_slice).unwrap_or_default();
        let known = schema.get(table).map(Vec::as_slice).unwrap_or_default();
        if let Some(unknown) = wanted.iter().find(|column| !known.contains(column)) {
            return Err(LedgerError::Missing { what: format!("column {unknown} of {table}") }.into());
        }
        if wanted.is_empty() {
            return Err(LedgerError::Missing { what: format!("list of the columns of {table}") }.into());
        }
        lists.insert(table, wanted.join(", "));
    }
    Ok(lists)
}

struct Reader {
    lists: BTreeMap<&'static str, String>,
    /// Missing ids by the slice whose page listed them.
    missing: HashMap<Id, Vec<Row>>,
}

impl Reader {
    async fn rows(
        &self,
        tx: &mut Tx,
        table: &'static str,
        condition: &str,
        key: impl Into<Value>,
    ) -> Result<Vec<Row>, DbError> {
        let text = format!("SELECT {} FROM {table} WHERE {condition} ORDER BY id", self.lists[table]);
        tx.rows_composed(table, &text, vec![key.into()]).await
    }

    /// Few ids are ever missing, and they have no index by page: all of a source are read at once.
    async fn find_missing(&mut self, tx: &mut Tx, ask: &DigestAsk) -> Result<(), DbError> {
        let columns: Vec<String> = self.lists[MISSING].split(", ").map(|column| format!("m.{column}")).collect();
        let text = format!(
            "SELECT b.slice_id AS of_slice, {} FROM {MISSING} m JOIN {BATCH} b ON b.id = m.batch_id
              WHERE m.provenance_code = ? AND m.endpoint_name = ? ORDER BY m.id",
            columns.join(", ")
        );
        let asked = vec![Value::from(&ask.provenance), Value::from(&ask.entity)];
        for row in tx.rows_composed(MISSING, &text, asked).await? {
            self.missing.entry(row.id("of_slice")?).or_default().push(row);
        }
        Ok(())
    }

    /// A slice with everything below it; `None` when it is gone.
    async fn slice(&self, tx: &mut Tx, slice: Id) -> Result<Option<Hash32>, DbError> {
        let mut all = self.rows(tx, SLICE, "id = ?", slice).await?;
        let Some(own) = all.first() else { return Ok(None) };
        let plan = own.id("plan_id")?;
        all.extend(self.rows(tx, PLAN, "id = ?", plan).await?);
        let tasks = self.rows(tx, TASK, "slice_id = ?", slice).await?;
        for task in &tasks {
            let task = task.id("id")?;
            all.extend(self.rows(tx, RUN, "task_id = ?", task).await?);
            all.extend(self.rows(tx, BATCH, "task_id = ?", task).await?);
            let pages = format!("batch_id IN (SELECT id FROM {BATCH} WHERE task_id = ?)");
            all.extend(self.rows(tx, QUARANTINE, &pages, task).await?);
        }
        all.extend(tasks);
        all.extend(self.missing.get(&slice).cloned().unwrap_or_default());
        Ok(Some(of_rows(&all)))
    }
}

fn of_rows(rows: &[Row]) -> Hash32 {
    let mut digest = Digesting::default();
    for row in rows {
        digest.put(b't', row.table.as_bytes());
        for (name, value) in row.names.iter().zip(&row.values) {
            digest.put(b'c', name.as_bytes());
            put(&mut digest, value);
        }
    }
    digest.end()
}

fn put(digest: &mut Digesting, value: &Value) {
    match value {
        Value::Null => digest.put(b'0', &[]),
        Value::Int(number) => digest.put(b'i', &number.to_be_bytes()),
        Value::Text(text) => digest.put(b's', text.as_bytes()),
        Value::Shared(text) => digest.put(b's', text.as_bytes()),
        Value::Bytes(bytes) => digest.put(b'b', bytes),
        Value::Time(time) => digest.put(b's', time.to_string().as_bytes()),
    }
}
