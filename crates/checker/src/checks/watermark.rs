//! C4: the watermark never passes the contiguous prefix of what was read, and equals it at rest.
//!
//! Coverage is recomputed from the slices: each SUCCEEDED window counts up to its reading minus the lag, waived windows
//! count whole. At each cursor event only what the ledger knew by then counts.

use std::collections::BTreeMap;

use serde_json::json;

use crate::case::Case;
use crate::cover::{Cover, Credit};
use crate::dump::{Cursor, CursorEvent, Waiver};
use crate::time::{shown, shown_span};
use crate::verdict::{Findings, SourceVerdict};

const CHECK: &str = "C4";

/// One cursor and everything that may move it.
pub struct Namespace<'a> {
    pub hash: &'a [u8],
    pub operation: &'a str,
    /// Where coverage begins: the origin for HARVEST, the cursor's own beginning otherwise.
    pub start: i64,
    pub credits: Vec<Credit>,
    pub waivers: Vec<&'a Waiver>,
    pub cursor: Option<&'a Cursor>,
    pub events: Vec<&'a CursorEvent>,
    /// Read long ago, its slices deleted by retention: the cursor alone remembers.
    retained_to: Option<i64>,
}

impl Namespace<'_> {
    /// What was read `delay` after it was dated, as far as known at `known_at`.
    pub fn cover(&self, delay: i64, known_at: i64) -> Cover {
        let mut cover = Cover::default();
        if let Some(to) = self.retained_to {
            cover.add(self.start, to);
        }
        for credit in self.credits.iter().filter(|credit| credit.known_at <= known_at) {
            let (from, to) = credit.settled(delay);
            cover.add(from, to);
        }
        for waiver in self.waivers.iter().filter(|waiver| waiver.created_at <= known_at) {
            cover.add(waiver.from, waiver.to);
        }
        cover
    }
}

/// Every namespace of the source, from plans, cursors and events alike.
pub fn namespaces<'a>(case: &Case<'a>) -> Vec<Namespace<'a>> {
    let dump = case.dump;
    let ours = |provenance: &str| provenance == case.rules.provenance_code;
    let mut found: BTreeMap<&[u8], &str> = BTreeMap::new();
    found.extend(
        dump.plans.iter().filter(|p| ours(&p.provenance)).map(|p| (p.namespace.as_slice(), p.operation.as_str())),
    );
    found.extend(
        dump.cursors
            .iter()
            .filter(|c| ours(&c.provenance) && !is_shared(c))
            .map(|c| (c.namespace.as_slice(), c.operation.as_str())),
    );
    found.into_iter().map(|(hash, operation)| namespace(case, hash, operation)).collect()
}

/// The cursor that several endpoints share covers nothing itself.
fn is_shared(cursor: &Cursor) -> bool {
    cursor.endpoint.is_empty()
}

/// A shared watermark is past none of those that share it. Of an endpoint that is asked in a new way the younger
/// cursor may still be catching up, so each endpoint counts by what it ever reached.
fn check_shared(case: &Case<'_>, findings: &mut Findings) {
    let ours = || case.dump.cursors.iter().filter(|cursor| cursor.provenance == case.rules.provenance_code);
    for shared in ours().filter(|cursor| is_shared(cursor)) {
        let mut reached: BTreeMap<&str, Option<i64>> = BTreeMap::new();
        let alike = |own: &&Cursor| {
            !is_shared(own) && (&own.operation, &own.key, &own.scope) == (&shared.operation, &shared.key, &shared.scope)
        };
        for own in ours().filter(alike) {
            let known = reached.entry(own.endpoint.as_str()).or_default();
            *known = (*known).max(own.instant);
        }
        let least = reached.values().copied().min().flatten();
        if shared.instant > least {
            let message =
                format!("the shared watermark {} is past one that shares it", shown(shared.instant.unwrap_or(0)));
            findings.error(CHECK, case.source(), message, json!({"cursor": shared.id, "least": least}));
        }
    }
}

fn namespace<'a>(case: &Case<'a>, hash: &'a [u8], operation: &'a str) -> Namespace<'a> {
    let dump = case.dump;
    let slices: Vec<_> = dump.slices.iter().filter(|slice| slice.namespace == hash).collect();
    let events: Vec<&CursorEvent> = dump.cursor_events.iter().filter(|event| event.namespace == hash).collect();
    let cursor = dump.cursors.iter().find(|cursor| cursor.namespace == hash);
    let lowest = slices.iter().map(|slice| slice.from).min();
    let begun = events.first().and_then(|event| event.prev_instant).or(lowest);
    let start = if operation == "HARVEST" { case.rules.origin_us } else { begun.unwrap_or(case.rules.origin_us) };
    let finished_to = cursor.and_then(|cursor| cursor.finished_to);
    let retained_to = finished_to.filter(|to| case.rules.slices_pruned && lowest.is_none_or(|lowest| lowest <= *to));
    Namespace {
        hash,
        operation,
        start,
        credits: case.tree.credits(slices.into_iter().filter(|slice| slice.parent.is_none())),
        waivers: dump.waivers.iter().filter(|waiver| waiver.namespace == hash).collect(),
        cursor,
        events,
        retained_to,
    }
}

