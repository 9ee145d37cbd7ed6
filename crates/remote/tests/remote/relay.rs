//! INV-45 and INV-46: several relays that stall, die and meet a broker that loses messages and acknowledgements.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use patra_core::hash::Hash32;
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::{Clock, Outbox, Publisher, Republish};
use patra_core::time::Span;
use patra_engine::relay::{Relay, RelaySettings};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{RealClock, counts, fill_outbox, store};

/// A stream in memory. What happens to a message follows from chance.
struct Shaky {
    clock: Arc<RealClock>,
    stream: Mutex<Vec<(String, i64)>>,
    drawn: AtomicU64,
    trouble: u64,
}

impl Shaky {
    fn chance(&self) -> u64 {
        Hash32::of(&self.drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes()).short() % 1_000
    }

    fn take(&self, message: &Message) {
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        let key = body["record"]["id"].as_str().unwrap().to_owned();
        self.stream.lock().unwrap().push((key, body["version"].as_i64().unwrap()));
    }
}

#[async_trait]
impl Publisher for Shaky {
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery> {
        // A relay that stalls past its lease, before it publishes.
        if self.chance() < self.trouble * 4 {
            self.clock.sleep(Span::from_millis(700)).await;
        }
        let mut verdicts = Vec::new();
        for message in messages {
            let lost = Delivery::NotNow { reason: "no answer".into() };
            verdicts.push(match self.chance() {
                chance if chance < self.trouble => lost,
                chance => {
                    self.take(message);
                    if chance < 2 * self.trouble { lost } else { Delivery::Acked }
                }
            });
        }
        verdicts
    }
}

fn settings(who: String) -> RelaySettings {
    RelaySettings {
        shard_ttl: Span::from_millis(400),
        events_max: 40,
        rounds_max: 3,
        poll: Span::from_millis(10),
        backoff: Span::from_millis(5),
        ..RelaySettings::new(who)
    }
}

/// Readers drop what is not newer; (order breaks before that rule, after it, records whose last version is missing).
fn judge(stream: &[(String, i64)], records: usize, versions: i64) -> (u64, u64, usize) {
    let mut seen: HashMap<&str, i64> = HashMap::new();
    let (mut repeated, mut broken) = (0, 0);
    for (key, version) in stream {
        let last = seen.entry(key).or_insert(0);
        match *version - *last {
            ..=0 => repeated += 1,
            1 => *last = *version,
            _ => broken += 1,
        }
    }
    (repeated, broken, records - seen.values().filter(|last| **last == versions).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_stall_and_die_skip_nothing_and_invert_nothing() {
    const RECORDS: u32 = 150;
    const VERSIONS: u32 = 5;
    let folder = tempfile::tempdir().unwrap();
    let clock = RealClock::start();
    let first = store(folder.path(), &clock, 1).await;
    fill_outbox(folder.path(), RECORDS, VERSIONS, "{}").await;
    let broker =
        Arc::new(Shaky { clock: clock.clone(), stream: Mutex::default(), drawn: AtomicU64::new(0), trouble: 20 });
    let mut stores = Vec::new();
    for seed in 2..6 {
        stores.push(store(folder.path(), &clock, seed).await);
    }
    let start = |number: u64| {
        let store = stores[number as usize % 4].clone();
        let relay = Relay::new(store, broker.clone(), clock.clone(), settings(format!("relay-{number}")));
        tokio::spawn(async move { relay.run(&CancellationToken::new()).await })
    };
    let mut relays: Vec<_> = (0..4).map(start).collect();
    let mut killed = 0;
    let deadline = clock.now().plus(Span::from_seconds(90));
    while counts(&first).await.0 > 0 {
        assert!(clock.now() < deadline, "{:?} are left", counts(&first).await);
        clock.sleep(Span::from_millis(150)).await;
        // A killed relay: no lease is given back, nothing it has published is marked.
        relays.remove(0).abort();
        killed += 1;
        relays.push(start(3 + killed));
    }
    relays.iter().for_each(|relay| relay.abort());
    let stream = broker.stream.lock().unwrap();
    let (repeated, broken, missing) = judge(&stream, RECORDS as usize, i64::from(VERSIONS));
    println!("{} messages, {repeated} repeated, {killed} relays killed", stream.len());
    assert_eq!((broken, missing), (0, 0));
    let different: HashSet<_> = stream.iter().collect();
    assert_eq!(different.len(), (RECORDS * VERSIONS) as usize);
}

#[tokio::test]
async fn an_event_that_is_no_json_is_parked_and_the_others_go() {
    let folder = tempfile::tempdir().unwrap();
    let clock = RealClock::start();
    let store = store(folder.path(), &clock, 1).await;
    fill_outbox(folder.path(), 3, 1, "{not json").await;
    let broker =
        Arc::new(Shaky { clock: clock.clone(), stream: Mutex::default(), drawn: AtomicU64::new(0), trouble: 0 });
    let relay = Relay::new(store.clone(), broker, clock, settings("relay".into()));
    assert!(relay.drain().await.unwrap());
    assert_eq!(counts(&store).await, (0, 3));
    assert_eq!(store.republish(&Republish::Parked).await, Ok(3));
    assert_eq!(counts(&store).await, (3, 0));
}
