//! The port of exports: records in a stable order, a page at a time, and how far somebody has come with them.

use async_trait::async_trait;

use crate::export::{Changes, Exported, Place};
use crate::hash::Hash32;
use crate::ports::LedgerError;
use crate::time::Timestamp;

/// Until when changes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Timestamp,
    /// Everything dated before it is visible; else a transaction that began before may still commit.
    pub settled: bool,
}

/// How far a lasting work has come, under the name it goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is about; another work under the same name is refused.
    pub fingerprint: Hash32,
    /// In the words of the work itself, JSON.
    pub position: String,
    /// Raised by every step.
    pub step_no: i64,
}

/// Kinds of lasting works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Export,
    Remap,
}

impl Work {
    pub fn code(self) -> &'static str {
        match self {
            Work::Export => "EXPORT",
            Work::Remap => "REMAP",
        }
    }
}

#[async_trait]
pub trait Export: Send + Sync {
    /// The first source with records whose name comes after this one.
    async fn source_after(&self, name: &str) -> Result<Option<String>, LedgerError>;

    /// The next records of a source after a place, in key order, or in the order of their changes in a span; none when
    /// there are no more.
    async fn exported(&self, after: &Place, span: Option<Changes>) -> Result<Vec<Exported>, LedgerError>;

    /// The database's clock, and whether everything before it is visible.
    async fn moment(&self) -> Result<Moment, LedgerError>;

    /// How far a work has come; `None` before its first step.
    async fn progress(&self, work: Work, name: &str) -> Result<Option<Progress>, LedgerError>;

    /// Notes a step that follows the one that was read; false when somebody else has gone on meanwhile.
    async fn note_progress(&self, work: Work, name: &str, next: &Progress) -> Result<bool, LedgerError>;
}
