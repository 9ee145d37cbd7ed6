//! The records of a page: read what is there, decide by the one rule of the core, write what changed.
//!
//! Rows are read under the write lock and compared in Rust, never by what an upsert says it touched (INV-15). Each
//! change gets its version number and exactly one outbox row (`told.rs`). What keeps the content and changes the deletion
//! mark or the fields is in `mark.rs` and `refit.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{Counts, Lease};
use patra_core::record::{DeclaredVersion, Merge, NewRecord, StoredRecord, VersionKey, decide};
use patra_core::refit::Policy;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::mark::{Mark, Marking, mark};
use crate::refit::refit_records;
use crate::store::Inner;
use crate::told::{Told, tell};
use crate::value::{Row, Value, params};

pub(crate) const READ_RECORDS: &str = "-- record.read
    SELECT id, provider_id, version_no, effective_at, declared_version, fetched_at, content_hash, mapping_version,
        mapping_hash, deleted, gone_at
      FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
     {for_update}";
const INSERT_RECORDS: &str = "-- record.insert
    INSERT INTO ing_record (id, provenance_code, endpoint_name, provider_id, version_no, updated_at, effective_at,
        declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload,
        plan_id, task_id, run_id, batch_id, first_seen_at, changed_at, checked_at, gone_at, merged_into, fields_hash)
    VALUES {rows:26}";
/// The rows are there and held; the columns are those of [`INSERT_RECORDS`].
const WRITE_RECORDS: &str = "-- record.write
    INSERT INTO ing_record (id, provenance_code, endpoint_name, provider_id, version_no, updated_at, effective_at,
        declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload,
        plan_id, task_id, run_id, batch_id, first_seen_at, changed_at, checked_at, gone_at, merged_into, fields_hash)
    VALUES {rows:26}
    {upsert:provenance_code, endpoint_name, provider_id;version_no, updated_at, effective_at, declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload, plan_id, task_id, run_id, batch_id, changed_at, checked_at, gone_at, merged_into, fields_hash}";
const COLUMNS: usize = 26;
pub(crate) const CHECK_RECORDS: &str = "-- record.check
    UPDATE ing_record SET checked_at = :now WHERE id IN ({list})";
pub(crate) const RAISE_FETCHED: &str = "-- record.raise_fetched
    UPDATE ing_record SET fetched_at = :fetched_at, mapping_version = :mapping_version, checked_at = :now
     WHERE id IN ({list})";
pub(crate) const RAISE_KEY: &str = "-- record.raise_key
    UPDATE ing_record SET effective_at = :effective_at, declared_version = :version, fetched_at = :fetched_at,
        mapping_version = :mapping_version, checked_at = :now
     WHERE id = :id";

/// Where the records of a page belong.
pub(crate) struct PageOwner<'a> {
    pub lease: &'a Lease,
    pub batch: Id,
    pub provenance: Arc<str>,
    pub entity: Arc<str>,
    pub expr_hash: Arc<str>,
    pub mapping_hash: Hash32,
    pub operation: Operation,
    pub policy: Policy,
    pub now: Timestamp,
}

pub(crate) struct Known {
    id: Id,
    version_no: i64,
    mapping_hash: Hash32,
    pub stored: StoredRecord,
}

/// A record to be written, with its row id and new version number.
struct Change<'a> {
    id: Id,
    version_no: i64,
    record: &'a NewRecord,
    /// The record stays gone.
    gone_at: Option<Timestamp>,
}

impl Change<'_> {
    fn deleted(&self) -> bool {
        self.record.deleted || self.gone_at.is_some()
    }
}

/// What became of the records of a page.
#[derive(Default)]
pub(crate) struct Kept<'a> {
    pub counts: Counts,
    /// Stored as new versions.
    pub changed: Vec<&'a NewRecord>,
}

