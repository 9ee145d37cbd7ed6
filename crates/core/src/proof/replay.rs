//! A kept page read again: is it what it was, and what would another mapping make of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::hash::Hash32;
use crate::id::Id;
use crate::page::Item;
use crate::ports::{Counts, Phase};
use crate::time::Timestamp;
use crate::window::Window;

/// Which pages are read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pages {
    Batch(Id),
    Run(Id),
    Task(Id),
    Source(String),
    /// Of a source those whose windows touch this one.
    Range(String, Window),
}

/// What is left of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Whole(Bytes),
    /// Only its beginning, masked.
    Sample(Bytes),
    Nothing,
}

/// A committed page and the answer that was kept of it.
#[derive(Clone, Debug)]
pub struct KeptPage {
    pub batch: Id,
    pub plan: Id,
    pub window: Window,
    pub phase: Phase,
    /// Short hashes of its ids, in page order.
    pub ids: Vec<u64>,
    pub total: Option<u64>,
    pub fetched_at: Option<Timestamp>,
    pub kept: Kept,
}

/// A record as one reading gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    pub id: String,
    pub content_hash: Hash32,
    /// Mapped fields, JSON.
    pub fields: String,
}

impl ReadRecord {
    pub fn of(item: &Item) -> ReadRecord {
        ReadRecord { id: item.id.clone(), content_hash: item.content_hash, fields: item.fields.clone() }
    }
}

/// What two readings of a page differ in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    pub added: Vec<String>,
    pub lost: Vec<String>,
    pub changed: Vec<Changed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub id: String,
    /// Names of the fields that differ; `content` where the record itself does.
    pub fields: Vec<String>,
}

impl Differences {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.lost.is_empty() && self.changed.is_empty()
    }

    /// In a few words.
    pub fn told(&self) -> String {
        format!("{} added, {} lost, {} changed", self.added.len(), self.lost.len(), self.changed.len())
    }

    /// From one reading to another.
    pub fn between(before: &[ReadRecord], after: &[ReadRecord]) -> Differences {
        let known: BTreeMap<&str, &ReadRecord> = before.iter().map(|record| (record.id.as_str(), record)).collect();
        let now: BTreeMap<&str, &ReadRecord> = after.iter().map(|record| (record.id.as_str(), record)).collect();
        let mut found = Differences::default();
        for (id, record) in &now {
            match known.get(id) {
                None => found.added.push((*id).to_owned()),
                Some(was) => found.changed.extend(changed(was, record)),
            }
        }
        found.lost = known.keys().filter(|id| !now.contains_key(*id)).map(|id| (*id).to_owned()).collect();
        found
    }
}

/// What a replay of many pages came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    pub pages: u64,
    pub same: u64,
    pub different: u64,
    /// Pages that cannot be read under the spec, or whose records the database would refuse.
    pub broken: u64,
    /// Pages of which no whole answer is kept.
    pub not_kept: u64,
    pub records: u64,
    pub added: u64,
    pub lost: u64,
    pub changed: u64,
    /// In how many records each field differs; `content` where the record itself does.
    pub fields: BTreeMap<String, u64>,
    /// What committing all records again would have done, where that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Counts>,
}

impl Replayed {
    /// One more page, by its outcome.
    pub fn count(&mut self, outcome: &str) {
        self.pages += 1;
        match outcome {
            "SAME" => self.same += 1,
            "DIFFERENT" => self.different += 1,
            "BROKEN" | "REFUSED" => self.broken += 1,
            _ => self.not_kept += 1,
        }
    }

    pub fn add(&mut self, differences: &Differences) {
        self.added += differences.added.len() as u64;
        self.lost += differences.lost.len() as u64;
        self.changed += differences.changed.len() as u64;
        for field in differences.changed.iter().flat_map(|one| &one.fields) {
            *self.fields.entry(field.clone()).or_default() += 1;
        }
    }
}

fn changed(before: &ReadRecord, after: &ReadRecord) -> Option<Changed> {
    let fields = |record: &ReadRecord| serde_json::from_str::<Value>(&record.fields).unwrap_or_default();
    let (was, is) = (fields(before), fields(after));
    let names = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    let mut all: Vec<String> = names(&was);
    all.extend(names(&is));
    all.sort();
    all.dedup();
    let mut differing: Vec<String> = all.into_iter().filter(|name| was.get(name) != is.get(name)).collect();
    if before.content_hash != after.content_hash {
        differing.push("content".into());
    }
    (!differing.is_empty()).then(|| Changed { id: after.id.clone(), fields: differing })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, content: &str, fields: &str) -> ReadRecord {
        ReadRecord { id: id.into(), content_hash: Hash32::of(content.as_bytes()), fields: fields.into() }
    }

    #[test]
    fn readings_differ_in_records_and_in_fields() {
        let before = [record("a", "1", r#"{"t":1,"u":2}"#), record("b", "1", "{}"), record("c", "1", "{}")];
        let after = [record("a", "1", r#"{"t":1,"u":3,"v":4}"#), record("c", "2", "{}"), record("d", "1", "{}")];
        let found = Differences::between(&before, &after);
        let mut sums = Replayed::default();
        sums.add(&found);
        sums.add(&found);
        assert_eq!((sums.added, sums.lost, sums.changed), (2, 2, 4));
        let fields: Vec<(&str, u64)> = sums.fields.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(fields, [("content", 2), ("u", 2), ("v", 2)]);
        assert_eq!((found.added, found.lost), (vec!["d".to_owned()], vec!["b".to_owned()]));
        let want = [("a", vec!["u", "v"]), ("c", vec!["content"])];
        let told: Vec<(&str, Vec<&str>)> = found
            .changed
            .iter()
            .map(|one| (one.id.as_str(), one.fields.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(told, want);
        assert!(Differences::between(&before, &before).is_empty());
    }
}
