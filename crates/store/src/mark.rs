//! The deletion mark of a record that keeps its content: its source has it no more, or has it again.
//!
//! A mark is a version of its own with one event, in the transaction of the answer that showed it (INV-15). The record
//! keeps when that answer was fetched: what was fetched before cannot bring it back, what is fetched later does.

use std::collections::HashMap;

use patra_core::id::Id;
use patra_core::record::{Miss, miss};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::records::{PageOwner, known_of};
use crate::store::Inner;
use crate::told::{Told, tell};
use crate::value::{Row, Value, params};

pub(crate) const READ_WHOLE: &str = "-- record.whole
    SELECT id, provider_id, version_no, effective_at, declared_version, fetched_at, content_hash, mapping_version,
        mapping_hash, deleted, gone_at, updated_at, fields_hash, fields
      FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
     {for_update}";
pub(crate) const MARK: &str = "-- record.mark
    UPDATE ing_record SET deleted = :deleted, gone_at = :gone_at, merged_into = :merged_into, version_no = :version_no,
        plan_id = :plan, task_id = :task, run_id = :run, batch_id = :batch, changed_at = :now, checked_at = :now
     WHERE id = :id";
pub(crate) const CONFIRM: &str = "-- record.confirm_gone
    UPDATE ing_record SET gone_at = :gone_at, checked_at = :now WHERE id = :id";

/// What an answer shows about a record.
pub(crate) struct Mark<'a> {
    pub provider_id: &'a str,
    pub what: Marking<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum Marking<'a> {
    Alive,
    /// Not there in an answer that was fetched then; perhaps another record is there in its place.
    Gone {
        at: Timestamp,
        into: Option<&'a str>,
    },
}

/// Rows of these records, locked, by their names.
pub(crate) async fn read_whole(
    tx: &mut Tx,
    owner: &PageOwner<'_>,
    names: impl Iterator<Item = &str>,
) -> Result<HashMap<String, Row>, DbError> {
    let keys: Vec<Value> = names.map(Into::into).collect();
    let asked = params! { provenance: owner.provenance.clone(), entity: owner.entity.clone() };
    let rows = tx.rows_listed("ing_record", READ_WHOLE, asked, &keys).await?;
    rows.into_iter().map(|row| Ok((row.string("provider_id")?, row))).collect()
}

/// Marks those that are stored and not marked so already; how many. `marks` are sorted and without repetition.
pub(crate) async fn mark(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    marks: &[Mark<'_>],
) -> Result<u64, DbError> {
    if marks.is_empty() {
        return Ok(0);
    }
    let known = read_whole(tx, owner, marks.iter().map(|mark| mark.provider_id)).await?;
    let mut told = Vec::new();
    for mark in marks {
        let Some(row) = known.get(mark.provider_id) else { continue };
        if !changes(tx, owner, row, mark.what).await? {
            continue;
        }
        let version_no = row.int("version_no")? + 1;
        let (deleted, gone_at, merged_into) = match mark.what {
            Marking::Alive => (false, None, None),
            Marking::Gone { at, into } => (true, Some(at), into),
        };
        let id: Id = row.id("id")?;
        let marked = params! {
            deleted: deleted,
            gone_at: gone_at,
            merged_into: merged_into,
            version_no: version_no,
            plan: owner.lease.plan,
            task: owner.lease.task,
            run: owner.lease.run,
            batch: owner.batch,
            now: owner.now,
            id: id,
        };
        tx.execute(MARK, marked).await?;
        told.push(Told {
            record: id,
            version_no,
            provider_id: mark.provider_id,
            deleted,
            updated_at: row.opt_time("updated_at")?,
            content_hash: row.opt_hash("fields_hash")?.unwrap_or(row.hash("content_hash")?),
            fields: row.text("fields")?,
            merged_into,
        });
    }
    tell(tx, store, owner, &told).await?;
    Ok(told.len() as u64)
}

/// Whether the mark is another one than before.
async fn changes(tx: &mut Tx, owner: &PageOwner<'_>, row: &Row, what: Marking<'_>) -> Result<bool, DbError> {
    let stored = known_of(row)?.stored;
    let Marking::Gone { at, .. } = what else { return Ok(stored.deleted) };
    Ok(match miss(&stored, at) {
        Miss::Buries => true,
        Miss::Confirms => {
            tx.execute(CONFIRM, params! { id: row.id("id")?, gone_at: at, now: owner.now }).await?;
            false
        }
        Miss::Nothing => false,
    })
}
