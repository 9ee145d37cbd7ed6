//! FM-9 against a real broker: restarts, lost acknowledgements, a missing and a wrong stream, messages too big, loss.

use std::collections::HashSet;
use std::sync::Arc;

use async_nats::jetstream::{self, stream};
use patra_core::hash::Hash32;
use patra_core::ports::{Clock, Outbox, Publisher, Republish, Stream};
use patra_core::time::{Span, Timestamp};
use patra_engine::reconcile::reconcile;
use patra_engine::relay::{Relay, RelaySettings};
use patra_remote::{NatsPublisher, NatsSettings};
use patra_store::Store;
use tokio_util::sync::CancellationToken;

use crate::support::{RealClock, Server, counts, fill_outbox, store, with_tls};

struct Bench {
    server: Server,
    folder: tempfile::TempDir,
    clock: Arc<RealClock>,
    store: Arc<Store>,
    publisher: Arc<NatsPublisher>,
    context: jetstream::Context,
}

async fn bench(records: u32, fields: &str) -> Option<Bench> {
    with_tls();
    let server = Server::nats(&[]).await?;
    let folder = tempfile::tempdir().unwrap();
    let clock = RealClock::start();
    let store = store(folder.path(), &clock, 1).await;
    fill_outbox(folder.path(), records, 1, fields).await;
    let url = format!("nats://127.0.0.1:{}", server.port);
    let settings = NatsSettings { ack_timeout: Span::from_seconds(2), ..NatsSettings::new(&url, "EVENTS") };
    let publisher = Arc::new(NatsPublisher::connect(settings).await.unwrap());
    let context = jetstream::new(async_nats::connect(&url).await.unwrap());
    Some(Bench { server, folder, clock, store, publisher, context })
}

impl Bench {
    fn relay(&self) -> Relay {
        let settings = RelaySettings {
            poll: Span::from_millis(20),
            backoff: Span::from_millis(100),
            shard_ttl: Span::from_seconds(5),
            ..RelaySettings::new("relay")
        };
        Relay::new(self.store.clone(), self.publisher.clone(), self.clock.clone(), settings)
    }

