//! Records and which version of one is kept.
//!
//! The version key is a total order, so keeping the greatest makes the upsert commutative, associative and
//! idempotent (INV-13): retries, parallel slices and replays cannot set a record back.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::page::Item;
use crate::planted::{Defect, planted};
use crate::pointer::{Pointer, Pointers};
use crate::refit::Policy;
use crate::time::Timestamp;

/// A record ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub provider_id: String,
    pub key: VersionKey,
    /// The source's own time, before it was clamped to the fetch time.
    pub updated_at: Option<Timestamp>,
    pub deleted: bool,
    /// The record that stands in its place, where the source says so; such a record is deleted.
    pub merged_into: Option<String>,
    /// Records that this one is a notice about.
    pub notices: Vec<Pointer>,
    pub fields: String,
    pub payload: Bytes,
}

impl NewRecord {
    /// What an item of a page becomes, under the version of the registry that mapped it.
    pub fn of(item: Item, fetched_at: Timestamp, mapping_version: i64, pointers: &Pointers) -> NewRecord {
        let version = item.version.as_deref();
        let key = VersionKey::new(item.updated_at, version, fetched_at, item.content_hash, mapping_version);
        let points_to = pointers.read(&item.id, &item.fields);
        NewRecord {
            provider_id: item.id,
            key,
            updated_at: item.updated_at,
            deleted: item.deleted || points_to.merged_into.is_some(),
            merged_into: points_to.merged_into,
            notices: points_to.notices,
            fields: item.fields,
            payload: item.payload,
        }
    }
}

/// Order of versions of one record, compared field by field; missing values are lowest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VersionKey {
    /// `min(updatedAt, fetchedAt)`: a date in 2099 must not freeze a record.
    pub effective_at: Option<Timestamp>,
    pub version: Option<DeclaredVersion>,
    pub fetched_at: Timestamp,
    pub content_hash: Hash32,
    pub mapping_version: i64,
}

/// A version field: numbers compare as numbers and before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeclaredVersion {
    Number(i64),
    Text(String),
}

impl DeclaredVersion {
    pub fn parse(text: &str) -> DeclaredVersion {
        text.parse().map_or_else(|_| DeclaredVersion::Text(text.to_owned()), DeclaredVersion::Number)
    }
}

impl std::fmt::Display for DeclaredVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeclaredVersion::Number(number) => write!(f, "{number}"),
            DeclaredVersion::Text(text) => f.write_str(text),
        }
    }
}

impl VersionKey {
    /// Clamps the source's time to the fetch time.
    pub fn new(
        updated_at: Option<Timestamp>,
        version: Option<&str>,
        fetched_at: Timestamp,
        content_hash: Hash32,
        mapping_version: i64,
    ) -> VersionKey {
        VersionKey {
            effective_at: updated_at.map(|at| at.min(fetched_at)),
            version: version.map(DeclaredVersion::parse),
            fetched_at,
            content_hash,
            mapping_version,
        }
    }
}

/// What is stored of a record, as far as the decision needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecord {
    pub key: VersionKey,
    pub deleted: bool,
    /// Deleted because an answer that was fetched then lacked it; its source never said so of a version.
    pub gone_at: Option<Timestamp>,
}

impl StoredRecord {
    /// The same content seen again: the key is the greater of the two.
    pub fn raised(self, incoming: &NewRecord) -> StoredRecord {
        StoredRecord { key: self.key.max(incoming.key.clone()), ..self }
    }
}

/// What becomes of an incoming version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    Insert,
    /// Content or deletion mark changes: a new version number and one event.
    Update,
    /// Same content: the time of the last check moves and the version key rises to the greater of the two, so that
    /// a version between them that arrives late is still seen to be old. No new version, no event.
    Unchanged,
    /// An older version arriving late.
    Stale,
    /// Content changes, but the record stays gone: the version was fetched before it was missed.
    UpdateGone,
    /// The record is there again, with the content that is stored.
    Revive,
    /// The record is gone, with the content that is stored.
    Bury,
    /// The content stays, its fields may change.
    Refit,
}

