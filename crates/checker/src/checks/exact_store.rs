//! C1: what is stored is the greatest version among those that came in pages whose batch committed; nothing is
//! invented, nothing that came is lost.
//!
//! Versions are ordered by (effective time, fetch time), where the effective time is the source's stamp, at most the
//! fetch time. Versions of equal content are one: whichever of them came first keeps its bytes.

use serde_json::json;

use crate::case::{Case, CommittedPage, Delivery, Stored};
use crate::verdict::{Findings, SourceVerdict};

const CHECK: &str = "C1";

pub fn check(case: &Case<'_>, verdict: &mut SourceVerdict, findings: &mut Findings) {
    if case.truth.is_empty() {
        findings.note(CHECK, case.source(), "no truth is known, so the store was not compared");
        return;
    }
    let logged = !case.served.is_empty();
    if logged {
        check_answers(case, findings);
        check_lost(case, findings);
    } else {
        findings.note(CHECK, case.source(), "no arrival log, so versions were compared with the truth only");
    }
    for (id, stored) in &case.stored {
        let told = match stored.version {
            None => invented(case, id, stored),
            Some(version) if logged => not_the_greatest(case, id, version),
            Some(_) => None,
        };
        if stored.version.is_none() {
            verdict.extra_count += 1;
        }
        if let Some(message) = told.or_else(|| wrong_mark(case, id, stored)) {
            let evidence = json!({"id": id, "record": stored.record.id, "version": stored.version, "batch": stored.record.batch_id});
            findings.error(CHECK, case.source(), message, evidence);
        }
    }
}

/// Every committed batch was made from an answer the source gave.
fn check_answers(case: &Case<'_>, findings: &mut Findings) {
    // A detail request refused for its only id has no answer to show, and no records either.
    let refused = |page: &CommittedPage<'_>| page.batch.response_hash.is_none() && page.batch.record_count == 0;
    for page in case.pages.iter().filter(|page| page.served.is_none() && !refused(page)) {
        let message = format!("batch {} was committed from an answer the source never gave", page.batch.id);
        findings.error(CHECK, case.source(), message, json!({"batch": page.batch.id, "run": page.batch.run_id}));
    }
}

/// Every delivered record is stored, unless each delivery was set aside.
fn check_lost(case: &Case<'_>, findings: &mut Findings) {
    for (id, deliveries) in &case.deliveries {
        if case.stored.contains_key(id) {
            continue;
        }
        if let Some(delivery) = deliveries.iter().find(|delivery| required(case, id, delivery)) {
            let message = format!("`{id}` came in batch {} and is not stored", delivery.batch);
            findings.error(CHECK, case.source(), message, json!({"id": id, "version": delivery.version}));
        }
    }
}

fn invented(case: &Case<'_>, id: &str, stored: &Stored<'_>) -> Option<String> {
    let record = stored.record.id;
    Some(match case.truth.get(id) {
        None => format!("record {record} `{id}` is invented: the source never had it"),
        Some(_) => format!("record {record} `{id}` holds content the source never had"),
    })
}

fn not_the_greatest(case: &Case<'_>, id: &str, version: u32) -> Option<String> {
    let deliveries = case.deliveries.get(id).map_or(&[][..], Vec::as_slice);
    let key = |delivery: &Delivery| {
        let stamp = case.version(id, delivery.version).map_or(i64::MIN, |version| version.row.updated_at);
        (stamp.min(delivery.fetched_at), delivery.fetched_at)
    };
    let Some(own) = deliveries.iter().filter(|delivery| delivery.version == version).map(key).max() else {
        return Some(format!("`{id}` is stored as version {version}, which came in no committed page"));
    };
    let greatest = deliveries.iter().filter(|delivery| required(case, id, delivery)).max_by_key(|d| key(d))?;
    let class = |number: u32| case.version(id, number).map(|version| version.class);
    if class(greatest.version) == class(version) || own > key(greatest) {
        return None;
    }
    Some(format!(
        "`{id}` is stored as version {version} although version {} came in batch {}",
        greatest.version, greatest.batch
    ))
}

/// A delivery that must have had its say.
fn required(case: &Case<'_>, id: &str, delivery: &Delivery) -> bool {
    let sha = case.version(id, delivery.version).map(|version| &version.sha);
    !delivery.optional && !case.quarantine.holds(delivery.batch, id, sha)
}

/// The deletion mark says what the source said, unless the id went missing for good.
fn wrong_mark(case: &Case<'_>, id: &str, stored: &Stored<'_>) -> Option<String> {
    let version = case.version(id, stored.version?)?;
    let deleted = stored.record.deleted != 0;
    let ours = |provenance: &str| provenance == case.rules.provenance_code;
    let tombstone = || {
        case.dump
            .missing_ids
            .iter()
            .any(|row| row.provider_id == id && row.status == "TOMBSTONE" && ours(&row.provenance))
    };
    if deleted == version.row.deleted || (deleted && tombstone()) {
        return None;
    }
    Some(format!("`{id}` is stored with deleted = {deleted}, the source said {}", version.row.deleted))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn lost_and_invented_versions_are_found() {
        plant(
            "C1",
            &[
                Planted::sql("a record lost", "DELETE FROM ing_record WHERE provider_id = 'c'", "`c` came in batch"),
                Planted::sql(
                    "an invented record",
                    "UPDATE ing_record SET provider_id = 'ghost' WHERE provider_id = 'c'",
                    "`ghost` is invented",
                ),
                Planted::sql(
                    "content from nowhere",
                    "UPDATE ing_record SET payload = X'00' WHERE provider_id = 'a'",
                    "holds content the source never had",
                ),
                Planted::sql(
                    "an older version kept",
                    "UPDATE ing_record SET payload = CAST('b.1' AS BLOB) WHERE provider_id = 'b'",
                    "although version 2 came",
                ),
                Planted::sql(
                    "a cut page accepted",
                    "UPDATE ing_task_run_batch SET response_hash = zeroblob(32) WHERE id = 402",
                    "an answer the source never gave",
                ),
                Planted::sql(
                    "a record marked deleted",
                    "UPDATE ing_record SET deleted = 1 WHERE provider_id = 'a'",
                    "deleted = true",
                ),
                Planted::input(
                    "a version stored that was never served",
                    |input| input.served.iter_mut().for_each(|row| row.items.retain(|(id, _)| id != "g")),
                    "came in no committed page",
                ),
            ],
        )
        .await;
    }
}