pub fn check(case: &Case<'_>, verdict: &mut SourceVerdict, findings: &mut Findings) {
    for namespace in namespaces(case) {
        let proven = namespace.cover(case.rules.lag_us, i64::MAX).reach(namespace.start);
        if case.steady_clock {
            check_events(case, &namespace, findings);
        }
        check_cursor(case, &namespace, proven, findings);
        if namespace.operation == "HARVEST" {
            let at = namespace.cursor.and_then(|cursor| cursor.instant);
            verdict.watermark = least(verdict.watermark, at);
            verdict.watermark_proven = least(verdict.watermark_proven, Some(proven));
            let plans = case.dump.plans.iter().filter(|plan| plan.namespace == namespace.hash);
            verdict.watermark_truth = least(verdict.watermark_truth, plans.map(|plan| plan.to).max());
        }
    }
    check_shared(case, findings);
    check_plan_ends(case, findings);
    check_reading_times(case, findings);
}

fn least(left: Option<i64>, right: Option<i64>) -> Option<i64> {
    left.into_iter().chain(right).min()
}

/// Walks events and credits together in the order of database time.
fn check_events(case: &Case<'_>, namespace: &Namespace<'_>, findings: &mut Findings) {
    let lag = case.rules.lag_us;
    let mut cover = namespace.cover(lag, i64::MIN);
    let mut news: Vec<(i64, i64, i64)> = Vec::new();
    news.extend(namespace.credits.iter().map(|credit| (credit.known_at, credit.from, credit.settled(lag).1)));
    news.extend(namespace.waivers.iter().map(|waiver| (waiver.created_at, waiver.from, waiver.to)));
    news.sort_unstable();
    let mut news = news.into_iter().peekable();
    let mut events = namespace.events.clone();
    events.sort_by_key(|event| (event.told_at(), event.event_no));
    for event in events {
        let seen = event.told_at().saturating_add(case.overlap_us);
        while let Some((_, from, to)) = news.next_if(|(known_at, ..)| *known_at <= seen) {
            cover.add(from, to);
        }
        let Some(moved_to) = event.new_instant else { continue };
        let proven = cover.reach(namespace.start);
        if moved_to > proven {
            let message = format!(
                "event {} moved the watermark to {}, past the proven prefix {}",
                event.event_no,
                shown(moved_to),
                shown(proven)
            );
            findings.error(CHECK, case.source(), message, json!({"event": event.id, "cause": event.cause}));
        }
    }
}

fn check_cursor(case: &Case<'_>, namespace: &Namespace<'_>, proven: i64, findings: &mut Findings) {
    let Some(cursor) = namespace.cursor else {
        if case.at_rest && proven > namespace.start {
            let message = format!("{} was read and there is no cursor", shown_span(namespace.start, proven));
            findings.error(CHECK, case.source(), message, json!({"operation": namespace.operation}));
        }
        return;
    };
    let at = cursor.instant.unwrap_or(namespace.start);
    let evidence = json!({"cursor": cursor.id, "watermark": at, "proven": proven});
    if at > proven {
        let message = format!("the watermark {} is past the proven prefix {}", shown(at), shown(proven));
        findings.error(CHECK, case.source(), message, evidence);
    } else if at < proven && case.at_rest {
        let message = format!("the watermark {} rests behind the proven prefix {}", shown(at), shown(proven));
        findings.error(CHECK, case.source(), message, evidence);
    }
    let delay = case.rules.lag_us + case.rules.lookback_us;
    let finished = namespace.cover(delay, i64::MAX).reach(namespace.start);
    if let Some(claimed) = cursor.finished_to.filter(|claimed| *claimed > finished) {
        let message = format!("finished_to {} is past what was read for good, {}", shown(claimed), shown(finished));
        findings.error(CHECK, case.source(), message, json!({"cursor": cursor.id}));
    }
}

/// INV-9: a HARVEST plan ends where the source had settled when it was made.
fn check_plan_ends(case: &Case<'_>, findings: &mut Findings) {
    let ours = case.dump.plans.iter().filter(|plan| plan.provenance == case.rules.provenance_code);
    for plan in ours.filter(|plan| plan.operation == "HARVEST" && case.steady_clock) {
        if plan.to > plan.created_at - case.rules.lag_us {
            let message = format!("plan {} ends at {}, before that had settled", plan.id, shown(plan.to));
            findings.error(CHECK, case.source(), message, json!({"plan": plan.id, "created_at": plan.created_at}));
        }
    }
}

