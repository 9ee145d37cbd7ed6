//! Leases: one holder, fenced by epoch and run.

use patra_core::failpoint::Strike;
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::{Bench, TTL, crash, namespace, record};

const PAST: Span = TTL.plus(Span::SECOND);

pub(super) async fn a_stale_lease_commits_nothing(bench: Bench) {
    let old = bench.leased().await;
    bench.advance(PAST);
    let new = bench.acquire_one().await;
    assert_eq!((new.lease.task, new.lease.epoch), (old.lease.task, old.lease.epoch + 1));
    assert_ne!(new.lease.run_uuid, old.lease.run_uuid);
    let state = bench.ledger_state().await;
    let lost = LedgerError::LeaseLost { task: old.lease.task };
    let page = bench.page(&old.batch, vec![record("a", 1, "one")], None);
    assert_eq!(bench.store.commit_batch(&old.lease, page.clone()).await, Err(lost.clone()));
    // The epoch alone does not help either: the run decides too.
    let forged = Lease { epoch: new.lease.epoch, ..old.lease.clone() };
    assert_eq!(bench.store.commit_batch(&forged, page).await, Err(lost.clone()));
    assert_eq!(bench.store.finish_slice(&old.lease, bench.succeeded()).await, Err(lost.clone()));
    let release = Release { due_at: bench.now(), reason: "SHUTDOWN".into(), failed: false, circuit_open: false };
    assert_eq!(bench.store.release(&old.lease, release).await, Err(lost.clone()));
    let children = vec![bench.slice(0, 100, None)];
    assert_eq!(
        bench.store.split_slice(&old.lease, Split { reason: "X".into(), proven: None, children }).await,
        Err(lost.clone())
    );
    let first = OpenBatch { id: bench.id(), pass_no: 2, seq_no: 0, ..old.batch.clone() };
    let pass = NewPass { abandoned: old.batch.id, first, reason: "X".into() };
    assert_eq!(bench.store.begin_pass(&old.lease, pass).await, Err(lost.clone()));
    assert_eq!(bench.store.renew(&old.lease, TTL).await, Err(lost));
    assert_eq!(bench.ledger_state().await, state);
}

pub(super) async fn an_expired_lease_commits_until_it_is_taken_over(bench: Bench) {
    let leased = bench.leased().await;
    bench.advance(PAST);
    let page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
    assert_eq!(bench.commit(&leased.lease, page).await.counts.inserted, 1);
    assert!(bench.store.renew(&leased.lease, TTL).await.is_ok());
}

pub(super) async fn a_takeover_goes_on_after_the_last_committed_page(bench: Bench) {
    let mut leased = bench.leased().await;
    assert_eq!((leased.batch.seq_no, leased.batch.before_token.as_str()), (0, "p0"));
    for (seq, token) in ["p1", "p2", "d:1"].into_iter().enumerate() {
        let page = bench.page(&leased.batch, vec![record(token, 1, token)], Some(token));
        bench.commit(&leased.lease, page).await;
        bench.advance(PAST);
        leased = bench.acquire_one().await;
        assert_eq!((leased.batch.pass_no, leased.batch.seq_no as usize), (1, seq + 1));
        assert_eq!(leased.batch.before_token, token);
        assert_eq!(leased.trace.len(), seq + 1);
        assert_eq!(leased.trace[seq].after_token.as_deref(), Some(token));
        assert_eq!(leased.trace[seq].page_ids, [patra_core::hash::Hash32::of(token.as_bytes()).short()]);
    }
    assert_eq!(leased.batch.phase, Phase::Detail);
    assert_eq!(leased.task.attempt_no, 4);
}

pub(super) async fn a_takeover_closes_what_the_lost_run_left_open(bench: Bench) {
    let old = bench.leased().await;
    bench.advance(PAST);
    let new = bench.acquire_one().await;
    let runs = bench.column("SELECT status_code, COALESCE(reason, '') FROM ing_task_run ORDER BY attempt_no").await;
    assert_eq!(runs, ["PARTIALLEASE_LOST", "RUNNING"]);
    let batches = bench.column("SELECT id, status_code FROM ing_task_run_batch ORDER BY id").await;
    assert_eq!(batches, [format!("{}SKIPPED", old.batch.id), format!("{}RUNNING", new.batch.id)]);
}

