//! What an operator does: cancel, waive; and the slot that keeps processes apart.

use patra_core::failpoint::{Strike, Struck};
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::states::TaskState;
use patra_core::time::Span;
use patra_core::window::Window;

use super::bench::{Bench, TTL, at, crash, namespace, record, walk_of};
use crate::worker_name;

fn act() -> Intervention {
    Intervention { actor: "ann".into(), reason: "wrong query".into() }
}

pub(super) async fn after_a_cancel_nothing_of_the_task_commits(bench: Bench) {
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, vec![record("a", 1, "one")], Some("p1"));
    bench.commit(&leased.lease, page.clone()).await;
    assert_eq!(bench.store.cancel_task(leased.lease.task, &act()).await, Ok(Cancelled::Now));
    let lost = LedgerError::LeaseLost { task: leased.lease.task };
    let next = bench.page(page.next.as_ref().unwrap(), vec![record("b", 1, "two")], None);
    assert_eq!(bench.store.commit_batch(&leased.lease, next).await, Err(lost.clone()));
    assert_eq!(bench.store.finish_slice(&leased.lease, bench.succeeded()).await, Err(lost.clone()));
    assert_eq!(bench.store.renew(&leased.lease, TTL).await, Err(lost));
    for (table, want) in [("ing_task", "CANCELLED"), ("ing_plan_slice", "CANCELLED"), ("ing_task_run", "CANCELLED")] {
        assert_eq!(bench.one(&format!("SELECT status_code FROM {table}")).await, want, "{table}");
    }
    let batches = bench.column("SELECT status_code FROM ing_task_run_batch ORDER BY seq_no").await;
    assert_eq!(batches, ["SUCCEEDED", "SKIPPED"]);
    let plan = bench.one("SELECT status_code, open_slice_count FROM ing_plan WHERE live_key IS NULL").await;
    assert_eq!(plan, "COMPLETED0");
    let audit = bench.one("SELECT actor, action_code, target, detail FROM ing_audit").await;
    assert_eq!(audit, format!(r#"annTASK_CANCELtask:{}{{"reason":"wrong query"}}"#, leased.lease.task));
    let again = bench.store.cancel_task(leased.lease.task, &act()).await;
    assert_eq!(again, Ok(Cancelled::EndedBefore(TaskState::Cancelled)));
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_audit").await, "1");
    assert_eq!((bench.watermark().await, bench.acquire(1).await.len()), (None, 0));
}

/// Whether anybody may plan, and how many may be claimed.
async fn goes_on(bench: &Bench) -> (Option<String>, usize) {
    let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
    (view.paused, bench.acquire(8).await.len())
}

fn order(endpoint: Option<&str>, pause: bool) -> SourceOrder {
    SourceOrder { provenance: "crossref".into(), endpoint: endpoint.map(str::to_owned), pause, act: act() }
}

pub(super) async fn a_fatal_failure_stops_the_source_until_a_person_resumes_it(bench: Bench) {
    bench.publish(&[(0, 1), (1, 2), (2, 3)]).await;
    let [leased]: [Leased; 1] = bench.acquire(1).await.try_into().unwrap();
    let fatal = SliceOutcome::Failed {
        class: "FATAL".into(),
        reason: "401 from the source".into(),
        prefix: None,
        stops_source: true,
    };
    bench.store.finish_slice(&leased.lease, fatal).await.unwrap();
    assert_eq!(goes_on(&bench).await, (Some("401 from the source".into()), 0));
    assert_eq!(bench.store.next_due(&Only::default()).await, Ok(None), "nobody waits for what is stopped");
    assert_eq!(bench.store.order_source(&order(Some("other"), false)).await, Ok(false));
    assert_eq!(bench.store.order_source(&order(None, false)).await, Ok(true));
    assert_eq!(goes_on(&bench).await, (None, 2));
    assert_eq!(bench.store.order_source(&order(None, false)).await, Ok(false), "it goes on already");
    let audit = bench.one("SELECT actor, action_code, target FROM ing_audit").await;
    assert_eq!(audit, "annSOURCE_RESUMEsource:crossref");
}

pub(super) async fn a_pause_holds_one_endpoint_or_all(bench: Bench) {
    bench.publish(&[(0, 1)]).await;
    for (endpoint, held) in [(Some("other"), false), (Some("works"), true), (None, true)] {
        assert_eq!(bench.store.order_source(&order(endpoint, true)).await, Ok(true));
        assert_eq!(bench.store.order_source(&order(endpoint, true)).await, Ok(false), "it is paused already");
        let view = bench.store.planning_view(&namespace(Operation::Harvest)).await.unwrap();
        assert_eq!(view.paused, held.then(|| "wrong query".to_owned()), "{endpoint:?}");
        assert_eq!(bench.store.next_due(&Only::default()).await.unwrap().is_none(), held, "{endpoint:?}");
        assert_eq!(bench.store.is_stopped("crossref", "works").await, Ok(held), "{endpoint:?}");
        assert_eq!(bench.store.is_stopped("elsewhere", "works").await, Ok(false));
        assert_eq!(bench.store.order_source(&order(endpoint, false)).await, Ok(true));
    }
    assert_eq!(goes_on(&bench).await, (None, 1));
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_audit").await, "6");
}

pub(super) async fn what_has_ended_is_not_cancelled(bench: Bench) {
    let leased = bench.leased().await;
    bench.succeed(&leased).await;
    let state = bench.ledger_state().await;
    let late = bench.store.cancel_task(leased.lease.task, &act()).await;
    assert_eq!(late, Ok(Cancelled::EndedBefore(TaskState::Succeeded)));
    assert_eq!(bench.store.cancel_plan(leased.lease.plan, &act()).await, Ok(0));
    assert_eq!(bench.ledger_state().await, state);
    assert!(matches!(bench.store.cancel_task(bench.id(), &act()).await, Err(LedgerError::Missing { .. })));
    assert!(matches!(bench.store.cancel_plan(bench.id(), &act()).await, Err(LedgerError::Missing { .. })));
}

pub(super) async fn a_cancel_that_fails_leaves_the_task(bench: Bench) {
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    for point in ["cancel.begin", "cancel.commit"] {
        bench.arm(point, Strike::Error);
        let struck = bench.store.cancel_task(leased.lease.task, &act()).await;
        assert_eq!(struck, Err(LedgerError::Struck(Struck(point))));
        bench.arm(point, Strike::Abort);
        let (store, task) = (bench.store.clone(), leased.lease.task);
        assert_eq!(crash(async move { store.cancel_task(task, &act()).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    bench.succeed(&leased).await;
}

pub(super) async fn cancelling_a_plan_ends_everything_that_is_open_of_it(bench: Bench) {
    let windows: Vec<(i64, i64)> = (0..250).map(|number| (number * 10, number * 10 + 10)).collect();
    let plan = bench.publish(&windows).await;
    let leased = bench.acquire(2).await;
    bench.succeed(&leased[0]).await;
    assert_eq!(bench.store.cancel_plan(plan, &act()).await, Ok(249));
    let lost = LedgerError::LeaseLost { task: leased[1].lease.task };
    assert_eq!(bench.store.finish_slice(&leased[1].lease, bench.succeeded()).await, Err(lost));
    let counts = bench.column("SELECT status_code, COUNT(*) FROM ing_plan_slice GROUP BY status_code ORDER BY 1").await;
    assert_eq!(counts, ["CANCELLED249", "SUCCEEDED1"]);
    assert_eq!(bench.one("SELECT status_code FROM ing_plan WHERE live_key IS NULL").await, "COMPLETED");
    assert_eq!(bench.watermark().await, Some(at(10)));
    bench.publish(&[(10, 2_500)]).await;
}

fn waiver(bench: &Bench, from: i64, to: i64) -> NewWaiver {
    NewWaiver {
        id: bench.id(),
        walk: walk_of(&namespace(Operation::Harvest)),
        window: Window::new(at(from), at(to)).unwrap(),
        act: Intervention { actor: "ann".into(), reason: "gone for good".into() },
    }
}

pub(super) async fn a_waiver_is_signed_and_moves_the_watermark_once(bench: Bench) {
    bench.publish(&[(0, 20), (20, 40), (40, 60), (60, 80), (80, 99)]).await;
    let leased = bench.acquire(5).await;
    bench.succeed(&leased[0]).await;
    bench.succeed(&leased[2]).await;
    bench.succeed(&leased[4]).await;
    // Above a gap it moves nothing yet; the event that later passes it says so.
    assert_eq!(bench.store.waive(waiver(&bench, 60, 80)).await, Ok(None));
    let first = waiver(&bench, 20, 40);
    assert_eq!(bench.store.waive(first.clone()).await, Ok(Some((at(20), at(99)))));
    assert_eq!(bench.store.waive(first).await, Ok(None), "a repeated waiver is the same");
    let causes = bench.column("SELECT cause_code FROM ing_cursor_event ORDER BY event_no").await;
    assert_eq!(causes, ["HARVEST_SLICE", "WAIVED"]);
    let signed = bench.column("SELECT actor, ':', reason FROM ing_waiver").await;
    assert_eq!(signed, ["ann:gone for good", "ann:gone for good"]);
    assert_eq!(bench.column("SELECT action_code FROM ing_audit").await, ["CURSOR_WAIVE", "CURSOR_WAIVE"]);
}

pub(super) async fn a_waiver_before_the_first_proof_begins_the_cursor(bench: Bench) {
    bench.publish(&[(0, 20), (20, 40)]).await;
    let leased = bench.acquire(2).await;
    bench.succeed(&leased[1]).await;
    assert_eq!(bench.store.waive(waiver(&bench, 0, 20)).await, Ok(Some((at(0), at(40)))));
    assert_eq!(bench.watermark().await, Some(at(40)));
}

pub(super) async fn a_slot_is_renewed_by_its_owner_only(bench: Bench) {
    let slot = bench.store.ids().slot();
    let ours = worker_name("patra", 7);
    assert_eq!(bench.store.lease_worker_slot(&ours, TTL).await, Ok(slot), "the name the store leased it under");
    bench.advance(Span::DAY);
    assert_eq!(bench.store.renew_worker_slot(&ours, slot, TTL).await, Ok(()), "nobody took it meanwhile");
    let lost = Err(LedgerError::SlotLost { slot });
    assert_eq!(bench.store.renew_worker_slot("thief", slot, TTL).await, lost);
    bench.change(&format!("UPDATE ing_worker SET owner = 'thief' WHERE slot = {slot}")).await;
    assert_eq!(bench.store.renew_worker_slot(&ours, slot, TTL).await, lost);
}

pub(super) async fn without_its_slot_a_process_writes_nothing(bench: Bench) {
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    let (ids, ours) = (bench.store.ids(), worker_name("patra", 7));
    let lost = LedgerError::SlotLost { slot: ids.slot() };
    ids.keep_until(bench.now().plus(TTL));
    bench.advance(TTL);
    let page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
    assert_eq!(bench.store.commit_batch(&leased.lease, page.clone()).await, Err(lost.clone()));
    assert_eq!(bench.store.acquire_tasks(&Claim::new("w", 1, TTL)).await.err(), Some(lost.clone()));
    // Late but still ours: renewed, it goes on.
    assert_eq!(bench.store.renew_worker_slot(&ours, ids.slot(), TTL).await, Ok(()));
    ids.keep_until(bench.now().plus(TTL));
    assert_eq!(bench.ledger_state().await, before);
    bench.commit(&leased.lease, page).await;
    ids.retire();
    assert_eq!(bench.store.finish_slice(&leased.lease, bench.succeeded()).await, Err(lost));
}
