//! What a certificate rests on.

use patra_core::ports::{DigestAsk, NewWaiver, Prove, SliceOutcome, Split};
use patra_core::proof::Digests;
use patra_core::spec::snapshot::Operation;
use patra_core::states::SliceState;

use super::batch::bad;
use super::bench::{Bench, namespace, record, walk_of, window};
use super::split::proven;
use patra_core::ports::{Intervention, Ledger};

/// Three slices: one read with a page, one failed, one waived and open.
async fn worked(bench: &Bench) {
    bench.publish(&[(0, 20), (20, 40), (40, 60)]).await;
    let leased = bench.acquire(2).await;
    let mut page = bench.page(&leased[0].batch, vec![record("a", 5, "x")], None);
    page.missing = vec![("lost".into(), patra_core::absence::Lack::NotReturned)];
    bench.commit(&leased[0].lease, page).await;
    bench.succeed(&leased[0]).await;
    let failed = SliceOutcome::Failed { class: "X".into(), reason: "no".into(), prefix: None, stops_source: false };
    bench.store.finish_slice(&leased[1].lease, failed).await.unwrap();
    let act = Intervention { actor: "ann".into(), reason: "gone".into() };
    let waiver =
        NewWaiver { id: bench.id(), walk: walk_of(&namespace(Operation::Harvest)), window: window(40, 60), act };
    bench.store.waive(waiver).await.unwrap();
}

pub(super) async fn evidence_says_what_each_slice_came_to(bench: Bench) {
    worked(&bench).await;
    let own = namespace(Operation::Harvest);
    assert_eq!(bench.store.planned_window(&own).await, Ok(Some(window(0, 60))));
    let entity = bench.one("SELECT endpoint_name FROM ing_record").await;
    let evidence = bench.store.evidence(&own, &entity, window(0, 60)).await.unwrap();
    let states: Vec<SliceState> = evidence.leaves.iter().map(|leaf| leaf.state).collect();
    assert_eq!(states, [SliceState::Succeeded, SliceState::Failed, SliceState::Dispatched]);
    let read = &evidence.leaves[0];
    assert_eq!((read.counts.inserted, read.missing, read.window), (1, 1, window(0, 20)));
    assert_eq!(evidence.leaves[1].reason.as_deref(), Some("X"));
    assert_eq!((evidence.waivers.len(), evidence.waivers[0].actor.as_str()), (1, "ann"));
    let part = bench.store.evidence(&own, &entity, window(0, 20)).await.unwrap();
    assert_eq!((part.leaves.len(), part.waivers.len()), (1, 0));
    assert_eq!(bench.store.planned_window(&namespace(Operation::Backfill)).await, Ok(None));
}

pub(super) async fn an_id_that_another_reading_missed_last_is_not_forgotten(bench: Bench) {
    let own = namespace(Operation::Harvest);
    let failed = SliceOutcome::Failed { class: "X".into(), reason: "no".into(), prefix: None, stops_source: false };
    let mut seen = Vec::new();
    for outcome in [bench.succeeded(), failed] {
        bench.publish(&[(0, 20)]).await;
        let leased = bench.acquire_one().await;
        let mut page = bench.page(&leased.batch, vec![record("a", 5, "x")], None);
        page.missing = vec![("lost".into(), patra_core::absence::Lack::NotReturned)];
        bench.commit(&leased.lease, page).await;
        bench.store.finish_slice(&leased.lease, outcome).await.unwrap();
        let evidence = bench.store.evidence(&own, "works", window(0, 20)).await.unwrap();
        let proven = evidence.leaves.iter().filter(|leaf| leaf.state == SliceState::Succeeded);
        seen.push((proven.map(|leaf| leaf.missing).sum::<u64>(), evidence.asked_again));
    }
    assert_eq!(seen, [(1, 0), (0, 1)], "the second reading took the id over and proves nothing");
    let beside = bench.store.evidence(&own, "works", window(20, 40)).await.unwrap();
    assert_eq!(beside.asked_again, 0, "it is no matter of another window");
}

pub(super) async fn records_set_aside_before_a_slice_was_cut_are_not_forgotten(bench: Bench) {
    bench.publish(&[(0, 100)]).await;
    let leased = bench.acquire_one().await;
    let mut page = bench.page(&leased.batch, vec![record("a", 5, "x"), record("b", 6, "x")], Some("more"));
    page.bad = vec![bad("c")];
    bench.commit(&leased.lease, page).await;
    let split = Split {
        reason: "DEEP".into(),
        proven: Some(proven(&bench, 0, 40)),
        children: vec![bench.slice(40, 70, None), bench.slice(70, 100, None)],
    };
    bench.store.split_slice(&leased.lease, split).await.unwrap();
    let evidence = bench.store.evidence(&namespace(Operation::Harvest), "works", window(0, 40)).await.unwrap();
    assert_eq!(
        evidence.leaves.iter().map(|leaf| (leaf.state, leaf.unsettled)).collect::<Vec<_>>(),
        [(SliceState::Succeeded, 1)]
    );
}

async fn digests(bench: &Bench) -> Digests {
    let own = namespace(Operation::Harvest);
    let entity = bench.one("SELECT endpoint_name FROM ing_record").await;
    let evidence = bench.store.evidence(&own, &entity, window(0, 60)).await.unwrap();
    let ask = DigestAsk {
        provenance: own.provenance.clone(),
        entity,
        slices: evidence.leaves.iter().map(|leaf| leaf.slice).collect(),
        waivers: evidence.waivers.iter().map(|waiver| waiver.id).collect(),
        columns: bench.store.basis_columns().await.unwrap(),
    };
    bench.store.digests(&ask).await.unwrap()
}

pub(super) async fn a_digest_changes_with_the_rows_it_is_of(bench: Bench) {
    worked(&bench).await;
    let mut before = digests(&bench).await;
    assert_eq!((before.slices.len(), before.waivers.len()), (3, 1));
    assert_eq!(digests(&bench).await, before, "reading changes nothing");
    for change in [
        "UPDATE ing_plan_slice SET slice_no = slice_no + 1",
        "UPDATE ing_plan SET slice_count = slice_count + 1",
        "UPDATE ing_task SET failure_count = failure_count + 1",
        "UPDATE ing_task_run SET worker = 'other'",
        "UPDATE ing_task_run_batch SET record_count = record_count + 1",
        "UPDATE ing_missing_id SET status_code = 'FOUND'",
        "UPDATE ing_waiver SET reason = 'other'",
    ] {
        bench.change(change).await;
        let after = digests(&bench).await;
        assert_ne!(after, before, "{change}");
        before = after;
    }
    bench.change("UPDATE ing_plan SET status_code = 'COMPLETED'").await;
    assert_eq!(digests(&bench).await, before, "a plan goes on when its slices have ended");
}

pub(super) async fn a_digest_takes_no_column_that_the_schema_does_not_have(bench: Bench) {
    let mut columns = bench.store.basis_columns().await.unwrap();
    columns.insert("ing_plan".into(), vec!["id FROM ing_plan; DROP TABLE ing_plan; --".into()]);
    let ask = DigestAsk { provenance: "p".into(), entity: "e".into(), slices: vec![], waivers: vec![], columns };
    let refused = bench.store.digests(&ask).await.unwrap_err();
    assert!(refused.to_string().contains("of ing_plan"), "{refused}");
}
