//! C1: what is stored is the greatest version among those that came in pages whose batch committed; nothing is
//! invented, nothing that came is lost.
//!
//! Versions are ordered by (effective time, fetch time), where the effective time is the source's stamp, at most the
//! fetch time. Versions of equal content are one: whichever of them came first keeps its bytes.

use serde_json::json;

use crate::case::{Case, CommittedPage, Delivery, Stored};
use crate::dump::MissingId;
use crate::verdict::{Findings, SourceVerdict};

const CHECK: &str = "C1";
const DAY_US: i64 = 86_400_000_000;

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
    // A refresh begins with ids that are known: no request, no records.
    let listed = |page: &CommittedPage<'_>| {
        page.batch.operation == "UPDATE" && page.batch.phase == "search" && page.batch.response_hash.is_none()
    };
    for page in case.pages.iter().filter(|page| page.served.is_none() && !refused(page) && !listed(page)) {
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

/// The deletion mark says what the source said, or that the record stayed away.
fn wrong_mark(case: &Case<'_>, id: &str, stored: &Stored<'_>) -> Option<String> {
    let version = case.version(id, stored.version?)?;
    let deleted = stored.record.deleted != 0;
    if let Some(row) = missing_row(case, id).filter(|row| row.status == "TOMBSTONE" && !deleted) {
        let seen_since = stored.record.fetched_at >= row.last_asked_at;
        return (!seen_since).then(|| format!("`{id}` stayed away and its record is not marked as deleted"));
    }
    match stored.record.gone_at.filter(|_| deleted) {
        Some(gone_at) => wrong_absence(case, id, gone_at),
        None if deleted == version.row.deleted => None,
        None => Some(format!("`{id}` is stored with deleted = {deleted}, the source said {}", version.row.deleted)),
    }
}

/// A record may be taken for gone when two answers, a day apart, lacked it, or another one came in its place; and when
/// the source did not show it then.
fn wrong_absence(case: &Case<'_>, id: &str, gone_at: i64) -> Option<String> {
    let believed = |row: &MissingId| {
        row.status == "TOMBSTONE"
            && (row.reason == "MERGED" || (row.sightings >= 2 && row.last_asked_at - row.first_asked_at >= DAY_US))
    };
    if !missing_row(case, id).is_some_and(believed) {
        return Some(format!("`{id}` is taken for gone, but no two answers a day apart lacked it"));
    }
    let shown = case.truth.get(id)?.iter().rev().find(|version| version.row.visible_at <= gone_at)?.row;
    (!shown.deleted && !shown.detail_missing).then(|| format!("`{id}` is taken for gone, but the source had it"))
}

fn missing_row<'a>(case: &Case<'a>, id: &str) -> Option<&'a MissingId> {
    case.dump.missing_ids.iter().find(|row| row.provider_id == id && row.provenance == case.rules.provenance_code)
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
                Planted::sql("a record buried that is there", crate::fixture::GONE, "the source had it"),
                Planted::sql(
                    "a record buried after one absence",
                    "UPDATE ing_record SET deleted = 1, gone_at = '2023-11-16T22:15:12Z' WHERE provider_id = 'a'",
                    "no two answers a day apart",
                ),
                Planted::sql(
                    "a tombstone that is not on the record",
                    "INSERT INTO ing_missing_id VALUES (1, 'crossref', 'works', 'a', 2, 'NOT_RETURNED', 407,
                     '2023-11-15T22:15:12Z', '2023-11-16T22:15:12Z', '2023-11-17T22:15:12Z', 'TOMBSTONE')",
                    "its record is not marked",
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

    #[tokio::test]
    async fn a_record_that_its_source_has_no_more_is_gone_with_one_event() {
        let mut input = crate::fixture::good().await;
        let mut deletion = crate::fixture::truth("a", 2, 300, 301, None);
        deletion.deleted = true;
        input.truth.push(deletion);
        crate::fixture::run(&input, crate::fixture::GONE).await;
        crate::fixture::tell_gone(&input, "a").await;
        let verdict = crate::check(&input).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
    }
}
