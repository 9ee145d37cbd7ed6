//! Records come out in one order, whole, and whoever asks under a name goes on where they were.

use patra_core::export::{Changes, Exported, Place};
use patra_core::hash::Hash32;
use patra_core::ports::{Export, Progress, Work};
use patra_core::time::Span;

use super::bench::{Bench, record};

/// Commits pages of these records, a second apart, and names the source.
async fn stored(bench: &Bench, pages: &[&[(&str, i64, &str)]]) -> String {
    let leased = bench.leased().await;
    let mut batch = leased.batch.clone();
    for (at, page) in pages.iter().enumerate() {
        let records = page.iter().map(|(id, updated, content)| record(id, *updated, content)).collect();
        let next = (at + 1 < pages.len()).then(|| format!("p{}", at + 1));
        let page = bench.page(&batch, records, next.as_deref());
        let after = page.next.clone();
        bench.commit(&leased.lease, page).await;
        bench.advance(Span::from_seconds(1));
        let Some(next) = after else { break };
        batch = next;
    }
    bench.store.source_after("").await.unwrap().expect("a source has records")
}

async fn walked(bench: &Bench, source: &str, changes: Option<Changes>) -> Vec<Exported> {
    let (mut place, mut all) = (Place::before(source, changes), Vec::new());
    loop {
        let some = bench.store.exported(&place, changes).await.unwrap();
        let Some(last) = some.last() else { return all };
        place = last.place(changes);
        all.extend(some);
    }
}

fn ids(records: &[Exported]) -> Vec<&str> {
    records.iter().map(|record| record.id.as_str()).collect()
}

pub(super) async fn records_come_in_the_order_of_their_keys(bench: Bench) {
    let many: Vec<String> = (0..1_203).map(|number| format!("id-{number:05}")).collect();
    let page: Vec<(&str, i64, &str)> = many.iter().map(|id| (id.as_str(), 5, "x")).collect();
    let source = stored(&bench, &[&[("B", 1, "x"), ("a", 2, "y"), ("Z", 3, "z"), ("é", 4, "e")], &page]).await;
    let all = walked(&bench, &source, None).await;
    let mut want: Vec<&str> = many.iter().map(String::as_str).chain(["B", "a", "Z", "é"]).collect();
    want.sort_unstable_by_key(|id| id.as_bytes());
    assert_eq!(ids(&all), want);
    assert_eq!((all[0].version, all[0].deleted, all[0].fields.as_str()), (1, false, r#"{"title":"x"}"#));
    assert_eq!(bench.store.source_after(&source).await, Ok(None));
    bench.change("UPDATE ing_record SET endpoint_name = 'zines' WHERE provider_id = 'B'").await;
    let all = walked(&bench, &source, None).await;
    assert_eq!((all.len(), all.last().map(|last| last.id.as_str())), (want.len(), Some("B")), "entities follow");
}

pub(super) async fn changes_come_in_their_order_and_end_before_the_next_ones(bench: Bench) {
    let begun = bench.now();
    let source = stored(&bench, &[&[("c", 1, "x"), ("b", 1, "x")], &[("a", 1, "x"), ("c", 2, "newer")]]).await;
    let moment = bench.store.moment().await.unwrap();
    let second = begun.plus(Span::from_seconds(1));
    let all = Changes { from: begun, to: moment.now };
    assert_eq!(ids(&walked(&bench, &source, Some(all)).await), ["b", "c", "a"]);
    let first = Changes { from: begun, to: second };
    assert_eq!(ids(&walked(&bench, &source, Some(first)).await), ["b"], "`c` has changed since");
    let rest = Changes { from: second, to: moment.now };
    assert_eq!(ids(&walked(&bench, &source, Some(rest)).await), ["c", "a"]);
    let none = Changes { from: moment.now, to: moment.now };
    assert!(walked(&bench, &source, Some(none)).await.is_empty());
}

pub(super) async fn of_two_who_go_on_under_one_name_one_does(bench: Bench) {
    let step = |step_no: i64, position: &str| Progress {
        fingerprint: Hash32::of(b"selection"),
        position: position.into(),
        step_no,
    };
    let note = async |next: &Progress| bench.store.note_progress(Work::Export, "nightly", next).await.unwrap();
    assert_eq!(bench.store.progress(Work::Export, "nightly").await, Ok(None));
    assert!(!note(&step(2, "later")).await, "nothing comes before the first");
    assert!(note(&step(1, "one")).await);
    assert!(note(&step(1, "one")).await, "a try of which nobody knew");
    assert!(!note(&step(1, "other")).await);
    assert!(note(&step(2, "two")).await);
    assert!(!note(&step(2, "too late")).await);
    assert_eq!(bench.store.progress(Work::Export, "nightly").await, Ok(Some(step(2, "two"))));
    assert_eq!(bench.store.progress(Work::Remap, "nightly").await, Ok(None));
}
