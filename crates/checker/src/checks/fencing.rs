//! C7: a task has one holder at a time. Along its pages the epoch never falls, no two runs share one, and no page
//! committed under an epoch after a higher one had begun.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::json;

use crate::checks::source_of;
use crate::dump::{Dump, Run};
use crate::input::SourceRules;
use crate::verdict::Findings;

const CHECK: &str = "C7";

pub fn check(dump: &Dump, rules: &[SourceRules], steady_clock: bool, findings: &mut Findings) {
    let mut by_task: BTreeMap<i64, Vec<&Run>> = BTreeMap::new();
    let mut uuids: HashSet<&[u8]> = HashSet::new();
    for run in &dump.runs {
        by_task.entry(run.task_id).or_default().push(run);
        if !uuids.insert(&run.uuid) {
            let message = format!("run {} shares its run_uuid with another", run.id);
            findings.error(CHECK, source_of(rules, &run.provenance), message, json!({"run": run.id}));
        }
    }
    for (task, runs) in &mut by_task {
        runs.sort_by_key(|run| run.lease_epoch);
        for pair in runs.windows(2).filter(|pair| pair[0].lease_epoch == pair[1].lease_epoch) {
            let message =
                format!("runs {} and {} of task {task} share epoch {}", pair[0].id, pair[1].id, pair[0].lease_epoch);
            findings.error(CHECK, source_of(rules, &pair[0].provenance), message, json!({"task": task}));
        }
    }
    for task in &dump.tasks {
        let highest = by_task.get(&task.id).and_then(|runs| runs.last()).map_or(0, |run| run.lease_epoch);
        if highest > task.lease_epoch {
            let message = format!("task {} is at epoch {} after a run at {highest}", task.id, task.lease_epoch);
            findings.error(CHECK, source_of(rules, &task.provenance), message, json!({"task": task.id}));
        }
    }
    check_batches(dump, rules, &by_task, steady_clock, findings);
}

fn check_batches(
    dump: &Dump,
    rules: &[SourceRules],
    by_task: &BTreeMap<i64, Vec<&Run>>,
    steady_clock: bool,
    findings: &mut Findings,
) {
    let epochs: HashMap<i64, i64> = dump.runs.iter().map(|run| (run.id, run.lease_epoch)).collect();
    for (task, chain) in dump.chains() {
        let source = source_of(rules, &chain[0].provenance);
        for pair in chain.windows(2).filter(|pair| pair[1].lease_epoch < pair[0].lease_epoch) {
            let message = format!(
                "task {task}: the epoch falls from {} to {} at pass {} page {}",
                pair[0].lease_epoch, pair[1].lease_epoch, pair[1].pass_no, pair[1].seq_no
            );
            findings.error(CHECK, source, message, json!({"task": task, "batch": pair[1].id}));
        }
        for batch in chain {
            if epochs.get(&batch.run_id).is_some_and(|epoch| *epoch != batch.lease_epoch) {
                let message = format!("batch {} committed under another epoch than its run", batch.id);
                findings.error(CHECK, source, message, json!({"batch": batch.id}));
            }
            let later = by_task.get(&task).map_or(&[][..], Vec::as_slice);
            let overtaken = later.iter().find(|run| {
                run.lease_epoch > batch.lease_epoch && batch.committed_at.is_some_and(|at| at > run.started_at)
            });
            if let Some(run) = overtaken.filter(|_| steady_clock) {
                let message = format!(
                    "batch {} of epoch {} committed after run {} had taken over",
                    batch.id, batch.lease_epoch, run.id
                );
                findings.error(CHECK, source, message, json!({"batch": batch.id, "run": run.id}));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn late_writers_are_found() {
        plant(
            "C7",
            &[
                Planted::sql(
                    "no fencing: the epoch falls",
                    "UPDATE ing_task_run_batch SET lease_epoch = 3 WHERE id = 405",
                    "the epoch falls from 3 to 2",
                ),
                Planted::sql(
                    "two holders of one epoch",
                    "UPDATE ing_task_run SET lease_epoch = 1 WHERE id = 305",
                    "share epoch 1",
                ),
                Planted::sql(
                    "lease checked before the transaction: a zombie committed",
                    "UPDATE ing_task_run_batch SET committed_at = '2023-11-14T22:15:19.000000Z' WHERE id = 405",
                    "had taken over",
                ),
                Planted::sql(
                    "epoch without run UUID",
                    "UPDATE ing_task_run SET run_uuid = X'01'",
                    "shares its run_uuid",
                ),
                Planted::sql(
                    "claim without an epoch bump",
                    "UPDATE ing_task SET lease_epoch = 1 WHERE id = 24",
                    "is at epoch 1",
                ),
            ],
        )
        .await;
    }
}
