//! The truth of one source: every version of every record, when it is dated and when it can be seen.
//!
//! A record's *current* state is its latest version that is visible. Listings see current states only, so an updated
//! record leaves the window of its old stamp. The timeline holds the current states in listing order; versions that are
//! not yet visible wait in `pending` and are applied as time passes. Content is never stored: it is made again from
//! (seed, id, version) whenever it is served or exported.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::rng::Rng;
use crate::source::Source;
use crate::timeline::{Key, Timeline};

pub(crate) const NONE: u32 = u32::MAX;
const RECENT_LEN_MAX: usize = 256;

/// One version of a record, as the checker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruthVersion {
    pub id: String,
    pub version: u32,
    pub updated_at: i64,
    pub visible_at: i64,
    pub deleted: bool,
    /// Set on a re-stamp: the version whose content this one repeats.
    pub same_content_as: Option<u32>,
    /// Listed by the search, but the detail request leaves it out.
    pub detail_missing: bool,
}

/// One version inside the store; versions of a record form a chain through `previous`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub record: u32,
    pub number: u32,
    pub previous: u32,
    /// The version whose content is served; equals `number` unless this is a re-stamp.
    pub content: u32,
    pub updated_at: i64,
    pub visible_at: i64,
    pub deleted: bool,
    pub detail_missing: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub id: Arc<str>,
    pub created_at: i64,
    /// The last planned version, visible or not; `NONE` while held in reserve.
    pub latest: u32,
    /// The visible version; `NONE` before the first is.
    pub current: u32,
}

/// A version as it is rendered: who, which content, which stamp.
#[derive(Debug, Clone, Copy)]
pub struct Face<'a> {
    pub index: u32,
    pub id: &'a str,
    pub version: u32,
    pub content: u32,
    pub updated_at: i64,
    pub created_at: i64,
    pub deleted: bool,
    pub detail_missing: bool,
}

/// All versions of one source and what of it is visible now.
#[derive(Debug, Clone)]
pub struct Truth {
    pub(crate) source: Source,
    pub(crate) seed: u64,
    pub(crate) grain_us: i64,
    /// No version becomes visible later than this after its stamp.
    pub(crate) late_us_max: i64,
    pub(crate) records: Vec<Record>,
    pub(crate) versions: Vec<Version>,
    by_id: HashMap<Arc<str>, u32>,
    timeline: Timeline,
    /// Versions in the order in which they become visible; those before `pending_at` already are.
    pending: Vec<u32>,
    pending_at: usize,
    /// Records without a version yet, taken by inserts of the mutation feed, first one last.
    pub(crate) reserve: Vec<u32>,
    pub(crate) recent: VecDeque<u32>,
    pub(crate) rng: Rng,
    now_us: i64,
}

impl Truth {
    /// Takes records in listing order and their versions; nothing is visible until time is told.
    pub(crate) fn assemble(
        source: Source,
        seed: u64,
        grain_us: i64,
        late_us_max: i64,
        records: Vec<Record>,
        versions: Vec<Version>,
    ) -> Self {
        let by_id = records.iter().enumerate().map(|(at, record)| (record.id.clone(), at as u32)).collect();
        let mut pending: Vec<u32> = (0..versions.len() as u32).collect();
        pending.sort_by_key(|at| (versions[*at as usize].visible_at, *at));
        let mut reserve: Vec<u32> =
            (0..records.len() as u32).filter(|at| records[*at as usize].latest == NONE).collect();
        reserve.reverse();
        Self {
            source,
            seed,
            grain_us,
            late_us_max,
            records,
            versions,
            by_id,
            timeline: Timeline::default(),
            pending,
            pending_at: 0,
            reserve,
            recent: VecDeque::new(),
            rng: Rng::for_parts(seed, &[0xFEED]),
            now_us: i64::MIN,
        }
    }

    /// Makes everything visible that is due at `now_us`. Time never goes back.
    pub fn advance(&mut self, now_us: i64) {
        if now_us <= self.now_us {
            return;
        }
        self.now_us = now_us;
        let due =
            self.pending[self.pending_at..].partition_point(|at| self.versions[*at as usize].visible_at <= now_us);
        let batch: Vec<u32> = self.pending[self.pending_at..self.pending_at + due].to_vec();
        self.pending_at += due;
        if batch.is_empty() {
            return;
        }
        if self.timeline.is_empty() {
            for at in batch {
                let record = self.versions[at as usize].record;
                self.records[record as usize].current = at;
            }
            let keys = (0..self.records.len() as u32).filter_map(|record| self.key_of(record)).collect();
            self.timeline = Timeline::from_keys(keys);
            return;
        }
        for at in batch {
            self.show(at);
        }
    }

