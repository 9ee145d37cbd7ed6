//! Opening and re-opening, other processes, dropped callers and a full disk: what only a file can show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;

use patra_core::ports::*;

use super::bench::{Bench, Place, TTL, record};
use crate::commit::Prepared;
use crate::error::DbError;
use crate::{Durability, Options, Store, StoreError};

fn options(bench: &Bench, seed: u64) -> Options {
    Options { durability: Durability::Normal, ..Options::new(bench.clock.clone(), seed) }
}

async fn open(bench: &Bench, seed: u64) -> Result<Arc<Store>, StoreError> {
    let path = bench.path().expect("the bench is a file");
    Store::open(&format!("sqlite://{path}"), options(bench, seed)).await
}

#[tokio::test]
async fn a_database_opened_again_keeps_everything() {
    let bench = Bench::open(Place::File).await;
    let leased = bench.leased().await;
    bench.commit(&leased.lease, bench.page(&leased.batch, vec![record("a", 1, "one")], None)).await;
    bench.store.close().await;
    let again = open(&bench, 8).await.unwrap();
    assert_eq!(again.summary().await.unwrap()[0].records, 1);
    assert_eq!(again.schema_version(), bench.store.schema_version());
    assert!(again.finish_slice(&leased.lease, bench.succeeded()).await.unwrap().plan_completed);
}

#[tokio::test]
async fn a_migration_changed_after_it_was_applied_is_refused() {
    let bench = Bench::open(Place::File).await;
    bench.change("UPDATE sys_schema_migration SET checksum = zeroblob(32) WHERE version = 2").await;
    let refused = open(&bench, 8).await.err();
    assert_eq!(refused, Some(StoreError::Changed { version: 2, name: "ledger".into() }));
}

#[tokio::test]
async fn a_place_that_cannot_be_opened_is_named() {
    let bench = Bench::open(Place::Memory).await;
    let refused = Store::open("/nowhere/at/all.db", options(&bench, 1)).await.err();
    assert!(matches!(refused, Some(StoreError::Open { place, .. }) if place == "/nowhere/at/all.db"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_database_and_no_task() {
    let bench = Bench::open(Place::File).await;
    let other = open(&bench, 8).await.unwrap();
    let windows: Vec<(i64, i64)> = (0..30).map(|at| (at, at + 1)).collect();
    bench.publish(&windows).await;
    let work = |store: Arc<Store>, bench: Arc<Bench>| async move {
        let mut done = Vec::new();
        while let Some(leased) = store.acquire_tasks(&Claim::new("w", 1, TTL)).await.unwrap().pop() {
            let id = leased.lease.task.to_string();
            let page = bench.page(&leased.batch, vec![record(&id, 1, &id)], None);
            store.commit_batch(&leased.lease, page).await.unwrap();
            store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap();
            done.push(leased.lease.task);
        }
        done
    };
    let bench = Arc::new(bench);
    let (ours, theirs) =
        tokio::join!(tokio::spawn(work(bench.store.clone(), bench.clone())), tokio::spawn(work(other, bench.clone())));
    assert_eq!(ours.unwrap().len() + theirs.unwrap().len(), 30);
    assert_eq!(bench.watermark().await, Some(super::bench::at(30)));
    assert_eq!(bench.one("SELECT COUNT(*), MAX(status_code) FROM ing_plan").await, "1COMPLETED");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_open_transaction() {
    for place in [Place::Memory, Place::File] {
        let bench = Bench::open(place).await;
        let leased = bench.leased().await;
        let mut open = leased.batch.clone();
        for polls in 0..40 {
            let page = bench.page(&open, vec![record(&polls.to_string(), 1, "x")], Some(&format!("t{polls}")));
            let next = page.next.clone().unwrap();
            let mut left = polls;
            {
                let mut step = std::pin::pin!(bench.store.commit_batch(&leased.lease, page.clone()));
                std::future::poll_fn(|context| {
                    let done = step.as_mut().poll(context).is_ready();
                    left -= i32::from(left > 0);
                    if done || left == 0 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            // Whatever became of it, the same commit now succeeds exactly once.
            bench.commit(&leased.lease, page).await;
            open = next;
        }
        let stored = bench.one("SELECT COUNT(*), ':', MAX(version_no) FROM ing_record").await;
        assert_eq!(stored, "40:1");
    }
}

#[tokio::test]
async fn an_unknown_commit_is_looked_up_and_never_run_twice() {
    for happened in [true, false] {
        let bench = Bench::open(Place::File).await;
        let leased = bench.leased().await;
        let page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
        let page = Arc::new(Prepared::new(page).await.unwrap());
        let first = Arc::new(AtomicBool::new(true));
        let committed = bench.store.retried("commit_batch", |store| {
            let (lease, page, first) = (leased.lease.clone(), page.clone(), first.clone());
            async move {
                let first = first.swap(false, Ordering::SeqCst);
                if !first || happened {
                    let result = crate::commit::once(store, lease, page).await;
                    return if first { Err(DbError::CommitUnknown("connection lost".into())) } else { result };
                }
                Err(DbError::CommitUnknown("connection lost".into()))
            }
        });
        let committed = committed.await.unwrap();
        assert_eq!((committed.counts.inserted, committed.repeated), (1, happened));
        assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "1");
    }
}

#[tokio::test]
async fn a_step_that_finds_no_space_is_not_tried_again_at_once() {
    let bench = Bench::open(Place::File).await;
    let tries = Arc::new(AtomicU32::new(0));
    let refused = bench.store.retried("acquire_tasks", |_| {
        tries.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), DbError>(DbError::Full("no space left".into())) }
    });
    assert!(matches!(refused.await, Err(LedgerError::Unavailable { step: "acquire_tasks", .. })));
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_full_disk_writes_nothing_and_work_goes_on_when_there_is_space() {
    let bench = Bench::open(Place::File).await;
    let leased = bench.leased().await;
    let before = bench.ledger_state().await;
    let pages: i64 = bench.one("PRAGMA page_count").await.parse().unwrap();
    {
        let mut tx = bench.store.inner.db.write().await.unwrap();
        tx.rows_composed("pragma", &format!("PRAGMA max_page_count = {}", pages + 5), Vec::new()).await.unwrap();
        tx.commit().await.unwrap();
    }
    let big = "x".repeat(100_000);
    let page = bench.page(&leased.batch, (0..50).map(|id| record(&id.to_string(), 1, &big)).collect(), None);
    let refused = bench.store.commit_batch(&leased.lease, page.clone()).await;
    assert!(matches!(refused, Err(LedgerError::Unavailable { step: "commit_batch", .. })), "{refused:?}");
    assert_eq!(bench.ledger_state().await, before);
    // The connection was opened anew, without the limit.
    assert_eq!(bench.commit(&leased.lease, page).await.counts.inserted, 50);
    assert_eq!(bench.one("PRAGMA integrity_check").await, "ok");
}
