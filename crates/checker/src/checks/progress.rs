//! C10: a run at rest has left nothing half done: no task, run or batch under way, no finished plan with open slices,
//! no due task that nobody took, no slice without a task.

use std::collections::HashSet;

use serde_json::json;

use crate::checks::{ledger, source_of};
use crate::dump::Dump;
use crate::input::SourceRules;
use crate::verdict::Findings;

const CHECK: &str = "C10";
/// A task may be due this long before it is taken.
const PATIENCE_US: i64 = 60_000_000;

pub fn check(dump: &Dump, rules: &[SourceRules], end: i64, findings: &mut Findings) {
    let stopped: HashSet<&str> = dump.stopped.iter().map(|row| row.provenance.as_str()).collect();
    for task in &dump.tasks {
        let source = source_of(rules, &task.provenance);
        if task.status == "RUNNING" {
            findings.error(CHECK, source, format!("task {} is still running", task.id), json!({"task": task.id}));
        }
        let waited = end.saturating_sub(task.scheduled_at) > PATIENCE_US;
        if task.status == "QUEUED" && waited && !stopped.contains(task.provenance.as_str()) {
            findings.error(
                CHECK,
                source,
                format!("task {} is due and nobody took it", task.id),
                json!({"task": task.id}),
            );
        }
    }
    for run in dump.runs.iter().filter(|run| matches!(run.status.as_str(), "RUNNING" | "PLANNED")) {
        let message = format!("run {} never ended", run.id);
        findings.error(CHECK, source_of(rules, &run.provenance), message, json!({"run": run.id}));
    }
    for batch in dump.batches.iter().filter(|batch| batch.status == "RUNNING") {
        let message = format!("batch {} never ended", batch.id);
        findings.error(CHECK, source_of(rules, &batch.provenance), message, json!({"batch": batch.id}));
    }
    let mut open: HashSet<i64> = HashSet::new();
    for slice in dump.slices.iter().filter(|slice| !ledger::is_terminal(slice)) {
        open.insert(slice.plan_id);
        if slice.status == "PENDING" && !stopped.contains(slice.provenance.as_str()) {
            let message = format!("slice {} never got a task", slice.id);
            findings.error(CHECK, source_of(rules, &slice.provenance), message, json!({"slice": slice.id}));
        }
        let finished = dump.plans.iter().any(|plan| plan.id == slice.plan_id && plan.status == "COMPLETED");
        if finished {
            let message = format!("slice {} of a finished plan is {}", slice.id, slice.status);
            findings.error(CHECK, source_of(rules, &slice.provenance), message, json!({"slice": slice.id}));
        }
    }
    for plan in dump.plans.iter().filter(|plan| matches!(plan.status.as_str(), "READY" | "PARTIAL")) {
        if !open.contains(&plan.id) {
            let message = format!("plan {} is {} with every slice ended", plan.id, plan.status);
            findings.error(CHECK, source_of(rules, &plan.provenance), message, json!({"plan": plan.id}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, good, plant, run};

    #[tokio::test]
    async fn unfinished_work_is_found() {
        plant(
            "C10",
            &[
                Planted::sql(
                    "a stuck task",
                    "UPDATE ing_task SET status_code = 'RUNNING' WHERE id = 26",
                    "task 26 is still running",
                ),
                Planted::sql(
                    "a left-over page",
                    "UPDATE ing_task_run_batch SET status_code = 'RUNNING' WHERE id = 406",
                    "batch 406 never",
                ),
                Planted::sql(
                    "a run without an end",
                    "UPDATE ing_task_run SET status_code = 'RUNNING' WHERE id = 304",
                    "run 304 never",
                ),
                Planted::sql(
                    "a slice forgotten by its plan",
                    "UPDATE ing_plan_slice SET status_code = 'EXECUTING' WHERE id = 16",
                    "slice 16 of a finished plan",
                ),
                Planted::sql(
                    "a slice nobody went on with",
                    "UPDATE ing_plan_slice SET status_code = 'PENDING' WHERE id = 16",
                    "slice 16 never got a task",
                ),
                Planted::sql(
                    "a plan nobody closed",
                    "UPDATE ing_plan SET status_code = 'READY' WHERE id = 2",
                    "with every slice ended",
                ),
                Planted::sql(
                    "a task nobody took",
                    "UPDATE ing_task SET status_code = 'QUEUED' WHERE id = 21",
                    "nobody took it",
                ),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn work_under_way_is_fine_before_the_end() {
        let mut input = good().await;
        input.at_rest = false;
        run(&input, "UPDATE ing_task SET status_code = 'RUNNING' WHERE id = 22").await;
        let verdict = crate::check(&input).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
    }
}
