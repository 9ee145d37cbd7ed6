//! What the ledger proves about a stretch of time, and what it does not.
//!
//! [`Evidence`] is what the ledger holds about one namespace: its slices with their accounts, and its waivers. [`judge`]
//! makes coverage, holes and a verdict of it, and nothing else; a [`Certificate`] is the judgement together with the
//! evidence and digests of the very rows it was read from, so that anyone can judge again and look at the rows again.

pub mod blackbox;
mod certificate;
mod judge;
mod life;
mod replay;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::id::Id;
use crate::ports::Counts;
use crate::states::SliceState;
use crate::time::{Span, Timestamp};
use crate::window::Window;

pub use certificate::{Basis, Certificate, Flaw, Subject};
pub use judge::{Judgement, Stretch, Verdict, judge};
pub use life::{Life, Place, Sighting};
pub use replay::{Changed, Differences, Kept, KeptPage, Pages, ReadRecord, Replayed};

/// A slice as the ledger has it, with what its reading came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    pub slice: Id,
    pub plan: Id,
    pub parent: Option<Id>,
    pub window: Window,
    /// The part of the window that it reads, where time could not cut it any further.
    pub part: Option<String>,
    pub state: SliceState,
    pub reason: Option<String>,
    pub read_at: Option<Timestamp>,
    /// What the source counted when it was read.
    pub total: Option<u64>,
    /// Ids that the proving pass met.
    pub distinct: Option<u64>,
    pub passes: u64,
    pub counts: Counts,
    /// Ids that the source listed and did not deliver, and that nobody has settled yet.
    pub missing: u64,
    /// Records that could not be read, and that nobody has settled yet.
    pub unsettled: u64,
    /// What the source counts now, where it was asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recount: Option<u64>,
}

impl Leaf {
    /// Nothing of it changes any more.
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, SliceState::Pending | SliceState::Dispatched | SliceState::Executing)
    }
}

/// A window that somebody let the watermark pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    pub id: Id,
    pub window: Window,
    pub actor: String,
    pub reason: String,
}

/// What the ledger holds about one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub leaves: Vec<Leaf>,
    pub waivers: Vec<Waiver>,
    /// Ids that were not delivered, were asked for again by an update, and are still not settled.
    #[serde(default)]
    pub asked_again: u64,
}

/// What the source promises about its windows and counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub settling_lag: Span,
    /// Share by which a total may be wrong.
    pub total_tolerance: f64,
}

/// Columns of each table that a digest is taken over, as they were when it was taken.
pub type Columns = BTreeMap<String, Vec<String>>;

/// Digests of the rows that a certificate rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Of a slice with its plan, task, runs, pages, quarantined records and missing ids.
    pub slices: BTreeMap<Id, Hash32>,
    pub waivers: BTreeMap<Id, Hash32>,
}

#[cfg(test)]
mod tests;
