//! The outbox: nothing skipped, order per record, one holder per shard, what is kept and sent again.

use patra_core::outbox::{Event, SENT_KEPT, SHARDS, Settlement, shard_of};
use patra_core::ports::*;
use patra_core::record::NewRecord;
use patra_core::time::Span;

use super::bench::{Bench, TTL, record};

/// Commits pages of changes in one pass.
async fn told(bench: &Bench, pages: Vec<Vec<NewRecord>>) {
    let leased = bench.leased().await;
    let mut open = leased.batch.clone();
    for (number, records) in pages.into_iter().enumerate() {
        let page = bench.page(&open, records, Some(&format!("t{number}")));
        open = page.next.clone().unwrap();
        bench.commit(&leased.lease, page).await;
        bench.advance(Span::from_millis(5));
    }
}

async fn lease(bench: &Bench, who: &str) -> Option<ShardLease> {
    bench.store.lease_shard(who, TTL).await.unwrap()
}

fn sent(events: &[Event]) -> Settlement {
    Settlement { sent: events.iter().map(|event| event.id).collect(), ..Settlement::default() }
}

/// Sends all that waits, in rounds; (id, version) in the order of sending.
async fn drain(bench: &Bench) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    while let Some(shard) = lease(bench, "relay").await {
        loop {
            let events = bench.store.pending_events(&shard, 100).await.unwrap();
            if events.is_empty() {
                break;
            }
            bench.store.settle(&shard, &sent(&events)).await.unwrap();
            all.extend(events.into_iter().map(|event| (event.provider_id, event.version_no)));
        }
        bench.store.release_shard(&shard).await.unwrap();
    }
    all
}

fn versions(sent: &[(String, i64)], id: &str) -> Vec<i64> {
    sent.iter().filter(|(of, _)| of == id).map(|(_, version)| *version).collect()
}