/// Keeps of each record what the policy says. `records` are sorted and without repetition.
pub(crate) async fn store_records<'a>(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    records: &'a [NewRecord],
) -> Result<Kept<'a>, DbError> {
    store.fail.hit("t1.read")?;
    let known = read_known(tx, owner, records).await?;
    let mut sorted = Sorted::default();
    for record in records {
        sorted.take(store, owner, known.get(record.provider_id.as_str()), record);
    }
    store.fail.hit("t1.records")?;
    let changes = &sorted.changes;
    let (new, old): (Vec<&Change<'_>>, Vec<&Change<'_>>) = changes.iter().partition(|change| change.version_no == 1);
    // Two pages may bring the same new record at once: the second insert fails, and its page is tried again whole.
    write_records(tx, INSERT_RECORDS, owner, &new).await?;
    write_records(tx, WRITE_RECORDS, owner, &old).await?;
    raise_unchanged(tx, owner.now, &sorted.unchanged).await?;
    store.fail.hit("t1.outbox")?;
    let told: Vec<Told<'_>> = changes.iter().map(told_of).collect();
    tell(tx, store, owner, &told).await?;
    let mut counts = sorted.counts;
    let marked = mark(tx, store, owner, &sorted.marks).await?;
    counts.updated += marked;
    counts.unchanged += sorted.marks.len() as u64 - marked;
    let refitted = refit_records(tx, store, owner, &sorted.refit).await?;
    counts.updated += refitted;
    counts.unchanged += sorted.refit.len() as u64 - refitted;
    Ok(Kept { counts, changed: sorted.changes.iter().map(|change| change.record).collect() })
}

/// The records of a page by what is to be done with them.
#[derive(Default)]
struct Sorted<'k, 'a> {
    counts: Counts,
    changes: Vec<Change<'a>>,
    unchanged: Vec<(&'k Known, &'a NewRecord)>,
    marks: Vec<Mark<'a>>,
    refit: Vec<&'a NewRecord>,
}

impl<'k, 'a> Sorted<'k, 'a> {
    fn take(&mut self, store: &Inner, owner: &PageOwner<'_>, known: Option<&'k Known>, record: &'a NewRecord) {
        let remapped = known.is_some_and(|known| known.mapping_hash != owner.mapping_hash);
        let merge = decide(owner.policy, known.map(|known| &known.stored), record, remapped);
        let Some(known) = known else {
            self.counts.inserted += 1;
            self.changes.push(Change { id: store.ids.next(), version_no: 1, record, gone_at: None });
            return;
        };
        let name = record.provider_id.as_str();
        match merge {
            Merge::Insert | Merge::Update | Merge::UpdateGone => {
                let gone_at = known.stored.gone_at.filter(|_| merge == Merge::UpdateGone);
                self.counts.updated += 1;
                self.changes.push(Change { id: known.id, version_no: known.version_no + 1, record, gone_at });
            }
            Merge::Unchanged => {
                self.counts.unchanged += 1;
                self.unchanged.push((known, record));
            }
            Merge::Stale => self.counts.stale += 1,
            Merge::Revive => self.marks.push(Mark { provider_id: name, what: Marking::Alive }),
            Merge::Bury => {
                let what = Marking::Gone { at: record.key.fetched_at, into: record.merged_into.as_deref() };
                self.marks.push(Mark { provider_id: name, what });
            }
            Merge::Refit => self.refit.push(record),
        }
    }
}

fn told_of<'a>(change: &'a Change<'a>) -> Told<'a> {
    Told {
        record: change.id,
        version_no: change.version_no,
        provider_id: &change.record.provider_id,
        deleted: change.deleted(),
        updated_at: change.record.updated_at,
        content_hash: change.record.key.content_hash,
        fields: &change.record.fields,
        merged_into: change.record.merged_into.as_deref(),
    }
}

async fn read_known(
    tx: &mut Tx,
    owner: &PageOwner<'_>,
    records: &[NewRecord],
) -> Result<HashMap<String, Known>, DbError> {
    let keys: Vec<Value> = records.iter().map(|record| record.provider_id.as_str().into()).collect();
    let asked = params! { provenance: owner.provenance.clone(), entity: owner.entity.clone() };
    let rows = tx.rows_listed("ing_record", READ_RECORDS, asked, &keys).await?;
    let mut known = HashMap::with_capacity(rows.len());
    for row in rows {
        known.insert(row.string("provider_id")?, known_of(&row)?);
    }
    Ok(known)
}

