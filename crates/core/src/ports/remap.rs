//! The port of remapping: one kept page, derived anew.

use async_trait::async_trait;

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::LedgerError;
use crate::record::NewRecord;
use crate::remap::{Position, RemapCounts};

/// A page of a remap, and where the remap stands before it.
#[derive(Clone, Debug)]
pub struct RemapPage {
    /// The source, which the progress goes by.
    pub source: String,
    pub fingerprint: Hash32,
    pub step_no: i64,
    pub position: Position,
    pub batch: Id,
    pub entity: String,
    pub mapping_hash: Hash32,
    /// What the other mapping makes of the page, sorted and without repetition.
    pub records: Vec<NewRecord>,
    /// What was counted before the records are compared with the stored ones.
    pub counts: RemapCounts,
}

#[async_trait]
pub trait Remap: Send + Sync {
    /// Records, events and progress move together; `None` when somebody else has gone on with that source meanwhile. The
    /// lineage of a record stays that of the page that brought it.
    async fn remap_page(&self, page: RemapPage) -> Result<Option<Position>, LedgerError>;
}
