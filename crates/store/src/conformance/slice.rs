//! T2: coverage, the watermark and its events.

use std::sync::Arc;

use patra_core::failpoint::{Strike, Struck};
use patra_core::ports::*;
use patra_core::spec::snapshot::{NamespaceScope, Operation, SpecSnapshot};
use patra_core::time::Span;
use serde_json::json;

use super::bench::{Bench, LAG, START, at, crash, namespace, walk_of};

const POINTS: [&str; 7] = ["t2.begin", "t2.fence", "t2.plan", "t2.walk", "t2.event", "t2.cursor", "t2.commit"];

/// Every order of `count` things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let insert = |order: &Vec<usize>, place: usize| {
        let mut order = order.clone();
        order.insert(place, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |place| insert(order, place))).collect()
}

/// Events number 1..n, each begins where the last ended, and the cursor is the last.
async fn assert_chained(bench: &Bench) {
    let events = bench
        .column("SELECT event_no, ' ', prev_value, ' ', new_value FROM ing_cursor_event WHERE operation_code = 'HARVEST' ORDER BY event_no")
        .await;
    let mut last = at(0).to_string();
    for (at, event) in events.iter().enumerate() {
        let parts: Vec<&str> = event.split(' ').collect();
        assert_eq!(parts[0], (at + 1).to_string());
        assert_eq!(parts[1], last);
        assert!(parts[2] > parts[1], "{event}");
        last = parts[2].to_owned();
    }
    let cursor = bench.column("SELECT version, ' ', cursor_value FROM ing_cursor WHERE operation_code = 'HARVEST'");
    let want: Vec<String> = if events.is_empty() { vec![] } else { vec![format!("{} {last}", events.len())] };
    assert_eq!(cursor.await, want);
}

pub(super) async fn the_watermark_is_the_contiguous_prefix_in_every_order(bench: Bench) {
    for (round, order) in orders(5).into_iter().enumerate() {
        let base = round as i64 * 100;
        let windows: Vec<(i64, i64)> = (0..5).map(|at| (base + at * 20, base + at * 20 + 20)).collect();
        bench.publish(&windows).await;
        let mut leased = bench.acquire(5).await;
        leased.sort_by_key(|leased| leased.task.window.from());
        let mut done = [false; 5];
        for (step, slice) in order.iter().enumerate() {
            let finished = bench.store.finish_slice(&leased[*slice].lease, bench.succeeded()).await.unwrap();
            let before = done.iter().take_while(|done| **done).count() as i64;
            done[*slice] = true;
            let after = done.iter().take_while(|done| **done).count() as i64;
            let moved = (after > before).then(|| (at(base + before * 20), at(base + after * 20)));
            assert_eq!(finished, Finished { moved, plan_completed: step == 4 }, "{order:?} {step}");
            let watermark = bench.watermark().await.unwrap_or(at(0));
            assert_eq!(watermark, at(base + after * 20), "{order:?} {step}");
        }
        bench.advance(Span::SECOND);
    }
    assert_chained(&bench).await;
}

pub(super) async fn a_failed_slice_stops_the_watermark_and_a_later_plan_moves_it_on(bench: Bench) {
    bench.publish(&[(0, 20), (20, 40), (40, 60)]).await;
    let leased = bench.acquire(3).await;
    bench.succeed(&leased[0]).await;
    let failed =
        SliceOutcome::Failed { class: "DENIED".into(), reason: "403".into(), prefix: None, stops_source: false };
    assert_eq!(bench.store.finish_slice(&leased[1].lease, failed).await, Ok(Finished::default()));
    let last = bench.succeed(&leased[2]).await;
    assert_eq!(last, Finished { moved: None, plan_completed: true });
    assert_eq!(bench.watermark().await, Some(at(20)));
    let remarks: serde_json::Value =
        serde_json::from_str(&bench.one("SELECT record_remarks FROM ing_plan").await).unwrap();
    assert_eq!(remarks, json!({"sliceCount": 3, "outcomes": {"SUCCEEDED": 2, "FAILED": 1}}));
    let ends = "SELECT t.status_code, s.status_code, COALESCE(s.reason, ''), COALESCE(t.error, '')
        FROM ing_task t JOIN ing_plan_slice s ON s.id = t.slice_id WHERE t.status_code = 'FAILED'";
    assert_eq!(bench.one(ends).await, "FAILEDFAILEDDENIED403");
    bench.publish(&[(20, 30), (30, 40)]).await;
    let leased = bench.acquire(2).await;
    let partial = SliceOutcome::Partial { reason: "PASSES".into(), prefix: None };
    bench.store.finish_slice(&leased[1].lease, partial).await.unwrap();
    assert_eq!(bench.succeed(&leased[0]).await.moved, Some((at(20), at(30))));
    bench.publish(&[(30, 40)]).await;
    let leased = bench.acquire_one().await;
    assert_eq!(bench.succeed(&leased).await.moved, Some((at(30), at(60))), "the slice above the gap counts now");
    assert_chained(&bench).await;
}