pub(crate) fn known_of(row: &Row) -> Result<Known, DbError> {
    let key = VersionKey {
        effective_at: row.opt_time("effective_at")?,
        version: row.opt_text("declared_version")?.map(DeclaredVersion::parse),
        fetched_at: row.time("fetched_at")?,
        content_hash: row.hash("content_hash")?,
        mapping_version: row.int("mapping_version")?,
    };
    let deleted = row.int("deleted")? != 0;
    // The release before brings a record back without clearing when it was gone.
    let stored = StoredRecord { key, deleted, gone_at: row.opt_time("gone_at")?.filter(|_| deleted) };
    Ok(Known { id: row.id("id")?, version_no: row.int("version_no")?, mapping_hash: row.hash("mapping_hash")?, stored })
}

async fn write_records(
    tx: &mut Tx,
    text: &'static str,
    owner: &PageOwner<'_>,
    changes: &[&Change<'_>],
) -> Result<(), DbError> {
    let mut rows: Vec<Value> = Vec::with_capacity(changes.len() * COLUMNS);
    for change in changes.iter().copied() {
        let Change { id, version_no, record, gone_at } = change;
        let key = &record.key;
        rows.extend([
            (*id).into(),
            owner.provenance.clone().into(),
            owner.entity.clone().into(),
            record.provider_id.as_str().into(),
            (*version_no).into(),
            record.updated_at.into(),
            key.effective_at.into(),
            key.version.as_ref().map(DeclaredVersion::to_string).into(),
            key.fetched_at.into(),
            key.content_hash.into(),
            key.mapping_version.into(),
            owner.mapping_hash.into(),
            owner.expr_hash.clone().into(),
            change.deleted().into(),
            record.fields.as_str().into(),
            (&record.payload).into(),
            owner.lease.plan.into(),
            owner.lease.task.into(),
            owner.lease.run.into(),
            owner.batch.into(),
            owner.now.into(),
            owner.now.into(),
            owner.now.into(),
            (*gone_at).into(),
            record.merged_into.as_deref().into(),
            Value::Null,
        ]);
    }
    tx.execute_rows(text, COLUMNS, rows).await?;
    Ok(())
}

/// The same content seen again: the check is dated and the version key rises to the greater of the two. Most rows of
/// a page differ only in their fetch time and are raised together.
async fn raise_unchanged(tx: &mut Tx, now: Timestamp, unchanged: &[(&Known, &NewRecord)]) -> Result<(), DbError> {
    let mut checked: Vec<Value> = Vec::new();
    let mut fetched: HashMap<(Timestamp, i64), Vec<Value>> = HashMap::new();
    for (known, record) in unchanged {
        let (stored, incoming) = (&known.stored.key, &record.key);
        if incoming <= stored {
            checked.push(known.id.into());
        } else if (&stored.effective_at, &stored.version) == (&incoming.effective_at, &incoming.version) {
            fetched.entry((incoming.fetched_at, incoming.mapping_version)).or_default().push(known.id.into());
        } else {
            let raised = params! {
                id: known.id,
                effective_at: incoming.effective_at,
                version: incoming.version.as_ref().map(DeclaredVersion::to_string),
                fetched_at: incoming.fetched_at,
                mapping_version: incoming.mapping_version,
                now: now,
            };
            tx.execute(RAISE_KEY, raised).await?;
        }
    }
    tx.execute_list(CHECK_RECORDS, params! { now: now }, &checked).await?;
    for ((fetched_at, mapping_version), ids) in fetched {
        let raised = params! { fetched_at: fetched_at, mapping_version: mapping_version, now: now };
        tx.execute_list(RAISE_FETCHED, raised, &ids).await?;
    }
    Ok(())
}
