//! The records of a page: read what is there, decide by the one rule of the core, write what changed.
//!
//! Rows are read under the write lock and compared in Rust, never by what an upsert says it touched (INV-15). Each
//! change gets its version number and exactly one outbox row.

use std::collections::HashMap;
use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::outbox::shard_of;
use patra_core::planted::{Defect, planted};
use patra_core::ports::{Counts, Lease};
use patra_core::record::{ChangeKind, DeclaredVersion, Merge, NewRecord, StoredRecord, VersionKey, event_id, merge};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::store::Inner;
use crate::value::{Row, Value, params};

pub(crate) const READ_RECORDS: &str = "-- record.read
    SELECT id, provider_id, version_no, effective_at, declared_version, fetched_at, content_hash, mapping_version,
        deleted
      FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
     {for_update}";
const INSERT_RECORDS: &str = "-- record.insert
    INSERT INTO ing_record (id, provenance_code, endpoint_name, provider_id, version_no, updated_at, effective_at,
        declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload,
        plan_id, task_id, run_id, batch_id, first_seen_at, changed_at, checked_at)
    VALUES {rows:23}";
/// The rows are there and held; the columns are those of [`INSERT_RECORDS`].
const WRITE_RECORDS: &str = "-- record.write
    INSERT INTO ing_record (id, provenance_code, endpoint_name, provider_id, version_no, updated_at, effective_at,
        declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload,
        plan_id, task_id, run_id, batch_id, first_seen_at, changed_at, checked_at)
    VALUES {rows:23}
    {upsert:provenance_code, endpoint_name, provider_id;version_no, updated_at, effective_at, declared_version, fetched_at, content_hash, mapping_version, mapping_hash, expr_hash, deleted, fields, payload, plan_id, task_id, run_id, batch_id, changed_at, checked_at}";
const WRITE_OUTBOX: &str = "-- outbox.insert
    INSERT INTO ing_outbox (id, record_id, version_no, event_id, provenance_code, endpoint_name, provider_id,
        change_code, updated_at, content_hash, fields, batch_id, status_code, created_at, shard_no)
    VALUES {rows:15}";
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
    pub now: Timestamp,
}

struct Known {
    id: Id,
    version_no: i64,
    stored: StoredRecord,
}

/// A record to be written, with its row id and new version number.
struct Change<'a> {
    id: Id,
    version_no: i64,
    record: &'a NewRecord,
}

/// Stores the greatest version of each record. `records` are sorted and without repetition.
pub(crate) async fn store_records(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    records: &[NewRecord],
) -> Result<Counts, DbError> {
    store.fail.hit("t1.read")?;
    let known = read_known(tx, owner, records).await?;
    let mut counts = Counts::default();
    let mut changes = Vec::with_capacity(records.len());
    let mut unchanged = Vec::new();
    for record in records {
        let known = known.get(record.provider_id.as_str());
        match (merge(known.map(|known| &known.stored), record), known) {
            (Merge::Insert, _) | (Merge::Update, None) => {
                counts.inserted += 1;
                changes.push(Change { id: store.ids.next(), version_no: 1, record });
            }
            (Merge::Update, Some(known)) => {
                counts.updated += 1;
                changes.push(Change { id: known.id, version_no: known.version_no + 1, record });
            }
            (Merge::Unchanged, Some(known)) => {
                counts.unchanged += 1;
                unchanged.push((known, record));
            }
            (Merge::Unchanged | Merge::Stale, _) => counts.stale += 1,
        }
    }
    store.fail.hit("t1.records")?;
    let (new, known): (Vec<&Change<'_>>, Vec<&Change<'_>>) = changes.iter().partition(|change| change.version_no == 1);
    // Two pages may bring the same new record at once: the second insert fails, and its page is tried again whole.
    write_records(tx, INSERT_RECORDS, owner, &new).await?;
    write_records(tx, WRITE_RECORDS, owner, &known).await?;
    raise_unchanged(tx, owner.now, &unchanged).await?;
    store.fail.hit("t1.outbox")?;
    write_outbox(tx, store, owner, &changes).await?;
    Ok(counts)
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

fn known_of(row: &Row) -> Result<Known, DbError> {
    let key = VersionKey {
        effective_at: row.opt_time("effective_at")?,
        version: row.opt_text("declared_version")?.map(DeclaredVersion::parse),
        fetched_at: row.time("fetched_at")?,
        content_hash: row.hash("content_hash")?,
        mapping_version: row.int("mapping_version")?,
    };
    let stored = StoredRecord { key, deleted: row.int("deleted")? != 0 };
    Ok(Known { id: row.id("id")?, version_no: row.int("version_no")?, stored })
}

async fn write_records(
    tx: &mut Tx,
    text: &'static str,
    owner: &PageOwner<'_>,
    changes: &[&Change<'_>],
) -> Result<(), DbError> {
    let mut rows: Vec<Value> = Vec::with_capacity(changes.len() * 23);
    for Change { id, version_no, record } in changes.iter().copied() {
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
            record.deleted.into(),
            record.fields.as_str().into(),
            (&record.payload).into(),
            owner.lease.plan.into(),
            owner.lease.task.into(),
            owner.lease.run.into(),
            owner.batch.into(),
            owner.now.into(),
            owner.now.into(),
            owner.now.into(),
        ]);
    }
    tx.execute_rows(text, 23, rows).await?;
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

fn change_id(store: &Inner, owner: &PageOwner<'_>, version_no: i64, record: &NewRecord) -> Hash32 {
    if planted(Defect::EventIdDrawn) {
        return Hash32::of(&store.ids.next().0.to_be_bytes());
    }
    event_id(&owner.provenance, &owner.entity, &record.provider_id, version_no, record)
}

async fn write_outbox(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    changes: &[Change<'_>],
) -> Result<(), DbError> {
    let pending: Arc<str> = "PENDING".into();
    let mut rows: Vec<Value> = Vec::with_capacity(changes.len() * 15);
    for Change { id, version_no, record } in changes {
        if *version_no > 1 && planted(Defect::EventLost) {
            continue;
        }
        rows.extend([
            store.ids.next().into(),
            (*id).into(),
            (*version_no).into(),
            change_id(store, owner, *version_no, record).into(),
            owner.provenance.clone().into(),
            owner.entity.clone().into(),
            record.provider_id.as_str().into(),
            ChangeKind::of(*version_no, record.deleted).code().into(),
            record.updated_at.into(),
            record.key.content_hash.into(),
            record.fields.as_str().into(),
            owner.batch.into(),
            pending.clone().into(),
            owner.now.into(),
            shard_of(&owner.provenance, &owner.entity, &record.provider_id).into(),
        ]);
    }
    tx.execute_rows(WRITE_OUTBOX, 15, rows).await?;
    Ok(())
}
