//! C2: nothing is missing.
//!
//! A version is owed when a window that holds its stamp was read to the end while the source showed it from before
//! the first request until after the last. And every window must have been read late enough at least once: what the
//! last plan could have finished and nobody finished is a hole in the second reading (INV-5, INV-8).

use std::collections::HashMap;

use serde_json::json;

use crate::case::{Case, Version};
use crate::checks::watermark;
use crate::cover::Cover;
use crate::dump::Plan;
use crate::time::{shown, shown_span};
use crate::verdict::{Findings, MISSING_MAX, Missing, SourceVerdict};

const CHECK: &str = "C2";

pub fn check(case: &Case<'_>, verdict: &mut SourceVerdict, findings: &mut Findings) {
    check_second_readings(case, findings);
    if case.truth.is_empty() {
        return;
    }
    let noted: HashMap<&str, &str> = case
        .dump
        .missing_ids
        .iter()
        .filter(|row| row.provenance == case.rules.provenance_code)
        .map(|row| (row.provider_id.as_str(), row.status.as_str()))
        .collect();
    let readings = Readings::of(case);
    for versions in case.truth.values() {
        for version in versions.iter().filter(|version| is_owed(case, version, &readings)) {
            if version.row.detail_missing && noted.contains_key(version.row.id.as_str()) {
                continue;
            }
            if !is_kept(case, version) {
                let row = version.row;
                let message = format!(
                    "`{}` version {}, dated {}, was there while its window was read and is not stored",
                    row.id,
                    row.version,
                    shown(row.updated_at)
                );
                findings.error(CHECK, case.source(), message, json!(missing(case, version)));
            }
        }
        count_at_end(case, versions, &readings, &noted, verdict);
    }
    verdict.missing.sort_by(|left, right| left.id.cmp(&right.id));
}

/// One whole reading of a window, between the arrival of its first and its last request.
struct Reading {
    begin: i64,
    end: i64,
}

/// Readings by time: `starts[i]..starts[i + 1]` is covered by `lists[i]`.
struct Readings {
    readings: Vec<Reading>,
    starts: Vec<i64>,
    lists: Vec<Vec<usize>>,
}

