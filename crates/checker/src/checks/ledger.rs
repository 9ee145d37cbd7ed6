//! C5, rows: every row names rows that exist and agree with it, a plan is live exactly while it is open, and what is
//! finished has nothing open below it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::checks::source_of;
use crate::dump::{Batch, Dump, Plan, Run, Slice, Task};
use crate::input::SourceRules;
use crate::verdict::Findings;

const CHECK: &str = "C5";

pub fn is_terminal(slice: &Slice) -> bool {
    matches!(slice.status.as_str(), "SUCCEEDED" | "PARTIAL" | "FAILED" | "CANCELLED" | "SPLIT")
}

struct Rows<'a> {
    plans: HashMap<i64, &'a Plan>,
    slices: HashMap<i64, &'a Slice>,
    tasks: HashMap<i64, &'a Task>,
    runs: HashMap<i64, &'a Run>,
    batches: HashMap<i64, &'a Batch>,
}

pub fn check(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let rows = Rows {
        plans: Dump::by_id(&dump.plans, |plan| plan.id),
        slices: Dump::by_id(&dump.slices, |slice| slice.id),
        tasks: Dump::by_id(&dump.tasks, |task| task.id),
        runs: Dump::by_id(&dump.runs, |run| run.id),
        batches: Dump::by_id(&dump.batches, |batch| batch.id),
    };
    check_plans(dump, rules, findings);
    check_slices(dump, &rows, rules, findings);
    check_lineage(dump, &rows, rules, findings);
    check_contents(dump, &rows, rules, findings);
}

fn check_plans(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let mut open: HashMap<i64, i64> = HashMap::new();
    for slice in dump.slices.iter().filter(|slice| !is_terminal(slice)) {
        *open.entry(slice.plan_id).or_default() += 1;
    }
    for plan in &dump.plans {
        let mut tell = |message: String| {
            findings.error(CHECK, source_of(rules, &plan.provenance), message, json!({"plan": plan.id}));
        };
        let ended = matches!(plan.status.as_str(), "COMPLETED" | "FAILED");
        let open = open.get(&plan.id).copied().unwrap_or(0);
        if ended == plan.live_key.is_some() {
            tell(format!("plan {} is {} and its live_key says otherwise", plan.id, plan.status));
        }
        if plan.live_key.as_ref().is_some_and(|key| *key != plan.namespace) {
            tell(format!("the live_key of plan {} is not its namespace", plan.id));
        }
        if plan.status == "COMPLETED" && open > 0 {
            tell(format!("plan {} is COMPLETED with {open} open slices", plan.id));
        }
        if plan.open_slice_count != open {
            tell(format!("plan {} counts {} open slices, there are {open}", plan.id, plan.open_slice_count));
        }
    }
}

fn check_slices(dump: &Dump, rows: &Rows<'_>, rules: &[SourceRules], findings: &mut Findings) {
    let mut succeeded: HashSet<i64> = HashSet::new();
    let mut tasked: HashSet<i64> = HashSet::new();
    for task in &dump.tasks {
        tasked.insert(task.slice_id);
        if task.status == "SUCCEEDED" {
            succeeded.insert(task.slice_id);
        }
    }
    for slice in &dump.slices {
        let mut tell = |message: String| {
            findings.error(CHECK, source_of(rules, &slice.provenance), message, json!({"slice": slice.id}));
        };
        match rows.plans.get(&slice.plan_id) {
            None => tell(format!("slice {} has no plan", slice.id)),
            Some(plan) if plan.namespace != slice.namespace => {
                tell(format!("slice {} is of another namespace than its plan", slice.id));
            }
            Some(plan) if slice.status == "PENDING" && plan.status == "READY" => {
                tell(format!("slice {} has no task, and plan {} is READY", slice.id, plan.id));
            }
            Some(_) => {}
        }
        if slice.status == "PENDING" && tasked.contains(&slice.id) {
            tell(format!("slice {} is PENDING and has a task", slice.id));
        }
        if let Some(parent) = slice.parent {
            let parent = rows.slices.get(&parent);
            if parent.is_none_or(|parent| parent.plan_id != slice.plan_id || parent.status != "SPLIT") {
                tell(format!("slice {} is the child of a slice that was not split", slice.id));
            }
        }
        if (slice.status == "SUCCEEDED") != succeeded.contains(&slice.id) && tasked.contains(&slice.id) {
            tell(format!("slice {} is {} and its task disagrees", slice.id, slice.status));
        }
    }
}

