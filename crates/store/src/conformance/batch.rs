//! T1: a page becomes records, whole or not at all.

use bytes::Bytes;
use patra_core::absence::Lack;
use patra_core::failpoint::{Strike, Struck};
use patra_core::page::{BadItem, BadReason};
use patra_core::ports::*;
use serde_json::{Value, json};

use super::bench::{Bench, crash, record};

const POINTS: [&str; 9] =
    ["t1.begin", "t1.fence", "t1.read", "t1.records", "t1.outbox", "t1.quarantine", "t1.body", "t1.batch", "t1.commit"];

/// A page with something of everything.
fn full_page(bench: &Bench, batch: &OpenBatch) -> BatchCommit {
    let records = vec![record("a", 1, "one"), record("b", 1, "two")];
    BatchCommit {
        bad: vec![bad("c")],
        missing: vec![("d".into(), Lack::NotReturned)],
        body: Some(KeptBody { bytes: Bytes::from_static(b"body"), whole: true }),
        ..bench.page(batch, records, Some("p1"))
    }
}

pub(super) fn bad(id: &str) -> BadItem {
    BadItem {
        id: Some(id.into()),
        reason: BadReason::MissingField,
        path: "$.title".into(),
        message: "no title".into(),
        raw: Bytes::from_static(b"{}"),
    }
}

pub(super) async fn a_page_is_visible_whole_or_not_at_all_when_a_step_fails(bench: Bench) {
    let leased = bench.leased().await;
    let page = full_page(&bench, &leased.batch);
    let before = bench.ledger_state().await;
    for point in POINTS {
        bench.arm(point, Strike::Error);
        let result = bench.store.commit_batch(&leased.lease, page.clone()).await;
        assert_eq!(result, Err(LedgerError::Struck(Struck(point))));
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    let committed = bench.commit(&leased.lease, page).await;
    assert_eq!((committed.counts.inserted, committed.repeated), (2, false));
    assert_ne!(bench.ledger_state().await, before);
}

pub(super) async fn a_page_is_visible_whole_or_not_at_all_when_the_process_dies(bench: Bench) {
    let leased = bench.leased().await;
    let page = full_page(&bench, &leased.batch);
    let before = bench.ledger_state().await;
    for point in POINTS {
        bench.arm(point, Strike::Abort);
        let (store, lease, page) = (bench.store.clone(), leased.lease.clone(), page.clone());
        assert_eq!(crash(async move { store.commit_batch(&lease, page).await }).await, point);
        assert_eq!(bench.ledger_state().await, before, "{point}");
    }
    // Dead after the commit: everything is there, and the next try finds it.
    bench.arm("t1.done", Strike::Abort);
    let (store, lease, again) = (bench.store.clone(), leased.lease.clone(), page.clone());
    assert_eq!(crash(async move { store.commit_batch(&lease, page).await }).await, "t1.done");
    let after = bench.ledger_state().await;
    assert_ne!(after, before);
    assert!(bench.commit(&leased.lease, again).await.repeated);
    assert_eq!(bench.ledger_state().await, after);
}

pub(super) async fn a_repeated_commit_changes_nothing_and_says_so(bench: Bench) {
    let leased = bench.leased().await;
    let page = full_page(&bench, &leased.batch);
    let first = bench.commit(&leased.lease, page.clone()).await;
    let next = page.next.clone().unwrap();
    bench.commit(&leased.lease, bench.page(&next, vec![record("a", 2, "newer")], None)).await;
    let state = bench.ledger_state().await;
    let second = bench.commit(&leased.lease, page).await;
    assert_eq!(second, Committed { counts: first.counts, repeated: true });
    assert_eq!(bench.ledger_state().await, state);
}

pub(super) async fn counts_add_up_in_batch_run_and_slice(bench: Bench) {
    let leased = bench.leased().await;
    let mut page = full_page(&bench, &leased.batch);
    page.records.push(record("a", 0, "older"));
    page.filtered = 3;
    page.stats.insert("latencyMs".into(), 250.into());
    let first = bench.commit(&leased.lease, page.clone()).await.counts;
    let want = Counts { fetched: 7, inserted: 2, duplicate: 1, quarantined: 1, filtered: 3, ..Counts::default() };
    assert_eq!(first, want);
    let records = vec![record("a", 1, "one"), record("b", 0, "late"), record("b2", 1, "x"), record("a2", 1, "x")];
    let mut last = bench.page(page.next.as_ref().unwrap(), records, None);
    last.stats.insert("latencyMs".into(), 50.into());
    let second = bench.commit(&leased.lease, last).await.counts;
    assert_eq!(second, Counts { fetched: 4, inserted: 2, unchanged: 1, stale: 1, ..Counts::default() });
    bench.store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap();
    for text in ["SELECT stats FROM ing_task_run", "SELECT stats FROM ing_plan_slice"] {
        let stats: Value = serde_json::from_str(&bench.one(text).await).unwrap();
        for (key, want) in [
            ("fetched", 11),
            ("inserted", 4),
            ("unchanged", 1),
            ("stale", 1),
            ("duplicate", 1),
            ("quarantined", 1),
            ("filtered", 3),
            ("skipped", 6),
            ("failed", 1),
            ("upserted", 4),
            ("pagesVisited", 2),
            ("reqCount", 2),
            ("avgLatencyMs", 150),
            ("maxLatencyMs", 250),
        ] {
            assert_eq!(stats[key], json!(want), "{key} of {text}");
        }
    }
}

pub(super) async fn a_bad_record_is_kept_apart_with_its_reason(bench: Bench) {
    let leased = bench.leased().await;
    let mut page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
    page.bad = vec![BadItem { raw: Bytes::from(vec![0xff; 100 * 1024]), ..bad("b") }, BadItem { id: None, ..bad("") }];
    let counts = bench.commit(&leased.lease, page).await.counts;
    assert_eq!((counts.inserted, counts.quarantined), (1, 2));
    let kept = bench.column(
        "SELECT COALESCE(provider_id, 'none'), ':', reason_code, ':', LENGTH(raw) FROM ing_quarantine ORDER BY id",
    );
    assert_eq!(kept.await, ["b:MISSING_FIELD:65536", "none:MISSING_FIELD:2"]);
}

pub(super) async fn an_id_with_nul_goes_to_quarantine(bench: Bench) {
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, vec![record("a\0", 1, "one"), record("b", 1, "two")], None);
    let counts = bench.commit(&leased.lease, page).await.counts;
    assert_eq!(counts, Counts { fetched: 2, inserted: 1, quarantined: 1, ..Counts::default() });
    let kept = bench.one("SELECT provider_id, ':', reason_code, ':', message FROM ing_quarantine").await;
    assert_eq!(kept, "a\u{fffd}:STORE:the id holds NUL");
}

