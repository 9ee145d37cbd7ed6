//! Splits: children tile their parent, by time or by a second key.

use patra_core::failpoint::Strike;
use patra_core::page::Part;
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::{Bench, TTL, at, crash, namespace};

fn range(from: u64, to: u64) -> Option<Part> {
    Some(Part::IdRange { from, to })
}

fn bucket(bucket: u32, buckets: u32) -> Option<Part> {
    Some(Part::HashBucket { bucket, buckets })
}

async fn split(bench: &Bench, lease: &Lease, children: Vec<NewSlice>) -> Result<(), LedgerError> {
    bench.store.split_slice(lease, Split { reason: "OVER_CAP".into(), proven: None, children }).await
}

pub(super) async fn children_replace_their_parent(bench: Bench) {
    let leased = bench.leased().await;
    let children = vec![bench.slice(0, 50, None), bench.slice(50, 100, None)];
    split(&bench, &leased.lease, children.clone()).await.unwrap();
    split(&bench, &leased.lease, children).await.expect("a repeated split has happened");
    let lost = LedgerError::LeaseLost { task: leased.lease.task };
    assert_eq!(bench.store.renew(&leased.lease, TTL).await, Err(lost));
    assert_eq!(bench.one("SELECT slice_count, ':', open_slice_count, status_code FROM ing_plan").await, "3:2READY");
    let states = bench.column("SELECT status_code FROM ing_plan_slice ORDER BY id").await;
    assert_eq!(states, ["SPLIT", "DISPATCHED", "DISPATCHED"]);
    assert_eq!(bench.one("SELECT status_code, reason FROM ing_task_run").await, "PARTIALSPLIT");
    assert_eq!(bench.one("SELECT status_code FROM ing_task_run_batch").await, "SKIPPED");
    let parent = format!("SELECT COUNT(*) FROM ing_plan_slice WHERE parent_slice_id = {}", leased.lease.slice);
    assert_eq!(bench.one(&parent).await, "2");
}

pub(super) async fn a_split_slice_is_covered_by_its_children_in_time(bench: Bench) {
    let leased = bench.leased().await;
    split(&bench, &leased.lease, vec![bench.slice(0, 50, None), bench.slice(50, 100, None)]).await.unwrap();
    let children = bench.acquire(2).await;
    assert_eq!(bench.succeed(&children[1]).await.moved, None);
    let last = bench.succeed(&children[0]).await;
    assert_eq!(last, Finished { moved: Some((at(0), at(100))), plan_completed: true });
}

pub(super) async fn parts_cover_their_window_only_together(bench: Bench) {
    bench.publish(&[(0, 100), (100, 200)]).await;
    let leased = bench.acquire(2).await;
    bench.succeed(&leased[1]).await;
    let parts = (0..3).map(|at| bench.slice(0, 100, bucket(at, 3))).collect();
    split(&bench, &leased[0].lease, parts).await.unwrap();
    let children = bench.acquire(3).await;
    assert_eq!(children[0].task.part, bucket(0, 3));
    bench.succeed(&children[0]).await;
    let failed = SliceOutcome::Failed { class: "X".into(), reason: "x".into(), prefix: None, stops_source: false };
    bench.store.finish_slice(&children[1].lease, failed).await.unwrap();
    let done = bench.succeed(&children[2]).await;
    assert_eq!(done, Finished { moved: None, plan_completed: true }, "a failed part leaves the window unproven");
    bench.publish(&[(0, 100)]).await;
    let leased = bench.acquire_one().await;
    let parts = vec![bench.slice(0, 100, range(0, 9)), bench.slice(0, 100, range(10, 99))];
    split(&bench, &leased.lease, parts).await.unwrap();
    let children = bench.acquire(2).await;
    assert_eq!(bench.succeed(&children[1]).await.moved, None);
    assert_eq!(bench.succeed(&children[0]).await.moved, Some((at(0), at(200))));
}

