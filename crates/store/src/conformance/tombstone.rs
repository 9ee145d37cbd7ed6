//! Records that their source has no more, has under another name, or has again; pages that hint at other records.

use patra_core::absence::Lack;
use patra_core::page::{BadItem, BadReason};
use patra_core::pointer::Pointer;
use patra_core::ports::*;
use patra_core::record::NewRecord;
use patra_core::refit::Policy;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::{Bench, namespace, record};

/// A record as it is shown now.
fn fresh(bench: &Bench, id: &str, content: &str) -> NewRecord {
    let mut fresh = record(id, 1, content);
    fresh.key.fetched_at = bench.now();
    fresh
}

/// Commits page after page of one task.
struct Pages {
    bench: Bench,
    leased: Leased,
    open: OpenBatch,
    number: u32,
}

impl Pages {
    async fn begin(bench: Bench) -> Pages {
        let leased = bench.leased().await;
        Pages { open: leased.batch.clone(), number: 0, bench, leased }
    }

    async fn commit(&mut self, records: Vec<NewRecord>, change: impl FnOnce(&mut BatchCommit)) -> Counts {
        self.bench.advance(Span::HOUR);
        self.number += 1;
        let mut page = self.bench.page(&self.open, records, Some(&format!("t{}", self.number)));
        change(&mut page);
        self.open = page.next.clone().unwrap();
        self.bench.commit(&self.leased.lease, page).await.counts
    }

    async fn miss(&mut self, id: &str, lack: Lack) -> u64 {
        let missing = vec![(id.to_owned(), lack)];
        self.commit(Vec::new(), |page| page.missing = missing).await.tombstoned
    }

    async fn events(&self) -> Vec<String> {
        self.bench
            .column("SELECT provider_id, version_no, change_code FROM ing_outbox ORDER BY provider_id, version_no")
            .await
    }
}

pub(super) async fn a_record_that_stays_away_is_gone_until_it_comes_back(bench: Bench) {
    let mut pages = Pages::begin(bench).await;
    let first = fresh(&pages.bench, "a", "one");
    pages.commit(vec![first.clone()], |_| ()).await;
    assert_eq!(pages.miss("a", Lack::NotReturned).await, 0);
    assert_eq!(pages.miss("a", Lack::NotReturned).await, 0, "not a day apart");
    pages.bench.advance(Span::DAY);
    assert_eq!(pages.miss("a", Lack::NotReturned).await, 1);
    let gone = "SELECT version_no, ':', deleted FROM ing_record";
    assert_eq!(pages.bench.one(gone).await, "2:1");
    assert_eq!(pages.miss("a", Lack::NotReturned).await, 0, "it is gone already");
    let before = first.key.fetched_at;
    let late = pages.commit(vec![first], |page| page.fetched_at = before).await;
    assert_eq!((late.unchanged, pages.bench.one(gone).await.as_str()), (1, "2:1"), "a page from before proves nothing");
    let back = fresh(&pages.bench, "a", "one");
    let counts = pages.commit(vec![back], |_| ()).await;
    assert_eq!((counts.updated, pages.bench.one(gone).await.as_str()), (1, "3:0"));
    assert_eq!(pages.events().await, ["a1CREATED", "a2DELETED", "a3UPDATED"]);
    assert_eq!(pages.bench.one("SELECT COUNT(DISTINCT event_id) FROM ing_outbox").await, "3");
    assert_eq!(pages.bench.one("SELECT status_code FROM ing_missing_id").await, "FOUND");
    pages.bench.advance(Span::DAY);
    assert_eq!(pages.miss("a", Lack::NotReturned).await, 0, "it counts anew");
}

pub(super) async fn what_is_only_refused_is_not_taken_for_gone(bench: Bench) {
    let mut pages = Pages::begin(bench).await;
    let first = fresh(&pages.bench, "a", "one");
    pages.commit(vec![first], |_| ()).await;
    for _ in 0..3 {
        pages.bench.advance(Span::DAY);
        assert_eq!(pages.miss("a", Lack::Refused).await, 0);
    }
    assert_eq!(pages.bench.one("SELECT reason, status_code, sightings FROM ing_missing_id").await, "REFUSEDOPEN0");
    assert_eq!(pages.bench.one("SELECT deleted FROM ing_record").await, "0");
}