impl Readings {
    fn of(case: &Case<'_>) -> Readings {
        let times = pass_times(case);
        let mut spans: Vec<(i64, i64)> = Vec::new();
        let mut readings = Vec::new();
        // An UPDATE asks for ids: its windows are times of checking, not of records.
        for namespace in watermark::namespaces(case).into_iter().filter(|namespace| namespace.operation != "UPDATE") {
            for credit in &namespace.credits {
                let leaves: Option<Vec<(i64, i64)>> = credit.leaves.iter().map(|id| times.get(id).copied()).collect();
                let Some(leaves) = leaves else { continue };
                let begin = leaves.iter().map(|(begin, _)| *begin).min().unwrap_or(i64::MAX);
                let end = leaves.iter().map(|(_, end)| *end).max().unwrap_or(i64::MIN);
                // A version dated after its page was fetched is not believed (INV-13). On a steady clock there is none.
                let believed = if case.steady_clock { credit.to } else { credit.settled(0).1 };
                spans.push((credit.from, believed.max(credit.from)));
                readings.push(Reading { begin, end });
            }
        }
        let mut starts: Vec<i64> = spans.iter().flat_map(|(from, to)| [*from, *to]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut lists = vec![Vec::new(); starts.len()];
        for (at, (from, to)) in spans.iter().enumerate() {
            let first = starts.partition_point(|start| start < from);
            let last = starts.partition_point(|start| start < to);
            lists[first..last].iter_mut().for_each(|list| list.push(at));
        }
        Readings { readings, starts, lists }
    }

    fn at(&self, instant: i64) -> impl Iterator<Item = &Reading> {
        let place = self.starts.partition_point(|start| *start <= instant).checked_sub(1);
        let list = place.map_or(&[][..], |place| self.lists[place].as_slice());
        list.iter().map(|at| &self.readings[*at])
    }
}

/// First and last arrival of the pass that completed each slice.
fn pass_times(case: &Case<'_>) -> HashMap<i64, (i64, i64)> {
    let mut passes: HashMap<(i64, i64), (i64, i64, bool)> = HashMap::new();
    for page in &case.pages {
        let Some(arrived) = case.arrived_at(page) else { continue };
        let left = page.served.map(|row| row.at_us).or(page.batch.fetched_at).unwrap_or(arrived);
        let pass = passes.entry((page.batch.slice_id, page.batch.pass_no)).or_insert((arrived, left, false));
        pass.0 = pass.0.min(arrived);
        pass.1 = pass.1.max(left);
        pass.2 |= page.batch.after_token.is_none();
    }
    // The beginning of a slice that was read in order has no pages of its own: its parent read it, in one of its passes.
    let mut begun: HashMap<i64, (i64, i64)> = HashMap::new();
    let mut times: HashMap<i64, (i64, (i64, i64))> = HashMap::new();
    for ((slice, pass_no), (begin, end, ended)) in passes {
        let span = begun.entry(slice).or_insert((begin, end));
        *span = (span.0.min(begin), span.1.max(end));
        let later = times.get(&slice).is_none_or(|(known, _)| pass_no > *known);
        if ended && later {
            times.insert(slice, (pass_no, (begin, end)));
        }
    }
    let mut times: HashMap<i64, (i64, i64)> = times.into_iter().map(|(slice, (_, span))| (slice, span)).collect();
    for slice in case.dump.slices.iter().filter(|slice| slice.status == "SUCCEEDED") {
        if let Some(span) = slice.parent.and_then(|parent| begun.get(&parent)) {
            times.entry(slice.id).or_insert(*span);
        }
        // A slice may claim less than its last reading: what came after the time it names is left to the next one.
        let claimed = slice.read_at.filter(|_| case.steady_clock);
        if let (Some(read_at), Some(span)) = (claimed, times.get_mut(&slice.id)) {
            span.0 = span.0.min(read_at);
        }
    }
    times
}

fn is_owed(case: &Case<'_>, version: &Version<'_>, readings: &Readings) -> bool {
    let row = version.row;
    let gone = row.deleted && !case.rules.expect_deletes;
    !gone
        && row.updated_at >= case.rules.origin_us
        && readings.at(row.updated_at).any(|reading| version.shown_throughout(reading.begin, reading.end))
}

/// Stored, replaced by a later one, or set aside.
fn is_kept(case: &Case<'_>, version: &Version<'_>) -> bool {
    let row = version.row;
    if case.quarantine.knows(&row.id, &version.sha) {
        return true;
    }
    let Some(stored) = case.stored.get(row.id.as_str()) else { return false };
    let Some(have) = stored.version.and_then(|number| case.version(&row.id, number)) else { return false };
    // A version dated in the future counts from its fetch and may rank above a later one (INV-13).
    let ranks_above = have.row.updated_at.min(stored.record.fetched_at) > row.updated_at;
    have.row.version >= row.version || have.class == version.class || ranks_above
}

/// Adds the record's last state to the table of the run.
fn count_at_end(
    case: &Case<'_>,
    versions: &[Version<'_>],
    readings: &Readings,
    noted: &HashMap<&str, &str>,
    verdict: &mut SourceVerdict,
) {
    let Some(last) = versions.iter().rev().find(|version| version.row.visible_at <= case.end) else { return };
    let row = last.row;
    let watermark = verdict.watermark.unwrap_or(case.rules.origin_us);
    if row.updated_at < case.rules.origin_us || row.updated_at >= watermark {
        return;
    }
    if row.deleted && !case.rules.expect_deletes {
        return;
    }
    if row.visible_at - row.updated_at > case.rules.lag_us + case.rules.lookback_us {
        verdict.too_late += 1;
        return;
    }
    let last_begin = readings.at(row.updated_at).map(|reading| reading.begin).max();
    if last_begin.is_some_and(|begin| row.visible_at >= begin) {
        verdict.late += 1;
        return;
    }
    if row.detail_missing && noted.contains_key(row.id.as_str()) {
        verdict.noted_missing += 1;
        return;
    }
    verdict.expected += 1;
    if !is_kept(case, last) {
        verdict.missing_count += 1;
        if verdict.missing.len() < MISSING_MAX {
            verdict.missing.push(missing(case, last));
        }
    }
}

fn missing(case: &Case<'_>, version: &Version<'_>) -> Missing {
    let row = version.row;
    Missing {
        id: row.id.clone(),
        version: row.version,
        updated_at: row.updated_at,
        visible_at: row.visible_at,
        stored_version: case.stored.get(row.id.as_str()).and_then(|stored| stored.version),
    }
}

/// What the last finished plan could have read for the second time, somebody did read, or failed at visibly.
fn check_second_readings(case: &Case<'_>, findings: &mut Findings) {
    for namespace in watermark::namespaces(case).into_iter().filter(|namespace| namespace.operation == "HARVEST") {
        let whole = |plan: &&Plan| plan.namespace == namespace.hash && plan.only().is_none();
        let plans = case.dump.plans.iter().filter(whole);
        let Some(last) = plans.max_by_key(|plan| (plan.created_at, plan.id)) else { continue };
        if last.status != "COMPLETED" {
            continue;
        }
        let delay = case.rules.lag_us + case.rules.lookback_us;
        let mut done: Cover = namespace.cover(delay, i64::MAX);
        for slice in case.dump.slices.iter().filter(|slice| slice.plan_id == last.id) {
            if !matches!(slice.status.as_str(), "SUCCEEDED" | "SPLIT") {
                done.add(slice.from, slice.to);
            }
        }
        let due = last.to - case.rules.lookback_us - case.rules.clock_grain_us;
        for (from, to) in done.holes(namespace.start, due) {
            let message = format!("{} was never read late enough and no plan owes it any more", shown_span(from, to));
            findings.error(CHECK, case.source(), message, json!({"plan": last.id, "from": from, "to": to}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, good, plant, seconds};

    #[tokio::test]
    async fn a_good_run_misses_nothing_and_its_table_adds_up() {
        let verdict = crate::check(&good().await).await;
        let line = &verdict.sources[0];
        assert!(verdict.ok, "{:#?}", verdict.findings);
        assert_eq!((line.expected, line.stored, line.missing_count, line.extra_count), (9, 8, 0, 0));
        assert_eq!((line.quarantined, line.outbox_events, line.outbox_duplicates), (1, 9, 0));
        assert_eq!((line.late, line.too_late), (1, 1));
        assert_eq!(line.watermark, Some(seconds(200)));
        assert_eq!((line.watermark_proven, line.watermark_truth), (line.watermark, line.watermark));
    }

    #[tokio::test]
    async fn missing_records_and_skipped_second_readings_are_found() {
        plant(
            "C2",
            &[
                Planted::sql("a record lost", "DELETE FROM ing_record WHERE provider_id = 'c'", "`c` version 1"),
                Planted::sql("a quarantine row lost", "DELETE FROM ing_quarantine", "`q` version 1"),
                Planted::input(
                    "a short page taken as the last: the page never came",
                    |input| input.truth.push(crate::fixture::truth("unseen", 1, 40, 41, None)),
                    "`unseen` version 1",
                ),
                Planted::input(
                    "an update missed",
                    |input| input.truth.push(crate::fixture::truth("a", 2, 130, 131, None)),
                    "`a` version 2",
                ),
                Planted::input(
                    "a re-stamp that changed the content after all",
                    |input| input.truth.iter_mut().for_each(|row| row.same_content_as = None),
                    "`d` version 2",
                ),
                Planted::sql(
                    "next plan from W alone",
                    "UPDATE ing_plan_slice SET window_from = '2023-11-14T22:15:00.000000Z' WHERE id = 15",
                    "was never read late enough",
                ),
                Planted::input(
                    "a detail withheld and not noted",
                    |input| {
                        let mut row = crate::fixture::truth("hidden", 1, 40, 41, None);
                        row.detail_missing = true;
                        input.truth.push(row);
                    },
                    "`hidden` version 1",
                ),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn a_withheld_detail_that_is_noted_is_not_missing() {
        let mut input = good().await;
        let mut row = crate::fixture::truth("hidden", 1, 40, 41, None);
        row.detail_missing = true;
        input.truth.push(row);
        crate::fixture::run(&input, crate::fixture::NOTE_HIDDEN).await;
        let verdict = crate::check(&input).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
        assert_eq!(verdict.sources[0].noted_missing, 1);
    }
}
