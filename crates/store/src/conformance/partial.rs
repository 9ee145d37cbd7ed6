//! Plans of which some slices have no task yet: limited by the queue and by budgets, gone on with later.

use std::sync::Arc;

use patra_core::budget::{Budget, BudgetKind};
use patra_core::failpoint::Strike;
use patra_core::healing::Site;
use patra_core::id::Id;
use patra_core::plan::portion::{PlanBudget, Portion};
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::{Bench, TTL, at, crash, namespace};

fn stock(stock_max: u64) -> Portion {
    Portion { stock_max, budget: None }
}

/// A plan of so many slices of ten seconds each.
fn plan(bench: &Bench, operation: Operation, slices: i64, portion: Portion) -> NewPlan {
    let slices = (0..slices).map(|number| bench.slice(number * 10, number * 10 + 10, None)).collect();
    NewPlan { portion, ..bench.plan_of(namespace(operation), slices) }
}

async fn publish(bench: &Bench, slices: i64, portion: Portion) -> Id {
    bench.publish_plan(plan(bench, Operation::Harvest, slices, portion)).await
}

async fn states(bench: &Bench) -> Vec<String> {
    bench.column("SELECT status_code, COUNT(*) FROM ing_plan_slice GROUP BY status_code ORDER BY 1").await
}

async fn plan_state(bench: &Bench) -> String {
    bench.one("SELECT status_code, slice_count, open_slice_count FROM ing_plan").await
}

pub(super) async fn a_plan_beyond_the_stock_is_partial_and_goes_on_as_the_queue_falls(bench: Bench) {
    let plan = publish(&bench, 5, stock(2)).await;
    assert_eq!(
        (states(&bench).await, plan_state(&bench).await),
        (vec!["DISPATCHED2".into(), "PENDING3".into()], "PARTIAL55".into())
    );
    let all = Only::default();
    assert_eq!(bench.store.partial_plans(&all).await, Ok(vec![plan]));
    assert_eq!(bench.store.dispatch(plan, &stock(2)).await, Ok(0), "the queue is full");
    let first = bench.acquire(2).await;
    assert_eq!(bench.store.dispatch(plan, &stock(2)).await, Ok(2), "what runs is not queued");
    bench.succeed(&first[0]).await;
    bench.succeed(&first[1]).await;
    assert_eq!(bench.watermark().await, Some(at(20)), "the tasks are of the first slices, in order");
    bench.acquire(2).await;
    assert_eq!(plan_state(&bench).await, "PARTIAL53");
    assert_eq!(bench.store.dispatch(plan, &stock(2)).await, Ok(1));
    assert_eq!((plan_state(&bench).await, bench.store.partial_plans(&all).await), ("READY53".into(), Ok(Vec::new())));
    assert_eq!(bench.store.dispatch(plan, &stock(2)).await, Ok(0));
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_plan_slice WHERE held_task IS NOT NULL").await, "0");
}

pub(super) async fn what_has_no_task_is_owed_and_never_coverage(bench: Bench) {
    let plan = publish(&bench, 3, stock(1)).await;
    let leased = bench.acquire_one().await;
    assert!(!bench.succeed(&leased).await.plan_completed, "two slices wait");
    assert_eq!(bench.watermark().await, Some(at(10)));
    let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
    assert_eq!((view.live_plan, view.slices.len()), (Some(plan), 1));
    let later = bench.store.next_due(&Only::default()).await.unwrap();
    assert!(later.is_some_and(|due| due > bench.now()), "nothing is due, and yet it is not over");
    let second = bench.plan(vec![bench.slice(10, 30, None)]);
    assert_eq!(bench.store.publish_plan(second).await, Ok(Published::Existing(plan)), "one live plan");
    for to in [20, 30] {
        assert_eq!(bench.store.dispatch(plan, &stock(1)).await, Ok(1));
        let leased = bench.acquire_one().await;
        assert_eq!(bench.succeed(&leased).await.plan_completed, to == 30);
        assert_eq!(bench.watermark().await, Some(at(to)));
    }
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(None));
}

pub(super) async fn a_dispatch_that_dies_leaves_its_slices_waiting(bench: Bench) {
    let plan = publish(&bench, 4, stock(1)).await;
    let before = bench.ledger_state().await;
    for point in ["dispatch.begin", "dispatch.tasks", "dispatch.commit"] {
        for strike in [Strike::Error, Strike::Abort] {
            bench.arm(point, strike);
            let store = bench.store.clone();
            match strike {
                Strike::Abort => {
                    assert_eq!(crash(async move { store.dispatch(plan, &stock(3)).await }).await, point);
                }
                _ => assert!(store.dispatch(plan, &stock(3)).await.is_err()),
            }
            assert_eq!(bench.ledger_state().await, before, "{point}");
        }
    }
    assert_eq!(bench.store.dispatch(plan, &stock(3)).await, Ok(2));
}