/// Task, run and batch agree on what they are part of.
fn check_lineage(dump: &Dump, rows: &Rows<'_>, rules: &[SourceRules], findings: &mut Findings) {
    for task in &dump.tasks {
        if rows.slices.get(&task.slice_id).is_none_or(|slice| slice.plan_id != task.plan_id) {
            let message =
                format!("task {} names slice {} of plan {}, which is not there", task.id, task.slice_id, task.plan_id);
            findings.error(CHECK, source_of(rules, &task.provenance), message, json!({"task": task.id}));
        }
    }
    for run in &dump.runs {
        let fits = |task: &&Task| task.slice_id == run.slice_id && task.plan_id == run.plan_id;
        if rows.tasks.get(&run.task_id).is_none_or(|task| !fits(task)) {
            let message = format!("run {} disagrees with its task {}", run.id, run.task_id);
            findings.error(CHECK, source_of(rules, &run.provenance), message, json!({"run": run.id}));
        }
    }
    for batch in &dump.batches {
        let fits =
            |run: &&Run| (run.task_id, run.slice_id, run.plan_id) == (batch.task_id, batch.slice_id, batch.plan_id);
        if rows.runs.get(&batch.run_id).is_none_or(|run| !fits(run)) {
            let message = format!("batch {} disagrees with its run {}", batch.id, batch.run_id);
            findings.error(CHECK, source_of(rules, &batch.provenance), message, json!({"batch": batch.id}));
        }
    }
}

/// Records, events and quarantined items came from batches that committed.
fn check_contents(dump: &Dump, rows: &Rows<'_>, rules: &[SourceRules], findings: &mut Findings) {
    let torn = |batch: &i64| rows.batches.get(batch).is_none_or(|batch| !batch.committed());
    let mut tell = |provenance: &str, what: String, batch: i64| {
        let message = format!("{what} came from batch {batch}, which did not commit");
        findings.error(CHECK, source_of(rules, provenance), message, Value::Null);
    };
    for record in dump.records.iter().filter(|record| torn(&record.batch_id)) {
        tell(&record.provenance, format!("record {} `{}`", record.id, record.provider_id), record.batch_id);
    }
    for event in dump.outbox.iter().filter(|event| torn(&event.batch_id)) {
        tell(&event.provenance, format!("event {}", event.id), event.batch_id);
    }
    for row in dump.quarantine.iter().filter(|row| torn(&row.batch_id)) {
        tell(&row.provenance, format!("quarantined item {}", row.id), row.batch_id);
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn rows_that_disagree_are_found() {
        plant(
            "C5",
            &[
                Planted::sql(
                    "a slice taken for dispatched",
                    "UPDATE ing_plan_slice SET status_code = 'PENDING' WHERE id = 16;
                 UPDATE ing_plan SET status_code = 'READY' WHERE id = 2",
                    "slice 16 has no task",
                ),
                Planted::sql(
                    "a finished plan still live",
                    "UPDATE ing_plan SET live_key = namespace_hash WHERE id = 2",
                    "live_key",
                ),
                Planted::sql(
                    "a live plan without its key",
                    "UPDATE ing_plan SET status_code = 'READY' WHERE id = 2",
                    "live_key",
                ),
                Planted::sql(
                    "a plan completed too early",
                    "UPDATE ing_plan_slice SET status_code = 'EXECUTING' WHERE id = 16",
                    "COMPLETED with 1 open slices",
                ),
                Planted::sql(
                    "a wrong open count",
                    "UPDATE ing_plan SET open_slice_count = 1 WHERE id = 1",
                    "counts 1 open slices",
                ),
                Planted::sql(
                    "a task without its slice",
                    "UPDATE ing_task SET slice_id = 99 WHERE id = 26",
                    "which is not there",
                ),
                Planted::sql(
                    "a run of another task",
                    "UPDATE ing_task_run SET slice_id = 13 WHERE id = 301",
                    "disagrees with its task",
                ),
                Planted::sql(
                    "a batch of another run",
                    "UPDATE ing_task_run_batch SET run_id = 302, batch_no = 9 WHERE id = 401",
                    "disagrees with its run",
                ),
                Planted::sql(
                    "a torn batch: records without their ledger row",
                    "UPDATE ing_task_run_batch SET status_code = 'SKIPPED' WHERE id = 402",
                    "which did not commit",
                ),
                Planted::sql(
                    "a split that left its parent running",
                    "UPDATE ing_plan_slice SET status_code = 'PARTIAL' WHERE id = 12",
                    "not split",
                ),
                Planted::sql(
                    "a slice failed by a rescuer after its task succeeded",
                    "UPDATE ing_plan_slice SET status_code = 'FAILED' WHERE id = 16",
                    "its task disagrees",
                ),
            ],
        )
        .await;
    }
}