pub(super) async fn leases_lost_without_progress_are_counted_and_progress_resets_them(bench: Bench) {
    let mut leased = bench.leased().await;
    for lost in 1..=3 {
        bench.advance(PAST);
        leased = bench.acquire_one().await;
        assert_eq!((leased.task.lost_count, leased.task.failure_count), (lost, 0));
        bench.store.mark_asked(&leased.lease).await.unwrap();
    }
    let page = bench.page(&leased.batch, Vec::new(), Some("p1"));
    bench.commit(&leased.lease, page).await;
    bench.advance(PAST);
    assert_eq!(bench.acquire_one().await.task.lost_count, 1);
}

pub(super) async fn leases_lost_before_a_new_pass_do_not_count_against_its_first_page(bench: Bench) {
    bench.leased().await;
    bench.advance(PAST);
    let leased = bench.acquire_one().await;
    assert_eq!(leased.task.lost_count, 1);
    let batch_no = leased.batch.batch_no + 1;
    let first = OpenBatch { id: bench.id(), batch_no, pass_no: 2, seq_no: 0, ..leased.batch.clone() };
    let pass = NewPass { abandoned: leased.batch.id, first, reason: "CURSOR_LOST".into() };
    bench.store.begin_pass(&leased.lease, pass).await.unwrap();
    for lost in 1..=3 {
        bench.advance(PAST);
        let next = bench.acquire_one().await;
        assert_eq!((next.batch.pass_no, next.task.lost_count), (2, lost), "the same page of the same pass");
        bench.store.mark_asked(&next.lease).await.unwrap();
    }
}

pub(super) async fn leases_lost_before_the_page_was_asked_for_again_say_nothing_about_it(bench: Bench) {
    let first = bench.leased().await;
    for _ in 0..5 {
        bench.advance(PAST);
        assert_eq!(bench.acquire_one().await.task.lost_count, 1, "only the first loss is in doubt");
    }
    let stale = bench.store.mark_asked(&first.lease).await;
    assert!(matches!(stale, Err(LedgerError::LeaseLost { .. })), "{stale:?}");
}

pub(super) async fn a_task_is_leased_to_one_holder(bench: Bench) {
    let windows: Vec<(i64, i64)> = (0..40).map(|at| (at, at + 1)).collect();
    bench.publish(&windows).await;
    let claims = (0..8).map(|_| {
        let store = bench.store.clone();
        tokio::spawn(async move { store.acquire_tasks(&Claim::new("w", 5, TTL)).await.unwrap() })
    });
    let mut tasks = Vec::new();
    let mut runs = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        for leased in claim.await.unwrap() {
            tasks.push(leased.lease.task);
            runs.push(leased.lease.run_uuid);
        }
    }
    tasks.sort_unstable();
    runs.sort_unstable();
    assert_eq!(tasks.len(), 40);
    assert!(tasks.windows(2).all(|pair| pair[0] != pair[1]) && runs.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(bench.acquire(5).await.is_empty());
}

pub(super) async fn tasks_are_claimed_by_priority_then_time_then_id(bench: Bench) {
    let mut slices: Vec<NewSlice> = (0..5).map(|at| bench.slice(at, at + 1, None)).collect();
    let now = bench.now();
    for (slice, (priority, wait)) in slices.iter_mut().zip([(5, 0), (3, -1), (3, -2), (3, -1), (1, 60)]) {
        slice.task.priority = priority;
        slice.task.scheduled_at = now.plus(Span::from_seconds(wait));
    }
    let want = [slices[2].task.id, slices[1].task.id, slices[3].task.id, slices[0].task.id];
    bench.publish_plan(bench.plan(slices)).await;
    let claimed: Vec<_> = bench.acquire(9).await.into_iter().map(|leased| leased.lease.task).collect();
    assert_eq!(claimed, want);
    bench.advance(PAST);
    // Tasks left behind come first.
    let again: Vec<_> = bench.acquire(4).await.into_iter().map(|leased| leased.lease.task).collect();
    assert_eq!(again.len(), 4);
    assert!(again.iter().all(|task| want.contains(task)));
}