pub(super) async fn a_merged_record_points_to_the_one_in_its_place(bench: Bench) {
    let mut pages = Pages::begin(bench).await;
    let old = ["a", "b"].map(|id| fresh(&pages.bench, id, id)).to_vec();
    pages.commit(old, |_| ()).await;
    let survivor = fresh(&pages.bench, "c", "c");
    let missing = vec![("a".to_owned(), Lack::Merged { into: "c".into() })];
    let counts = pages.commit(vec![survivor], |page| page.missing = missing).await;
    assert_eq!((counts.inserted, counts.tombstoned), (1, 1));
    let declared = NewRecord { deleted: true, merged_into: Some("d".into()), ..fresh(&pages.bench, "b", "b, merged") };
    assert_eq!(pages.commit(vec![declared], |_| ()).await.updated, 1);
    let merged =
        pages.bench.column("SELECT provider_id, merged_into FROM ing_record WHERE deleted = 1 ORDER BY provider_id");
    assert_eq!(merged.await, ["ac", "bd"]);
    let told = pages
        .bench
        .column("SELECT provider_id, merged_into FROM ing_outbox WHERE change_code = 'DELETED' ORDER BY provider_id");
    assert_eq!(told.await, ["ac", "bd"]);
    assert_eq!(
        pages.bench.one("SELECT kind_code, provider_id FROM ing_signal").await,
        "MERGEd",
        "nobody has read it yet"
    );
}

pub(super) async fn a_page_signals_what_it_points_to_and_what_it_could_not_read(bench: Bench) {
    let mut pages = Pages::begin(bench).await;
    let article = fresh(&pages.bench, "a", "article");
    pages.commit(vec![article], |_| ()).await;
    let pointer = |id: &str| Pointer { id: id.into(), kind: "RETRACTION".into() };
    let notice = NewRecord { notices: vec![pointer("a"), pointer("elsewhere")], ..fresh(&pages.bench, "n", "notice") };
    let bad = BadItem {
        id: Some("q".into()),
        reason: BadReason::BadTime,
        path: "$.t".into(),
        message: "not a time".into(),
        raw: Default::default(),
    };
    let again = notice.clone();
    pages.commit(vec![notice], |page| page.bad = vec![bad.clone()]).await;
    pages.commit(vec![again], |page| page.bad = vec![bad]).await;
    let open = "SELECT provider_id, kind_code FROM ing_signal WHERE status_code = 'OPEN' ORDER BY provider_id";
    assert_eq!(pages.bench.column(open).await, ["aRETRACTION", "qQUARANTINE"]);
}

pub(super) async fn a_refresh_closes_the_signals_it_asks_for(bench: Bench) {
    let mut slice = bench.slice(0, 100, None);
    slice.task.params = serde_json::json!({ "ids": ["a", "b"] });
    bench.publish_plan(bench.plan_of(namespace(Operation::Update), vec![slice])).await;
    let leased = bench.acquire_one().await;
    let signal = NewSignal {
        provenance: "crossref".into(),
        entity: "works".into(),
        ids: vec!["a".into(), "b".into()],
        kind: "MANUAL".into(),
    };
    let act = Intervention { actor: "ann".into(), reason: "look".into() };
    bench.store.add_signals(&signal, &act).await.unwrap();
    bench.advance(Span::SECOND);
    bench.commit(&leased.lease, bench.page(&leased.batch, vec![fresh(&bench, "a", "one")], None)).await;
    let open = bench.column("SELECT provider_id, status_code FROM ing_signal ORDER BY provider_id").await;
    assert_eq!(open, ["aCLOSED", "bOPEN"]);
}

pub(super) async fn a_policy_fills_in_or_maps_anew_and_keeps_the_content(bench: Bench) {
    let mut pages = Pages::begin(bench).await;
    let with =
        |bench: &Bench, content: &str, fields: &str| NewRecord { fields: fields.into(), ..fresh(bench, "a", content) };
    let first = with(&pages.bench, "one", r#"{"title":"T"}"#);
    pages.commit(vec![first.clone()], |_| ()).await;
    let richer = with(&pages.bench, "two", r#"{"title":"U","year":2020}"#);
    let filled = pages.commit(vec![richer.clone()], |page| page.policy = Policy::FillOnly).await;
    assert_eq!(filled.updated, 1);
    let stored = "SELECT payload, fields FROM ing_record";
    assert_eq!(pages.bench.one(stored).await, r#"one{"title":"T","year":2020}"#);
    let again = pages.commit(vec![richer], |page| page.policy = Policy::FillOnly).await;
    assert_eq!((again.updated, again.unchanged), (0, 1));
    let reread = with(&pages.bench, "one", r#"{"title":"T"}"#);
    assert_eq!(pages.commit(vec![reread], |_| ()).await.unchanged, 1, "the harvest sees no change");
    let remapped = with(&pages.bench, "one", r#"{"name":"T"}"#);
    let other = patra_core::hash::Hash32::of(b"other");
    let counts = pages.commit(vec![remapped], |page| (page.policy, page.mapping_hash) = (Policy::Remap, other)).await;
    assert_eq!((counts.updated, pages.bench.one(stored).await.as_str()), (1, r#"one{"name":"T"}"#));
    assert_eq!(pages.events().await, ["a1CREATED", "a2UPDATED", "a3UPDATED"]);
    let newer = NewRecord { key: record("a", 9, "three").key, ..with(&pages.bench, "three", "{}") };
    pages.commit(vec![newer], |_| ()).await;
    assert_eq!(
        pages.bench.one("SELECT payload, fields, version_no FROM ing_record WHERE fields_hash IS NULL").await,
        "three{}4"
    );
}