pub(super) async fn a_repeated_finish_says_what_happened_the_first_time(bench: Bench) {
    let leased = bench.leased().await;
    let first = bench.succeed(&leased).await;
    let state = bench.ledger_state().await;
    let again = bench.store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(bench.ledger_state().await, state);
    let other = SliceOutcome::Partial { reason: "X".into(), prefix: None };
    let lost = LedgerError::LeaseLost { task: leased.lease.task };
    assert_eq!(bench.store.finish_slice(&leased.lease, other).await, Err(lost), "terminal is final");
}

pub(super) async fn finishing_is_all_or_nothing_at_every_failpoint(bench: Bench) {
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    for point in POINTS {
        bench.arm(point, Strike::Error);
        let struck = bench.store.finish_slice(&leased.lease, bench.succeeded()).await;
        assert_eq!(struck, Err(LedgerError::Struck(Struck(point))));
        assert_eq!(bench.ledger_state().await, before, "{point}");
        bench.arm(point, Strike::Abort);
        let (store, lease, outcome) = (bench.store.clone(), leased.lease.clone(), bench.succeeded());
        assert_eq!(crash(async move { store.finish_slice(&lease, outcome).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    bench.arm("t2.done", Strike::Abort);
    let (store, lease, outcome) = (bench.store.clone(), leased.lease.clone(), bench.succeeded());
    assert_eq!(crash(async move { store.finish_slice(&lease, outcome).await }).await, "t2.done");
    let again = bench.store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap();
    assert_eq!(again, Finished { moved: Some((at(0), at(100))), plan_completed: true });
    assert_chained(&bench).await;
}

pub(super) async fn the_last_slice_completes_the_plan_and_frees_the_namespace(bench: Bench) {
    bench.publish(&[(0, 10), (10, 20)]).await;
    let leased = bench.acquire(2).await;
    assert!(!bench.succeed(&leased[0]).await.plan_completed);
    let partial = SliceOutcome::Partial { reason: "PASSES".into(), prefix: None };
    assert!(bench.store.finish_slice(&leased[1].lease, partial).await.unwrap().plan_completed);
    assert_eq!(
        bench.one("SELECT status_code, open_slice_count FROM ing_plan WHERE live_key IS NULL").await,
        "COMPLETED0"
    );
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(None));
}

pub(super) async fn a_slice_read_too_early_gives_credit_only_up_to_its_reading(bench: Bench) {
    bench.publish(&[(0, START)]).await;
    let leased = bench.acquire_one().await;
    let moved = bench.succeed(&leased).await.moved;
    assert_eq!(moved, Some((at(0), bench.now().minus(LAG))));
    let behind =
        SliceOutcome::Succeeded { read_at: bench.now(), source_behind: Span::from_seconds(5), remarks: json!({}) };
    bench.publish(&[(START, START + 100)]).await;
    let leased = bench.acquire_one().await;
    assert_eq!(bench.store.finish_slice(&leased.lease, behind).await.unwrap().moved, None);
    let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
    assert_eq!(view.source_behind, Span::from_seconds(5));
    // A clock that was set tells nothing about the source's.
    for pause in [Span::DAY.times(-1), Span::DAY.times(3)] {
        bench.advance(pause);
        let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
        assert_eq!(view.source_behind, Span::ZERO);
    }
}

pub(super) async fn a_waiver_moves_the_watermark_by_its_own_cause(bench: Bench) {
    bench.publish(&[(0, 20), (20, 40), (40, 60)]).await;
    let leased = bench.acquire(3).await;
    bench.succeed(&leased[0]).await;
    bench.succeed(&leased[2]).await;
    let failed = SliceOutcome::Failed { class: "GONE".into(), reason: "410".into(), prefix: None, stops_source: false };
    bench.store.finish_slice(&leased[1].lease, failed).await.unwrap();
    let harvest = namespace(Operation::Harvest);
    assert_eq!(bench.store.reconcile(&walk_of(&harvest)).await, Ok(false));
    bench
        .change_with(
            "INSERT INTO ing_waiver (id, namespace_hash, window_from, window_to, actor, reason, created_at)
             VALUES (1, ?, ?, ?, 'me', 'gone', ?)",
            vec![harvest.hash().into(), at(20).into(), at(40).into(), bench.now().into()],
        )
        .await;
    for point in ["reconcile.begin", "reconcile.commit"] {
        bench.arm(point, Strike::Error);
        assert!(bench.store.reconcile(&walk_of(&harvest)).await.is_err() && bench.fired());
        assert_eq!(bench.watermark().await, Some(at(20)));
    }
    assert_eq!(bench.store.reconcile(&walk_of(&harvest)).await, Ok(true));
    assert_eq!(bench.watermark().await, Some(at(60)));
    let causes = bench.column("SELECT cause_code FROM ing_cursor_event ORDER BY event_no").await;
    assert_eq!(causes, ["HARVEST_SLICE", "WAIVED"]);
    assert_chained(&bench).await;
}

pub(super) async fn operations_have_their_own_cursors(bench: Bench) {
    bench.publish(&[(0, 10)]).await;
    let mut backfill = bench.plan_of(namespace(Operation::Backfill), vec![bench.slice(500, 600, None)]);
    // Its cursor begins where it was asked to begin.
    let mut spec = (*backfill.spec).clone();
    spec.window.origin = at(500);
    backfill.spec = std::sync::Arc::new(spec);
    bench.publish_plan(backfill).await;
    for leased in bench.acquire(2).await {
        bench.succeed(&leased).await;
    }
    assert_eq!(bench.watermark().await, Some(at(10)));
    let view = bench.store.planning_view(&namespace(Operation::Backfill)).await.unwrap();
    assert_eq!((view.watermark, view.slices.len()), (Some(at(600)), 1));
    let directions = bench.column("SELECT direction_code FROM ing_cursor_event ORDER BY direction_code").await;
    assert_eq!(directions, ["BACKFILL", "FORWARD"]);
}

pub(super) async fn reconciling_changes_nothing_at_rest(bench: Bench) {
    bench.publish(&[(0, 10), (10, 20)]).await;
    for leased in bench.acquire(2).await {
        bench.succeed(&leased).await;
    }
    let state = bench.ledger_state().await;
    assert_eq!(bench.store.reconcile(&walk_of(&namespace(Operation::Harvest))).await, Ok(false));
    assert_eq!(bench.ledger_state().await, state);
}

pub(super) async fn a_shared_watermark_is_the_least_of_its_endpoints(bench: Bench) {
    let of = |endpoint: &str, key: &str| Namespace {
        endpoint: endpoint.into(),
        scope: NamespaceScope::Global,
        key: key.into(),
        ..namespace(Operation::Harvest)
    };
    let read = async |endpoint: &str, key: &str, from: i64, to: i64| {
        let mut plan = bench.plan_of(of(endpoint, key), vec![bench.slice(from, to, None)]);
        let mut spec = SpecSnapshot::clone(&plan.spec);
        spec.shares = vec!["articles".into(), "books".into()];
        plan.spec = Arc::new(spec);
        bench.publish_plan(plan).await;
        let leased = bench.acquire_one().await;
        bench.succeed(&leased).await;
        let shared = of(endpoint, key).shared();
        bench.store.planning_view(&shared).await.unwrap().watermark
    };
    assert_eq!(read("articles", "a", 0, 50).await, None, "the books have not begun");
    assert_eq!(read("books", "b", 0, 30).await, Some(at(30)));
    assert_eq!(read("books", "b", 40, 90).await, Some(at(30)), "a gap");
    assert_eq!(read("books", "b", 30, 40).await, Some(at(50)), "now the articles are least far");
    assert_eq!(read("articles", "a", 50, 99).await, Some(at(90)));
    // Articles are asked for in another way: they begin anew, and what was reached together is not taken back.
    assert_eq!(read("articles", "other", 0, 20).await, Some(at(90)));
    assert_eq!(read("books", "b", 90, 99).await, Some(at(90)));
    let own = bench.store.planning_view(&of("articles", "other")).await.unwrap().watermark;
    assert_eq!(own, Some(at(20)), "each has its own coverage");
    let shared =
        "SELECT cause_code, event_no, new_value FROM ing_cursor_event WHERE endpoint_name = '' ORDER BY event_no";
    let want: Vec<String> = [(1, 30), (2, 50), (3, 90)].map(|(no, to)| format!("SHARED{no}{}", at(to))).to_vec();
    assert_eq!(bench.column(shared).await, want);
    let walk = Walk { shares: vec!["articles".into(), "books".into()], ..walk_of(&of("books", "b")) };
    assert_eq!(bench.store.reconcile(&walk).await, Ok(false));
}
