//! What a certificate rests on.

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::page::{BadItem, BadReason};
use patra_core::ports::{Counts, DigestAsk, NewWaiver, Prove, Rehearsal, SliceOutcome, Split};
use patra_core::proof::blackbox::Decisions;
use patra_core::proof::{Digests, Pages};
use patra_core::record::NewRecord;
use patra_core::refit::Policy;
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

pub(super) async fn a_page_tells_what_it_decided_of_each_id(bench: Bench) {
    let leased = bench.leased().await;
    let first = bench.page(&leased.batch, vec![record("a", 1, "old"), record("b", 1, "x")], Some("p1"));
    let next = first.next.clone().unwrap();
    bench.commit(&leased.lease, first).await;
    let mut second = bench.page(&next, vec![record("a", 2, "new"), record("b", 1, "x"), record("c", 1, "y")], None);
    let raw = bytes::Bytes::from_static(b"{}");
    let (reason, path, message) = (BadReason::BadTime, String::new(), String::new());
    second.bad = vec![BadItem { id: Some("d".into()), reason, path, message, raw }];
    bench.commit(&leased.lease, second).await;
    let ids = || ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    let ask = |batch| bench.store.decisions("crossref", "works", batch, ids());
    let told = |found: Decisions| -> Vec<(String, Vec<String>)> {
        found.0.into_iter().map(|(decision, decided)| (decision, decided.sample)).collect()
    };
    let want = [("CREATED", "c"), ("NOT_KEPT", "e"), ("NOT_NEWER", "b"), ("QUARANTINED", "d"), ("UPDATED", "a")];
    let want = want.map(|(decision, id)| (decision.to_owned(), vec![id.to_owned()]));
    assert_eq!(told(ask(next.id).await.unwrap()), want);
    bench.change("DELETE FROM ing_outbox").await;
    let later = told(ask(next.id).await.unwrap());
    assert!(later.contains(&("STORED".into(), vec!["a".into(), "c".into()])), "the record still names it: {later:?}");
}

pub(super) async fn pages_are_found_by_the_windows_they_touch(bench: Bench) {
    bench.publish(&[(0, 20), (20, 40), (40, 60)]).await;
    let mut pages = Vec::new();
    for leased in bench.acquire(3).await {
        let page = bench.page(&leased.batch, Vec::new(), None);
        bench.commit(&leased.lease, page).await;
        pages.push((leased.task.window, leased.batch.id));
    }
    pages.sort();
    for (from, to, want) in [(0, 60, 0..3), (20, 40, 1..2), (19, 21, 0..2), (39, 40, 1..2), (60, 80, 0..0)] {
        let asked = Pages::Range("crossref".into(), window(from, to));
        let mut found = Vec::new();
        while let Some(page) =
            bench.store.kept_pages(&asked, found.last().copied().unwrap_or_default()).await.unwrap().first()
        {
            found.push(page.batch);
        }
        let mut want: Vec<Id> = pages[want].iter().map(|(_, page)| *page).collect();
        want.sort();
        assert_eq!(found, want, "{from}..{to}");
    }
    let other = Pages::Range("datacite".into(), window(0, 60));
    assert!(bench.store.kept_pages(&other, Id(0)).await.unwrap().is_empty());
}

pub(super) async fn a_rehearsal_says_what_a_commit_would_do_and_writes_nothing(bench: Bench) {
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, vec![record("a", 2, "old"), record("b", 2, "x"), record("d", 2, "z")], None);
    bench.commit(&leased.lease, page).await;
    let rows = || bench.column("SELECT provider_id, ' ', version_no, ' ', fields, ' ', checked_at FROM ing_record");
    let before = (bench.ledger_state().await, rows().await);
    bench.advance(patra_core::time::Span::from_seconds(5));
    let rehearsal = |records: Vec<NewRecord>| Rehearsal {
        batch: leased.batch.id,
        entity: "works".into(),
        operation: Operation::Harvest,
        policy: Policy::Newest,
        mapping_hash: Hash32::of(b"mapping"),
        records,
        bad: Vec::new(),
    };
    let records = vec![record("a", 3, "new"), record("b", 2, "x"), record("c", 1, "y"), record("d", 1, "late")];
    let told = bench.store.rehearse(rehearsal(records)).await.unwrap();
    let want = Counts { fetched: 4, inserted: 1, updated: 1, unchanged: 1, stale: 1, ..Counts::default() };
    assert_eq!((told.counts, told.refused), (want, None));
    assert_eq!((bench.ledger_state().await, rows().await), before);
    bench.refuse_poison().await;
    let told = bench.store.rehearse(rehearsal(vec![record("poison", 1, "x")])).await.unwrap();
    assert!(told.refused.is_some_and(|message| message.contains("poison")));
    let gone = Rehearsal { batch: Id(1), ..rehearsal(Vec::new()) };
    assert!(bench.store.rehearse(gone).await.unwrap_err().to_string().contains("page 1"));
    assert_eq!((bench.ledger_state().await, rows().await), before);
}