pub(super) async fn records_the_database_refuses_are_quarantined_and_the_rest_commits(bench: Bench) {
    bench.refuse_poison().await;
    // Sorted by id, `poison` is first before `q`, last after `a`, and in the middle of both.
    for (number, ids) in [["poison", "q1", "q2"], ["a1", "poison", "q3"], ["a2", "a3", "poison"]].iter().enumerate() {
        bench.publish(&[(number as i64 * 10, number as i64 * 10 + 10)]).await;
        let leased = bench.acquire_one().await;
        let records = ids.iter().map(|id| record(id, 1, &format!("{number}{id}"))).collect();
        let page = bench.page(&leased.batch, records, None);
        let committed = bench.commit(&leased.lease, page.clone()).await;
        assert_eq!(committed.counts, Counts { fetched: 3, inserted: 2, quarantined: 1, ..Counts::default() });
        assert!(bench.commit(&leased.lease, page).await.repeated, "{ids:?}");
        bench.store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap();
    }
    let kept = bench.column("SELECT provider_id, reason_code, batch_id FROM ing_quarantine ORDER BY id").await;
    let batches = bench.column("SELECT 'poisonSTORE', id FROM ing_task_run_batch ORDER BY id").await;
    assert_eq!(kept, batches);
    assert!(bench.column("SELECT message FROM ing_quarantine").await[0].contains("poisoned"));
    assert_eq!(bench.one("SELECT COUNT(*), ':', COUNT(DISTINCT provider_id) FROM ing_record").await, "6:6");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "6");
}

pub(super) async fn bisection_that_fails_or_dies_leaves_nothing_and_is_repeated_whole(bench: Bench) {
    bench.refuse_poison().await;
    let leased = bench.leased().await;
    let page = bench.page(&leased.batch, ["a", "b", "poison", "q"].map(|id| record(id, 1, id)).to_vec(), None);
    let before = bench.ledger_state().await;
    bench.arm("bisect", Strike::Error);
    let struck = bench.store.commit_batch(&leased.lease, page.clone()).await;
    assert_eq!(struck, Err(LedgerError::Struck(Struck("bisect"))));
    bench.arm("bisect", Strike::Abort);
    let (store, lease, dying) = (bench.store.clone(), leased.lease.clone(), page.clone());
    assert_eq!(crash(async move { store.commit_batch(&lease, dying).await }).await, "bisect");
    assert_eq!(bench.ledger_state().await, before);
    assert_eq!(bench.commit(&leased.lease, page).await.counts.quarantined, 1);
}

