//! What is told to the world about a record, and in which order.
//!
//! A change of a record is one row of the outbox, written by the commit that made the change. A relay reads the rows of
//! a shard by their state, publishes them and marks them SENT after the other side has said that it has them (INV-45).
//! Rows of one record share a shard, a shard has one holder, and a version is offered only when no earlier one is
//! waiting, so versions go out in order (INV-46). `docs/events.md` describes the message for its readers.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::hash::Hash32;
use crate::id::Id;
use crate::record::ChangeKind;
use crate::time::{Span, Timestamp};

/// Name of the message's shape. Fields may be added to it; anything else is a new name.
pub const SCHEMA: &str = "patra.record.v1";
/// Fixed for ever: a record whose shard changed could be told by two relays at once.
pub const SHARDS: u8 = 64;
/// How long SENT rows are kept for publishing again (INV-47).
pub const SENT_KEPT: Span = Span::DAY.times(7);

/// The shard that all versions of a record go through.
pub fn shard_of(provenance: &str, entity: &str, provider_id: &str) -> u8 {
    let hash = Hash32::of_parts(&[provenance.as_bytes(), entity.as_bytes(), provider_id.as_bytes()]);
    (hash.short() % u64::from(SHARDS)) as u8
}

/// A change of a record that has not been told yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Row of the outbox.
    pub id: Id,
    pub event_id: Hash32,
    /// How often it was asked to be published again.
    pub resend_no: u32,
    pub provenance: String,
    pub entity: String,
    pub provider_id: String,
    pub version_no: i64,
    pub change: ChangeKind,
    pub updated_at: Option<Timestamp>,
    pub content_hash: Hash32,
    /// Mapped fields, a JSON object.
    pub fields: String,
    /// DELETED: the record that stands in its place.
    pub merged_into: Option<String>,
    pub lineage: Lineage,
    /// Fingerprint of the spec that read the record.
    pub fingerprint: Option<Hash32>,
    pub recorded_at: Timestamp,
}

/// Where a version came from. Only the batch is known once its row is past retention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lineage {
    pub plan_id: Option<Id>,
    pub slice_id: Option<Id>,
    pub task_id: Option<Id>,
    pub run_id: Option<Id>,
    pub batch_id: Id,
}

/// An event as it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Row of the outbox.
    pub row: Id,
    pub event_id: Hash32,
    /// What the broker recognises a repetition by: the event's id. A message that was asked for again gets another one,
    /// or a broker that lost it would take it for a repetition and drop it.
    pub message_id: String,
    pub provenance: String,
    pub entity: String,
    pub change: ChangeKind,
    /// One line of JSON.
    pub body: Bytes,
}

#[derive(Serialize)]
struct Body<'a> {
    schema: &'static str,
    event_id: Hash32,
    record: RecordKey<'a>,
    version: i64,
    change: ChangeKind,
    updated_at: Option<Timestamp>,
    recorded_at: Timestamp,
    content_hash: Hash32,
    fingerprint: Option<Hash32>,
    lineage: &'a Lineage,
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_into: Option<&'a str>,
    fields: &'a RawValue,
}

#[derive(Serialize)]
struct RecordKey<'a> {
    source: &'a str,
    entity: &'a str,
    id: &'a str,
}

/// The event cannot be written as a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event cannot be written as a message: {message}")]
pub struct Unwritable {
    pub message: String,
}

impl Event {
    /// The same bytes whenever it is asked for.
    pub fn message(&self) -> Result<Message, Unwritable> {
        let wrong = |error: serde_json::Error| Unwritable { message: error.to_string() };
        // A line break between two tokens would be two lines of a file; inside of a string it cannot stand.
        let fields = self.fields.replace(['\n', '\r'], " ");
        let fields = RawValue::from_string(fields).map_err(wrong)?;
        let body = Body {
            schema: SCHEMA,
            event_id: self.event_id,
            record: RecordKey { source: &self.provenance, entity: &self.entity, id: &self.provider_id },
            version: self.version_no,
            change: self.change,
            updated_at: self.updated_at,
            recorded_at: self.recorded_at,
            content_hash: self.content_hash,
            fingerprint: self.fingerprint,
            lineage: &self.lineage,
            merged_into: self.merged_into.as_deref(),
            fields: &fields,
        };
        Ok(Message {
            row: self.id,
            event_id: self.event_id,
            message_id: message_id(self.event_id, self.resend_no),
            provenance: self.provenance.clone(),
            entity: self.entity.clone(),
            change: self.change,
            body: serde_json::to_vec(&body).map_err(wrong)?.into(),
        })
    }
}

fn message_id(event: Hash32, resend_no: u32) -> String {
    match resend_no {
        0 => event.to_string(),
        again => format!("{event}-{again}"),
    }
}

/// The event that a broker's message id stands for.
pub fn event_of_message_id(message_id: &str) -> Option<Hash32> {
    message_id.split('-').next()?.parse().ok()
}

/// Part of a subject or of a key on another server: only `[A-Za-z0-9_-]` may stand there (S-11).
pub fn safe_part(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    if text.is_empty() { "_".to_owned() } else { text.chars().map(safe).collect() }
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The other side has it for good.
    Acked,
    /// It will never be taken as it is: park it and tell a person.
    Refused { reason: String },
    /// Perhaps later; nobody knows whether it arrived.
    NotNow { reason: String },
}

