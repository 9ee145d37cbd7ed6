//! What the engine has to say, once; logs, progress bars and metrics are its readers.

use patra_core::healing::Action;
use patra_core::id::Id;
use patra_core::ports::Counts;
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;

#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    PlanPublished {
        provenance: String,
        plan: Id,
        window: Window,
        slices: usize,
        warnings: Vec<String>,
    },
    NothingOwed {
        provenance: String,
    },
    TaskAcquired {
        provenance: String,
        task: Id,
        window: Window,
        attempt: u32,
    },
    BatchCommitted {
        provenance: String,
        task: Id,
        batch: Id,
        counts: Counts,
        total: Option<u64>,
        bytes: u64,
    },
    RequestSent {
        provenance: String,
    },
    Throttled {
        provenance: String,
        until: Option<Timestamp>,
    },
    Retried {
        provenance: String,
        task: Id,
        delay: Span,
        reason: String,
    },
    PassBegan {
        provenance: String,
        task: Id,
        pass_no: u32,
        reason: String,
    },
    SliceSplit {
        provenance: String,
        task: Id,
        children: usize,
        reason: String,
    },
    SliceSucceeded {
        provenance: String,
        task: Id,
        window: Window,
        watermark: Option<Timestamp>,
    },
    SliceEnded {
        provenance: String,
        task: Id,
        window: Window,
        outcome: String,
        reason: String,
    },
    /// Its fuse has blown.
    SourceStopped {
        provenance: String,
        reason: String,
    },
    /// The source did not answer several times in a row: nobody of the fleet asks it before this.
    CircuitOpened {
        provenance: String,
        endpoint: String,
        until: Timestamp,
        reason: String,
    },
    CircuitClosed {
        provenance: String,
        endpoint: String,
    },
    /// A healer acted on a partition.
    Healed {
        provenance: String,
        endpoint: String,
        action: Action,
    },
    TaskReleased {
        provenance: String,
        task: Id,
        due_at: Timestamp,
        reason: String,
    },
    LeaseLost {
        provenance: String,
        task: Id,
    },
}

pub trait Notices: Send + Sync {
    fn tell(&self, notice: Notice);
}

/// Says nothing.
pub struct Silent;

impl Notices for Silent {
    fn tell(&self, _notice: Notice) {}
}