pub(super) async fn a_page_refused_in_too_many_places_is_refused_whole(bench: Bench) {
    bench.refuse_poison().await;
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    let ids = (0..8).map(|number| format!("poison{number}")).chain((0..4).map(|number| format!("a{number}")));
    let page = bench.page(&leased.batch, ids.map(|id| record(&id, 1, &id)).collect(), None);
    let refused = bench.store.commit_batch(&leased.lease, page).await;
    assert!(matches!(refused, Err(LedgerError::Data { .. })), "{refused:?}");
    assert_eq!(bench.ledger_state().await, before);
}

pub(super) async fn ids_not_returned_are_counted_until_they_are_found(bench: Bench) {
    let leased = bench.leased().await;
    let mut page = bench.page(&leased.batch, Vec::new(), Some("p1"));
    page.missing = ["x", "y", "x"].map(|id| (id.to_owned(), Lack::NotReturned)).to_vec();
    bench.commit(&leased.lease, page.clone()).await;
    let mut second = bench.page(page.next.as_ref().unwrap(), vec![record("y", 1, "found")], None);
    second.missing = vec![("x".into(), Lack::NotReturned)];
    bench.commit(&leased.lease, second).await;
    let seen = bench.column("SELECT provider_id, sightings, status_code FROM ing_missing_id ORDER BY provider_id");
    assert_eq!(seen.await, ["x2OPEN", "y1FOUND"]);
    let wait = bench.one("SELECT next_try_at FROM ing_missing_id WHERE provider_id = 'x'").await;
    assert_eq!(wait.parse(), Ok(bench.now().plus(patra_core::time::Span::DAY)));
}

pub(super) async fn a_body_is_kept_once_and_reads_back(bench: Bench) {
    let leased = bench.leased().await;
    let text = "the same body ".repeat(40_000);
    let body = || Some(KeptBody { bytes: Bytes::from(text.clone()), whole: true });
    let page = BatchCommit { body: body(), ..bench.page(&leased.batch, Vec::new(), Some("p1")) };
    bench.commit(&leased.lease, page.clone()).await;
    let second = BatchCommit { body: body(), ..bench.page(page.next.as_ref().unwrap(), Vec::new(), None) };
    bench.commit(&leased.lease, second).await;
    let mut tx = bench.store.inner.db.read().await.unwrap();
    let rows = tx.rows_composed("t", "SELECT body_zstd, bytes_raw FROM ing_page_body", Vec::new()).await.unwrap();
    tx.rollback().await;
    assert_eq!(rows.len(), 1);
    let unpacked = zstd::bulk::decompress(rows[0].bytes("body_zstd").unwrap(), text.len()).unwrap();
    assert_eq!(unpacked, text.as_bytes());
    let hashes = bench.one("SELECT COUNT(DISTINCT body_hash), COUNT(body_hash) FROM ing_task_run_batch").await;
    assert_eq!(hashes, "12");
}

pub(super) async fn a_page_that_does_not_follow_its_predecessor_is_refused(bench: Bench) {
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    let mut page = bench.page(&leased.batch, Vec::new(), Some("p1"));
    page.next.as_mut().unwrap().seq_no = 2;
    let refused = bench.store.commit_batch(&leased.lease, page).await;
    assert!(matches!(refused, Err(LedgerError::Corrupt { .. })), "{refused:?}");
    assert_eq!(bench.ledger_state().await, before);
}

pub(super) async fn the_ids_of_a_search_page_read_back_in_order(bench: Bench) {
    let leased = bench.leased().await;
    let ids: Vec<String> = ["3", "1\n2", "é", ""].map(str::to_owned).to_vec();
    let page = BatchCommit { id_list: Some(ids.clone()), ..bench.page(&leased.batch, Vec::new(), Some("d:0")) };
    bench.commit(&leased.lease, page).await;
    assert_eq!(bench.store.id_list(leased.batch.id).await, Ok(ids));
    assert!(matches!(bench.store.id_list(bench.id()).await, Err(LedgerError::Missing { .. })));
}
