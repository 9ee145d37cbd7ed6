//! Plans: all or nothing, one live per namespace.

use patra_core::failpoint::Strike;
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use serde_json::json;

use super::bench::{Bench, at, crash, namespace};

pub(super) async fn a_second_trigger_meets_the_live_plan(bench: Bench) {
    let plan = bench.publish(&[(0, 10)]).await;
    let second = bench.plan(vec![bench.slice(0, 10, None)]);
    assert_eq!(bench.store.publish_plan(second.clone()).await, Ok(Published::Existing(plan)));
    let leased = bench.acquire_one().await;
    assert!(bench.succeed(&leased).await.plan_completed);
    let id = second.id;
    assert_eq!(bench.store.publish_plan(second).await, Ok(Published::Created(id)));
}

pub(super) async fn the_same_trigger_published_twice_is_one_plan(bench: Bench) {
    let plan = bench.plan(vec![bench.slice(0, 10, None)]);
    let created = Ok(Published::Created(plan.id));
    assert_eq!(bench.store.publish_plan(plan.clone()).await, created);
    assert_eq!(bench.store.publish_plan(plan.clone()).await, created, "the same publish, run again");
    let other = NewPlan { id: bench.id(), ..plan.clone() };
    assert_eq!(bench.store.publish_plan(other).await, Ok(Published::Repeated(plan.id)));
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_task").await, "1");
}

pub(super) async fn a_plan_that_dies_half_way_leaves_nothing(bench: Bench) {
    let plan = bench.plan((0..300).map(|from| bench.slice(from, from + 1, None)).collect());
    let before = bench.ledger_state().await;
    for point in ["plan.publish.begin", "plan.publish.slices", "plan.publish.commit"] {
        bench.arm(point, Strike::Abort);
        let (store, plan) = (bench.store.clone(), plan.clone());
        assert_eq!(crash(async move { store.publish_plan(plan).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    bench.publish_plan(plan).await;
    let states = bench.column("SELECT DISTINCT status_code FROM ing_plan_slice").await;
    assert_eq!(states, ["DISPATCHED"]);
    assert_eq!(bench.one("SELECT status_code, slice_count, open_slice_count FROM ing_plan").await, "READY300300");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_task WHERE status_code = 'QUEUED'").await, "300");
}

pub(super) async fn an_empty_plan_completes_at_once(bench: Bench) {
    bench.publish(&[]).await;
    assert_eq!(bench.one("SELECT status_code FROM ing_plan WHERE live_key IS NULL").await, "COMPLETED");
    bench.publish(&[(0, 1)]).await;
}

pub(super) async fn an_instance_keeps_its_remarks(bench: Bench) {
    let instance = NewInstance {
        id: bench.id(),
        scheduler: "CLI".into(),
        job_id: String::new(),
        log_id: String::new(),
        trigger_type: "MANUAL".into(),
        provenance: "crossref".into(),
        endpoint: "works".into(),
        operation: Operation::Harvest,
        channel: "stable".into(),
        params: json!({"q": "x"}),
    };
    bench.store.open_instance(instance.clone()).await.unwrap();
    bench.store.open_instance(instance.clone()).await.unwrap();
    bench.store.remark_instance(instance.id, json!({"why": "no window"})).await.unwrap();
    assert_eq!(bench.one("SELECT record_remarks FROM ing_schedule_instance").await, r#"{"why":"no window"}"#);
    let missing = bench.store.remark_instance(bench.id(), json!({})).await;
    assert!(matches!(missing, Err(LedgerError::Missing { .. })));
}

pub(super) async fn a_plan_reads_back_with_its_spec(bench: Bench) {
    let plan = bench.plan(vec![bench.slice(5, 10, None)]);
    bench.publish_plan(plan.clone()).await;
    let view = bench.store.plan(plan.id).await.unwrap();
    assert_eq!((view.namespace, view.window), (plan.namespace, plan.window));
    assert_eq!((&*view.spec, view.spec_fingerprint), (&*plan.spec, plan.spec_fingerprint));
    assert!(matches!(bench.store.plan(bench.id()).await, Err(LedgerError::Missing { .. })));
}

pub(super) async fn a_planning_view_shows_coverage_and_stock(bench: Bench) {
    let harvest = namespace(Operation::Harvest);
    assert_eq!(bench.store.planning_view(&harvest).await, Ok(PlanningView::default()));
    let plan = bench.publish(&[(0, 10), (10, 20), (20, 30)]).await;
    let leased = bench.acquire(2).await;
    bench.succeed(&leased[0]).await;
    let view = bench.store.planning_view(&harvest).await.unwrap();
    assert_eq!((view.live_plan, view.queued, view.watermark), (Some(plan), 1, Some(at(10))));
    assert_eq!((view.slices.len(), view.slices[0].read_at, view.finished_to), (1, bench.now(), None));
    bench.succeed(&leased[1]).await;
    let last = bench.acquire_one().await;
    bench.succeed(&last).await;
    let next = NewPlan { finished_to: Some(at(10)), ..bench.plan(vec![bench.slice(30, 40, None)]) };
    bench.publish_plan(next).await;
    let view = bench.store.planning_view(&harvest).await.unwrap();
    assert_eq!((view.finished_to, view.slices.len()), (Some(at(10)), 2), "slices below the shortcut are not read");
}
