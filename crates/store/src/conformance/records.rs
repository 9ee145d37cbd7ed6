//! Records: exact identity, one total order of versions, one event per change.

use std::collections::{BTreeMap, BTreeSet};

use patra_core::hash::Hash32;
use patra_core::ports::*;
use patra_core::record::{NewRecord, VersionKey};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::bench::{Bench, at, record};

/// Commits pages one after the other in one pass.
async fn commit_all(bench: &Bench, pages: Vec<Vec<NewRecord>>) -> Vec<Counts> {
    bench.publish(&[(0, 100)]).await;
    let leased = bench.acquire_one().await;
    let mut open = leased.batch.clone();
    let mut counts = Vec::new();
    for (number, records) in pages.into_iter().enumerate() {
        let page = bench.page(&open, records, Some(&format!("t{number}")));
        open = page.next.clone().unwrap();
        counts.push(bench.commit(&leased.lease, page).await.counts);
    }
    let partial = SliceOutcome::Partial { reason: "ENOUGH".into(), prefix: None };
    bench.store.finish_slice(&leased.lease, partial).await.unwrap();
    counts
}

pub(super) async fn near_equal_ids_stay_apart(bench: Bench) {
    let ids =
        ["A1", "a1", "A1 ", " A1", "A1\u{a0}", "PMC1", "pmc1", "caf\u{e9}", "cafe\u{301}", "ss", "ß", "1", "01", "1.0"];
    let records: Vec<NewRecord> = ids.iter().map(|id| record(id, 1, id)).collect();
    let counts = commit_all(&bench, vec![records.clone(), records]).await;
    assert_eq!((counts[0].inserted, counts[1].unchanged), (ids.len() as u64, ids.len() as u64));
    let stored = bench.column("SELECT provider_id, '=', payload FROM ing_record").await;
    let mut want: Vec<String> = ids.iter().map(|id| format!("{id}={id}")).collect();
    want.sort();
    assert_eq!(BTreeSet::from_iter(stored).into_iter().collect::<Vec<_>>(), want);
}

pub(super) async fn the_greatest_version_of_a_page_is_kept(bench: Bench) {
    let page = vec![record("a", 2, "two"), record("a", 3, "three"), record("a", 1, "one"), record("b", 1, "b")];
    let counts = commit_all(&bench, vec![page]).await;
    assert_eq!((counts[0].inserted, counts[0].duplicate, counts[0].fetched), (2, 2, 4));
    assert_eq!(bench.one("SELECT payload FROM ing_record WHERE provider_id = 'a'").await, "three");
}

pub(super) async fn a_record_changed_twice_has_two_events_in_order(bench: Bench) {
    let gone = NewRecord { deleted: true, ..record("a", 4, "A") };
    let pages = vec![
        vec![record("a", 1, "A")],
        vec![record("a", 2, "B")],
        vec![record("a", 2, "B")],
        vec![record("a", 3, "A")],
        vec![gone],
    ];
    commit_all(&bench, pages).await;
    let events = bench.column("SELECT version_no, change_code FROM ing_outbox ORDER BY id").await;
    assert_eq!(events, ["1CREATED", "2UPDATED", "3UPDATED", "4DELETED"]);
    assert_eq!(bench.one("SELECT COUNT(DISTINCT event_id) FROM ing_outbox").await, "4");
    assert_eq!(bench.one("SELECT version_no, ':', deleted FROM ing_record").await, "4:1");
}

pub(super) async fn an_older_version_arriving_late_changes_nothing(bench: Bench) {
    // Seen again unchanged at 5, so a different version dated 3 that arrives late is old.
    let pages = vec![vec![record("a", 1, "A")], vec![record("a", 5, "A")], vec![record("a", 3, "B")]];
    let counts = commit_all(&bench, pages).await;
    assert_eq!((counts[1].unchanged, counts[2].stale), (1, 1));
    assert_eq!(bench.one("SELECT payload, version_no FROM ing_record").await, "A1");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "1");
}

fn version(id: u8, updated: Option<i64>, number: Option<u8>, fetched: i64, content: u8, deleted: bool) -> NewRecord {
    let number = number.map(|number| number.to_string());
    let key =
        VersionKey::new(updated.map(at), number.as_deref(), at(fetched), Hash32::of(&[content, u8::from(deleted)]), 1);
    NewRecord { key, updated_at: updated.map(at), deleted, ..record(&id.to_string(), 0, &content.to_string()) }
}

/// Random pages against a model that keeps the greatest version of each record.
pub(super) async fn any_order_of_versions_ends_the_same(bench: Bench) {
    let one = (0u8..4, proptest::option::of(0i64..5), proptest::option::of(9u8..12), 0i64..9, 0u8..3, any::<bool>())
        .prop_map(|(id, updated, number, fetched, content, deleted)| {
            version(id, updated, number, fetched, content, deleted)
        });
    let pages = proptest::collection::vec(proptest::collection::vec(one, 0..6), 1..6);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..150 {
        let pages = pages.new_tree(&mut runner).unwrap().current();
        bench.change("DELETE FROM ing_record").await;
        bench.change("DELETE FROM ing_outbox").await;
        let mut model: BTreeMap<String, VersionKey> = BTreeMap::new();
        for record in pages.iter().flatten() {
            let kept = model.entry(record.provider_id.clone()).or_insert_with(|| record.key.clone());
            *kept = record.key.clone().max(kept.clone());
        }
        let counts = commit_all(&bench, pages.clone()).await;
        for (count, page) in counts.iter().zip(&pages) {
            let sum = count.inserted + count.updated + count.unchanged + count.stale + count.duplicate;
            assert_eq!((count.fetched, sum), (page.len() as u64, page.len() as u64));
        }
        let stored = bench
            .column("SELECT provider_id, ':', content_hash, fetched_at FROM ing_record ORDER BY provider_id")
            .await;
        let want: Vec<String> =
            model.iter().map(|(id, key)| format!("{id}:{}{}", key.content_hash, key.fetched_at)).collect();
        assert_eq!(stored, want, "{pages:?}");
        let holes = bench.one("SELECT COUNT(*) FROM ing_record r WHERE version_no <> (SELECT COUNT(*) FROM ing_outbox o WHERE o.record_id = r.id)").await;
        assert_eq!(holes, "0", "{pages:?}");
    }
}

pub(super) async fn many_records_are_stored_in_chunks(bench: Bench) {
    let page =
        |content: &str| (0..1_237).map(|id| record(&id.to_string(), 1, &format!("{content}{id}"))).collect::<Vec<_>>();
    let newer: Vec<NewRecord> =
        (0..1_237).map(|id| record(&id.to_string(), 2 + i64::from(id % 2), &format!("b{id}"))).collect();
    let counts = commit_all(&bench, vec![page("a"), page("a"), newer]).await;
    assert_eq!((counts[0].inserted, counts[1].unchanged, counts[2].updated), (1_237, 1_237, 1_237));
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "2474");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_record WHERE version_no = 2").await, "1237");
}
