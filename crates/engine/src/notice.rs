//! What the engine has to say, once; logs, progress bars and metrics are its readers.

use std::sync::Arc;

use patra_core::healing::Action;
use patra_core::id::Id;
use patra_core::ports::{Counts, Partition};
use patra_core::spec::errors::ErrorLevel;
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;

#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    PlanPublished {
        plan: Id,
        window: Window,
        slices: usize,
        warnings: Vec<String>,
    },
    TaskAcquired {
        task: Id,
        window: Window,
        attempt: u32,
    },
    /// However it ended.
    TaskLeft,
    BatchCommitted {
        task: Id,
        batch: Id,
        counts: Counts,
        total: Option<u64>,
        bytes: u64,
        /// From the request to the commit, without waiting in between.
        took: Span,
    },
    RequestSent,
    /// A page came.
    Answered {
        latency: Span,
    },
    /// No page came of a request.
    Failed {
        level: ErrorLevel,
    },
    Throttled {
        until: Option<Timestamp>,
    },
    Retried {
        delay: Span,
        reason: String,
    },
    PassBegan {
        task: Id,
        pass_no: u32,
        reason: String,
    },
    SliceSplit {
        task: Id,
        children: usize,
        reason: String,
    },
    SliceSucceeded {
        task: Id,
        window: Window,
        watermark: Option<Timestamp>,
    },
    SliceEnded {
        task: Id,
        window: Window,
        outcome: String,
        reason: String,
    },
    /// Its fuse has blown.
    SourceStopped {
        reason: String,
    },
    /// The source did not answer several times in a row: nobody of the fleet asks it before this.
    CircuitOpened {
        until: Timestamp,
        reason: String,
    },
    CircuitClosed,
    /// A healer acted on a partition.
    Healed {
        action: Action,
    },
    TaskReleased {
        task: Id,
        due_at: Timestamp,
        reason: String,
    },
    LeaseLost {
        task: Id,
    },
}

pub trait Notices: Send + Sync {
    fn tell(&self, at: &Partition, notice: Notice);
}

/// Says nothing.
pub struct Silent;

impl Notices for Silent {
    fn tell(&self, _at: &Partition, _notice: Notice) {}
}

impl<N: Notices + ?Sized> Notices for Arc<N> {
    fn tell(&self, at: &Partition, notice: Notice) {
        (**self).tell(at, notice);
    }
}

/// Tells two readers.
pub struct Both<A, B>(pub A, pub B);

impl<A: Notices, B: Notices> Notices for Both<A, B> {
    fn tell(&self, at: &Partition, notice: Notice) {
        self.0.tell(at, notice.clone());
        self.1.tell(at, notice);
    }
}
