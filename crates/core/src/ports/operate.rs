//! What people do with the ledger beside its daily steps; every method is one transaction.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::{Intervention, LedgerError, Namespace};
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// A window that a harvest passed or left behind without proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hole {
    pub window: Window,
    /// WAIVED, or the state in which its slice ended.
    pub cause: String,
    pub reason: String,
}

/// What is done with each cursor that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorWork {
    /// Compare with its events; nothing is written.
    Verify,
    /// Make it again from its events, unless they have gaps.
    Rebuild,
    /// Replace runs of events before this by summaries.
    Thin { before: Timestamp },
}

/// What was found of one cursor, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CursorReport {
    pub provenance: String,
    pub endpoint: String,
    pub operation: String,
    pub cursor_key: String,
    pub namespace: Hash32,
    pub events: u64,
    /// Gaps, steps back, and a cursor that is not the end of its events.
    pub faults: Vec<String>,
    /// Cursors rebuilt, or events that a summary stands for now.
    pub changed: u64,
}

/// What a person acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Plan(Id),
    Slice(Id),
    Task(Id),
}

/// Which records a refresh asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshBy {
    StaleBefore(Timestamp),
    MappingOtherThan(Hash32),
    /// What people and pages signalled.
    Signals,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshWanted {
    pub provenance: String,
    pub entity: String,
    pub by: RefreshBy,
    pub limit: u32,
}

/// Hints that records should be asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignal {
    pub provenance: String,
    pub entity: String,
    pub ids: Vec<String>,
    pub kind: String,
}

#[async_trait]
pub trait Operate: Send + Sync {
    /// Windows of a namespace that were waived, or whose slices ended without proof, and that nobody has read since.
    async fn holes(&self, namespace: &Namespace, settling_lag: Span) -> Result<Vec<Hole>, LedgerError>;

    /// Tends every cursor, or those of one source, each in a transaction of its own while executors run.
    async fn tend_cursors(
        &self,
        source: Option<&str>,
        work: CursorWork,
        act: &Intervention,
    ) -> Result<Vec<CursorReport>, LedgerError>;

    /// Cancels what is open of a slice, also of those that it was split into; how many tasks.
    async fn cancel_slice(&self, slice: Id, act: &Intervention) -> Result<u64, LedgerError>;

    /// Changes the priority of what is queued or running; how many tasks.
    async fn set_priority(&self, target: Target, priority: u8, act: &Intervention) -> Result<u64, LedgerError>;

    /// Windows of a plan whose slices ended without proof.
    async fn unproven(&self, plan: Id) -> Result<Vec<Window>, LedgerError>;

    /// Ids of records to be asked for again, and ids that were not returned and are due again; never more than the limit.
    async fn refresh_candidates(&self, wanted: &RefreshWanted) -> Result<BTreeSet<String>, LedgerError>;

    /// Adds signals for ids that have none open; how many.
    async fn add_signals(&self, signal: &NewSignal, act: &Intervention) -> Result<u64, LedgerError>;

    /// Closes signals whose ids were asked for after they were given; how many.
    async fn close_answered_signals(&self, wanted: &RefreshWanted) -> Result<u64, LedgerError>;

    /// Writes an act that has its own transaction elsewhere into the audit.
    async fn note(
        &self,
        action: &'static str,
        target: &str,
        act: &Intervention,
        detail: Value,
    ) -> Result<(), LedgerError>;
}
