//! Records in a stable order, a page at a time: by their keys, or by the moments of their changes. Every page is a short
//! snapshot of its own that begins after the last key, so nothing is held open and no page costs more than another.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::export::{Changes, Exported, Key, Place};
use patra_core::ports::{Export, LedgerError, Moment, Progress, Work};

use crate::db::Tx;
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::progress;
use crate::step::ended;
use crate::store::{Access, Inner, Store};
use crate::value::{Row, params};

const RECORDS_AT_ONCE: u32 = 500;
pub(crate) const SOURCE_AFTER: &str = "-- export.source
    SELECT provenance_code FROM ing_record WHERE provenance_code > :name ORDER BY provenance_code LIMIT 1";
pub(crate) const ENTITY_AFTER: &str = "-- export.entity
    SELECT endpoint_name FROM ing_record
     WHERE provenance_code = :provenance AND endpoint_name > :entity ORDER BY endpoint_name LIMIT 1";
pub(crate) const NAMED: &str = "-- export.named
    SELECT id, provenance_code, endpoint_name, provider_id, version_no, deleted, merged_into, updated_at, first_seen_at,
        changed_at, content_hash, fields_hash, batch_id, fields
      FROM ing_record
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND provider_id > :id
     ORDER BY provider_id {limit:most}";
pub(crate) const CHANGED: &str = "-- export.changed
    SELECT id, provenance_code, endpoint_name, provider_id, version_no, deleted, merged_into, updated_at, first_seen_at,
        changed_at, content_hash, fields_hash, batch_id, fields
      FROM ing_record
     WHERE provenance_code = :provenance AND changed_at >= :at AND changed_at < :end AND (changed_at > :at OR id > :row)
     ORDER BY changed_at, id {limit:most}";

#[async_trait]
impl Export for Store {
    async fn source_after(&self, name: &str) -> Result<Option<String>, LedgerError> {
        let name: Arc<str> = name.into();
        self.retried("source_after", move |store| source_after(store, name.clone())).await
    }

    async fn exported(&self, after: &Place, span: Option<Changes>) -> Result<Vec<Exported>, LedgerError> {
        let after = Arc::new(after.clone());
        self.retried("exported", move |store| exported(store, after.clone(), span)).await
    }

    async fn moment(&self) -> Result<Moment, LedgerError> {
        self.retried("moment", moment).await
    }

    async fn progress(&self, work: Work, name: &str) -> Result<Option<Progress>, LedgerError> {
        let name: Arc<str> = name.into();
        self.retried("progress", move |store| progress::read(store, work, name.clone())).await
    }

    async fn note_progress(&self, work: Work, name: &str, next: &Progress) -> Result<bool, LedgerError> {
        let (name, next, id): (Arc<str>, _, _) = (name.into(), Arc::new(next.clone()), self.ids().next());
        self.retried("note_progress", move |store| progress::note(store, work, name.clone(), next.clone(), id)).await
    }
}

async fn source_after(store: Arc<Inner>, name: Arc<str>) -> Result<Option<String>, DbError> {
    let mut tx = store.db.read().await?;
    let found = tx.row("ing_record", SOURCE_AFTER, params! { name: name }).await;
    let found = found.and_then(|row| Ok(row.map(|row| row.string("provenance_code")).transpose()?));
    ended(tx, found).await
}

async fn exported(store: Arc<Inner>, after: Arc<Place>, span: Option<Changes>) -> Result<Vec<Exported>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = match (&after.key, span) {
        (Key::Named { entity, id }, _) => named(&mut tx, &after.source, entity, id).await,
        (Key::Changed { at, row }, Some(span)) => {
            let asked = params! {
                provenance: &after.source, at: *at, end: span.to, row: *row, most: RECORDS_AT_ONCE
            };
            tx.rows("ing_record", CHANGED, asked).await
        }
        (Key::Changed { .. }, None) => Ok(Vec::new()),
    };
    let records = rows.and_then(|rows| rows.iter().map(|row| Ok(record_of(row)?)).collect());
    ended(tx, records).await
}

/// Entities follow each other; one that has no more records gives way to the next.
async fn named(tx: &mut Tx, source: &str, entity: &str, id: &str) -> Result<Vec<Row>, DbError> {
    let (mut entity, mut id) = (entity.to_owned(), id);
    loop {
        let asked = params! { provenance: source, entity: &entity, id: id, most: RECORDS_AT_ONCE };
        let rows = tx.rows("ing_record", NAMED, asked).await?;
        if !rows.is_empty() {
            return Ok(rows);
        }
        let asked = params! { provenance: source, entity: &entity };
        let Some(next) = tx.row("ing_record", ENTITY_AFTER, asked).await? else { return Ok(rows) };
        (entity, id) = (next.string("endpoint_name")?, "");
    }
}

fn record_of(row: &Row) -> Result<Exported, LedgerError> {
    Ok(Exported {
        row: row.id("id")?,
        source: row.string("provenance_code")?,
        entity: row.string("endpoint_name")?,
        id: row.string("provider_id")?,
        version: row.int("version_no")?,
        deleted: row.int("deleted")? != 0,
        merged_into: row.opt_text("merged_into")?.map(str::to_owned),
        updated_at: row.opt_time("updated_at")?,
        first_seen_at: row.time("first_seen_at")?,
        changed_at: row.time("changed_at")?,
        content_hash: row.opt_hash("fields_hash")?.map_or_else(|| row.hash("content_hash"), Ok)?,
        batch: row.id("batch_id")?,
        fields: row.string("fields")?,
    })
}

/// A row is dated when its transaction begins. On SQLite nobody else writes while we hold the lock, so whatever was dated
/// before is visible; a server has no such moment.
async fn moment(store: Arc<Inner>) -> Result<Moment, DbError> {
    let settled = store.db.dialect() == Dialect::Sqlite && store.db.access() == Access::Write;
    let tx = if settled { store.db.write().await? } else { store.db.read().await? };
    let now = tx.now();
    tx.rollback().await;
    Ok(Moment { now, settled })
}