pub(super) async fn parts_split_further_cover_their_window(bench: Bench) {
    let leased = bench.leased().await;
    let parts = vec![bench.slice(0, 100, range(0, 9)), bench.slice(0, 100, range(10, 99))];
    split(&bench, &leased.lease, parts).await.unwrap();
    let mut children = bench.acquire(2).await;
    let whole = children.pop().unwrap();
    let cut = children.pop().unwrap();
    bench.succeed(&whole).await;
    let halves = vec![bench.slice(0, 100, range(0, 4)), bench.slice(0, 100, range(5, 9))];
    split(&bench, &cut.lease, halves).await.unwrap();
    let halves = bench.acquire(2).await;
    assert_eq!(bench.succeed(&halves[0]).await.moved, None);
    let last = bench.succeed(&halves[1]).await;
    assert_eq!(last, Finished { moved: Some((at(0), at(100))), plan_completed: true });
}

pub(super) async fn parts_of_a_plan_cover_their_window_only_together(bench: Bench) {
    let slices = vec![bench.slice(0, 100, bucket(0, 2)), bench.slice(0, 100, bucket(1, 2))];
    bench.publish_plan(bench.plan(slices)).await;
    let leased = bench.acquire(2).await;
    assert_eq!(bench.succeed(&leased[0]).await.moved, None);
    assert_eq!(bench.succeed(&leased[1]).await.moved, Some((at(0), at(100))));
}

pub(super) async fn children_that_do_not_tile_are_refused(bench: Bench) {
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    for children in [
        vec![],
        vec![bench.slice(0, 50, None), bench.slice(51, 100, None)],
        vec![bench.slice(0, 50, None), bench.slice(50, 99, None)],
        vec![bench.slice(0, 50, range(0, 9)), bench.slice(50, 100, range(10, 19))],
        vec![bench.slice(0, 100, range(0, 9)), bench.slice(0, 100, range(11, 19))],
        vec![bench.slice(0, 100, bucket(0, 3)), bench.slice(0, 100, bucket(2, 3))],
        vec![bench.slice(0, 100, bucket(0, 2)), bench.slice(0, 100, None)],
    ] {
        let refused = split(&bench, &leased.lease, children.clone()).await;
        assert!(matches!(refused, Err(LedgerError::Corrupt { .. })), "{children:?}");
        assert_eq!(bench.ledger_state().await, before);
    }
    for (from, middle) in [(1, 40), (0, 39), (0, 100)] {
        let split = Split {
            reason: "DEEP".into(),
            proven: Some(proven(&bench, from, middle)),
            children: vec![bench.slice(40, 100, None)],
        };
        let refused = bench.store.split_slice(&leased.lease, split).await;
        assert!(matches!(refused, Err(LedgerError::Corrupt { .. })), "[{from}, {middle})");
        assert_eq!(bench.ledger_state().await, before);
    }
}

pub(super) fn proven(bench: &Bench, from: i64, to: i64) -> ProvenSlice {
    let slice = bench.slice(from, to, None);
    ProvenSlice { slice, read_at: bench.now(), source_behind: Span::ZERO }
}

pub(super) async fn a_proven_prefix_of_a_split_counts_at_once_and_is_not_read_again(bench: Bench) {
    let leased = bench.leased().await;
    let children = vec![bench.slice(40, 70, None), bench.slice(70, 100, None)];
    let split = Split { reason: "DEEP".into(), proven: Some(proven(&bench, 0, 40)), children };
    bench.store.split_slice(&leased.lease, split.clone()).await.unwrap();
    bench.store.split_slice(&leased.lease, split).await.expect("a repeated split has happened");
    assert_eq!(bench.watermark().await, Some(at(40)));
    let states = bench.column("SELECT status_code FROM ing_plan_slice ORDER BY window_from, window_to DESC").await;
    assert_eq!(states, ["SPLIT", "SUCCEEDED", "DISPATCHED", "DISPATCHED"]);
    assert_eq!(bench.one("SELECT slice_count, ':', open_slice_count FROM ing_plan").await, "4:2");
    let left = bench.acquire(3).await;
    assert_eq!(left.len(), 2);
    bench.succeed(&left[1]).await;
    let last = bench.succeed(&left[0]).await;
    assert_eq!(last, Finished { moved: Some((at(40), at(100))), plan_completed: true });
}

