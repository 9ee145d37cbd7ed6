//! One suite for the three gates: in process, in Redis, on database rows (INV-48).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patra_core::failpoint::Failpoints;
use patra_core::ports::{Clock, Decision, Gate, Permit, PermitAsk, RateKey, RejectReason, Signal};
use patra_core::spec::sample;
use patra_core::spec::snapshot::{RateSpec, RateWindow};
use patra_core::time::{Span, Timestamp};
use patra_engine::fleet_gate::FleetGate;
use patra_engine::gate::LocalGate;
use patra_remote::RedisGate;
use patra_store::Store;
use tokio::sync::Mutex;

use crate::support::{RealClock, Server, server_place, store, store_at, with_tls};

/// What may pass in the source's log before it is a breach.
const SLACK: Span = Span::from_millis(50);

pub fn rate(requests: u32, per: Span, burst: u32, concurrency: u32) -> RateSpec {
    RateSpec { windows: vec![RateWindow { requests, per }], burst, concurrency, ..sample::snapshot().rate }
}

/// The gates of several processes, and what must live as long.
struct Fleet {
    clock: Arc<RealClock>,
    gates: Vec<Arc<dyn Gate>>,
    _server: Option<Server>,
    _folder: tempfile::TempDir,
}

async fn local() -> Option<Fleet> {
    let clock = RealClock::start();
    let gate: Arc<dyn Gate> = Arc::new(LocalGate::new(clock.clone(), Failpoints::none()));
    Some(Fleet { clock, gates: vec![gate.clone(), gate], _server: None, _folder: tempfile::tempdir().unwrap() })
}

pub fn on_rows(store: &Arc<Store>, redis: Option<&Server>, clock: &Arc<RealClock>) -> Arc<dyn Gate> {
    let redis = redis.map(|server| {
        let gate = RedisGate::new(&format!("redis://127.0.0.1:{}", server.port)).unwrap();
        Arc::new(gate) as Arc<dyn patra_core::ports::SharedGate>
    });
    Arc::new(FleetGate::new(store.clone(), redis, store.clone(), clock.clone()))
}

async fn redis() -> Option<Fleet> {
    with_tls();
    let server = Server::redis().await?;
    let (clock, folder) = (RealClock::start(), tempfile::tempdir().unwrap());
    let mut gates = Vec::new();
    for seed in 1..=3 {
        gates.push(on_rows(&store(folder.path(), &clock, seed).await, Some(&server), &clock));
    }
    Some(Fleet { clock, gates, _server: Some(server), _folder: folder })
}

async fn sqlite() -> Option<Fleet> {
    let (clock, folder) = (RealClock::start(), tempfile::tempdir().unwrap());
    let mut gates = Vec::new();
    for seed in 1..=3 {
        gates.push(on_rows(&store(folder.path(), &clock, seed).await, None, &clock));
    }
    Some(Fleet { clock, gates, _server: None, _folder: folder })
}

async fn database(variable: &str) -> Option<Fleet> {
    with_tls();
    let place = server_place(variable).await?;
    let clock = RealClock::start();
    let mut gates = Vec::new();
    for seed in 1..=3 {
        gates.push(on_rows(&store_at(&place, &clock, seed).await, None, &clock));
    }
    Some(Fleet { clock, gates, _server: None, _folder: tempfile::tempdir().unwrap() })
}

async fn postgres() -> Option<Fleet> {
    database("PATRA_TEST_POSTGRES").await
}

async fn mysql() -> Option<Fleet> {
    database("PATRA_TEST_MYSQL").await
}

fn ask<'a>(key: &'a RateKey, rate: &'a RateSpec, deadline: Timestamp) -> PermitAsk<'a> {
    PermitAsk { key, rate, deadline, background: false }
}

/// A permit, however long it takes.
pub async fn permit(gate: &dyn Gate, clock: &RealClock, key: &RateKey, rate: &RateSpec) -> Permit {
    loop {
        match gate.acquire(ask(key, rate, Timestamp::MAX)).await {
            Decision::Allow(permit) => return permit,
            Decision::WaitUntil(until) => clock.sleep_until(until).await,
            Decision::Reject(reason) => panic!("rejected: {reason:?}"),
        }
    }
}

/// The most requests in any window shortened by the slack.
pub fn most_in_a_window(arrivals: &[Timestamp], per: Span) -> usize {
    let inside = |at: usize| {
        let end = arrivals[at].plus(per).minus(SLACK);
        arrivals[at..].iter().take_while(|later| **later < end).count()
    };
    (0..arrivals.len()).map(inside).max().unwrap_or(0)
}

/// Workers over all gates send for a while; when each request arrived.
async fn arrivals(fleet: &Fleet, key: &str, rate: &RateSpec, length: Span) -> Vec<Timestamp> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let end = fleet.clock.now().plus(length);
    let mut workers = Vec::new();
    for gate in &fleet.gates {
        for _ in 0..4 {
            let (gate, clock, rate, log) = (gate.clone(), fleet.clock.clone(), rate.clone(), log.clone());
            let key = RateKey::new(key);
            workers.push(tokio::spawn(async move {
                while clock.now() < end {
                    let permit = permit(&*gate, &clock, &key, &rate).await;
                    log.lock().await.push(clock.now());
                    clock.sleep(Span::from_millis(15)).await;
                    gate.feedback(permit, Signal::Ok).await;
                }
            }));
        }
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let mut arrivals = std::mem::take(&mut *log.lock().await);
    arrivals.sort();
    arrivals
}

