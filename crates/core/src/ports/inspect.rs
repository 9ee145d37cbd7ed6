//! The read side: rows of the ledger as people and programs want to see them. It writes nothing and holds no lock.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::LedgerError;
use crate::time::Timestamp;

/// What can be listed and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noun {
    Plan,
    Slice,
    Task,
    Run,
    Batch,
    Cursor,
    CursorEvent,
    Record,
    Quarantine,
    MissingId,
    Instance,
    Outbox,
    SourceControl,
    Signal,
    Alarm,
    Budget,
}

impl Noun {
    pub const ALL: &'static [Noun] = &[
        Noun::Plan,
        Noun::Slice,
        Noun::Task,
        Noun::Run,
        Noun::Batch,
        Noun::Cursor,
        Noun::CursorEvent,
        Noun::Record,
        Noun::Quarantine,
        Noun::MissingId,
        Noun::Instance,
        Noun::Outbox,
        Noun::SourceControl,
        Noun::Signal,
        Noun::Alarm,
        Noun::Budget,
    ];
}

/// Which rows of a noun; what is not given does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub provenance: Option<String>,
    pub status: Option<String>,
    pub plan: Option<Id>,
    pub slice: Option<Id>,
    pub task: Option<Id>,
    pub run: Option<Id>,
    pub namespace: Option<Hash32>,
    /// At most this many rows; 0 means the default of 50, and no answer has more than 1000.
    pub limit: u32,
    /// Only rows with a smaller id: the last id of the page before.
    pub before_id: Option<Id>,
}

/// One row: ids as strings, digests as hex, JSON columns as JSON.
pub type Shown = serde_json::Map<String, serde_json::Value>;

/// State of one source, for `status` and the console.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceSummary {
    pub provenance: String,
    /// Endpoint, or the entity its records are kept under.
    pub endpoint: String,
    pub records: u64,
    pub outbox_pending: u64,
    pub quarantined: u64,
    /// By state, without the states that have none.
    pub tasks: BTreeMap<String, u64>,
    /// The least watermark of its HARVEST cursors.
    pub watermark: Option<Timestamp>,
    pub last_error: Option<String>,
    pub paused: Option<String>,
}

#[async_trait]
pub trait Inspect: Send + Sync {
    /// Rows of a noun, newest first, without their bulky columns.
    async fn list(&self, noun: Noun, filter: &ListFilter) -> Result<Vec<Shown>, LedgerError>;

    /// One row with everything, by its id, by the beginning of its id if only one row has it, or (a record) by the
    /// provider's id.
    async fn show(&self, noun: Noun, name: &str) -> Result<Option<Shown>, LedgerError>;

    /// Every source the ledger knows.
    async fn summary(&self) -> Result<Vec<SourceSummary>, LedgerError>;
}
