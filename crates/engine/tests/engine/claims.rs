//! What a process takes, and what it leaves to others.

use std::sync::Arc;

use patra_core::ports::{Intervention, Ledger, Noun, SourceOrder};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{RateSpec, RateWindow};
use patra_core::time::Span;
use patra_engine::settings::Settings;
use patra_sim::vtime::{Scheduler, Turn};

use crate::bench::{Bench, numbers, spec};

fn running(bench: &Bench) -> usize {
    bench.rows(Noun::Task).iter().filter(|row| row["status_code"] == "RUNNING").count()
}

#[test]
fn a_source_that_refuses_us_is_asked_once_and_then_left_alone() {
    let bench = Bench::open();
    let spec = spec(|spec| spec.window.slice = Span::HOUR);
    bench.plan(&spec, 6).unwrap();
    let refused = || FetchError::Status { status: 401, message: "no such key".into(), retry_after: None };
    let shelf = Arc::new(bench.shelf(6, Span::HOUR).twisted(move |_, _| Err(refused())));
    bench.work(shelf.clone());
    assert_eq!(shelf.asked().len(), 1);
    let states = bench.states();
    assert_eq!(states.iter().filter(|state| *state == "FAILED").count(), 1, "{states:?}");
    assert_eq!(bench.rows(Noun::Task).iter().filter(|row| row["status_code"] == "QUEUED").count(), 5);
    let act = Intervention { actor: "ann".into(), reason: "a new key".into() };
    let order = SourceOrder { provenance: spec.provenance.clone(), endpoint: None, pause: false, act };
    assert_eq!(bench.runtime.block_on(bench.store.order_source(&order)), Ok(true));
    bench.work(Arc::new(bench.shelf(6, Span::HOUR)));
    assert_eq!(bench.record_ids().len(), 5, "the window that failed is owed to the next plan");
    bench.harvest(&spec, 6, Arc::new(bench.shelf(6, Span::HOUR)));
    assert_eq!(bench.record_ids(), numbers(6));
}

#[test]
fn no_task_is_taken_only_to_wait_at_the_gate() {
    let bench = Bench::open();
    let slow = spec(|spec| {
        let windows = vec![RateWindow { requests: 1, per: Span::from_seconds(10) }];
        spec.rate = RateSpec { windows, burst: 1, concurrency: 8, ..spec.rate.clone() };
        spec.window.slice = Span::HOUR;
    });
    bench.plan(&slow, 6).unwrap();
    let executor = bench.executor(Arc::new(bench.shelf(6, Span::HOUR)), Settings::default());
    let mut scheduler = Scheduler::new(bench.time.clone(), 1);
    for worker in ["first", "second", "third", "fourth"] {
        let executor = executor.clone();
        scheduler.spawn(async move { executor.drain(worker).await.unwrap() });
        // Each has looked round before the next one begins.
        while scheduler.turn() != Turn::Advanced {}
    }
    let mut most = 0;
    while scheduler.turn() != Turn::Idle {
        most = most.max(running(&bench));
    }
    assert_eq!(most, 1, "the others would wait behind it");
    assert_eq!(bench.record_ids(), numbers(6));
}
