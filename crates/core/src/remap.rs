//! Records derived anew from kept pages, under another mapping, without one request.
//!
//! What a page holds is what it held when it was fetched, so the order of versions is that of the first time (INV-13), with
//! the original times of fetching. A stored record whose raw text is the page's is given the fields that the other mapping
//! makes of it. Any other version on the page lost when it came, and loses again, unless the mapping of times, versions or
//! ids is another one: then a second walk, when all stored records are derived anew, lets every page try once more.

use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::id::Id;
use crate::page::Item;
use crate::pointer::Pointers;
use crate::query::{Answer, QueryError};
use crate::record::{NewRecord, VersionKey, dedupe};
use crate::spec::expression::RecordFilter;
use crate::spec::hashes::mapping_hash;
use crate::spec::snapshot::{Operation, SpecSnapshot};
use crate::time::Timestamp;
use crate::window::Window;

/// How far a remap has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The last page that was committed.
    pub after: Id,
    /// Every page is walked once more when this walk ends.
    pub again: bool,
    /// This is the second walk.
    pub second: bool,
    pub done: bool,
    pub counts: RemapCounts,
}

impl Position {
    /// After a page.
    pub fn past(mut self, page: Id, counts: RemapCounts) -> Position {
        self.after = page;
        self.counts.add(counts);
        self
    }

    /// After the last page: the second walk, or the end.
    pub fn turned(self) -> Position {
        match self.again && !self.second {
            true => Position { after: Id(0), second: true, ..self },
            false => Position { done: true, ..self },
        }
    }
}

/// What became of the records of the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemapCounts {
    pub pages: u64,
    /// Pages of which no whole answer is kept.
    pub not_kept: u64,
    /// Pages that the mapping cannot read.
    pub broken: u64,
    pub changed: u64,
    pub inserted: u64,
    /// Derived as they were, or not what is stored.
    pub same: u64,
    /// Records that the mapping cannot read; what is stored of them stays.
    pub bad: u64,
}

impl RemapCounts {
    pub fn add(&mut self, more: RemapCounts) {
        self.pages += more.pages;
        self.not_kept += more.not_kept;
        self.broken += more.broken;
        self.changed += more.changed;
        self.inserted += more.inserted;
        self.same += more.same;
        self.bad += more.bad;
    }
}

/// The same page gives the same ids, versions and contents under both; only fields differ.
pub fn keeps_order(one: &SpecSnapshot, other: &SpecSnapshot) -> bool {
    let bare = |spec: &SpecSnapshot| {
        let mut spec = spec.clone();
        spec.response.fields.clear();
        spec.detail.iter_mut().for_each(|detail| detail.response.fields.clear());
        mapping_hash(&spec)
    };
    bare(one) == bare(other)
}

/// What a page was asked for, and what its records are made by now.
pub struct Derivation {
    /// Of the plan: what it did not want then is not stored now.
    filter: Option<RecordFilter>,
    client_window: bool,
    pointers: Pointers,
    registry_version: i64,
    pub mapping_hash: Hash32,
}

impl Derivation {
    pub fn of(plan: &SpecSnapshot, other: &SpecSnapshot) -> Result<Derivation, QueryError> {
        Ok(Derivation {
            filter: RecordFilter::of(plan)?,
            client_window: plan.operation != Operation::Update && plan.window.client_filter,
            pointers: Pointers::of(other.record_response()),
            registry_version: other.registry_version,
            mapping_hash: mapping_hash(other),
        })
    }

    /// The records of a page, sorted and without repetition.
    pub fn records(&self, items: Vec<Item>, window: Window, fetched_at: Timestamp) -> Vec<NewRecord> {
        let wanted = |item: &Item| {
            let inside = !self.client_window || item.updated_at.is_none_or(|at| window.contains(at));
            let asked = |filter: &RecordFilter| item.deleted || filter.ask(&item.fields) != Answer::No;
            inside && self.filter.as_ref().is_none_or(asked)
        };
        let record = |item: Item| NewRecord::of(item, fetched_at, self.registry_version, &self.pointers);
        let mut records: Vec<NewRecord> = items.into_iter().filter(wanted).map(record).collect();
        dedupe(&mut records);
        records
    }
}

/// The key of a stored record that is derived anew: as it was, where its times are read as they were.
pub fn derived_key(stored: &VersionKey, stored_updated_at: Option<Timestamp>, incoming: &NewRecord) -> VersionKey {
    let content_hash = incoming.key.content_hash;
    if incoming.updated_at == stored_updated_at && incoming.key.version == stored.version {
        return VersionKey { content_hash, ..stored.clone() };
    }
    let fetched_at = stored.fetched_at.max(incoming.key.fetched_at);
    let effective_at = incoming.updated_at.map(|at| at.min(fetched_at));
    VersionKey { effective_at, fetched_at, ..incoming.key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn incoming(updated: i64, fetched: i64) -> NewRecord {
        NewRecord {
            provider_id: "a".into(),
            key: VersionKey::new(Some(at(updated)), None, at(fetched), Hash32::of(b"new"), 7),
            updated_at: Some(at(updated)),
            deleted: false,
            merged_into: None,
            notices: Vec::new(),
            fields: "{}".into(),
            payload: Bytes::new(),
        }
    }

    #[test]
    fn a_key_is_derived_once_and_never_falls_behind_what_was_fetched() {
        let stored = VersionKey::new(Some(at(5)), None, at(20), Hash32::of(b"old"), 3);
        let same = derived_key(&stored, Some(at(5)), &incoming(5, 10));
        assert_eq!(same, VersionKey { content_hash: Hash32::of(b"new"), ..stored.clone() });
        let other = derived_key(&stored, Some(at(5)), &incoming(8, 10));
        assert_eq!((other.effective_at, other.fetched_at), (Some(at(8)), at(20)));
        assert_eq!(derived_key(&other, Some(at(8)), &incoming(8, 10)), other);
    }

    #[test]
    fn a_walk_is_followed_by_another_only_where_the_order_may_change() {
        let one = Position { after: Id(9), ..Position::default() };
        assert!(one.clone().turned().done);
        let again = Position { again: true, ..one }.turned();
        assert_eq!((again.after, again.second, again.done), (Id(0), true, false));
        assert!(again.turned().done);
    }
}