pub(super) async fn a_paused_source_is_not_claimed(bench: Bench) {
    bench.publish(&[(0, 1)]).await;
    for (endpoint, column) in [("", "paused"), ("works", "fuse_blown")] {
        let (paused, blown) = (column == "paused", column == "fuse_blown");
        bench
            .change_with(
                "INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, reason, updated_at)
                 VALUES (1, 'crossref', ?, ?, ?, 'why', ?)",
                vec![endpoint.into(), paused.into(), blown.into(), bench.now().into()],
            )
            .await;
        assert!(bench.acquire(1).await.is_empty(), "{column}");
        assert_eq!(bench.store.next_due(&Only::default()).await, Ok(None));
        let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
        assert_eq!(view.paused.as_deref(), Some("why"));
        bench.change("DELETE FROM ing_source_control").await;
    }
    assert_eq!(bench.acquire(1).await.len(), 1);
}

pub(super) async fn a_plan_of_a_newer_format_is_not_claimed(bench: Bench) {
    let plan = bench.publish(&[(0, 1)]).await;
    bench.change("UPDATE ing_plan SET format_version = 99").await;
    assert!(bench.acquire(1).await.is_empty());
    assert!(matches!(bench.store.plan(plan).await, Err(LedgerError::TooNew { .. })));
}

pub(super) async fn waiting_does_not_count_as_a_failure(bench: Bench) {
    let leased = bench.leased().await;
    let due_at = bench.now().plus(Span::MINUTE);
    let wait = Release { due_at, reason: "QUOTA".into(), failed: false, circuit_open: false };
    bench.store.release(&leased.lease, wait.clone()).await.unwrap();
    assert_eq!(bench.store.release(&leased.lease, wait).await, Ok(()), "a repeated release has happened");
    assert!(bench.acquire(1).await.is_empty());
    bench.advance(Span::MINUTE);
    let again = bench.acquire_one().await;
    assert_eq!((again.task.failure_count, again.task.attempt_no, again.task.lost_count), (0, 2, 0));
    let failed = Release { due_at: bench.now(), reason: "HTTP_500".into(), failed: true, circuit_open: false };
    bench.store.release(&again.lease, failed).await.unwrap();
    assert_eq!(bench.acquire_one().await.task.failure_count, 1);
    let runs = bench.column("SELECT status_code, COALESCE(reason, '') FROM ing_task_run ORDER BY attempt_no").await;
    assert_eq!(runs, ["PARTIALQUOTA", "FAILEDHTTP_500", "RUNNING"]);
    assert_eq!(bench.one("SELECT status_code FROM ing_plan_slice").await, "EXECUTING");
}

pub(super) async fn the_next_due_time_is_now_later_or_never(bench: Bench) {
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(None));
    let mut slice = bench.slice(0, 1, None);
    slice.task.scheduled_at = bench.now().plus(Span::MINUTE);
    let due = slice.task.scheduled_at;
    bench.publish_plan(bench.plan(vec![slice])).await;
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(Some(due)));
    bench.advance(Span::HOUR);
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(Some(bench.now())));
    let leased = bench.acquire_one().await;
    let end = leased.lease.expires_at.plus(Span::from_micros(1));
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(Some(end)));
    bench.advance(TTL);
    assert!(bench.acquire(1).await.is_empty(), "the last microsecond still belongs to the holder");
    bench.advance(Span::from_micros(1));
    assert_eq!(bench.acquire(1).await.len(), 1);
}