/// What is written back after a round of publishing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    pub sent: Vec<Id>,
    pub parked: Vec<(Id, String)>,
    /// Stay PENDING, with the reason of the first.
    pub held: usize,
    pub held_reason: Option<String>,
}

impl Settlement {
    /// Adds the verdicts on `rows`. A row without a verdict stays PENDING.
    pub fn add(&mut self, rows: &[Id], deliveries: Vec<Delivery>) {
        let missing = rows.len().saturating_sub(deliveries.len());
        for (row, delivery) in rows.iter().zip(deliveries) {
            match delivery {
                Delivery::Acked => self.sent.push(*row),
                Delivery::Refused { reason } => self.parked.push((*row, reason)),
                Delivery::NotNow { reason } => {
                    self.held += 1;
                    self.held_reason.get_or_insert(reason);
                }
            }
        }
        self.held += missing;
    }
}

/// Finds the events that a stream should hold and does not. Keeps eight bytes of each id: a stream of ten million
/// events is 80 MB.
#[derive(Debug, Default)]
pub struct Held(Vec<u64>);

impl Held {
    pub fn add(&mut self, event: Hash32) {
        self.0.push(event.short());
    }

    /// Ends the collecting; before that nothing is found.
    pub fn sort(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }

    pub fn contains(&self, event: &Hash32) -> bool {
        self.0.binary_search(&event.short()).is_ok()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn event() -> Event {
        Event {
            id: Id(7),
            event_id: Hash32::of(b"event"),
            resend_no: 0,
            provenance: "crossref".into(),
            entity: "works".into(),
            provider_id: "10.1000/182".into(),
            version_no: 3,
            change: ChangeKind::Updated,
            updated_at: Some(Timestamp::from_seconds(1_772_323_200)),
            content_hash: Hash32::of(b"content"),
            fields: r#"{"doi":"10.1000/182","title":"The DOI Handbook"}"#.into(),
            merged_into: None,
            lineage: Lineage {
                plan_id: Some(Id(361_801_230_000_001)),
                slice_id: Some(Id(361_801_230_000_002)),
                task_id: Some(Id(361_801_230_000_003)),
                run_id: Some(Id(361_801_230_000_004)),
                batch_id: Id(361_801_230_000_005),
            },
            fingerprint: Some(Hash32::of(b"spec")),
            recorded_at: Timestamp::from_seconds(1_772_326_800),
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_what_is_sent() {
        let page = include_str!("../../../docs/events.md");
        let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let documented: Value = serde_json::from_str(example).unwrap();
        let sent: Value = serde_json::from_slice(&event().message().unwrap().body).unwrap();
        assert_eq!(documented, sent, "docs/events.md shows\n{}", serde_json::to_string_pretty(&sent).unwrap());
        for key in sent.as_object().unwrap().keys() {
            assert!(page.contains(&format!("| `{key}")), "docs/events.md does not explain `{key}`");
        }
    }

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let fields = "{\n  \"title\": \"a\\nb\"\r\n}".to_owned();
        let message = Event { provider_id: "a\nb\u{1b}[31m".into(), fields, ..event() }.message().unwrap();
        assert!(message.body.iter().all(|byte| *byte >= b' '), "{:?}", message.body);
        let read: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!((&read["record"]["id"], &read["fields"]["title"]), (&"a\nb\u{1b}[31m".into(), &"a\nb".into()));
        assert!(Event { fields: "{".into(), ..event() }.message().is_err());
    }

    #[test]
    fn a_message_asked_for_again_is_no_repetition_to_the_broker_and_the_same_event_to_readers() {
        let first = event().message().unwrap();
        let again = Event { resend_no: 2, ..event() }.message().unwrap();
        assert_eq!(first.message_id, first.event_id.to_string());
        assert_ne!(first.message_id, again.message_id);
        assert_eq!(first.body, again.body);
        assert_eq!(event_of_message_id(&again.message_id), Some(first.event_id));
        assert_eq!(event_of_message_id("nonsense"), None);
    }

    #[test]
    fn parts_of_subjects_hold_nothing_a_broker_could_read() {
        for (text, want) in
            [("crossref", "crossref"), ("a.b>*", "a_b__"), ("", "_"), ("é x", "__x"), ("a\r\nPUB", "a__PUB")]
        {
            assert_eq!(safe_part(text), want);
        }
    }

    #[test]
    fn verdicts_become_one_settlement_and_a_missing_one_keeps_its_row() {
        let mut settlement = Settlement::default();
        let verdicts = vec![
            Delivery::Acked,
            Delivery::Refused { reason: "too big".into() },
            Delivery::NotNow { reason: "no answer".into() },
        ];
        settlement.add(&[Id(1), Id(2), Id(3), Id(4)], verdicts);
        assert_eq!((settlement.sent, settlement.held), (vec![Id(1)], 2));
        assert_eq!(settlement.parked, [(Id(2), "too big".to_owned())]);
        assert_eq!(settlement.held_reason.as_deref(), Some("no answer"));
    }

    #[test]
    fn shards_are_used_evenly_and_stay_what_they_are() {
        let mut counts = [0u32; SHARDS as usize];
        for id in 0..64_000 {
            counts[usize::from(shard_of("crossref", "works", &id.to_string()))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        // A record that moved to another shard could be told out of order.
        assert_eq!([shard_of("crossref", "works", "10.1000/182"), shard_of("a", "b", "c")], [6, 11]);
    }
}