pub(super) async fn parts_of_what_is_not_proven_cover_the_slice_with_its_prefix(bench: Bench) {
    let leased = bench.leased().await;
    let children = vec![bench.slice(99, 100, bucket(0, 2)), bench.slice(99, 100, bucket(1, 2))];
    let split = Split { reason: "DEEP".into(), proven: Some(proven(&bench, 0, 99)), children };
    bench.store.split_slice(&leased.lease, split).await.unwrap();
    let parts = bench.acquire(2).await;
    assert_eq!(bench.succeed(&parts[0]).await.moved, None);
    assert_eq!(bench.succeed(&parts[1]).await.moved, Some((at(99), at(100))));
}

pub(super) async fn a_slice_that_ends_without_proof_keeps_what_its_order_proves(bench: Bench) {
    bench.publish(&[(0, 100), (100, 200)]).await;
    let leased = bench.acquire(2).await;
    let cut = |from: i64, middle: i64, to: i64| {
        Some(Box::new(CutAtPrefix { proven: proven(&bench, from, middle), rest: bench.slice(middle, to, None) }))
    };
    let failed = SliceOutcome::Failed {
        class: "DENIED".into(),
        reason: "403".into(),
        prefix: cut(0, 40, 100),
        stops_source: false,
    };
    let before = bench.ledger_state().await;
    for point in ["t2.begin", "t2.fence", "t2.plan", "t2.walk", "t2.event", "t2.cursor", "t2.commit"] {
        bench.arm(point, Strike::Error);
        assert!(bench.store.finish_slice(&leased[0].lease, failed.clone()).await.is_err() && bench.fired(), "{point}");
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    let finished = bench.store.finish_slice(&leased[0].lease, failed.clone()).await.unwrap();
    assert_eq!(finished, Finished { moved: Some((at(0), at(40))), plan_completed: false });
    assert_eq!(bench.store.finish_slice(&leased[0].lease, failed).await, Ok(finished), "said again");
    let partial = SliceOutcome::Partial { reason: "PASSES".into(), prefix: cut(100, 150, 200) };
    let last = bench.store.finish_slice(&leased[1].lease, partial).await.unwrap();
    assert_eq!(last, Finished { moved: None, plan_completed: true }, "the gap before it stays");
    let shown = "SELECT status_code, COALESCE(reason, '') FROM ing_plan_slice ORDER BY window_from, window_to DESC";
    let want = ["SPLITDENIED", "SUCCEEDEDORDERED", "FAILEDDENIED", "SPLITPASSES", "SUCCEEDEDORDERED", "PARTIALPASSES"];
    assert_eq!(bench.column(shown).await, want);
    assert_eq!(bench.one("SELECT slice_count, ':', open_slice_count FROM ing_plan").await, "6:0");
    let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
    let read: Vec<_> = view.slices.iter().map(|slice| (slice.window.from(), slice.window.to())).collect();
    assert_eq!(read, [(at(0), at(40)), (at(100), at(150))]);
}

pub(super) async fn a_split_that_fails_leaves_the_parent(bench: Bench) {
    let leased = bench.leased().await;
    let children = vec![bench.slice(0, 50, None), bench.slice(50, 100, None)];
    let before = bench.ledger_state().await;
    for point in ["split.begin", "split.parent", "split.children", "split.commit"] {
        bench.arm(point, Strike::Abort);
        let (store, lease) = (bench.store.clone(), leased.lease.clone());
        let split = Split { reason: "OVER_CAP".into(), proven: None, children: children.clone() };
        assert_eq!(crash(async move { store.split_slice(&lease, split).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    for point in ["release.begin", "release.commit"] {
        bench.arm(point, Strike::Error);
        let release = Release { due_at: bench.now(), reason: "SHUTDOWN".into(), failed: false, circuit_open: false };
        assert!(bench.store.release(&leased.lease, release).await.is_err() && bench.fired());
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    split(&bench, &leased.lease, children).await.unwrap();
}