pub(super) async fn a_claim_that_dies_leaves_the_task_claimable(bench: Bench) {
    bench.publish(&[(0, 1)]).await;
    let before = bench.ledger_state().await;
    for point in ["claim.select", "claim.take", "claim.run", "claim.commit"] {
        bench.arm(point, Strike::Abort);
        let store = bench.store.clone();
        assert_eq!(crash(async move { store.acquire_tasks(&Claim::new("w", 1, TTL)).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    bench.arm("claim.done", Strike::Abort);
    let store = bench.store.clone();
    assert_eq!(crash(async move { store.acquire_tasks(&Claim::new("w", 1, TTL)).await }).await, "claim.done");
    assert!(bench.acquire(1).await.is_empty());
    bench.advance(PAST);
    assert_eq!(bench.acquire_one().await.lease.epoch, 2);
}

pub(super) async fn a_renewed_lease_ends_later_and_a_lost_one_is_refused(bench: Bench) {
    let leased = bench.leased().await;
    bench.advance(Span::from_seconds(30));
    assert_eq!(bench.store.renew(&leased.lease, TTL).await, Ok(bench.now().plus(TTL)));
    bench.advance(Span::from_seconds(40));
    assert!(bench.acquire(1).await.is_empty());
    for point in ["heartbeat.before", "heartbeat.after"] {
        bench.arm(point, Strike::Error);
        assert!(bench.store.renew(&leased.lease, TTL).await.is_err() && bench.fired());
    }
    bench.succeed(&leased).await;
    let lost = LedgerError::LeaseLost { task: leased.lease.task };
    assert_eq!(bench.store.renew(&leased.lease, TTL).await, Err(lost));
}

pub(super) async fn a_new_pass_begins_at_page_zero(bench: Bench) {
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, Vec::new(), Some("p1"));
    bench.commit(&leased.lease, page.clone()).await;
    let open = page.next.unwrap();
    let first = OpenBatch { id: bench.id(), batch_no: 3, pass_no: 2, seq_no: 0, before_token: "p0".into(), ..open };
    let pass = NewPass { abandoned: open.id, first: first.clone(), reason: "CURSOR_EXPIRED".into() };
    for point in ["pass.begin", "pass.commit"] {
        let before = bench.ledger_state().await;
        bench.arm(point, Strike::Error);
        assert!(bench.store.begin_pass(&leased.lease, pass.clone()).await.is_err() && bench.fired());
        assert_eq!(bench.ledger_state().await, before);
    }
    bench.store.begin_pass(&leased.lease, pass.clone()).await.unwrap();
    assert_eq!(bench.store.begin_pass(&leased.lease, pass).await, Ok(()), "a repeated step has happened");
    let page = bench.page(&first, Vec::new(), Some("p1"));
    bench.commit(&leased.lease, page).await;
    bench.advance(PAST);
    let again = bench.acquire_one().await;
    assert_eq!((again.batch.pass_no, again.batch.seq_no, again.batch.before_token.as_str()), (2, 1, "p1"));
    assert_eq!(again.trace.iter().map(|batch| (batch.pass_no, batch.seq_no)).collect::<Vec<_>>(), [(1, 0), (2, 0)]);
}

pub(super) async fn a_finished_pass_is_handed_out_with_nothing_to_read(bench: Bench) {
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, Vec::new(), None);
    bench.commit(&leased.lease, page).await;
    bench.advance(PAST);
    let again = bench.acquire_one().await;
    assert_eq!((again.batch.seq_no, again.batch.before_token.as_str()), (1, ""));
    assert_eq!(again.trace.last().unwrap().after_token, None);
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_task_run_batch").await, "1");
    let finished = bench.store.finish_slice(&again.lease, bench.succeeded()).await.unwrap();
    assert!(finished.plan_completed && finished.moved.is_some());
}

pub(super) async fn worker_slots_are_not_shared(bench: Bench) {
    let ours = bench.store.lease_worker_slot("a", TTL).await.unwrap();
    let other = bench.store.lease_worker_slot("b", TTL).await.unwrap();
    assert_ne!(ours, other);
    assert_eq!(bench.store.lease_worker_slot("a", TTL).await, Ok(ours));
    bench.advance(PAST);
    assert_ne!(bench.store.lease_worker_slot("c", TTL).await, Ok(ours), "unused slots come first");
}

/// Queues `count` tasks of another source.
async fn queue(bench: &Bench, provenance: &str, count: i64, priority: u8) {
    let slices = (0..count)
        .map(|at| {
            let mut slice = bench.slice(at, at + 1, None);
            slice.task.priority = priority;
            slice
        })
        .collect();
    let namespace = Namespace { provenance: provenance.into(), ..namespace(Operation::Harvest) };
    bench.publish_plan(bench.plan_of(namespace, slices)).await;
}

async fn claimed(bench: &Bench, claim: &Claim) -> Vec<String> {
    let leased = bench.store.acquire_tasks(claim).await.unwrap();
    leased.into_iter().map(|leased| leased.task.provenance).collect()
}

pub(super) async fn sources_take_turns_whatever_the_length_of_their_queues(bench: Bench) {
    queue(&bench, "long", 30, 3).await;
    queue(&bench, "short", 2, 3).await;
    queue(&bench, "later", 2, 5).await;
    let mut first = claimed(&bench, &Claim::new("w", 4, TTL)).await;
    first.sort();
    assert_eq!(first, ["long", "long", "short", "short"]);
    assert_eq!(claimed(&bench, &Claim::new("w", 28, TTL)).await, ["long"; 28]);
    assert_eq!(claimed(&bench, &Claim::new("w", 9, TTL)).await, ["later"; 2], "a lower priority waits");
    // One at a time, as an executor with one free place claims.
    queue(&bench, "a", 3, 3).await;
    queue(&bench, "b", 3, 3).await;
    bench.advance(Span::from_seconds(2));
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.extend(claimed(&bench, &Claim::new("w", 1, TTL)).await);
    }
    turns.sort();
    assert_eq!(turns, ["a", "a", "b", "b"]);
}

fn of(provenance: &str) -> Partition {
    Partition { provenance: provenance.into(), endpoint: "works".into(), operation: "HARVEST".into() }
}

pub(super) async fn no_queued_task_is_taken_only_to_wait_at_the_gate(bench: Bench) {
    queue(&bench, "a", 2, 3).await;
    queue(&bench, "b", 1, 3).await;
    let crowded = Claim { crowded: [of("a")].into(), ..Claim::new("w", 8, TTL) };
    assert_eq!(claimed(&bench, &crowded).await, ["b"]);
    let other = Claim::new("other", 8, TTL);
    assert_eq!(claimed(&bench, &other).await, ["a", "a"], "where nobody waits there is room");
    bench.advance(TTL.plus(Span::SECOND));
    assert_eq!(claimed(&bench, &crowded).await.len(), 3, "a lost task does not wait for a free permit");
}

pub(super) async fn a_full_partition_leaves_room_to_the_others(bench: Bench) {
    queue(&bench, "a", 5, 3).await;
    queue(&bench, "b", 5, 3).await;
    let mut claim = Claim { partition_max: 2, ..Claim::new("w", 8, TTL) };
    let mut first = claimed(&bench, &claim).await;
    first.sort();
    assert_eq!(first, ["a", "a", "b", "b"]);
    claim.running = [(of("a"), 2), (of("b"), 1)].into();
    assert_eq!(claimed(&bench, &claim).await, ["b"]);
    claim.running = [(of("a"), 2), (of("b"), 2)].into();
    assert!(claimed(&bench, &claim).await.is_empty());
    bench.advance(TTL.plus(Span::SECOND));
    assert!(claimed(&bench, &claim).await.is_empty(), "what others left behind needs room too");
    claim.running.clear();
    assert_eq!(claimed(&bench, &claim).await.len(), 4);
}

pub(super) async fn a_claim_for_one_operation_leaves_the_others(bench: Bench) {
    bench.publish(&[(0, 10)]).await;
    let backfill = bench.plan_of(namespace(Operation::Backfill), vec![bench.slice(0, 10, None)]);
    let plan = bench.publish_plan(backfill).await;
    let only = Only { provenance: None, operation: Some(Operation::Backfill) };
    let claim = Claim { only: only.clone(), ..Claim::new("w", 9, TTL) };
    let leased = bench.store.acquire_tasks(&claim).await.unwrap();
    assert_eq!(leased.iter().map(|one| one.lease.plan).collect::<Vec<_>>(), [plan]);
    bench.succeed(&leased[0]).await;
    assert_eq!(bench.store.next_due(&only).await, Ok(None));
    assert!(bench.store.next_due(&Only::default()).await.unwrap().is_some());
}
