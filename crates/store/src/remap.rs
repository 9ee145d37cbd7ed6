//! A kept page derived anew: fields of stored records, their events and the progress of the remap, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::id::Id;
use patra_core::ports::{Lease, LedgerError, Progress, Remap, RemapPage, Work};
use patra_core::record::{DeclaredVersion, Merge, NewRecord, merge};
use patra_core::refit::{Policy, fields_hash, refit};
use patra_core::remap::{Position, RemapCounts, derived_key};
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;
use uuid::Uuid;

use crate::db::Tx;
use crate::error::DbError;
use crate::plan;
use crate::progress;
use crate::records::{PageOwner, known_of, store_records};
use crate::refit::FITS;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::told::{Told, tell};
use crate::value::{Row, Value, params};

pub(crate) const PAGE: &str = "-- remap.page
    SELECT id, plan_id, slice_id, task_id, run_id, provenance_code, expr_hash FROM ing_task_run_batch WHERE id = :id";
pub(crate) const STORED: &str = "-- remap.stored
    SELECT id, provider_id, version_no, effective_at, declared_version, fetched_at, content_hash, mapping_version,
        mapping_hash, deleted, gone_at, updated_at, merged_into, fields_hash, fields, payload, plan_id
      FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
     {for_update}";
pub(crate) const DERIVE: &str = "-- remap.derive
    UPDATE ing_record SET fields = :fields, fields_hash = :fields_hash, version_no = :version_no,
        mapping_hash = :mapping_hash, content_hash = :content_hash, updated_at = :updated_at,
        effective_at = :effective_at, declared_version = :declared_version, fetched_at = :fetched_at,
        deleted = :deleted, merged_into = :merged_into, changed_at = :now
     WHERE id = :id";

#[async_trait]
impl Remap for Store {
    async fn remap_page(&self, page: RemapPage) -> Result<Option<Position>, LedgerError> {
        let (page, id) = (Arc::new(page), self.ids().next());
        self.retried("remap_page", move |store| remap(store, page.clone(), id)).await
    }
}

async fn remap(store: Arc<Inner>, page: Arc<RemapPage>, id: Id) -> Result<Option<Position>, DbError> {
    let mut tx = store.db.write().await?;
    let result = remap_in(&mut tx, &store, &page, id).await;
    ended(tx, result).await
}

async fn remap_in(tx: &mut Tx, store: &Inner, page: &RemapPage, id: Id) -> Result<Option<Position>, DbError> {
    // The row is the fence: it is held until the commit, and whoever does not follow on it writes nothing.
    match standing(tx, page).await? {
        Standing::Follows => {}
        Standing::Done(position) => return Ok(Some(position)),
        Standing::Passed => return Ok(None),
    }
    let mut counts = page.counts;
    if !page.records.is_empty() {
        counts.add(derive(tx, store, page).await?);
    }
    let position = page.position.clone().past(page.batch, counts);
    let text = serde_json::to_string(&position).map_err(|error| LedgerError::Missing { what: error.to_string() })?;
    let next = Progress { fingerprint: page.fingerprint, position: text, step_no: page.step_no };
    match progress::note_in(tx, Work::Remap, &page.source, &next, id).await? {
        true => Ok(Some(position)),
        // The row is held, so this cannot be; were it, nothing may be committed.
        false => Err(LedgerError::Missing { what: format!("progress of the remap of {}", page.source) }.into()),
    }
}

/// Where a step stands to what is noted.
enum Standing {
    Follows,
    /// A try of which nobody knew has committed this very step.
    Done(Position),
    /// Somebody else has gone on.
    Passed,
}

async fn standing(tx: &mut Tx, page: &RemapPage) -> Result<Standing, DbError> {
    let asked = params! { kind: Work::Remap.code(), name: &page.source };
    let Some(row) = tx.row("ing_progress", progress::READ, asked).await? else {
        return Ok(if page.step_no == 1 { Standing::Follows } else { Standing::Passed });
    };
    let noted = row.int("step_no")?;
    if noted + 1 == page.step_no {
        return Ok(Standing::Follows);
    }
    let position: Position = row.json("position")?;
    let same = noted == page.step_no && row.hash("fingerprint")? == page.fingerprint;
    Ok(if same && position.after == page.batch { Standing::Done(position) } else { Standing::Passed })
}

async fn derive(tx: &mut Tx, store: &Inner, page: &RemapPage) -> Result<RemapCounts, DbError> {
    let row = tx.row("ing_task_run_batch", PAGE, params! { id: page.batch }).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("page {}", page.batch) })?;
    let lease = lineage(&row, tx.now())?;
    let owner = PageOwner {
        lease: &lease,
        batch: page.batch,
        provenance: row.text("provenance_code")?.into(),
        entity: page.entity.as_str().into(),
        expr_hash: row.text("expr_hash")?.into(),
        mapping_hash: page.mapping_hash,
        operation: Operation::Harvest,
        policy: Policy::Newest,
        now: tx.now(),
    };
    let known = stored(tx, &owner, &page.records).await?;
    let mut sorted = Sorted::default();
    for record in &page.records {
        sorted.take(tx, store, &owner, page, known.get(&record.provider_id), record).await?;
    }
    let told: Vec<Told<'_>> = sorted.derived.iter().map(Derived::told).collect();
    for derived in &sorted.derived {
        tx.execute(DERIVE, derived.params(&owner)).await?;
    }
    tell(tx, store, &owner, &told).await?;
    tx.execute_list(FITS, params! { mapping_hash: owner.mapping_hash, now: owner.now }, &sorted.fits).await?;
    let merged = store_records(tx, store, &owner, &sorted.merged).await?.counts;
    let changed = sorted.derived.len() as u64 + merged.updated;
    let same = page.records.len() as u64 - changed - merged.inserted;
    Ok(RemapCounts { changed, inserted: merged.inserted, same, ..RemapCounts::default() })
}

