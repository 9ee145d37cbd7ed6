//! C5, chains: pages of a pass follow each other without a hole, cursor events follow each other and end in the
//! cursor, and a slice succeeded only with a pass that reached the source's own end.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use crate::checks::source_of;
use crate::dump::{Batch, Dump, Slice, Task};
use crate::input::SourceRules;
use crate::verdict::Findings;

const CHECK: &str = "C5";

pub fn check(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let tasks: HashMap<i64, &Task> = Dump::by_id(&dump.tasks, |task| task.id);
    // Slices with a pass that was read to its end.
    let mut read: HashSet<i64> = HashSet::new();
    // Slices with a pass that was read from its first page on.
    let mut begun: HashSet<i64> = HashSet::new();
    for (task_id, chain) in dump.chains() {
        for pass in chain.chunk_by(|left, right| left.pass_no == right.pass_no) {
            let source = source_of(rules, &pass[0].provenance);
            let first_token = tasks.get(&task_id).map(|task| task.first_token.as_str());
            for message in pass_faults(pass, first_token) {
                let evidence = json!({"task": task_id, "pass": pass[0].pass_no, "batch": pass[0].id});
                findings.error(CHECK, source, format!("task {task_id}, pass {}: {message}", pass[0].pass_no), evidence);
            }
            if pass[0].seq_no == 0 {
                begun.insert(pass[0].slice_id);
            }
            if reached_end(pass) {
                read.insert(pass[0].slice_id);
            }
        }
    }
    for slice in dump.slices.iter().filter(|slice| slice.status == "SUCCEEDED") {
        let source = source_of(rules, &slice.provenance);
        if !read.contains(&slice.id) && !read_with_parent(dump, slice, &begun) {
            let message = format!("slice {} succeeded without a pass that reached the last page", slice.id);
            findings.error(CHECK, source, message, json!({"slice": slice.id}));
        }
        if slice.read_at.is_none() {
            findings.error(
                CHECK,
                source,
                format!("slice {} succeeded and was read at no time", slice.id),
                json!({"slice": slice.id}),
            );
        }
    }
    check_cursor_events(dump, rules, findings);
}

/// The beginning of a slice that was read in order and then cut: it has no pages of its own, its parent has them.
/// Whether everything in it is there is judged by C2, from the readings of the parent.
fn read_with_parent(dump: &Dump, slice: &Slice, begun: &HashSet<i64>) -> bool {
    let parent = slice.parent.and_then(|parent| dump.slices.iter().find(|known| known.id == parent));
    let untouched = !dump.tasks.iter().any(|task| task.slice_id == slice.id);
    untouched
        && parent.is_some_and(|parent| {
            parent.status == "SPLIT" && parent.from == slice.from && parent.to > slice.to && begun.contains(&parent.id)
        })
}

/// Pages 0..n, each beginning where the one before ended. In a two-phase pass detail requests may stand between the
/// pages of the search without being links of its chain.
fn pass_faults(pass: &[&Batch], first_token: Option<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for (expected, batch) in (0..).zip(pass) {
        if batch.seq_no != expected {
            let what = if batch.seq_no < expected { "is there twice" } else { "follows a hole" };
            faults.push(format!("page {} {what}, page {expected} was due", batch.seq_no));
            break;
        }
    }
    if let (Some(first), Some(token)) = (pass.first(), first_token)
        && first.seq_no == 0
        && first.before_token != token
    {
        faults.push(format!("begins at `{}`, not at `{token}`", first.before_token));
    }
    if let Some(fault) = broken_link(pass) {
        let search: Vec<&Batch> = pass.iter().copied().filter(|batch| batch.phase == "search").collect();
        if search.len() == pass.len() || broken_link(&search).is_some() {
            faults.push(fault);
        }
    }
    faults
}

fn broken_link(pages: &[&Batch]) -> Option<String> {
    let broken = pages.windows(2).find(|pair| pair[0].after_token.as_deref() != Some(&pair[1].before_token))?;
    Some(format!(
        "page {} ends at {:?} and page {} begins at `{}`",
        broken[0].seq_no, broken[0].after_token, broken[1].seq_no, broken[1].before_token
    ))
}

fn reached_end(pass: &[&Batch]) -> bool {
    let whole = pass.iter().map(|batch| batch.seq_no).eq(0..pass.len() as i64);
    let last = pass.last();
    let last_search = pass.iter().rev().find(|batch| batch.phase == "search");
    let ends = |batch: Option<&&Batch>| batch.is_some_and(|batch| batch.after_token.is_none());
    whole && (ends(last) || ends(last_search))
}