async fn no_window_is_above_the_limit(fleet: Fleet) {
    let limit = rate(50, Span::SECOND, 5, 100);
    let length = Span::from_seconds(9);
    let began = fleet.clock.now();
    let arrivals = arrivals(&fleet, "source/key", &limit, length).await;
    let most = most_in_a_window(&arrivals, Span::SECOND);
    let first = arrivals[0].since(began);
    let sending = length.micros() - first.micros();
    let share = arrivals.len() as i64 * 1_000_000 / sending.max(1) * 2;
    println!("{} requests, first after {first}, {share} % of the limit, at most {most} in a second", arrivals.len());
    assert!(most <= 50, "{most} in one window");
    assert!(
        first >= Span::SECOND.plus(Span::from_millis(-1)),
        "a gate that knows nothing waits out one window, not {first}"
    );
    assert!(share >= 50, "only {share} % of the limit was used");
}

async fn a_place_among_the_concurrent_requests_is_handed_on(fleet: Fleet) {
    let limit = rate(1_000, Span::SECOND, 1_000, 2);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = Vec::new();
    for gate in &fleet.gates {
        let (gate, clock, limit) = (gate.clone(), fleet.clock.clone(), limit.clone());
        let (running, most) = (running.clone(), most.clone());
        workers.push(tokio::spawn(async move {
            let key = RateKey::new("narrow");
            for _ in 0..6 {
                let permit = permit(&*gate, &clock, &key, &limit).await;
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                clock.sleep(Span::from_millis(30)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                gate.feedback(permit, Signal::Ok).await;
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?} at once");
}

async fn a_pause_the_source_asks_for_holds_for_everyone(fleet: Fleet) {
    let (key, limit) = (RateKey::new("paused"), rate(20, Span::SECOND, 1, 10));
    let (one, other) = (&fleet.gates[0], &fleet.gates[1]);
    let first = permit(&**one, &fleet.clock, &key, &limit).await;
    let until = fleet.clock.now().plus(Span::from_millis(2_500));
    one.feedback(first, Signal::Throttled { retry_after: Some(until) }).await;
    // What another process drew ahead may still go out.
    fleet.clock.sleep(Span::from_millis(1_100)).await;
    let after = permit(&**other, &fleet.clock, &key, &limit).await;
    assert!(fleet.clock.now() >= until.minus(Span::from_millis(10)), "{} too early", until.since(fleet.clock.now()));
    other.feedback(after, Signal::Ok).await;
    let after = permit(&**one, &fleet.clock, &key, &limit).await;
    one.feedback(after, Signal::Ok).await;
}

async fn what_cannot_be_before_the_deadline_is_rejected(fleet: Fleet) {
    let (key, limit) = (RateKey::new("slow"), rate(1, Span::from_seconds(120), 1, 1));
    let deadline = fleet.clock.now().plus(Span::from_millis(500));
    let gate = &fleet.gates[0];
    // The in-process gate waits a second at most when it begins, then spends its only request of two minutes.
    let mut answer = gate.acquire(ask(&key, &limit, deadline)).await;
    if let Decision::Reject(RejectReason::OverDeadline { free_at }) = &answer {
        assert!(*free_at > deadline);
        return;
    }
    while let Decision::WaitUntil(until) = answer {
        fleet.clock.sleep_until(until).await;
        answer = gate.acquire(ask(&key, &limit, deadline)).await;
    }
    assert!(matches!(answer, Decision::Reject(RejectReason::OverDeadline { .. })), "{answer:?}");
}

/// What a source with a limit of its own has seen: when, and whether it answered.
type Seen = Arc<Mutex<Vec<(Timestamp, bool)>>>;

/// Asks as fast as the gate lets it, at a source that takes `limit` requests in any second.
async fn ask_a_strict_source(fleet: &Fleet, rate: &RateSpec, seen: &Seen, limit: usize, length: Span) {
    let end = fleet.clock.now().plus(length);
    let mut workers = Vec::new();
    for gate in &fleet.gates {
        let (gate, clock, rate, seen) = (gate.clone(), fleet.clock.clone(), rate.clone(), seen.clone());
        workers.push(tokio::spawn(async move {
            let key = RateKey::new("strict");
            while clock.now() < end {
                let permit = permit(&*gate, &clock, &key, &rate).await;
                let now = clock.now();
                let mut log = seen.lock().await;
                let within = log.iter().filter(|(at, good)| *good && now.since(*at) < Span::SECOND).count();
                log.push((now, within < limit));
                drop(log);
                let pause = now.plus(Span::from_millis(200));
                let refused = Signal::Throttled { retry_after: Some(pause) };
                gate.feedback(permit, if within < limit { Signal::Ok } else { refused }).await;
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn a_limit_that_drops_and_returns_is_found(fleet: Fleet) {
    let mut limit = rate(40, Span::SECOND, 1, 100);
    limit.adapt.cool_down = Span::from_millis(250);
    limit.adapt.hold = 8;
    let seen: Seen = Arc::default();
    let mut counts = Vec::new();
    for (taken, length) in [(40, 3), (10, 6), (40, 9)] {
        let began = fleet.clock.now();
        ask_a_strict_source(&fleet, &limit, &seen, taken, Span::from_seconds(length)).await;
        let last = began.plus(Span::from_seconds(length - 2));
        let log = seen.lock().await;
        counts.push(log.iter().filter(|(at, good)| *at >= last && *good).count());
    }
    println!("answers in the last two seconds of each limit: {counts:?}");
    assert!((10..=22).contains(&counts[1]), "{counts:?} where 20 are taken");
    assert!(counts[2] >= 50, "{counts:?} where 80 are taken again");
    let log = seen.lock().await;
    let refused = log.iter().filter(|(_, good)| !*good).count();
    assert!(refused * 5 <= log.len(), "{refused} of {} were refused", log.len());
}

/// Requests let through for HARVEST and for BACKFILL within some seconds, both asking all the time.
async fn a_backfill_takes_its_share_while_a_harvest_waits(fleet: Fleet) {
    let limit = rate(40, Span::SECOND, 1, 100);
    let end = fleet.clock.now().plus(Span::from_seconds(8));
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut workers = Vec::new();
    for (gate, background) in fleet.gates.iter().flat_map(|gate| [(gate, false), (gate, true), (gate, true)]) {
        let (gate, clock, limit, counts) = (gate.clone(), fleet.clock.clone(), limit.clone(), counts.clone());
        workers.push(tokio::spawn(async move {
            let key = RateKey::new("busy");
            while clock.now() < end {
                let wish = PermitAsk { background, ..ask(&key, &limit, Timestamp::MAX) };
                match gate.acquire(wish).await {
                    Decision::Allow(permit) => {
                        counts[usize::from(background)].fetch_add(1, Ordering::SeqCst);
                        gate.feedback(permit, Signal::Ok).await;
                    }
                    Decision::WaitUntil(until) => clock.sleep_until(until).await,
                    Decision::Reject(reason) => panic!("rejected: {reason:?}"),
                }
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let [harvest, backfill] = [&counts[0], &counts[1]].map(|count| count.load(Ordering::SeqCst));
    println!("{harvest} for the harvest, {backfill} for the backfill");
    assert!(backfill > 0 && backfill * 100 <= (harvest + backfill) * 36, "{backfill} beside {harvest}");
}

async fn a_dear_request_takes_several_permits(fleet: Fleet) {
    let limit = RateSpec { cost: 5, ..rate(50, Span::SECOND, 5, 100) };
    let arrivals = arrivals(&fleet, "dear", &limit, Span::from_seconds(4)).await;
    let most = most_in_a_window(&arrivals, Span::SECOND);
    assert!((1..=10).contains(&most), "{most} in one window, each of five permits");
    assert!(arrivals.len() >= 15, "{}", arrivals.len());
}

async fn an_estimate_follows_the_pause_and_spends_nothing(fleet: Fleet) {
    let (key, limit) = (RateKey::new("estimated"), rate(20, Span::SECOND, 1, 3));
    let gate = &fleet.gates[0];
    let first = permit(&**gate, &fleet.clock, &key, &limit).await;
    gate.feedback(first, Signal::Ok).await;
    let whole = gate.estimate(&key, &limit, Span::MINUTE).await;
    assert!((1_180..=1_200).contains(&whole.requests) && whole.concurrency == 3, "{whole:?}");
    let second = permit(&**gate, &fleet.clock, &key, &limit).await;
    let until = fleet.clock.now().plus(Span::from_seconds(90));
    gate.feedback(second, Signal::Throttled { retry_after: Some(until) }).await;
    assert_eq!(gate.estimate(&key, &limit, Span::MINUTE).await.requests, 0);
}

macro_rules! gate_suite {
    ($($gate:ident),*: $behaviours:tt) => { $(gate_suite!(@one $gate $behaviours);)* };
    (@one $gate:ident [$($name:ident),* $(,)?]) => {
        mod $gate {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if let Some(fleet) = super::$gate().await {
                        super::$name(fleet).await;
                    }
                }
            )*
        }
    };
}

gate_suite!(local, redis, sqlite, postgres, mysql: [
    no_window_is_above_the_limit,
    a_place_among_the_concurrent_requests_is_handed_on,
    a_pause_the_source_asks_for_holds_for_everyone,
    what_cannot_be_before_the_deadline_is_rejected,
    a_limit_that_drops_and_returns_is_found,
    a_backfill_takes_its_share_while_a_harvest_waits,
    a_dear_request_takes_several_permits,
    an_estimate_follows_the_pause_and_spends_nothing,
]);