    async fn messages(&self) -> u64 {
        let stream = self.context.get_stream("EVENTS").await.unwrap();
        stream.get_info().await.unwrap().state.messages
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_and_password_of_an_address_open_the_door() {
    with_tls();
    let Some(server) = Server::nats(&["--user", "relay", "--pass", "p@ss/word"]).await else { return };
    let view = |login: &'static str| {
        let url = format!("nats://{login}127.0.0.1:{}", server.port);
        let settings = NatsSettings { ack_timeout: Span::from_seconds(2), ..NatsSettings::new(&url, "EVENTS") };
        async move {
            let publisher = NatsPublisher::connect(settings).await.map_err(|error| error.to_string())?;
            publisher.ensure_stream().await.map_err(|error| error.to_string())
        }
    };
    assert_eq!(view("relay:p%40ss%2Fword@").await, Ok(()));
    assert!(view("relay:wrong@").await.is_err());
    assert!(view("").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_and_comes_back_has_everything_once() {
    let Some(mut bench) = bench(3_000, "{}").await else { return };
    bench.publisher.ensure_stream().await.unwrap();
    let stop = CancellationToken::new();
    let relay = Arc::new(bench.relay());
    let (running, token) = (relay.clone(), stop.clone());
    let task = tokio::spawn(async move { running.run(&token).await });
    for _ in 0..3 {
        bench.clock.sleep(Span::from_millis(120)).await;
        bench.server.kill();
        bench.clock.sleep(Span::from_millis(300)).await;
        bench.server.restart().await;
    }
    let began = bench.clock.now();
    while counts(&bench.store).await.0 > 0 {
        assert!(bench.clock.now().since(began) < Span::from_seconds(60), "{:?} are left", counts(&bench.store).await);
        bench.clock.sleep(Span::from_millis(50)).await;
    }
    stop.cancel();
    task.await.unwrap();
    let view = bench.publisher.view().await.unwrap();
    println!("{} events, {} messages after three kills", view.held.len(), bench.messages().await);
    assert_eq!(view.held.len(), 3_000);
    assert_eq!(bench.messages().await, 3_000, "repetitions are dropped by the broker");
    assert_eq!(counts(&bench.store).await, (0, 0));
}

#[tokio::test]
async fn an_acknowledgement_that_was_lost_is_given_for_the_repetition() {
    let Some(bench) = bench(5, "{}").await else { return };
    bench.publisher.ensure_stream().await.unwrap();
    // Everything was published and nothing marked.
    let shard = bench.store.lease_shard("dead", Span::from_micros(-1)).await.unwrap().unwrap();
    let events = bench.store.pending_events(&shard, 100).await.unwrap();
    let messages: Vec<_> = events.iter().map(|event| event.message().unwrap()).collect();
    bench.publisher.publish(&messages).await;
    assert_eq!(bench.messages().await, events.len() as u64);
    assert!(bench.relay().drain().await.unwrap());
    assert_eq!((bench.messages().await, counts(&bench.store).await), (5, (0, 0)));
}

#[tokio::test]
async fn without_its_stream_nothing_is_marked_and_nothing_parked() {
    let Some(bench) = bench(4, "{}").await else { return };
    assert!(!bench.relay().drain().await.unwrap());
    assert_eq!(counts(&bench.store).await, (4, 0));
    // Another stream takes the subject: its acknowledgement does not count.
    let other = stream::Config { name: "OTHER".into(), subjects: vec!["patra.>".into()], ..Default::default() };
    bench.context.create_stream(other).await.unwrap();
    assert!(!bench.relay().drain().await.unwrap());
    assert_eq!(counts(&bench.store).await, (4, 0));
    bench.context.delete_stream("OTHER").await.unwrap();
    bench.publisher.ensure_stream().await.unwrap();
    assert!(bench.relay().drain().await.unwrap());
    assert_eq!(counts(&bench.store).await, (0, 0));
}

#[tokio::test]
async fn a_full_stream_is_waited_for() {
    let Some(bench) = bench(6, "{}").await else { return };
    let full = stream::Config {
        name: "EVENTS".into(),
        subjects: vec!["patra.>".into()],
        max_messages: 2,
        discard: stream::DiscardPolicy::New,
        ..Default::default()
    };
    bench.context.create_stream(full.clone()).await.unwrap();
    assert!(!bench.relay().drain().await.unwrap());
    assert_eq!(counts(&bench.store).await.1, 0);
    bench.context.update_stream(stream::Config { max_messages: -1, ..full }).await.unwrap();
    assert!(bench.relay().drain().await.unwrap());
    assert_eq!((bench.messages().await, counts(&bench.store).await), (6, (0, 0)));
}

#[tokio::test]
async fn a_message_too_big_is_parked_and_the_others_go() {
    let Some(bench) = bench(1, &format!("{{\"x\":\"{}\"}}", "x".repeat(1_100_000))).await else { return };
    bench.publisher.ensure_stream().await.unwrap();
    assert!(bench.relay().drain().await.unwrap());
    assert_eq!(counts(&bench.store).await, (0, 1));
    assert_eq!(bench.messages().await, 0);
    // Too big for this stream only.
    let small = stream::Config {
        name: "EVENTS".into(),
        subjects: vec!["patra.>".into()],
        max_message_size: 600,
        ..Default::default()
    };
    bench.context.update_stream(small).await.unwrap();
    let fields = format!("{{\"x\":\"{}\"}}", "x".repeat(2_000));
    let other = tempfile::tempdir().unwrap();
    let store = store(other.path(), &bench.clock, 2).await;
    fill_outbox(other.path(), 1, 1, &fields).await;
    let relay = Relay::new(store.clone(), bench.publisher.clone(), bench.clock.clone(), RelaySettings::new("relay"));
    assert!(relay.drain().await.unwrap());
    assert_eq!(counts(&store).await, (0, 1));
}

#[tokio::test]
async fn what_the_stream_lost_is_found_and_told_again_within_its_memory_of_ids() {
    let Some(bench) = bench(1_000, "{}").await else { return };
    bench.publisher.ensure_stream().await.unwrap();
    assert!(bench.relay().drain().await.unwrap());
    let stream = bench.context.get_stream("EVENTS").await.unwrap();
    for sequence in (1..=1_000).step_by(100) {
        stream.delete_message(sequence).await.unwrap();
    }
    let now = bench.clock.now().plus(Span::MINUTE);
    let found = reconcile(&*bench.store, &*bench.publisher, Timestamp::MIN, now).await.unwrap();
    assert_eq!((found.compared, found.missing.len(), found.held), (1_000, 10, 990));
    assert_eq!(bench.store.republish(&Republish::Rows(found.missing)).await, Ok(10));
    assert!(bench.relay().drain().await.unwrap());
    let found = reconcile(&*bench.store, &*bench.publisher, Timestamp::MIN, now).await.unwrap();
    assert_eq!((found.missing.len(), found.held), (0, 1_000));
    let different: HashSet<Hash32> = (1..=1_000).map(|id| Hash32::of(format!("{id}.1").as_bytes())).collect();
    let view = bench.publisher.view().await.unwrap();
    assert!(different.iter().all(|event| view.held.contains(event)));
    drop(bench.folder);
}
