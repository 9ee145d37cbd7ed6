//! Defects that a test plants, to see that the checker finds them. A build without the feature `planted` has none.
//!
//! Each names a mistake that systems of this kind really make. The places that ask are the places to look at when
//! one of these laws is in doubt.

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Defect {
    /// A commit does not ask whether the lease is still ours.
    NoFencing = 1,
    /// A takeover keeps the epoch.
    TakeoverKeepsEpoch,
    /// The watermark jumps to the end of the highest slice read.
    WatermarkMaxEnd,
    /// The watermark follows the times of records.
    WatermarkFromRecords,
    /// Slices that failed count as read.
    FailedCounts,
    /// The cursor moves without an event.
    CursorWithoutEvent,
    /// Event ids are drawn, not derived from the change.
    EventIdDrawn,
    /// A changed record sends no event.
    EventLost,
    /// A change of a record is decided by its time alone.
    OlderOverwrites,
    /// Inclusive ends are asked one grain too early.
    EdgeOffByGrain,
    /// Records on the lower edge are dropped.
    LowerEdgeDropped,
    /// The next plan begins at the watermark.
    NextPlanFromWatermark,
    /// Windows are read before they have settled.
    PlanBeyondLag,
    /// A slice counts as read at the time it ended.
    ReadAtEnd,
    /// The last child of a split is forgotten.
    SplitLeavesGap,
    /// A short page is taken as the last one.
    ShortPageIsLast,
    /// A pass is believed although the totals do not agree.
    Unreconciled,
    /// Items that move between two OFFSET pages are not noticed, nor is the total.
    MovedUnnoticed,
    /// The result cap of a source is not looked at.
    CapIgnored,
    /// Ids that a detail request did not return are forgotten.
    MissingForgotten,
    /// After a refused detail request as many ids are stepped over as a full one has.
    DetailStepTooWide,
    /// The gate forgets what it has just let through.
    GateForgets,
    /// A backfill moves the watermark of the harvest.
    BackfillMovesHarvest,
    /// Pages that shift under the reader are believed when nothing new was met, or by their first and last total.
    ShiftBelieved,
    /// They are believed when the total stood still on every page.
    StillTotalBelieved,
    /// The life of a record is told without the versions before its last one.
    LifeForgetsVersions,
    /// A plan counts as dispatched although some of its slices have no task.
    RestForgotten,
}

impl Defect {
    pub const ALL: &'static [Defect] = &[
        Defect::NoFencing,
        Defect::TakeoverKeepsEpoch,
        Defect::WatermarkMaxEnd,
        Defect::WatermarkFromRecords,
        Defect::FailedCounts,
        Defect::CursorWithoutEvent,
        Defect::EventIdDrawn,
        Defect::EventLost,
        Defect::OlderOverwrites,
        Defect::EdgeOffByGrain,
        Defect::LowerEdgeDropped,
        Defect::NextPlanFromWatermark,
        Defect::PlanBeyondLag,
        Defect::ReadAtEnd,
        Defect::SplitLeavesGap,
        Defect::ShortPageIsLast,
        Defect::Unreconciled,
        Defect::MovedUnnoticed,
        Defect::CapIgnored,
        Defect::MissingForgotten,
        Defect::DetailStepTooWide,
        Defect::GateForgets,
        Defect::BackfillMovesHarvest,
        Defect::ShiftBelieved,
        Defect::StillTotalBelieved,
        Defect::LifeForgetsVersions,
        Defect::RestForgotten,
    ];
}

#[cfg(feature = "planted")]
mod soil {
    use super::Defect;
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants one defect for the whole process, or none.
    pub fn plant(defect: Option<Defect>) {
        PLANTED.store(defect.map_or(0, |defect| defect as u8), Ordering::SeqCst);
    }

    pub fn planted(defect: Defect) -> bool {
        PLANTED.load(Ordering::Relaxed) == defect as u8
    }
}

#[cfg(feature = "planted")]
pub use soil::{plant, planted};

/// Never, in a build that ships.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub fn planted(_defect: Defect) -> bool {
    false
}