/// A slice may not claim to have been read later than its first request arrived.
fn check_reading_times(case: &Case<'_>, findings: &mut Findings) {
    let mut first: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for page in case.pages.iter().filter(|page| page.batch.seq_no == 0) {
        let Some(row) = page.served else { continue };
        let latest = first.entry(page.batch.slice_id).or_insert((page.batch.pass_no, row.at_us));
        if page.batch.pass_no > latest.0 {
            *latest = (page.batch.pass_no, row.at_us);
        }
    }
    for slice in case.dump.slices.iter().filter(|slice| slice.status == "SUCCEEDED") {
        let (Some(read_at), Some((_, arrived))) = (slice.read_at, first.get(&slice.id)) else { continue };
        if read_at > arrived.saturating_add(case.rules.clock_grain_us) {
            let message = format!(
                "slice {} claims to be read at {}, its first page was asked at {}",
                slice.id,
                shown(read_at),
                shown(*arrived)
            );
            findings.error(CHECK, case.source(), message, json!({"slice": slice.id}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, good, plant, run};

    #[tokio::test]
    async fn a_watermark_past_a_gap_or_behind_the_proof_is_found() {
        plant(
            "C4",
            &[
                Planted::sql(
                    "W = max end over a failed slice",
                    "UPDATE ing_plan_slice SET status_code = 'FAILED' WHERE id = 13",
                    "past the proven prefix",
                ),
                Planted::sql(
                    "PARTIAL counted",
                    "UPDATE ing_plan_slice SET status_code = 'PARTIAL' WHERE id = 16",
                    "past the proven prefix",
                ),
                Planted::sql(
                    "an event before its slice was done",
                    "UPDATE ing_plan_slice SET updated_at = '2023-11-14T22:20:00.000000Z' WHERE id = 11",
                    "event 1 moved the watermark",
                ),
                Planted::sql(
                    "W stalls",
                    "DELETE FROM ing_cursor_event WHERE event_no = 5;
                 UPDATE ing_cursor SET version = 4, normalized_instant = '2023-11-14T22:15:50.000000Z'",
                    "rests behind the proven prefix",
                ),
                Planted::sql(
                    "a reading before it settled counted whole",
                    "UPDATE ing_plan_slice SET read_at = '2023-11-14T22:16:45.000000Z' WHERE id = 16",
                    "past the proven prefix",
                ),
                Planted::sql("no cursor", "DELETE FROM ing_cursor", "there is no cursor"),
                Planted::sql(
                    "a shared watermark ahead of its endpoints",
                    "INSERT INTO ing_cursor (id, provenance_code, endpoint_name, operation_code, cursor_key,
                        namespace_scope_code, namespace_key, namespace_hash, cursor_type_code, cursor_value,
                        normalized_instant, version, created_at, updated_at)
                     SELECT 2, provenance_code, '', operation_code, cursor_key, namespace_scope_code, '', X'CC',
                        cursor_type_code, '2030-01-01T00:00:00.000000Z', '2030-01-01T00:00:00.000000Z', 0, created_at,
                        updated_at FROM ing_cursor WHERE id = 1",
                    "past one that shares it",
                ),
                Planted::sql(
                    "a reading dated too late",
                    "UPDATE ing_plan_slice SET read_at = '2023-11-14T22:30:00.000000Z' WHERE id = 15",
                    "claims to be read at",
                ),
                Planted::sql(
                    "finished_to ahead of the slices",
                    "UPDATE ing_cursor SET finished_to = normalized_instant",
                    "past what was read for good",
                ),
                Planted::sql(
                    "a plan into the unsettled present",
                    "UPDATE ing_plan SET created_at = '2023-11-14T22:16:45.000000Z' WHERE id = 2",
                    "before that had settled",
                ),
                Planted::input(
                    "an origin the plans skipped",
                    |input| input.rules[0].origin_us -= 60_000_000,
                    "past the proven prefix",
                ),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn a_waived_window_counts_as_covered() {
        let input = crate::fixture::good().await;
        crate::fixture::run(&input, crate::fixture::WAIVE_SECOND_QUARTER).await;
        let verdict = crate::check(&input).await;
        assert_eq!(verdict.errors("C4").count(), 0, "{:#?}", verdict.findings);
    }

    #[tokio::test]
    async fn an_equal_answer_from_before_the_question_is_another_one() {
        let mut input = good().await;
        let last = input.served.len() - 1;
        let earlier = crate::ServedRow { at_us: input.served[last].at_us - 20_000_000, ..input.served[last].clone() };
        // After the page was dated and before it was committed.
        input.served[last].at_us += 450_000;
        input.served.insert(0, earlier);
        let verdict = crate::check(&input).await;
        assert_eq!(verdict.errors("C4").count(), 0, "{:#?}", verdict.findings);
    }

    #[tokio::test]
    async fn on_a_server_an_event_may_rest_on_a_slice_whose_transaction_began_later() {
        let mut input = good().await;
        run(&input, "UPDATE ing_plan_slice SET updated_at = '2023-11-14T22:16:59.000000Z' WHERE id = 16").await;
        assert_eq!(crate::check(&input).await.errors("C4").count(), 1);
        input.overlap_us = crate::OVERLAP_US;
        assert_eq!(crate::check(&input).await.errors("C4").count(), 0);
    }
}
