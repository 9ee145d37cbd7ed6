//! C8: the accounts close: what a page held is what became of its records, sums agree at every level, and both agree
//! with what the source served.

use std::collections::HashMap;

use serde_json::json;

use crate::case::Case;
use crate::checks::source_of;
use crate::dump::{Counts, Dump};
use crate::input::{Kind, SourceRules};
use crate::verdict::Findings;

const CHECK: &str = "C8";

pub fn check(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let mut set_aside: HashMap<i64, u64> = HashMap::new();
    for row in &dump.quarantine {
        *set_aside.entry(row.batch_id).or_default() += 1;
    }
    let mut by_run: HashMap<i64, Counts> = HashMap::new();
    let mut by_slice: HashMap<i64, Counts> = HashMap::new();
    for batch in dump.batches.iter().filter(|batch| batch.committed()) {
        let source = source_of(rules, &batch.provenance);
        let Some(counts) = batch.stats else {
            findings.error(
                CHECK,
                source,
                format!("batch {} committed without counts", batch.id),
                json!({"batch": batch.id}),
            );
            continue;
        };
        by_run.entry(batch.run_id).or_default().add(&counts);
        by_slice.entry(batch.slice_id).or_default().add(&counts);
        let [fetched, parts @ ..] = counts.parts();
        let sum: u64 = parts.iter().sum();
        if fetched != sum {
            let message = format!("batch {} fetched {fetched} and accounts for {sum}", batch.id);
            findings.error(CHECK, source, message, json!({"batch": batch.id, "parts": parts}));
        }
        if counts.by_query > counts.filtered {
            let message = format!(
                "batch {} dropped {} records for its query and {} in all",
                batch.id, counts.by_query, counts.filtered
            );
            findings.error(CHECK, source, message, json!({"batch": batch.id}));
        }
        let rows = set_aside.get(&batch.id).copied().unwrap_or(0);
        if counts.quarantined != rows {
            let message = format!("batch {} counts {} quarantined, there are {rows}", batch.id, counts.quarantined);
            findings.error(CHECK, source, message, json!({"batch": batch.id}));
        }
    }
    for run in &dump.runs {
        let sum = by_run.get(&run.id).copied().unwrap_or_default();
        if run.stats.is_some_and(|stats| stats != sum) {
            let message = format!("the counts of run {} are not the sum of its batches", run.id);
            findings.error(
                CHECK,
                source_of(rules, &run.provenance),
                message,
                json!({"run": run.id, "sum": sum.parts()}),
            );
        }
    }
    for slice in &dump.slices {
        let sum = by_slice.get(&slice.id).copied().unwrap_or_default();
        if slice.stats.is_some_and(|stats| stats != sum) {
            let message = format!("the counts of slice {} are not the sum of its batches", slice.id);
            findings.error(
                CHECK,
                source_of(rules, &slice.provenance),
                message,
                json!({"slice": slice.id, "sum": sum.parts()}),
            );
        }
    }
}

/// Each committed page held as many records as the source put into it.
pub fn check_served(case: &Case<'_>, findings: &mut Findings) {
    for page in &case.pages {
        let Some(row) = page.served else { continue };
        let batch = page.batch;
        let served = row.items.len() as i64;
        if batch.record_count != served {
            let message =
                format!("batch {} holds {} records, the source served {served}", batch.id, batch.record_count);
            findings.error(CHECK, case.source(), message, json!({"batch": batch.id, "path": row.path_query}));
        }
        let ids_only = case.rules.two_phase && row.kind == Kind::Search;
        if batch.stats.is_some_and(|counts| counts.fetched as i64 != batch.record_count && !ids_only) {
            let message =
                format!("batch {} holds {} records and counts another number as fetched", batch.id, batch.record_count);
            findings.error(CHECK, case.source(), message, json!({"batch": batch.id}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn sums_that_do_not_agree_are_found() {
        let counts = |fetched: u32, inserted: u32| {
            format!(
                r#"{{"fetched":{fetched},"inserted":{inserted},"updated":0,"unchanged":0,"stale":0,"duplicate":0,"quarantined":1,"filtered":0}}"#
            )
        };
        let wrong = format!("UPDATE ing_task_run_batch SET stats = '{}' WHERE id = 402", counts(9, 1));
        let more = "UPDATE ing_task_run_batch SET stats = json_set(stats, '$.filteredByQuery', 3) WHERE id = 402";
        let other = format!("UPDATE ing_task_run SET stats = '{}' WHERE id = 301", counts(9, 8));
        let slice = format!("UPDATE ing_plan_slice SET stats = '{}' WHERE id = 11", counts(9, 8));
        plant(
            "C8",
            &[
                Planted::sql("wrong sums in a batch", &wrong, "fetched 9 and accounts for 2"),
                Planted::sql("more dropped for the query than at all", more, "dropped 3 records for its query and 0"),
                Planted::sql("wrong sums in a run", &other, "the counts of run 301"),
                Planted::sql("wrong sums in a slice", &slice, "the counts of slice 11"),
                Planted::sql(
                    "a quarantine row lost",
                    "DELETE FROM ing_quarantine",
                    "counts 1 quarantined, there are 0",
                ),
                Planted::sql(
                    "no counts at all",
                    "UPDATE ing_task_run_batch SET stats = NULL WHERE id = 402",
                    "without counts",
                ),
                Planted::sql(
                    "a cut page that looks like a small one",
                    "UPDATE ing_task_run_batch SET record_count = 1 WHERE id = 402",
                    "the source served 2",
                ),
            ],
        )
        .await;
    }
}
