//! Records that could not be read: looked at again, taken after all, or given up by a person.

use async_trait::async_trait;
use bytes::Bytes;

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::{Intervention, LedgerError, Phase};
use crate::record::NewRecord;
use crate::time::Timestamp;

/// A quarantined record with what is needed to read it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub id: Id,
    pub provenance: String,
    /// Endpoint of the page it came with.
    pub endpoint: String,
    pub phase: Phase,
    pub raw: Bytes,
    /// When that page was fetched: what is read again is as old as it was.
    pub fetched_at: Timestamp,
    /// Nobody has settled it yet.
    pub open: bool,
}

/// A record that can be read by now.
#[derive(Clone, Debug)]
pub struct Mended {
    pub id: Id,
    pub record: NewRecord,
    pub mapping_hash: Hash32,
    pub act: Intervention,
}

#[async_trait]
pub trait Quarantine: Send + Sync {
    async fn quarantined(&self, id: Id) -> Result<Quarantined, LedgerError>;

    /// Stores the record as its page would have, tells the change, closes the row and writes the audit, all at once; false
    /// when it was settled before.
    async fn mend(&self, mended: Mended) -> Result<bool, LedgerError>;

    /// Closes the row for good; false when it was settled before.
    async fn discard(&self, id: Id, act: &Intervention) -> Result<bool, LedgerError>;
}
