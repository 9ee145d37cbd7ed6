//! Records that the database refuses: found by halving the page, kept apart, the rest commits (INV-17).
//!
//! Each try is a transaction that is rolled back, because some databases end one at its first error. What is found
//! joins the page's bad items and is written with it, in the batch's own transaction. A page that is refused for
//! something else, or for more records than the source's limits allow, is refused whole.

use std::ops::Range;
use std::sync::Arc;

use patra_core::page::{BadItem, BadReason};
use patra_core::ports::{BatchCommit, Committed, Lease, LedgerError};
use patra_core::record::NewRecord;

use crate::commit::{self, Prepared, fence, page_owner};
use crate::error::DbError;
use crate::records::store_records;
use crate::rows::BatchOwner;
use crate::store::{Inner, Store};

impl Store {
    /// Commits a page, without the records that the database refuses.
    pub(crate) async fn commit_page(&self, lease: &Lease, page: Prepared) -> Result<Committed, LedgerError> {
        let mut page = Arc::new(page);
        let message = match self.commit_whole(lease, &page).await {
            Err(LedgerError::Data { message }) => message,
            other => return other,
        };
        let refused = self.refused(lease, &page).await?;
        if refused.is_empty() {
            return Err(LedgerError::Data { message });
        }
        let told = |record: &NewRecord| {
            let found = refused.iter().find(|(id, _)| *id == record.provider_id);
            found.map(|(_, message)| message.clone())
        };
        quarantine_refused(&mut Arc::make_mut(&mut page).batch, told)?;
        self.commit_whole(lease, &page).await
    }

    async fn commit_whole(&self, lease: &Lease, page: &Arc<Prepared>) -> Result<Committed, LedgerError> {
        self.retried("commit_batch", |store| commit::once(store, lease.clone(), page.clone())).await
    }

    /// Ids of the records that are refused by themselves, each with what the database said.
    async fn refused(&self, lease: &Lease, page: &Arc<Prepared>) -> Result<Vec<(String, String)>, LedgerError> {
        let batch = &page.batch;
        let mut refused = Vec::new();
        let mut left = Vec::from([Range { start: 0, end: batch.records.len() }]);
        while let Some(range) = left.pop().filter(|range| !range.is_empty()) {
            let step = |store| attempt(store, lease.clone(), page.clone(), range.clone());
            let Some(message) = self.retried("bisect", step).await? else { continue };
            if range.len() > 1 {
                let middle = range.start + range.len() / 2;
                left.extend([middle..range.end, range.start..middle]);
                continue;
            }
            refused.push((batch.records[range.start].provider_id.clone(), message));
            if batch.quarantine.is_exceeded(batch.bad.len() + refused.len(), batch.item_count as usize) {
                break;
            }
        }
        Ok(refused)
    }
}

/// Writes some records of the page and takes them back; what the database said when it refused them.
async fn attempt(
    store: Arc<Inner>,
    lease: Lease,
    page: Arc<Prepared>,
    range: Range<usize>,
) -> Result<Option<String>, DbError> {
    store.fail.hit("bisect")?;
    let mut tx = store.db.write().await?;
    let result = async {
        let now = tx.now();
        let row = fence(&mut tx, &lease, &page, now).await?;
        let owner = page_owner(&lease, &page.batch, &BatchOwner::read(&row)?, now);
        store_records(&mut tx, &store, &owner, &page.batch.records[range]).await
    }
    .await;
    tx.rollback().await;
    match result {
        Ok(_) => Ok(None),
        Err(DbError::Data(message)) => Ok(Some(message)),
        Err(error) => Err(error),
    }
}

/// Moves the records that `why` names to the bad items of the page.
pub(crate) fn quarantine_refused(
    batch: &mut BatchCommit,
    why: impl Fn(&NewRecord) -> Option<String>,
) -> Result<(), LedgerError> {
    let known = batch.bad.len();
    let (bad, limits, all) = (&mut batch.bad, batch.quarantine, batch.item_count as usize);
    batch.records.retain(|record| {
        let Some(message) = why(record) else { return true };
        bad.push(BadItem {
            id: Some(storable(&record.provider_id)),
            reason: BadReason::Store,
            path: String::new(),
            message: storable(&message),
            raw: record.payload.clone(),
        });
        false
    });
    let refused = bad.len() - known;
    match bad.last().filter(|_| refused > 0 && limits.is_exceeded(bad.len(), all)) {
        Some(last) => Err(LedgerError::Data { message: format!("{refused} of {all} records: {}", last.message) }),
        None => Ok(()),
    }
}

/// Text that every database takes; the bytes as they came are in `raw`.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