/// What a page does under a policy. `remapped`: the stored fields were made by another mapping.
pub fn decide(policy: Policy, stored: Option<&StoredRecord>, incoming: &NewRecord, remapped: bool) -> Merge {
    let by_version = merge(stored, incoming);
    let deleted = stored.is_some_and(|stored| stored.deleted);
    match (policy, by_version) {
        (Policy::Newest, by_version) => by_version,
        (Policy::Remap, Merge::Unchanged) if remapped => Merge::Refit,
        (Policy::Remap, by_version) => by_version,
        (Policy::FillOnly, Merge::Insert | Merge::Revive) => by_version,
        (Policy::FillOnly, Merge::Update) if incoming.deleted && !deleted => Merge::Bury,
        (Policy::FillOnly, Merge::Update) if deleted && !incoming.deleted => Merge::Revive,
        (Policy::FillOnly, _) if deleted => Merge::Stale,
        (Policy::FillOnly, _) => Merge::Refit,
    }
}

/// The rule of versions. An equal content hash with the same deletion mark changes nothing.
pub fn merge(stored: Option<&StoredRecord>, incoming: &NewRecord) -> Merge {
    let Some(stored) = stored else { return Merge::Insert };
    if let Some(gone_at) = stored.gone_at {
        return after_absence(stored, gone_at, incoming);
    }
    if stored.key.content_hash == incoming.key.content_hash && stored.deleted == incoming.deleted {
        return Merge::Unchanged;
    }
    if planted(Defect::OlderOverwrites) {
        return Merge::Update;
    }
    if incoming.key > stored.key { Merge::Update } else { Merge::Stale }
}

/// What an answer that lacks a record does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It is gone from now on.
    Buries,
    /// It was gone before; only what is fetched after this answer can bring it back.
    Confirms,
    /// It was seen after this answer was fetched, or its source has deleted it by its own word.
    Nothing,
}

/// `fetched_at` is when the answer was fetched.
pub fn miss(stored: &StoredRecord, fetched_at: Timestamp) -> Miss {
    match stored.gone_at {
        Some(gone_at) if gone_at < fetched_at => Miss::Confirms,
        None if !stored.deleted && stored.key.fetched_at < fetched_at => Miss::Buries,
        _ => Miss::Nothing,
    }
}

/// A record that was missed: what was fetched later shows that it is back; what was fetched before still decides which
/// content is the greatest.
fn after_absence(stored: &StoredRecord, gone_at: Timestamp, incoming: &NewRecord) -> Merge {
    let back = incoming.key.fetched_at > gone_at && !incoming.deleted;
    let (greater, same) = (incoming.key > stored.key, incoming.key.content_hash == stored.key.content_hash);
    match (back, greater) {
        // The source's own word outlives the absence: what is older than it shows nothing any more.
        (_, true) if incoming.deleted && !same => Merge::Update,
        (true, true) => Merge::Update,
        (true, false) => Merge::Revive,
        (false, _) if same => Merge::Unchanged,
        (false, true) => Merge::UpdateGone,
        (false, false) => Merge::Stale,
    }
}

/// Keeps the greatest version of each id and sorts by id, as T1 wants it. Returns how many were dropped.
pub fn dedupe(records: &mut Vec<NewRecord>) -> usize {
    let before = records.len();
    records.sort_by(|left, right| {
        left.provider_id.as_bytes().cmp(right.provider_id.as_bytes()).then_with(|| right.key.cmp(&left.key))
    });
    records.dedup_by(|later, earlier| later.provider_id == earlier.provider_id);
    before - records.len()
}

/// Kind of change an outbox event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

impl ChangeKind {
    pub fn of(version_no: i64, deleted: bool) -> ChangeKind {
        match (deleted, version_no) {
            (true, _) => ChangeKind::Deleted,
            (false, 1) => ChangeKind::Created,
            (false, _) => ChangeKind::Updated,
        }
    }

