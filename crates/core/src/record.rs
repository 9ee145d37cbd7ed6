//! Records and which version of one is kept.
//!
//! The version key is a total order, so keeping the greatest makes the upsert commutative, associative and
//! idempotent (INV-13): retries, parallel slices and replays cannot set a record back.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::planted::{Defect, planted};
use crate::time::Timestamp;

/// A record ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub provider_id: String,
    pub key: VersionKey,
    /// The source's own time, before it was clamped to the fetch time.
    pub updated_at: Option<Timestamp>,
    pub deleted: bool,
    pub fields: String,
    pub payload: Bytes,
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
}

/// The whole rule. An equal content hash with the same deletion mark changes nothing.
pub fn merge(stored: Option<&StoredRecord>, incoming: &NewRecord) -> Merge {
    let Some(stored) = stored else { return Merge::Insert };
    if stored.key.content_hash == incoming.key.content_hash && stored.deleted == incoming.deleted {
        return Merge::Unchanged;
    }
    if planted(Defect::OlderOverwrites) {
        return Merge::Update;
    }
    if incoming.key > stored.key { Merge::Update } else { Merge::Stale }
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
pub fn event_id(provenance: &str, entity: &str, provider_id: &str, version_no: i64, record: &NewRecord) -> Hash32 {
    let updated = record.updated_at.map_or(i64::MIN, Timestamp::micros);
    Hash32::of_parts(&[
        provenance.as_bytes(),
        entity.as_bytes(),
        provider_id.as_bytes(),
        &version_no.to_be_bytes(),
        record.key.content_hash.bytes(),
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
            fields: "{}".into(),
            payload: Bytes::new(),
        }
    }

    fn stored(record: &NewRecord) -> StoredRecord {
        StoredRecord { key: record.key.clone(), deleted: record.deleted }
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
                        Merge::Stale => {}
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
