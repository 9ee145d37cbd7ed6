//! Keeps what the engine says.

use std::sync::{Mutex, PoisonError};

use patra_core::ports::Partition;
use patra_engine::notice::{Notice, Notices};

/// Every notice of a run, in order.
#[derive(Default)]
pub struct Watch(Mutex<Vec<Notice>>);

impl Notices for Watch {
    fn tell(&self, _at: &Partition, notice: Notice) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }
}

impl Watch {
    fn texts(&self, of: impl Fn(&Notice) -> Option<String>) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(of).collect()
    }

    /// Why new passes began.
    pub fn passes(&self) -> Vec<String> {
        self.texts(|notice| match notice {
            Notice::PassBegan { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// Why slices were cut.
    pub fn splits(&self) -> Vec<String> {
        self.texts(|notice| match notice {
            Notice::SliceSplit { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// Why requests were made again.
    pub fn retries(&self) -> Vec<String> {
        self.texts(|notice| match notice {
            Notice::Retried { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// Slices that did not succeed: class and reason.
    pub fn failures(&self) -> Vec<String> {
        self.texts(|notice| match notice {
            Notice::SliceEnded { outcome, reason, .. } => Some(format!("{outcome}: {reason}")),
            _ => None,
        })
    }
}
