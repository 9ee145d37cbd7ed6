//! Known records whose fields are filled in or mapped anew while their content stays (`patra_core::refit`).

use patra_core::record::NewRecord;
use patra_core::refit::{fields_hash, refit};

use crate::db::Tx;
use crate::error::DbError;
use crate::mark::read_whole;
use crate::records::PageOwner;
use crate::store::Inner;
use crate::told::{Told, tell};
use crate::value::{Value, params};

pub(crate) const REFIT: &str = "-- record.refit
    UPDATE ing_record SET fields = :fields, fields_hash = :fields_hash, version_no = :version_no,
        mapping_hash = :mapping_hash, plan_id = :plan, task_id = :task, run_id = :run, batch_id = :batch,
        changed_at = :now, checked_at = :now
     WHERE id = :id";
/// Looked at under this mapping, so that nobody asks for it again because of another one.
pub(crate) const FITS: &str = "-- record.fits
    UPDATE ing_record SET mapping_hash = :mapping_hash, checked_at = :now WHERE id IN ({list})";

/// Fits the fields of stored records to those of the page; how many changed.
pub(crate) async fn refit_records(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    records: &[&NewRecord],
) -> Result<u64, DbError> {
    if records.is_empty() {
        return Ok(0);
    }
    let known = read_whole(tx, owner, records.iter().map(|record| record.provider_id.as_str())).await?;
    let (mut changed, mut fits) = (Vec::new(), Vec::<Value>::new());
    for record in records {
        let Some(row) = known.get(&record.provider_id) else { continue };
        match refit(owner.policy, row.text("fields")?, &record.fields) {
            Some(fields) => changed.push((record, row, fields)),
            None => fits.push(row.id("id")?.into()),
        }
    }
    let mut told = Vec::new();
    for (record, row, fields) in &changed {
        let (id, version_no) = (row.id("id")?, row.int("version_no")? + 1);
        let hash = fields_hash(row.hash("content_hash")?, fields);
        let fitted = params! {
            fields: fields,
            fields_hash: hash,
            version_no: version_no,
            mapping_hash: owner.mapping_hash,
            plan: owner.lease.plan,
            task: owner.lease.task,
            run: owner.lease.run,
            batch: owner.batch,
            now: owner.now,
            id: id,
        };
        tx.execute(REFIT, fitted).await?;
        told.push(Told {
            record: id,
            version_no,
            provider_id: &record.provider_id,
            deleted: row.int("deleted")? != 0,
            updated_at: row.opt_time("updated_at")?,
            content_hash: hash,
            fields,
            merged_into: None,
        });
    }
    tx.execute_list(FITS, params! { mapping_hash: owner.mapping_hash, now: owner.now }, &fits).await?;
    tell(tx, store, owner, &told).await?;
    Ok(told.len() as u64)
}