/// The run that met the page; nothing is written in its name but where a record came from.
pub(crate) fn lineage(row: &Row, now: Timestamp) -> Result<Lease, LedgerError> {
    Ok(Lease {
        task: row.id("task_id")?,
        epoch: 0,
        run_uuid: Uuid::nil(),
        run: row.id("run_id")?,
        slice: row.id("slice_id")?,
        plan: row.id("plan_id")?,
        expires_at: now,
    })
}

async fn stored(tx: &mut Tx, owner: &PageOwner<'_>, records: &[NewRecord]) -> Result<HashMap<String, Row>, DbError> {
    let keys: Vec<Value> = records.iter().map(|record| record.provider_id.as_str().into()).collect();
    let asked = params! { provenance: owner.provenance.clone(), entity: owner.entity.clone() };
    let rows = tx.rows_listed("ing_record", STORED, asked, &keys).await?;
    rows.into_iter().map(|row| Ok((row.string("provider_id")?, row))).collect()
}

/// The records of a page by what is to be done with them.
#[derive(Default)]
struct Sorted<'a> {
    derived: Vec<Derived<'a>>,
    /// Looked at under this mapping, and the same.
    fits: Vec<Value>,
    /// New ones, and versions that win now.
    merged: Vec<NewRecord>,
}

impl<'a> Sorted<'a> {
    async fn take(
        &mut self,
        tx: &mut Tx,
        store: &Inner,
        owner: &PageOwner<'_>,
        page: &RemapPage,
        row: Option<&'a Row>,
        record: &'a NewRecord,
    ) -> Result<(), DbError> {
        let Some(row) = row else {
            self.merged.push(record.clone());
            return Ok(());
        };
        let mapped = row.hash("mapping_hash")? == owner.mapping_hash;
        if row.bytes("payload")? != record.payload.as_ref() {
            let wins = matches!(merge(Some(&known_of(row)?.stored), record), Merge::Update | Merge::UpdateGone);
            if wins && (mapped || page.position.second) {
                self.merged.push(record.clone());
            }
            return Ok(());
        }
        let derived = Derived::of(row, record, fields_of(tx, store, row, record).await?)?;
        match derived.differs()? {
            true => self.derived.push(derived),
            false if !mapped => self.fits.push(row.id("id")?.into()),
            false => {}
        }
        Ok(())
    }
}

/// What was filled in from another page than that of the content stays filled in.
async fn fields_of(tx: &mut Tx, store: &Inner, row: &Row, record: &NewRecord) -> Result<String, DbError> {
    let filled =
        row.opt_hash("fields_hash")?.is_some() && plan::cached_in(tx, store, row.id("plan_id")?).await?.spec.fill_only;
    let more = filled.then(|| refit(Policy::FillOnly, &record.fields, row.text("fields").unwrap_or("{}"))).flatten();
    Ok(more.unwrap_or_else(|| record.fields.clone()))
}

/// A stored record as the other mapping makes it.
struct Derived<'a> {
    row: &'a Row,
    record: &'a NewRecord,
    id: Id,
    version_no: i64,
    fields: String,
    deleted: bool,
    key: patra_core::record::VersionKey,
}

impl<'a> Derived<'a> {
    fn of(row: &'a Row, record: &'a NewRecord, fields: String) -> Result<Derived<'a>, DbError> {
        let known = known_of(row)?.stored;
        Ok(Derived {
            row,
            record,
            id: row.id("id")?,
            version_no: row.int("version_no")? + 1,
            fields,
            deleted: record.deleted || known.gone_at.is_some(),
            key: derived_key(&known.key, row.opt_time("updated_at")?, record),
        })
    }

    /// Something that is told of it changes.
    fn differs(&self) -> Result<bool, DbError> {
        let row = self.row;
        let same = row.text("fields")? == self.fields
            && row.opt_time("updated_at")? == self.record.updated_at
            && (row.int("deleted")? != 0) == self.deleted
            && row.hash("content_hash")? == self.key.content_hash
            && row.opt_text("merged_into")? == self.merged_into()?;
        Ok(!same)
    }

    /// What was seen to stand in the place of a record that is gone is no matter of its mapping.
    fn merged_into(&self) -> Result<Option<&str>, LedgerError> {
        match self.row.opt_time("gone_at")? {
            Some(_) => self.row.opt_text("merged_into"),
            None => Ok(self.record.merged_into.as_deref()),
        }
    }

    fn hash(&self) -> patra_core::hash::Hash32 {
        fields_hash(self.key.content_hash, &self.fields)
    }

    fn params(&self, owner: &PageOwner<'_>) -> crate::db::Params {
        params! {
            fields: &self.fields,
            fields_hash: self.hash(),
            version_no: self.version_no,
            mapping_hash: owner.mapping_hash,
            content_hash: self.key.content_hash,
            updated_at: self.record.updated_at,
            effective_at: self.key.effective_at,
            declared_version: self.key.version.as_ref().map(DeclaredVersion::to_string),
            fetched_at: self.key.fetched_at,
            deleted: self.deleted,
            merged_into: self.merged_into().ok().flatten(),
            now: owner.now,
            id: self.id,
        }
    }

    fn told(&self) -> Told<'_> {
        Told {
            record: self.id,
            version_no: self.version_no,
            provider_id: &self.record.provider_id,
            deleted: self.deleted,
            updated_at: self.record.updated_at,
            content_hash: self.hash(),
            fields: &self.fields,
            merged_into: self.merged_into().ok().flatten(),
        }
    }
}
