//! A kept page derived anew: records, events and progress move together, once.

use patra_core::failpoint::Strike;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{Export, Remap, RemapPage, Work};
use patra_core::record::NewRecord;
use patra_core::remap::{Position, RemapCounts};
use patra_core::time::Span;

use super::bench::{Bench, record};

/// Two pages: `a` and `b`, then a newer `a`. The ids of the pages.
async fn read(bench: &Bench) -> (Id, Id) {
    let leased = bench.leased().await;
    let first = bench.page(&leased.batch, vec![record("a", 1, "old"), record("b", 1, "x")], Some("p1"));
    let next = first.next.clone().unwrap();
    bench.commit(&leased.lease, first).await;
    bench.advance(Span::from_seconds(1));
    let second = bench.page(&next, vec![record("a", 2, "new")], None);
    bench.commit(&leased.lease, second).await;
    (leased.batch.id, next.id)
}

/// The record with other fields.
fn mapped(id: &str, updated: i64, content: &str) -> NewRecord {
    NewRecord { fields: format!(r#"{{"name":"{content}"}}"#), ..record(id, updated, content) }
}

fn page(batch: Id, step_no: i64, position: Position, records: Vec<NewRecord>) -> RemapPage {
    RemapPage {
        source: "crossref".into(),
        fingerprint: Hash32::of(b"remap"),
        step_no,
        position,
        batch,
        entity: "works".into(),
        mapping_hash: Hash32::of(b"other mapping"),
        records,
        counts: RemapCounts { pages: 1, ..RemapCounts::default() },
    }
}

async fn records(bench: &Bench) -> Vec<String> {
    bench.column("SELECT provider_id, ' ', version_no, ' ', fields FROM ing_record ORDER BY provider_id").await
}

pub(super) async fn a_page_derived_anew_changes_what_it_holds_and_nothing_else(bench: Bench) {
    let (first, second) = read(&bench).await;
    let batches = bench.column("SELECT provider_id, batch_id FROM ing_record ORDER BY provider_id").await;
    let step = page(first, 1, Position::default(), vec![mapped("a", 1, "old"), mapped("b", 1, "x")]);
    let position = bench.store.remap_page(step).await.unwrap().unwrap();
    assert_eq!((position.after, position.counts.changed, position.counts.same), (first, 1, 1));
    assert_eq!(records(&bench).await, [r#"a 2 {"title":"new"}"#, r#"b 2 {"name":"x"}"#], "an old version has lost");
    let step = page(second, 2, position, vec![mapped("a", 2, "new")]);
    let position = bench.store.remap_page(step).await.unwrap().unwrap();
    let done = records(&bench).await;
    assert_eq!(done, [r#"a 3 {"name":"new"}"#, r#"b 2 {"name":"x"}"#]);
    assert_eq!(bench.column("SELECT provider_id, batch_id FROM ing_record ORDER BY provider_id").await, batches);
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "5", "one event for each change");
    let again = page(first, 3, position, vec![mapped("a", 1, "old"), mapped("b", 1, "x")]);
    let position = bench.store.remap_page(again).await.unwrap().unwrap();
    assert_eq!((position.counts.changed, records(&bench).await), (2, done), "the second time nothing changes");
    let late = page(first, 3, Position::default(), Vec::new());
    assert_eq!(bench.store.remap_page(late).await.unwrap().map(|found| found.counts), Some(position.counts));
    let other = page(second, 3, Position::default(), vec![mapped("b", 9, "y")]);
    assert_eq!(bench.store.remap_page(other).await, Ok(None), "somebody else has gone on");
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_outbox").await, "5");
}

pub(super) async fn a_version_that_wins_under_the_other_mapping_wins_in_the_second_walk(bench: Bench) {
    let (first, second) = read(&bench).await;
    // Under the other mapping the page that came first holds the younger version.
    let (old, new) = (mapped("a", 9, "old"), mapped("a", 2, "new"));
    let mut position = Position { again: true, ..Position::default() };
    let mut step_no = 0;
    for second_walk in [false, true] {
        position.second = second_walk;
        for (batch, record) in [(first, &old), (second, &new)] {
            step_no += 1;
            let step = page(batch, step_no, position.clone(), vec![record.clone()]);
            position = bench.store.remap_page(step).await.unwrap().unwrap();
        }
    }
    let kept = records(&bench).await;
    assert!(kept[0].ends_with(r#"{"name":"old"}"#), "{kept:?}");
    let version = bench.one("SELECT version_no FROM ing_record WHERE provider_id = 'a'").await;
    for (batch, record) in [(first, &old), (second, &new)] {
        step_no += 1;
        let step = page(batch, step_no, position.clone(), vec![record.clone()]);
        position = bench.store.remap_page(step).await.unwrap().unwrap();
    }
    assert_eq!(bench.one("SELECT version_no FROM ing_record WHERE provider_id = 'a'").await, version);
}

pub(super) async fn a_remap_that_fails_leaves_its_page_as_it_was(bench: Bench) {
    let (first, _) = read(&bench).await;
    let before = bench.ledger_state().await;
    bench.arm("t1.read", Strike::Error);
    let step = || page(first, 1, Position::default(), vec![mapped("b", 1, "x"), mapped("c", 1, "found")]);
    assert!(bench.store.remap_page(step()).await.is_err() && bench.fired());
    assert_eq!(bench.ledger_state().await, before);
    assert_eq!(bench.store.progress(Work::Remap, "crossref").await, Ok(None));
    let position = bench.store.remap_page(step()).await.unwrap().unwrap();
    assert_eq!((position.counts.changed, position.counts.inserted), (1, 1));
}