pub(super) async fn events_are_handed_out_with_their_lineage_until_they_are_sent(bench: Bench) {
    assert_eq!(lease(&bench, "relay").await, None, "nothing waits");
    told(&bench, vec![vec![record("a", 1, "one")]]).await;
    let shard = lease(&bench, "relay").await.unwrap();
    assert_eq!(shard.shard, shard_of("crossref", "works", "a"));
    let events = bench.store.pending_events(&shard, 10).await.unwrap();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((event.provider_id.as_str(), event.version_no, event.fields.as_str()), ("a", 1, r#"{"title":"one"}"#));
    let batch = bench.one("SELECT plan_id, ':', task_id, ':', run_id FROM ing_task_run_batch WHERE seq_no = 0").await;
    let lineage = &event.lineage;
    let parts = [lineage.plan_id, lineage.task_id, lineage.run_id].map(|id| id.unwrap().to_string());
    assert_eq!(parts.join(":"), batch);
    assert!(event.fingerprint.is_some());
    assert_eq!(bench.store.pending_events(&shard, 10).await.unwrap(), events, "not sent yet");
    bench.store.settle(&shard, &sent(&events)).await.unwrap();
    assert_eq!(bench.store.pending_events(&shard, 10).await.unwrap(), []);
    assert_eq!(bench.one("SELECT status_code FROM ing_outbox").await, "SENT");
}

pub(super) async fn versions_go_out_in_order_whatever_their_ids_say(bench: Bench) {
    let page = |version: i64| (0..20).map(|id| record(&id.to_string(), version, &format!("v{version}"))).collect();
    told(&bench, vec![page(1), page(2), page(3)]).await;
    // As if the three pages came from processes whose clocks disagree.
    bench.change("UPDATE ing_outbox SET id = 4000000000000000000 - id").await;
    let sent = drain(&bench).await;
    assert_eq!(sent.len(), 60);
    for id in 0..20 {
        assert_eq!(versions(&sent, &id.to_string()), [1, 2, 3]);
    }
}

pub(super) async fn an_event_that_appears_below_those_sent_is_not_skipped(bench: Bench) {
    told(&bench, vec![vec![record("a", 1, "one"), record("b", 1, "one")]]).await;
    bench.change("UPDATE ing_outbox SET status_code = 'SENT' WHERE provider_id = 'b'").await;
    bench.change("UPDATE ing_outbox SET id = 17 WHERE provider_id = 'a'").await;
    assert_eq!(drain(&bench).await, [("a".to_owned(), 1)]);
}

pub(super) async fn a_shard_has_one_holder_and_a_lost_one_writes_nothing(bench: Bench) {
    told(&bench, vec![vec![record("a", 1, "one")]]).await;
    let first = lease(&bench, "one").await.unwrap();
    assert_eq!(lease(&bench, "two").await, None);
    let renewed = bench.store.renew_shard(&first, TTL.times(2)).await.unwrap();
    assert!(renewed.expires_at > first.expires_at);
    let events = bench.store.pending_events(&first, 10).await.unwrap();
    bench.advance(TTL.times(2).plus(Span::SECOND));
    let second = lease(&bench, "two").await.unwrap();
    assert!(second.epoch > first.epoch);
    let lost = Err(LedgerError::ShardLost { shard: first.shard });
    assert_eq!(bench.store.settle(&first, &sent(&events)).await, lost);
    assert_eq!(bench.store.renew_shard(&first, TTL).await.map(|_| ()), lost);
    bench.store.release_shard(&first).await.unwrap();
    assert_eq!(lease(&bench, "three").await, None, "releasing a lost shard frees nothing");
    assert_eq!(bench.one("SELECT status_code FROM ing_outbox").await, "PENDING");
    bench.store.settle(&second, &sent(&events)).await.unwrap();
    bench.store.release_shard(&second).await.unwrap();
    assert_eq!(lease(&bench, "three").await, None, "nothing waits any more");
}

pub(super) async fn a_parked_event_holds_back_its_own_record_only(bench: Bench) {
    let neighbour = (0..)
        .map(|id| format!("n{id}"))
        .find(|id| shard_of("crossref", "works", id) == shard_of("crossref", "works", "a"));
    let neighbour = neighbour.unwrap();
    told(&bench, vec![vec![record("a", 1, "1"), record(&neighbour, 1, "1")], vec![record("a", 2, "2")]]).await;
    let shard = lease(&bench, "relay").await.unwrap();
    let events = bench.store.pending_events(&shard, 10).await.unwrap();
    assert_eq!(events.len(), 2, "the second version waits for the first");
    let (a, n): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.provider_id == "a");
    let settlement = Settlement { parked: vec![(a[0].id, "too big".into())], ..sent(&n) };
    bench.store.settle(&shard, &settlement).await.unwrap();
    assert_eq!(bench.store.pending_events(&shard, 10).await.unwrap(), []);
    let states = "SELECT version_no, ' ', status_code, ' ', COALESCE(parked_reason, '') FROM ing_outbox WHERE provider_id = 'a' ORDER BY version_no";
    assert_eq!(bench.column(states).await, ["1 PARKED too big", "2 PARKED version 1 of this record is parked"]);
    let counts = bench.store.outbox_counts().await.unwrap();
    assert_eq!((counts.pending, counts.parked), (0, 2));
    bench.store.release_shard(&shard).await.unwrap();
    assert_eq!(bench.store.republish(&Republish::Parked).await, Ok(2));
    assert_eq!(drain(&bench).await, [("a".to_owned(), 1), ("a".to_owned(), 2)]);
}

pub(super) async fn sent_events_are_sent_again_on_demand_with_another_number(bench: Bench) {
    told(&bench, vec![(0..30).map(|id| record(&id.to_string(), 1, "x")).collect(), vec![record("7", 2, "y")]]).await;
    let from = bench.now().minus(Span::HOUR);
    assert_eq!(drain(&bench).await.len(), 31);
    let one = Republish::Record { provenance: "crossref".into(), entity: "works".into(), provider_id: "7".into() };
    assert_eq!(bench.store.republish(&one).await, Ok(2));
    assert_eq!(bench.store.republish(&one).await, Ok(0), "it waits already");
    assert_eq!(versions(&drain(&bench).await, "7"), [1, 2]);
    let to = bench.now().plus(Span::SECOND);
    assert_eq!(bench.store.republish(&Republish::Recorded { from, to }).await, Ok(31));
    let numbers = "SELECT MIN(resend_no), ' ', MAX(resend_no) FROM ing_outbox";
    assert_eq!(bench.one(numbers).await, "1 2");
    let none = Republish::Recorded { from: to, to: to.plus(Span::HOUR) };
    assert_eq!(bench.store.republish(&none).await, Ok(0));
    assert_eq!(drain(&bench).await.len(), 31);
    let mut seen = 0;
    for shard in 0..SHARDS {
        let mut after = None;
        while let Some(last) = {
            let rows = bench.store.sent_events(shard, from, to, after, 2).await.unwrap();
            seen += rows.len();
            rows.last().copied()
        } {
            after = Some(last.row);
        }
    }
    assert_eq!(seen, 31);
}

pub(super) async fn sent_rows_are_deleted_after_their_time_and_no_others(bench: Bench) {
    told(&bench, vec![vec![record("a", 1, "1")]]).await;
    drain(&bench).await;
    bench.advance(SENT_KEPT.plus(Span::HOUR));
    told_more(&bench, "a").await;
    let before = bench.now().minus(SENT_KEPT);
    let mut gone = 0;
    for shard in 0..SHARDS {
        gone += bench.store.purge_sent(shard, before, 100).await.unwrap();
        assert_eq!(bench.store.purge_sent(shard, before, 100).await, Ok(0));
    }
    assert_eq!(gone, 1);
    assert_eq!(bench.one("SELECT version_no, status_code FROM ing_outbox").await, "2PENDING");
    assert_eq!(drain(&bench).await, [("a".to_owned(), 2)]);
}

/// Another version of a record, by the task that was left open.
async fn told_more(bench: &Bench, id: &str) {
    let leased = bench.acquire_one().await;
    let page = bench.page(&leased.batch, vec![record(id, 9, "later")], None);
    bench.commit(&leased.lease, page).await;
}

pub(super) async fn rows_of_an_older_release_are_told_in_order_too(bench: Bench) {
    told(&bench, vec![vec![record("a", 1, "1")], vec![record("a", 2, "2")], vec![record("a", 3, "3")]]).await;
    bench.change("UPDATE ing_outbox SET shard_no = NULL WHERE version_no <> 2").await;
    assert_eq!(versions(&drain(&bench).await, "a"), [1, 2, 3]);
}
