//! Which records a refresh asks for.

use std::collections::BTreeSet;

use patra_core::hash::Hash32;
use patra_core::ports::{Intervention, NewSignal, Operate, RefreshBy, RefreshWanted};
use patra_core::time::Span;

use super::bench::{Bench, record};

fn act() -> Intervention {
    Intervention { actor: "ann".into(), reason: "a notice".into() }
}

fn wanted(by: RefreshBy) -> RefreshWanted {
    RefreshWanted { provenance: "crossref".into(), entity: "works".into(), by, limit: 100 }
}

async fn candidates(bench: &Bench, by: RefreshBy) -> Vec<String> {
    let found: BTreeSet<String> = bench.store.refresh_candidates(&wanted(by)).await.unwrap();
    found.into_iter().collect()
}

pub(super) async fn a_refresh_finds_what_is_stale_mapped_otherwise_or_signalled(bench: Bench) {
    let leased = bench.leased().await;
    let first = bench.page(&leased.batch, vec![record("a", 1, "one"), record("b", 1, "two")], Some("p1"));
    let next = first.next.clone().unwrap();
    bench.commit(&leased.lease, first).await;
    let between = bench.now().plus(Span::SECOND);
    bench.advance(Span::from_seconds(5));
    bench.commit(&leased.lease, bench.page(&next, vec![record("c", 1, "three")], None)).await;
    assert_eq!(candidates(&bench, RefreshBy::StaleBefore(between)).await, ["a", "b"]);
    assert_eq!(candidates(&bench, RefreshBy::MappingOtherThan(Hash32::of(b"mapping"))).await, Vec::<String>::new());
    assert_eq!(candidates(&bench, RefreshBy::MappingOtherThan(Hash32::of(b"new"))).await, ["a", "b", "c"]);
    let limited = RefreshWanted { limit: 2, ..wanted(RefreshBy::MappingOtherThan(Hash32::of(b"new"))) };
    assert_eq!(bench.store.refresh_candidates(&limited).await.unwrap().len(), 2);
    assert_eq!(candidates(&bench, RefreshBy::Signals).await, Vec::<String>::new());
    bench.advance(Span::SECOND);
    let ids = vec!["b".to_owned(), "ghost".into()];
    let signal = NewSignal { provenance: "crossref".into(), entity: "works".into(), ids, kind: "RETRACTION".into() };
    assert_eq!(bench.store.add_signals(&signal, &act()).await, Ok(2));
    assert_eq!(bench.store.add_signals(&signal, &act()).await, Ok(0));
    assert_eq!(candidates(&bench, RefreshBy::Signals).await, ["b", "ghost"]);
    assert_eq!(bench.store.close_answered_signals(&wanted(RefreshBy::Signals)).await, Ok(0));
    bench.advance(Span::SECOND);
    bench.change_with("UPDATE ing_record SET checked_at = ?", vec![bench.now().into()]).await;
    assert_eq!(bench.store.close_answered_signals(&wanted(RefreshBy::Signals)).await, Ok(1));
    assert_eq!(candidates(&bench, RefreshBy::Signals).await, ["ghost"]);
}
