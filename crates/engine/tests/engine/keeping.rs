//! Chores of a process: its id slot and the reconciler.

use std::sync::Arc;

use patra_core::plan::build;
use patra_core::ports::{Inspect, Intervention, Ledger, LedgerError, NewWaiver, Noun, Walk};
use patra_core::spec::errors::FetchError;
use patra_core::time::Span;
use patra_core::window::Window;
use patra_engine::settings::Settings;
use patra_engine::slot::SlotKeeper;
use patra_sim::vtime::{Scheduler, Turn};
use patra_store::worker_name;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, ORIGIN, spec};

#[test]
fn a_long_run_keeps_its_slot() {
    let bench = Bench::open();
    bench.plan(&spec(|_| {}), 24).unwrap();
    let (clock, back) = (bench.clock(), bench.clock().now().plus(Span::HOUR.times(5)));
    let shelf = bench.shelf(3, Span::MINUTE).twisted(move |_, page| match clock.now() < back {
        true => Err(FetchError::Status { status: 429, message: "later".into(), retry_after: Some(back) }),
        false => Ok(page),
    });
    // Five hours of waiting inside one task.
    let patient =
        Settings { park_after: Span::DAY, progress_limit: Span::DAY, gate_deadline: Span::DAY, ..Settings::default() };
    let executor = bench.executor(Arc::new(shelf), patient);
    let mut scheduler = Scheduler::new(bench.time.clone(), 1);
    scheduler.spawn(async move { executor.drain("w").await.unwrap() });
    // Half way through, hours after the slot was leased for ten minutes, another process looks for a slot.
    let half = bench.clock().now().plus(Span::HOUR.times(2));
    while bench.clock().now() < half {
        assert_ne!(scheduler.turn(), Turn::Idle);
    }
    let other = bench.runtime.block_on(bench.store.lease_worker_slot("other", Span::MINUTE)).unwrap();
    assert_ne!(other, bench.store.ids().slot());
    let row = bench.runtime.block_on(bench.store.renew_worker_slot(&worker_name("patra", 7), 0, Span::MINUTE));
    assert_eq!(row, Ok(()));
    scheduler.run();
    assert_eq!(bench.states(), ["SUCCEEDED"]);
}

fn keeper(bench: &Bench) -> Arc<SlotKeeper> {
    Arc::new(SlotKeeper {
        ledger: bench.ledger.clone(),
        clock: bench.clock(),
        ids: bench.store.ids(),
        owner: worker_name("patra", 7),
        ttl: Span::MINUTE.times(10),
        stop: CancellationToken::new(),
    })
}

#[test]
fn a_process_without_workers_keeps_its_slot_until_it_is_stopped() {
    let bench = Bench::open();
    let (keeper, kept) = (keeper(&bench), keeper(&bench));
    let stop = kept.stop.clone();
    let mut scheduler = Scheduler::new(bench.time.clone(), 1);
    scheduler.spawn(async move { kept.run().await.unwrap() });
    let later = bench.clock().now().plus(Span::HOUR.times(3));
    while bench.clock().now() < later {
        assert_ne!(scheduler.turn(), Turn::Idle);
    }
    let other = bench.runtime.block_on(bench.store.lease_worker_slot("other", Span::MINUTE)).unwrap();
    assert_ne!(other, keeper.ids.slot());
    stop.cancel();
    scheduler.run();
}

#[test]
fn a_process_that_lost_its_slot_stops_and_writes_nothing_more() {
    let bench = Bench::open();
    let plain = spec(|_| {});
    bench.plan(&plain, 24).unwrap();
    let executor = bench.executor(Arc::new(bench.shelf(3, Span::MINUTE)), Settings::default());
    // All other slots are in use, and ours has run out: the next process takes it.
    bench.time.jump(Span::HOUR);
    let taken = (0..patra_core::id::SLOTS).map(|number| format!("other-{number}"));
    let day = Span::DAY;
    let slots: Vec<u16> =
        taken.map(|name| bench.runtime.block_on(bench.store.lease_worker_slot(&name, day)).unwrap()).collect();
    assert!(slots.contains(&bench.store.ids().slot()));
    let ended = Arc::new(std::sync::Mutex::new(None));
    let told = ended.clone();
    let mut scheduler = Scheduler::new(bench.time.clone(), 1);
    scheduler.spawn(async move { *told.lock().unwrap() = Some(executor.drain("w").await) });
    scheduler.run();
    let slot = bench.store.ids().slot();
    assert_eq!(*ended.lock().unwrap(), Some(Err(LedgerError::SlotLost { slot })));
    // Reading is refused as well: this process is to be started again.
    assert!(bench.runtime.block_on(bench.store.summary()).is_err());
}

#[test]
fn the_reconciler_moves_a_watermark_that_was_left_behind() {
    let bench = Bench::open();
    let plain = spec(|spec| spec.window.slice = Span::HOUR);
    let denied = || FetchError::Status { status: 403, message: "no".into(), retry_after: None };
    bench.plan(&plain, 3).unwrap();
    let first_denied = bench.shelf(3, Span::HOUR).twisted(move |ask, page| match ask.window.from() == ORIGIN {
        true => Err(denied()),
        false => Ok(page),
    });
    bench.work(Arc::new(first_denied));
    assert_eq!(bench.watermark(&plain), None);
    // A waiver whose walk looked elsewhere: the coverage is there, and nobody has noticed.
    let waiver = NewWaiver {
        id: bench.store.ids().next(),
        walk: Walk {
            namespace: build::namespace_of(&plain),
            origin: ORIGIN.plus(Span::DAY),
            settling_lag: plain.window.safety_lag,
            shares: Vec::new(),
        },
        window: Window::new(ORIGIN, ORIGIN.plus(Span::HOUR)).unwrap(),
        act: Intervention { actor: "ann".into(), reason: "gone".into() },
    };
    assert_eq!(bench.runtime.block_on(bench.store.waive(waiver)), Ok(None));
    // The next task proves nothing either, but it takes a while.
    bench.plan(&plain, 4).unwrap().expect("an hour more");
    let (clock, back) = (bench.clock(), bench.clock().now().plus(Span::MINUTE.times(5)));
    let waiting = bench.shelf(4, Span::HOUR).twisted(move |_, _| match clock.now() < back {
        true => Err(FetchError::Status { status: 429, message: "later".into(), retry_after: Some(back) }),
        false => Err(denied()),
    });
    bench.work(Arc::new(waiting));
    assert_eq!(bench.watermark(&plain), Some(ORIGIN.plus(Span::HOUR.times(3))));
    let events = bench.rows(Noun::CursorEvent);
    assert_eq!((events.len(), events[0]["cause_code"].as_str()), (1, Some("WAIVED")));
}
