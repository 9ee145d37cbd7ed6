//! One page in the ledger: the row that is opened before it is asked for, what its commit holds, and what is left of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::absence::Lack;
use crate::hash::Hash32;
use crate::id::Id;
use crate::mask;
use crate::page::BadItem;
use crate::record::NewRecord;
use crate::refit::Policy;
use crate::spec::snapshot::QuarantineSpec;
use crate::time::Timestamp;

/// A ledger row of a page that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBatch {
    pub id: Id,
    /// 1.. per run.
    pub batch_no: u32,
    pub pass_no: u32,
    /// 0.. per pass.
    pub seq_no: u32,
    pub phase: Phase,
    pub before_token: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Search,
    Detail,
}

impl Phase {
    pub const fn code(self) -> &'static str {
        match self {
            Phase::Search => "search",
            Phase::Detail => "detail",
        }
    }
}

/// What a committed batch tells a later run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTrace {
    pub id: Id,
    pub pass_no: u32,
    pub seq_no: u32,
    pub phase: Phase,
    pub before_token: String,
    /// `None`: the source said that this was the last page.
    pub after_token: Option<String>,
    pub item_count: u32,
    pub total: Option<u64>,
    /// Short hashes of the ids on the page, in page order.
    pub page_ids: Vec<u64>,
    /// Least and greatest time on the page, where its order can prove something.
    pub times: Option<(Timestamp, Timestamp)>,
    pub source_now: Timestamp,
    pub committed_at: Timestamp,
}

/// T1: one page becomes records.
#[derive(Clone, Debug)]
pub struct BatchCommit {
    pub batch: OpenBatch,
    pub after_token: Option<String>,
    /// The page to be read next; its RUNNING row is inserted by this commit.
    pub next: Option<OpenBatch>,
    pub entity: String,
    pub expr_hash: Hash32,
    pub mapping_hash: Hash32,
    pub spec_fingerprint: Hash32,
    pub records: Vec<NewRecord>,
    pub bad: Vec<BadItem>,
    /// Records that the database refuses join `bad` within these limits; beyond them the page is refused whole.
    pub quarantine: QuarantineSpec,
    /// Ids asked for in a detail request and not returned, and how. Those that come later are cleared by the store.
    pub missing: Vec<(String, Lack)>,
    /// What the page may do to records that are stored.
    pub policy: Policy,
    pub page_ids: Vec<u64>,
    /// Two-phase search: the ids whose details are to be asked for.
    pub id_list: Option<Vec<String>>,
    pub item_count: u32,
    /// Items dropped by the client-side window filter.
    pub filtered: u32,
    pub out_of_window: u32,
    pub total: Option<u64>,
    pub source_now: Timestamp,
    pub asked_at: Timestamp,
    pub fetched_at: Timestamp,
    /// `None` for a detail request that the source refuses for its one id.
    pub response_hash: Option<Hash32>,
    pub body: Option<KeptBody>,
    pub request_digest: serde_json::Value,
    pub response_digest: serde_json::Value,
    /// Latency, retries, 429s and the like; the store adds the counts.
    pub stats: serde_json::Map<String, serde_json::Value>,
    pub observed_max: Option<Timestamp>,
    /// Least and greatest time on the page, where its order can prove something.
    pub times: Option<(Timestamp, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBody {
    pub bytes: Bytes,
    /// The body is whole; else only its first kilobyte, masked.
    pub whole: bool,
}

impl KeptBody {
    /// The masked beginning of a body; whole when that is all of it and nothing had to be masked.
    pub fn sample(body: &[u8]) -> KeptBody {
        let sample = mask::sample(body, mask::SAMPLE_BYTES);
        KeptBody { whole: sample == body, bytes: sample.into() }
    }
}

/// `fetched = inserted + updated + unchanged + stale + duplicate + quarantined + filtered` (INV-19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub fetched: u64,
    pub inserted: u64,
    pub updated: u64,
    pub unchanged: u64,
    pub stale: u64,
    pub duplicate: u64,
    pub quarantined: u64,
    pub filtered: u64,
    /// Records that are gone because the page lacked them; no part of the sum.
    #[serde(default)]
    pub tombstoned: u64,
}

impl Counts {
    pub fn add(&mut self, more: &Counts) {
        self.fetched += more.fetched;
        self.inserted += more.inserted;
        self.updated += more.updated;
        self.unchanged += more.unchanged;
        self.stale += more.stale;
        self.duplicate += more.duplicate;
        self.quarantined += more.quarantined;
        self.filtered += more.filtered;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    pub counts: Counts,
    /// True when an earlier try of the same commit had succeeded.
    pub repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_whole_only_when_nothing_is_left_out_or_masked() {
        let long = "x".repeat(mask::SAMPLE_BYTES + 1);
        for (body, whole) in [("short", true), (&long[1..], true), (&long, false), ("to jane@example.org", false)] {
            let kept = KeptBody::sample(body.as_bytes());
            assert_eq!((kept.whole, kept.bytes.len() <= mask::SAMPLE_BYTES), (whole, true), "{body}");
            assert!(!kept.bytes.starts_with(b"to jane"), "{kept:?}");
        }
    }
}
