//! What a reader is expected to do about a situation.

/// The reactions, from the mildest to the loudest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reaction {
    /// Nothing special: everything is read all the same.
    Cope,
    /// Zero hits are a success.
    Empty,
    /// The slice ends there.
    End,
    /// The same is asked for again, later and later.
    Retry,
    /// The same is asked for again, in smaller pages.
    RetrySmaller,
    /// The slice begins anew with a fresh cursor.
    Restart,
    /// The slice is cut, in time, by a second key or into smaller batches.
    Split,
    /// Read twice, stored once: overlap, dedupe and content hash.
    Overlap,
    /// Ids without a record are noted; nothing counts as deleted before a second sighting.
    MissingId,
    /// A new version, alias or successor is followed; no id is lost.
    Follow,
    /// The source waits until later; nothing that is not there yet counts as read.
    Park,
    /// Paging in a circle: the slice fails loudly.
    LoopGuard,
    /// Asking again gives the same: the slice fails at once, a person must act.
    Permanent,
}

impl Reaction {
    /// The word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reaction::Cope => "cope",
            Reaction::Empty => "empty",
            Reaction::End => "end",
            Reaction::Retry => "retry",
            Reaction::RetrySmaller => "retry-smaller",
            Reaction::Restart => "restart",
            Reaction::Split => "split",
            Reaction::Overlap => "overlap",
            Reaction::MissingId => "missing-id",
            Reaction::Follow => "follow",
            Reaction::Park => "park",
            Reaction::LoopGuard => "loop-guard",
            Reaction::Permanent => "permanent",
        }
    }

    /// The same in words.
    pub fn text(self) -> &'static str {
        match self {
            Reaction::Cope => "everything is read all the same",
            Reaction::Empty => "zero hits, the slice succeeds",
            Reaction::End => "the slice ends there",
            Reaction::Retry => "the same request again after a pause",
            Reaction::RetrySmaller => "the same request again, then in smaller pages",
            Reaction::Restart => "the slice is read again with a fresh cursor",
            Reaction::Split => "the slice is cut until its parts can be read",
            Reaction::Overlap => "read twice, stored once; what was missed is met by the second reading",
            Reaction::MissingId => "the id is noted as missing, deleted only after a second sighting",
            Reaction::Follow => "the successor is stored, no id is lost",
            Reaction::Park => "the source waits, the watermark is held",
            Reaction::LoopGuard => "the slice fails loudly, the watermark is held",
            Reaction::Permanent => "the slice fails at once, a person must act",
        }
    }
}