    pub fn code(self) -> &'static str {
        match self {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Deleted => "DELETED",
        }
    }

    pub fn from_code(code: &str) -> Option<ChangeKind> {
        [ChangeKind::Created, ChangeKind::Updated, ChangeKind::Deleted].into_iter().find(|kind| kind.code() == code)
    }
}

/// Identity of an event: nothing of run, batch or attempt is in it (INV-16).
pub fn event_id(
    provenance: &str,
    entity: &str,
    provider_id: &str,
    version_no: i64,
    content_hash: Hash32,
    updated_at: Option<Timestamp>,
) -> Hash32 {
    let updated = updated_at.map_or(i64::MIN, Timestamp::micros);
    Hash32::of_parts(&[
        provenance.as_bytes(),
        entity.as_bytes(),
        provider_id.as_bytes(),
        &version_no.to_be_bytes(),
        content_hash.bytes(),
        &updated.to_be_bytes(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(updated: i64, fetched: i64, content: u8, deleted: bool) -> NewRecord {
        NewRecord {
            provider_id: "a".into(),
            key: VersionKey::new(
                Some(Timestamp::from_seconds(updated)),
                None,
                Timestamp::from_seconds(fetched),
                Hash32::of(&[content]),
                1,
            ),
            updated_at: Some(Timestamp::from_seconds(updated)),
            deleted,
            merged_into: None,
            notices: Vec::new(),
            fields: "{}".into(),
            payload: Bytes::new(),
        }
    }

    fn stored(record: &NewRecord) -> StoredRecord {
        StoredRecord { key: record.key.clone(), deleted: record.deleted, gone_at: None }
    }

    #[test]
    fn the_greater_version_wins_and_equal_content_changes_nothing() {
        let old = record(1, 10, 1, false);
        for (incoming, want) in [
            (record(2, 11, 2, false), Merge::Update),
            (record(2, 11, 1, false), Merge::Unchanged),
            (record(0, 11, 2, false), Merge::Stale),
            (record(1, 11, 2, false), Merge::Update),
            (record(1, 11, 1, true), Merge::Update),
        ] {
            assert_eq!(merge(Some(&stored(&old)), &incoming), want, "{incoming:?}");
        }
        assert_eq!(merge(None, &old), Merge::Insert);
    }

    #[test]
    fn a_date_in_the_future_does_not_freeze_a_record() {
        let future = record(4_000_000_000, 10, 1, false);
        assert_eq!(merge(Some(&stored(&future)), &record(12, 12, 2, false)), Merge::Update);
    }

    #[test]
    fn an_absence_is_ended_by_what_is_fetched_later_and_by_nothing_else() {
        let gone = StoredRecord {
            deleted: true,
            gone_at: Some(Timestamp::from_seconds(20)),
            ..stored(&record(5, 10, 1, false))
        };
        for (incoming, want) in [
            (record(5, 21, 1, false), Merge::Update),
            (record(6, 21, 2, false), Merge::Update),
            (record(4, 21, 2, false), Merge::Revive),
            (record(5, 19, 1, false), Merge::Unchanged),
            (record(6, 19, 2, false), Merge::UpdateGone),
            (record(4, 19, 2, false), Merge::Stale),
            (record(6, 21, 2, true), Merge::Update),
            (record(6, 19, 2, true), Merge::Update),
            (record(6, 21, 1, true), Merge::Unchanged),
            (record(4, 21, 2, true), Merge::Stale),
        ] {
            assert_eq!(merge(Some(&gone), &incoming), want, "{incoming:?}");
        }
    }

    #[test]
    fn what_its_source_deleted_is_not_brought_back_by_an_older_version() {
        let gone = StoredRecord {
            deleted: true,
            gone_at: Some(Timestamp::from_seconds(20)),
            ..stored(&record(5, 10, 1, false))
        };
        let (deletion, older) = (record(30, 31, 3, true), record(15, 40, 2, false));
        assert_eq!(merge(Some(&gone), &deletion), Merge::Update);
        assert_eq!(merge(Some(&stored(&deletion)), &older), Merge::Stale);
        assert_eq!(merge(Some(&gone), &older), Merge::Update);
        assert_eq!(merge(Some(&stored(&older)), &deletion), Merge::Update, "the same in the other order");
    }

    #[test]
    fn a_policy_bends_the_rule_of_versions() {
        use Policy::{FillOnly, Newest, Remap};
        let (old, marked) = (stored(&record(1, 10, 1, false)), stored(&record(1, 10, 1, true)));
        let newer = record(2, 11, 2, false);
        for (policy, known, incoming, remapped, want) in [
            (Newest, Some(&old), &newer, true, Merge::Update),
            (Newest, Some(&old), &record(1, 11, 1, false), true, Merge::Unchanged),
            (Remap, Some(&old), &record(1, 11, 1, false), true, Merge::Refit),
            (Remap, Some(&old), &record(1, 11, 1, false), false, Merge::Unchanged),
            (Remap, Some(&old), &newer, true, Merge::Update),
            (FillOnly, None, &newer, false, Merge::Insert),
            (FillOnly, Some(&old), &newer, false, Merge::Refit),
            (FillOnly, Some(&old), &record(0, 9, 3, false), false, Merge::Refit),
            (FillOnly, Some(&old), &record(2, 11, 2, true), false, Merge::Bury),
            (FillOnly, Some(&marked), &newer, false, Merge::Revive),
            (FillOnly, Some(&marked), &record(0, 9, 3, false), false, Merge::Stale),
        ] {
            assert_eq!(decide(policy, known, incoming, remapped), want, "{policy:?} {incoming:?}");
        }
    }

    proptest! {
        #[test]
        fn a_record_is_there_when_it_was_seen_last(seen in proptest::collection::vec((0i64..40, any::<bool>()), 1..12)) {
            let mut seen: Vec<(i64, bool)> = seen.into_iter().map(|(at, there)| (at * 2 + i64::from(there), there)).collect();
            let last = seen.iter().max().copied();
            seen.insert(0, (-1, true));
            let mut kept: Option<StoredRecord> = None;
            for (at, there) in seen {
                let now = Timestamp::from_seconds(at);
                let sighting = record(-1, at, 1, false);
                kept = match (kept, there) {
                    (Some(kept), false) if miss(&kept, now) == Miss::Nothing => Some(kept),
                    (Some(kept), false) => Some(StoredRecord { deleted: true, gone_at: Some(now), ..kept }),
                    (None, false) => None,
                    (kept, true) => match merge(kept.as_ref(), &sighting) {
                        Merge::Insert | Merge::Update => Some(stored(&sighting)),
                        _ => kept.map(|kept| kept.raised(&sighting)),
                    },
                };
            }
            prop_assert_eq!(kept.map(|kept| !kept.deleted), last.map(|(_, there)| there));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_order_and_repetition_of_versions_keeps_the_same_content(
            versions in proptest::collection::vec((0i64..6, 0i64..6, 0u8..4), 1..7),
            order in proptest::collection::vec(0usize..7, 0..20),
        ) {
            let versions: Vec<NewRecord> = versions.into_iter()
                .map(|(updated, extra, content)| record(updated, updated + extra, content, false)).collect();
            let fold = |sequence: &[&NewRecord]| {
                let mut kept: Option<StoredRecord> = None;
                for incoming in sequence {
                    match merge(kept.as_ref(), incoming) {
                        Merge::Insert | Merge::Update => kept = Some(stored(incoming)),
                        Merge::Unchanged => kept = kept.map(|kept| kept.raised(incoming)),
                        Merge::Stale | Merge::UpdateGone | Merge::Revive | Merge::Bury | Merge::Refit => {}
                    }
                }
                kept.map(|kept| kept.key)
            };
            let plain: Vec<&NewRecord> = versions.iter().collect();
            let mut mixed: Vec<&NewRecord> = order.iter().map(|at| &versions[at % versions.len()]).collect();
            mixed.extend(plain.iter().rev());
            let greatest = versions.iter().map(|record| record.key.clone()).max();
            prop_assert_eq!(fold(&plain), greatest.clone());
            prop_assert_eq!(fold(&mixed), greatest);
        }
    }
}
