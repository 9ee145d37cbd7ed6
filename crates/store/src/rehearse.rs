//! The records of a page committed again and taken back: what the real merge would do with them, and nothing written.

use std::sync::Arc;

use patra_core::ports::{Counts, LedgerError, Rehearsal, Rehearsed};

use crate::commit::write_quarantine;
use crate::db::Tx;
use crate::error::DbError;
use crate::records::{PageOwner, store_records};
use crate::remap::{PAGE, lineage};
use crate::store::Inner;
use crate::value::params;

pub(crate) async fn rehearse(store: Arc<Inner>, page: Arc<Rehearsal>) -> Result<Rehearsed, DbError> {
    let mut tx = store.db.write().await?;
    let result = commit_in(&mut tx, &store, &page).await;
    // Whatever came of it: a rehearsal is never committed.
    tx.rollback().await;
    match result {
        Ok(counts) => Ok(Rehearsed { counts, refused: None }),
        Err(DbError::Data(message)) => Ok(Rehearsed { counts: Counts::default(), refused: Some(message) }),
        Err(error) => Err(error),
    }
}

async fn commit_in(tx: &mut Tx, store: &Inner, page: &Rehearsal) -> Result<Counts, DbError> {
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
        operation: page.operation,
        policy: page.policy,
        now: tx.now(),
    };
    let mut counts = store_records(tx, store, &owner, &page.records).await?.counts;
    write_quarantine(tx, store, &owner, &page.bad).await?;
    counts.quarantined = page.bad.len() as u64;
    counts.fetched = (page.records.len() + page.bad.len()) as u64;
    Ok(counts)
}
