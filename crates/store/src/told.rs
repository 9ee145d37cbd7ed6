//! The outbox rows of a commit: one for each change of a record, written with it (INV-15).

use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::outbox::shard_of;
use patra_core::planted::{Defect, planted};
use patra_core::record::{ChangeKind, event_id};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::records::PageOwner;
use crate::store::Inner;
use crate::value::Value;

const WRITE_OUTBOX: &str = "-- outbox.insert
    INSERT INTO ing_outbox (id, record_id, version_no, event_id, provenance_code, endpoint_name, provider_id,
        change_code, updated_at, content_hash, fields, batch_id, status_code, created_at, shard_no, merged_into)
    VALUES {rows:16}";
const COLUMNS: usize = 16;

/// One change, as it is told.
pub(crate) struct Told<'a> {
    pub record: Id,
    pub version_no: i64,
    pub provider_id: &'a str,
    pub deleted: bool,
    pub updated_at: Option<Timestamp>,
    /// Of the content, or of the fields where these are not the ones of the content.
    pub content_hash: Hash32,
    pub fields: &'a str,
    pub merged_into: Option<&'a str>,
}

pub(crate) async fn tell(
    tx: &mut Tx,
    store: &Inner,
    owner: &PageOwner<'_>,
    changes: &[Told<'_>],
) -> Result<(), DbError> {
    let pending: Arc<str> = "PENDING".into();
    let mut rows: Vec<Value> = Vec::with_capacity(changes.len() * COLUMNS);
    for change in changes {
        if change.version_no > 1 && planted(Defect::EventLost) {
            continue;
        }
        rows.extend([
            store.ids.next().into(),
            change.record.into(),
            change.version_no.into(),
            name_of(store, owner, change).into(),
            owner.provenance.clone().into(),
            owner.entity.clone().into(),
            change.provider_id.into(),
            ChangeKind::of(change.version_no, change.deleted).code().into(),
            change.updated_at.into(),
            change.content_hash.into(),
            change.fields.into(),
            owner.batch.into(),
            pending.clone().into(),
            owner.now.into(),
            shard_of(&owner.provenance, &owner.entity, change.provider_id).into(),
            change.merged_into.into(),
        ]);
    }
    tx.execute_rows(WRITE_OUTBOX, COLUMNS, rows).await?;
    Ok(())
}

fn name_of(store: &Inner, owner: &PageOwner<'_>, change: &Told<'_>) -> Hash32 {
    if planted(Defect::EventIdDrawn) {
        return Hash32::of(&store.ids.next().0.to_be_bytes());
    }
    let (content, updated_at) = (change.content_hash, change.updated_at);
    event_id(&owner.provenance, &owner.entity, change.provider_id, change.version_no, content, updated_at)
}