pub(super) async fn two_who_dispatch_give_each_slice_one_task(bench: Bench) {
    let plan = publish(&bench, 40, stock(1)).await;
    let portion = Arc::new(stock(1_000));
    let tries: Vec<_> = (0..4)
        .map(|_| {
            let (store, portion) = (bench.store.clone(), portion.clone());
            tokio::spawn(async move { store.dispatch(plan, &portion).await.unwrap() })
        })
        .collect();
    let mut given = 0;
    for one in tries {
        given += one.await.unwrap();
    }
    assert_eq!(given, 39);
    assert_eq!(bench.one("SELECT COUNT(*), COUNT(DISTINCT slice_id) FROM ing_task").await, "4040");
    assert_eq!(plan_state(&bench).await, "READY4040");
}

/// Takes a task of the harvest and ends it.
async fn harvest_one(bench: &Bench) {
    let only = Only { operation: Some(Operation::Harvest), ..Only::default() };
    let claim = Claim { only, ..Claim::new("worker", 1, TTL) };
    let leased = bench.store.acquire_tasks(&claim).await.unwrap();
    bench.succeed(&leased[0]).await;
}

fn budget(bench: &Bench, operation: Operation, limit: u64) -> Portion {
    let from = bench.now();
    let day = Budget { kind: BudgetKind::Day, from, reset_at: from.plus(Span::DAY), limit, soft: 0 };
    let keys = vec![RateKey::new("crossref")];
    let budget = PlanBudget { keys, budgets: vec![day], operation, by_endpoint: false };
    Portion { stock_max: 1_000, budget: Some(budget) }
}

pub(super) async fn what_is_open_is_reserved_of_the_budget_and_the_harvest_goes_first(bench: Bench) {
    let portion = |operation| budget(&bench, operation, 6);
    let backfill = bench.publish_plan(plan(&bench, Operation::Backfill, 9, portion(Operation::Backfill))).await;
    let queued = "SELECT COUNT(*) FROM ing_task WHERE status_code = 'QUEUED'";
    assert_eq!(bench.one(queued).await, "6", "so much is left of the day");
    let harvest = bench.publish_plan(plan(&bench, Operation::Harvest, 9, portion(Operation::Harvest))).await;
    assert_eq!(bench.one(queued).await, "12", "the harvest does not wait for what the backfill has reserved");
    assert_eq!(bench.store.partial_plans(&Only::default()).await, Ok(vec![harvest, backfill]));
    let only = Only { operation: Some(Operation::Backfill), ..Only::default() };
    assert_eq!(bench.store.partial_plans(&only).await, Ok(vec![backfill]));
    for _ in 0..2 {
        harvest_one(&bench).await;
    }
    assert_eq!(bench.store.dispatch(harvest, &portion(Operation::Harvest)).await, Ok(2), "what ended is free again");
    assert_eq!(bench.store.dispatch(backfill, &portion(Operation::Backfill)).await, Ok(0));
    let draw = BudgetDraw {
        key: RateKey::new("crossref"),
        budgets: portion(Operation::Harvest).budget.unwrap().budgets,
        operation: Operation::Harvest,
        least: 1,
        most: 6,
    };
    bench.store.draw_budget(&draw).await.unwrap();
    harvest_one(&bench).await;
    assert_eq!(bench.store.dispatch(harvest, &portion(Operation::Harvest)).await, Ok(0), "the day is spent");
    bench.advance(Span::DAY);
    assert_eq!(bench.store.dispatch(harvest, &portion(Operation::Harvest)).await, Ok(1), "the next day");
}

pub(super) async fn what_waits_ends_with_its_plan_or_by_itself(bench: Bench) {
    let plan = publish(&bench, 4, stock(1)).await;
    let act = Intervention { actor: "ann".into(), reason: "not wanted".into() };
    let slices = bench.column("SELECT id FROM ing_plan_slice ORDER BY id").await;
    let last: Id = slices[3].parse().unwrap();
    assert_eq!(bench.store.cancel_slice(last, &act).await, Ok(1));
    assert_eq!(plan_state(&bench).await, "PARTIAL43");
    assert_eq!(bench.store.cancel_plan(plan, &act).await, Ok(3), "two that waited and a task");
    assert_eq!((states(&bench).await, plan_state(&bench).await), (vec!["CANCELLED4".into()], "COMPLETED40".into()));
    assert_eq!(bench.store.dispatch(plan, &stock(9)).await, Ok(0));
    assert_eq!(bench.watermark().await, None);
}

pub(super) async fn a_hold_or_a_pause_keeps_the_rest_waiting(bench: Bench) {
    let plan = publish(&bench, 2, stock(1)).await;
    bench.acquire_one().await;
    let site = Site { provenance: "crossref".into(), endpoint: "works".into() };
    let hold = Hold { until: bench.now().plus(Span::MINUTE), reason: "errors".into(), lag: Span::ZERO };
    bench.store.hold_planning(&site, &hold).await.unwrap();
    assert_eq!(bench.store.dispatch(plan, &stock(1)).await, Ok(0));
    bench.advance(Span::MINUTE);
    let act = Intervention { actor: "ann".into(), reason: "stop".into() };
    let order = SourceOrder { provenance: "crossref".into(), endpoint: None, pause: true, act };
    bench.store.order_source(&order).await.unwrap();
    assert_eq!(bench.store.dispatch(plan, &stock(1)).await, Ok(0));
    bench.store.order_source(&SourceOrder { pause: false, ..order }).await.unwrap();
    assert_eq!(bench.store.dispatch(plan, &stock(1)).await, Ok(1));
}