    /// Makes one version the current one of its record.
    pub(crate) fn show(&mut self, version: u32) {
        let record = self.versions[version as usize].record;
        if let Some(key) = self.key_of(record) {
            self.timeline.remove(key);
        }
        self.records[record as usize].current = version;
        if let Some(key) = self.key_of(record) {
            self.timeline.insert(key);
        }
    }

    /// How many current records are dated in `[from, to)`.
    pub fn count(&self, from: i64, to: i64) -> usize {
        self.timeline.count((from, 0), (to, 0))
    }

    /// Current records dated in `[from, to)` in listing order, after skipping some.
    pub fn page_at(&self, from: i64, to: i64, skip: usize, limit: usize) -> Vec<u32> {
        let rank = self.timeline.rank((from, 0)).saturating_add(skip);
        self.timeline.iter_rank(rank).take_while(|key| key.0 < to).take(limit).map(|key| key.1).collect()
    }

    /// Current records at or above `from` and dated before `to`, in listing order.
    pub fn page_from(&self, from: Key, to: i64, limit: usize) -> Vec<u32> {
        self.keys_from(from, to).take(limit).map(|key| key.1).collect()
    }

    /// Keys at or above `from` and dated before `to`.
    pub fn keys_from(&self, from: Key, to: i64) -> impl Iterator<Item = Key> + '_ {
        self.timeline.iter_from(from).take_while(move |key| key.0 < to)
    }

    /// The current face of a record that is listed or was.
    pub fn face(&self, index: u32) -> Option<Face<'_>> {
        let record = self.records.get(index as usize)?;
        self.versions.get(record.current as usize).map(|version| self.face_of(version))
    }

    /// How long after its stamp the current version of a record was first seen.
    pub fn seen_after_us(&self, index: u32) -> i64 {
        let current = self.records.get(index as usize).and_then(|record| self.versions.get(record.current as usize));
        current.map_or(0, |version| version.visible_at - version.updated_at)
    }

    /// The record with this identifier.
    pub fn find(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// The identifier of a record.
    pub fn id(&self, index: u32) -> &str {
        self.records.get(index as usize).map_or("", |record| &record.id)
    }

    /// The latest time this truth was told.
    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Remembers what a page delivered, so that the mutation feed can change it behind the reader's back.
    pub fn delivered(&mut self, items: &[(u32, u32)]) {
        for (index, _) in items.iter().rev().take(RECENT_LEN_MAX) {
            self.recent.push_back(*index);
        }
        while self.recent.len() > RECENT_LEN_MAX {
            self.recent.pop_front();
        }
    }

    /// The exact bytes of one version as the source serves it.
    pub fn payload(&self, id: &str, version: u32) -> Option<Vec<u8>> {
        let record = self.records.get(self.find(id)? as usize)?;
        let mut at = record.latest;
        loop {
            let have = self.versions.get(at as usize)?;
            if have.number == version {
                return Some(crate::providers::render(self.source, self.seed, &self.face_of(have)));
            }
            at = have.previous;
        }
    }

    /// The bytes of a record's current version.
    pub fn current_payload(&self, index: u32) -> Option<Vec<u8>> {
        self.face(index).map(|face| crate::providers::render(self.source, self.seed, &face))
    }

    /// Every version that is visible or planned, in the order of creation.
    pub fn versions(&self) -> impl Iterator<Item = TruthVersion> + '_ {
        self.versions.iter().map(|version| TruthVersion {
            id: self.id(version.record).to_owned(),
            version: version.number,
            updated_at: version.updated_at,
            visible_at: version.visible_at,
            deleted: version.deleted,
            same_content_as: (version.content != version.number).then_some(version.content),
            detail_missing: version.detail_missing,
        })
    }

    pub(crate) fn face_of(&self, version: &Version) -> Face<'_> {
        let record = &self.records[version.record as usize];
        Face {
            index: version.record,
            id: &record.id,
            version: version.number,
            content: version.content,
            updated_at: version.updated_at,
            created_at: record.created_at.min(version.updated_at),
            deleted: version.deleted,
            detail_missing: version.detail_missing,
        }
    }

    /// Where a record is listed now; nowhere before its first version and after a deletion without tombstone.
    fn key_of(&self, record: u32) -> Option<Key> {
        let version = self.versions.get(self.records[record as usize].current as usize)?;
        (!version.deleted || self.source.lists_deleted()).then_some((version.updated_at, record))
    }
}
