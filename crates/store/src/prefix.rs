//! The proven beginning of a slice becomes a SUCCEEDED child; the rest is read again or ends with its parent (INV-3).

use patra_core::id::Id;
use patra_core::ports::{CutAtPrefix, Lease, ProvenSlice};
use patra_core::states::SliceEvent;
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::finish::EndedSlice;
use crate::rows::{BornEnded, Lineage, insert_ended};
use crate::split::{grow_plan, lineage_of, tiles};

/// Why a slice is proven that was never read by itself.
pub(crate) const ORDERED: &str = "ORDERED";

pub(crate) async fn insert_proven(
    tx: &mut Tx,
    lineage: &Lineage,
    parent: Id,
    proven: &ProvenSlice,
    now: Timestamp,
) -> Result<(), DbError> {
    let end = BornEnded { event: SliceEvent::Proven, reason: Some(ORDERED), read_at: Some(proven.read_at) };
    insert_ended(tx, lineage, parent, &proven.slice, end, now).await
}

/// Both children of a slice that ends without proof of the whole; `end` is how the rest ends.
pub(crate) async fn insert_ended_children(
    tx: &mut Tx,
    lease: &Lease,
    parent: &EndedSlice,
    cut: &CutAtPrefix,
    (event, reason): (SliceEvent, Option<&str>),
    now: Timestamp,
) -> Result<(), DbError> {
    tiles(&parent.row, Some(&cut.proven.slice), std::slice::from_ref(&cut.rest))?;
    let lineage = lineage_of(tx, lease).await?;
    insert_proven(tx, &lineage, lease.slice, &cut.proven, now).await?;
    let rest = BornEnded { event, reason, read_at: None };
    insert_ended(tx, &lineage, lease.slice, &cut.rest, rest, now).await?;
    grow_plan(tx, lease.plan, 2, 0, now).await
}
