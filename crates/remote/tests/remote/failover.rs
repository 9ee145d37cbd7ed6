//! FM-8 and INV-49: Redis is killed, stopped and emptied while several processes send at 50 requests per second.

use std::sync::Arc;

use patra_core::ports::{Clock, Gate, GateModes, GatePlace, RateKey, Signal};
use patra_core::time::{Span, Timestamp};
use patra_store::Store;
use tokio::sync::Mutex;

use crate::gates::{most_in_a_window, on_rows, permit, rate};
use crate::support::{RealClock, Server, store, with_tls};

const LIMIT: u32 = 50;

struct Run {
    clock: Arc<RealClock>,
    store: Arc<Store>,
    log: Arc<Mutex<Vec<Timestamp>>>,
    workers: Vec<tokio::task::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

async fn begin(server: &Server) -> Run {
    with_tls();
    let (clock, folder) = (RealClock::start(), tempfile::tempdir().unwrap());
    let first = store(folder.path(), &clock, 9).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut workers = Vec::new();
    for seed in 1..=4 {
        let gate = on_rows(&store(folder.path(), &clock, seed).await, Some(server), &clock);
        for _ in 0..4 {
            workers.push(tokio::spawn(send(gate.clone(), clock.clone(), log.clone())));
        }
    }
    Run { clock, store: first, log, workers, _folder: folder }
}

async fn send(gate: Arc<dyn Gate>, clock: Arc<RealClock>, log: Arc<Mutex<Vec<Timestamp>>>) {
    let (key, limit) = (RateKey::new("crossref/plus"), rate(LIMIT, Span::SECOND, 5, 100));
    loop {
        let permit = permit(&*gate, &clock, &key, &limit).await;
        log.lock().await.push(clock.now());
        clock.sleep(Span::from_millis(20)).await;
        gate.feedback(permit, Signal::Ok).await;
    }
}

impl Run {
    async fn sent(&self) -> usize {
        self.log.lock().await.len()
    }

    /// Waits until limits are kept there and requests go out again; how long it took.
    async fn goes_on_in(&self, place: GatePlace) -> Span {
        let began = self.clock.now();
        while self.store.mode().await.unwrap().place != place {
            assert!(self.clock.now().since(began) < Span::from_seconds(40), "limits never came to {place:?}");
            self.clock.sleep(Span::from_millis(50)).await;
        }
        let before = self.sent().await;
        while self.sent().await < before + 60 {
            assert!(self.clock.now().since(began) < Span::from_seconds(60), "nothing is sent from {place:?}");
            self.clock.sleep(Span::from_millis(50)).await;
        }
        self.clock.now().since(began)
    }

    async fn judge(self, what: &str) {
        self.workers.iter().for_each(|worker| worker.abort());
        let mut arrivals = std::mem::take(&mut *self.log.lock().await);
        arrivals.sort();
        let most = most_in_a_window(&arrivals, Span::SECOND);
        println!("{what}: {} requests, at most {most} in a second", arrivals.len());
        assert!(most <= LIMIT as usize, "{most} requests in one second");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_and_restarted_empty_breaks_no_window() {
    let Some(mut server) = Server::redis().await else { return };
    let run = begin(&server).await;
    run.goes_on_in(GatePlace::Redis).await;
    server.kill();
    let down = run.goes_on_in(GatePlace::Database).await;
    server.restart().await;
    let back = run.goes_on_in(GatePlace::Redis).await;
    println!("goes on in the database after {down}, in Redis after {back}");
    run.judge("killed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stopped_and_continued_breaks_no_window() {
    let Some(server) = Server::redis().await else { return };
    let run = begin(&server).await;
    run.goes_on_in(GatePlace::Redis).await;
    server.signal("STOP");
    run.goes_on_in(GatePlace::Database).await;
    server.signal("CONT");
    run.goes_on_in(GatePlace::Redis).await;
    run.judge("stopped").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_emptied_breaks_no_window() {
    let Some(server) = Server::redis().await else { return };
    let run = begin(&server).await;
    run.goes_on_in(GatePlace::Redis).await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.unwrap();
    run.goes_on_in(GatePlace::Redis).await;
    let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
    run.goes_on_in(GatePlace::Database).await;
    run.goes_on_in(GatePlace::Redis).await;
    run.judge("emptied").await;
}
