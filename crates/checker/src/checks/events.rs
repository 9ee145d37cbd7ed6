//! C3: one event per change and none otherwise: versions of a record run 1..k without holes, the last event holds the
//! stored content, and an event's name follows from the change alone.

use std::collections::{HashMap, HashSet};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::checks::source_of;
use crate::dump::{Dump, Outbox, Record};
use crate::input::SourceRules;
use crate::verdict::{Findings, SourceVerdict};

const CHECK: &str = "C3";

pub fn check(dump: &Dump, rules: &[SourceRules], sources: &mut [SourceVerdict], findings: &mut Findings) {
    let records: HashMap<i64, &Record> = Dump::by_id(&dump.records, |record| record.id);
    let mut told: HashSet<i64> = HashSet::with_capacity(records.len());
    // The outbox is sorted by record and version.
    for events in dump.outbox.chunk_by(|left, right| left.record_id == right.record_id) {
        let source = source_of(rules, &events[0].provenance);
        told.insert(events[0].record_id);
        let duplicates = check_sequence(events, source, findings);
        if let Some(line) = sources.iter_mut().find(|line| line.source == source) {
            line.outbox_duplicates += duplicates;
        }
        match records.get(&events[0].record_id) {
            Some(record) => check_last(record, events, source, findings),
            None => {
                let message = format!("event {} tells of a record that is not stored", events[0].id);
                findings.error(
                    CHECK,
                    source,
                    message,
                    json!({"record": events[0].record_id, "id": events[0].provider_id}),
                );
            }
        }
    }
    for record in dump.records.iter().filter(|record| !told.contains(&record.id)) {
        let message = format!("record {} `{}` was stored without an event", record.id, record.provider_id);
        findings.error(CHECK, source_of(rules, &record.provenance), message, json!({"record": record.id}));
    }
    check_names(dump, rules, sources, findings);
    check_batches(dump, rules, findings);
}

/// Versions 1..k, each once, each a change. Returns how many events were one too many.
fn check_sequence(events: &[Outbox], source: &str, findings: &mut Findings) -> u64 {
    let mut duplicates = 0;
    let mut expected = 1;
    for (at, event) in events.iter().enumerate() {
        let evidence = || json!({"record": event.record_id, "event": event.id, "version": event.version_no});
        let id = &event.provider_id;
        if event.version_no < expected {
            duplicates += 1;
            findings.error(CHECK, source, format!("`{id}` version {} was told twice", event.version_no), evidence());
            continue;
        }
        if event.version_no > expected {
            let message = format!("`{id}` has no event for version {expected}, the next is {}", event.version_no);
            findings.error(CHECK, source, message, evidence());
        }
        let before = at.checked_sub(1).map(|before| &events[before]);
        let same = |before: &&Outbox| {
            before.content_hash == event.content_hash && (before.change == "DELETED") == (event.change == "DELETED")
        };
        if before.filter(same).is_some() {
            duplicates += 1;
            findings.error(
                CHECK,
                source,
                format!("`{id}` version {} tells of no change", event.version_no),
                evidence(),
            );
        }
        let kind_fits = event.change == "DELETED" || (event.change == "CREATED") == (event.version_no == 1);
        if !kind_fits {
            let message = format!("`{id}` version {} is told as {}", event.version_no, event.change);
            findings.error(CHECK, source, message, evidence());
        }
        expected = event.version_no + 1;
    }
    duplicates
}

/// The last event and the record say the same.
fn check_last(record: &Record, events: &[Outbox], source: &str, findings: &mut Findings) {
    let Some(last) = events.last() else { return };
    let id = &record.provider_id;
    let evidence = json!({"record": record.id, "event": last.id});
    if last.version_no != record.version_no {
        let message = format!("`{id}` is at version {} and its last event at {}", record.version_no, last.version_no);
        findings.error(CHECK, source, message, evidence);
    } else if last.content_hash != *record.fields_hash.as_ref().unwrap_or(&record.content_hash) {
        findings.error(
            CHECK,
            source,
            format!("the last event of `{id}` holds other content than the record"),
            evidence,
        );
    } else if (last.change == "DELETED") != (record.deleted != 0) {
        findings.error(
            CHECK,
            source,
            format!("the last event of `{id}` is {} and the record is not", last.change),
            evidence,
        );
    }
    if record
        .fields_hash
        .as_ref()
        .is_some_and(|hash| *hash != hashed(&[&record.content_hash, record.fields.as_bytes()]))
    {
        let message = format!("the hash of the fields of `{id}` does not follow from them");
        findings.error(CHECK, source, message, json!({"record": record.id}));
    }
    let named_alike = |event: &&Outbox| {
        event.provider_id == *id && event.entity == record.entity && event.provenance == record.provenance
    };
    if let Some(event) = events.iter().find(|event| !named_alike(event)) {
        let message = format!("event {} names `{}`, its record is `{id}`", event.id, event.provider_id);
        findings.error(CHECK, source, message, json!({"record": record.id, "event": event.id}));
    }
}