fn check_cursor_events(dump: &Dump, rules: &[SourceRules], findings: &mut Findings) {
    let slices = Dump::by_id(&dump.slices, |slice| slice.id);
    let mut keys: HashSet<&[u8]> = HashSet::new();
    let mut last: HashMap<&[u8], usize> = HashMap::new();
    for (at, event) in dump.cursor_events.iter().enumerate() {
        let source = source_of(rules, &event.provenance);
        let mut tell = |message: String| findings.error(CHECK, source, message, json!({"event": event.id}));
        let number = event.event_no;
        if !keys.insert(&event.idempotent_key) {
            tell(format!("cursor event {number} repeats an idempotent key"));
        }
        let before = last.insert(&event.namespace, at).map(|at| &dump.cursor_events[at]);
        let expected = before.map_or(1, |before| before.event_no + 1);
        if event.first_no() != expected {
            tell(format!("cursor event {number} stands where {expected} was due"));
        }
        if let Some(before) = before
            && (before.new_value != event.prev_value || before.new_instant != event.prev_instant)
        {
            tell(format!(
                "cursor event {number} begins at `{}`, the one before ended at `{}`",
                event.prev_value, before.new_value
            ));
        }
        let back = event.new_instant.zip(event.prev_instant).is_some_and(|(new, prev)| new <= prev);
        if back || event.new_numeric.zip(event.prev_numeric).is_some_and(|(new, prev)| new <= prev) {
            tell(format!("cursor event {number} does not move forward"));
        }
        let slice = event.slice_id.and_then(|id| slices.get(&id));
        if slice.is_some_and(|slice| slice.namespace != event.namespace) {
            tell(format!("cursor event {number} was moved by a slice of another namespace"));
        }
    }
    for cursor in &dump.cursors {
        let source = source_of(rules, &cursor.provenance);
        let event = last.get(cursor.namespace.as_slice()).map(|at| &dump.cursor_events[*at]);
        let same = event.map_or(cursor.version == 0, |event| {
            cursor.version == event.event_no && cursor.instant == event.new_instant && cursor.value == event.new_value
        });
        if !same {
            let message = format!("cursor {} at version {} is not its last event", cursor.id, cursor.version);
            findings.error(CHECK, source, message, json!({"cursor": cursor.id, "event": event.map(|event| event.id)}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    #[tokio::test]
    async fn broken_chains_are_found() {
        plant(
            "C5",
            &[
                Planted::sql(
                    "a hole in seq",
                    "UPDATE ing_task_run_batch SET seq_no = 2 WHERE id = 402",
                    "page 2 follows a hole",
                ),
                Planted::sql(
                    "a page committed twice",
                    "UPDATE ing_task_run_batch SET seq_no = 0 WHERE id = 402",
                    "is there twice",
                ),
                Planted::sql(
                    "resume from memory: a token jumped",
                    "UPDATE ing_task_run_batch SET before_token = 'p7' WHERE id = 402",
                    "begins at `p7`",
                ),
                Planted::sql(
                    "a pass that begins in the middle",
                    "UPDATE ing_task_run_batch SET before_token = 'p1' WHERE id = 401",
                    "begins at `p1`, not at",
                ),
                Planted::sql(
                    "a short page taken as last",
                    "UPDATE ing_task_run_batch SET after_token = 'p2' WHERE id = 402",
                    "without a pass that reached the last page",
                ),
                Planted::sql(
                    "a success without a reading",
                    "UPDATE ing_plan_slice SET read_at = NULL WHERE id = 13",
                    "at no time",
                ),
                Planted::sql(
                    "a cursor event lost",
                    "DELETE FROM ing_cursor_event WHERE event_no = 2",
                    "where 2 was due",
                ),
                Planted::sql(
                    "a step back",
                    "UPDATE ing_cursor_event SET new_instant = prev_instant WHERE event_no = 5",
                    "does not move forward",
                ),
                Planted::sql(
                    "a cursor without its event",
                    "UPDATE ing_cursor SET version = 6",
                    "is not its last event",
                ),
                Planted::sql(
                    "a cursor value of its own",
                    "UPDATE ing_cursor SET cursor_value = 'x'",
                    "is not its last event",
                ),
                Planted::sql(
                    "a backfill that moves the harvest cursor",
                    "UPDATE ing_plan_slice SET namespace_hash = X'BB' WHERE id = 16",
                    "a slice of another namespace",
                ),
            ],
        )
        .await;
    }

    /// Events 1 to 3 as one.
    const THINNED: &str = "DELETE FROM ing_cursor_event WHERE event_no IN (2, 3);
        UPDATE ing_cursor_event SET event_no = 3, slice_id = NULL, cause_code = 'SUMMARY',
            new_value = (SELECT prev_value FROM ing_cursor_event WHERE event_no = 4),
            new_instant = (SELECT prev_instant FROM ing_cursor_event WHERE event_no = 4),
            record_remarks = json_object('summary', json_object('from', 1, 'to', 3, 'last_created_at',
                (SELECT created_at FROM ing_cursor_event WHERE event_no = 4)))
         WHERE event_no = 1";

    #[tokio::test]
    async fn a_summary_stands_for_the_events_it_names() {
        let input = crate::fixture::good().await;
        crate::fixture::run(&input, THINNED).await;
        let verdict = crate::check(&input).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
        crate::fixture::run(&input, "UPDATE ing_cursor_event SET record_remarks = '{}' WHERE event_no = 3").await;
        let verdict = crate::check(&input).await;
        assert!(verdict.errors("C5").any(|finding| finding.message.contains("stands where 1 was due")));
    }
}