/// INV-16: the name of an event is a hash over key, version, content and stamp; so no two share one.
fn check_names(dump: &Dump, rules: &[SourceRules], sources: &mut [SourceVerdict], findings: &mut Findings) {
    let mut seen: HashSet<&[u8]> = HashSet::with_capacity(dump.outbox.len());
    for event in &dump.outbox {
        let source = source_of(rules, &event.provenance);
        let evidence = || json!({"event": event.id, "record": event.record_id});
        if !seen.insert(&event.event_id) {
            findings.error(CHECK, source, format!("event {} shares its event_id with another", event.id), evidence());
            if let Some(line) = sources.iter_mut().find(|line| line.source == source) {
                line.outbox_duplicates += 1;
            }
        }
        if event.event_id != name_of(event) {
            let message = format!("the event_id of event {} does not follow from its change", event.id);
            findings.error(CHECK, source, message, evidence());
        }
    }
}

/// Each part is preceded by its length in eight bytes, big end first; a missing stamp is the least number.
pub(crate) fn name_of(event: &Outbox) -> Vec<u8> {
    let version = event.version_no.to_be_bytes();
    let stamp = event.updated_at.unwrap_or(i64::MIN).to_be_bytes();
    let key = [event.provenance.as_bytes(), event.entity.as_bytes(), event.provider_id.as_bytes()];
    hashed(&[key[0], key[1], key[2], &version, &event.content_hash, &stamp])
}

fn hashed(parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_vec()
}

/// A batch wrote as many events as it says it changed records.
fn check_batches(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let mut written: HashMap<i64, u64> = HashMap::new();
    for event in &dump.outbox {
        *written.entry(event.batch_id).or_default() += 1;
    }
    for batch in &dump.batches {
        let Some(counts) = batch.stats.filter(|_| batch.committed()) else { continue };
        // An id that stayed missing is marked deleted by a batch that did not fetch it.
        let changed = counts.inserted + counts.updated + counts.tombstoned;
        let written = written.get(&batch.id).copied().unwrap_or(0);
        if changed != written {
            let message = format!("batch {} changed {changed} records and wrote {written} events", batch.id);
            findings.error(CHECK, source_of(rules, &batch.provenance), message, json!({"batch": batch.id}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn holes_doubles_and_silent_changes_are_found() {
        plant("C3", &[
            Planted::sql(
                "a hole in the events",
                "DELETE FROM ing_outbox WHERE provider_id = 'b' AND version_no = 1",
                "no event for version 1",
            ),
            Planted::sql(
                "the last event lost",
                "DELETE FROM ing_outbox WHERE provider_id = 'b' AND version_no = 2",
                "its last event at 1",
            ),
            Planted::sql("event in a second transaction, lost", "DELETE FROM ing_outbox WHERE provider_id = 'a'", "without an event"),
            Planted::sql(
                "an event told twice",
                "DROP INDEX uk_outbox_version;
                 INSERT INTO ing_outbox SELECT id + 5000, record_id, version_no, event_id, provenance_code, endpoint_name,
                 provider_id, change_code, updated_at, content_hash, fields, batch_id, status_code, created_at, sent_at,
                 shard_no, resend_no, parked_at, parked_reason, merged_into FROM ing_outbox WHERE provider_id = 'a'",
                "told twice",
            ),
            Planted::sql(
                "an event without a change",
                "UPDATE ing_outbox SET content_hash = (SELECT content_hash FROM ing_record WHERE provider_id = 'b')
                 WHERE provider_id = 'b'",
                "tells of no change",
            ),
            Planted::sql(
                "event id from auto-increment",
                "UPDATE ing_outbox SET event_id = CAST(id AS BLOB)",
                "does not follow from its change",
            ),
            Planted::sql(
                "other content than stored",
                "UPDATE ing_record SET content_hash = zeroblob(32) WHERE provider_id = 'a'",
                "holds other content",
            ),
            Planted::sql("a record gone, its event kept", "DELETE FROM ing_record WHERE provider_id = 'a'", "not stored"),
            Planted::sql(
                "an update told as a creation",
                "UPDATE ing_outbox SET change_code = 'CREATED' WHERE version_no = 2",
                "is told as CREATED",
            ),
            Planted::sql(
                "fields that nobody told of",
                "UPDATE ing_record SET fields_hash = zeroblob(32) WHERE provider_id = 'a'",
                "does not follow from them",
            ),
            Planted::sql(
                "a tombstone without an event",
                crate::fixture::GONE,
                "its last event at 1",
            ),
            Planted::sql(
                "an event under another batch",
                "UPDATE ing_outbox SET batch_id = 402 WHERE provider_id = 'a'",
                "wrote 1 events",
            ),
        ])
        .await;
    }
}
