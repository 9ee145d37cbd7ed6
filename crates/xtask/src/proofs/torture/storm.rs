//! The storm: deeds are done when their time has come, and the fleet is kept alive meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::adversary::{Broker, Deed, Redis, Restart};
use super::fleet::Fleet;
use super::ledger::number;
use super::places::Places;
use super::size::{Size, Weather};

const TICK: Duration = Duration::from_millis(20);
const SAY_EVERY: Duration = Duration::from_secs(15);

/// What was really done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Done {
    pub kills: u64,
    pub stops: u64,
    pub database_kills: u64,
    pub database_stops: u64,
    pub redis_kills: u64,
    pub redis_stops: u64,
    pub redis_flushes: u64,
    pub broker_restarts: u64,
    pub broker_kills: u64,
    pub broker_stops: u64,
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// SIGINT and SIGTERM end the proof by the usual way, so that everything that was started is ended.
pub fn watch_signals() {
    std::thread::spawn(|| {
        let waited = crate::proofs::judge::block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            match signal(SignalKind::terminate()) {
                Ok(mut terminate) => tokio::select! {
                    _ = terminate.recv() => {}
                    _ = tokio::signal::ctrl_c() => {}
                },
                Err(_) => drop(tokio::signal::ctrl_c().await),
            }
        });
        if waited.is_ok() {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    });
}

/// Fails once the proof is to end.
pub fn go_on() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Waits a little and keeps the fleet and its servers as they should be.
pub fn tick(fleet: &mut Fleet, places: &mut Places) -> Result<()> {
    go_on()?;
    std::thread::sleep(TICK);
    places.tend()?;
    fleet.tend()
}

pub fn rage(fleet: &mut Fleet, places: &mut Places, deeds: &[(Duration, Deed)], size: &Size) -> Result<Done> {
    let mut done = Done::default();
    let begun = Instant::now();
    let (mut next, mut said) = (0, begun);
    places.set_storm(size.weather == Weather::Storm);
    while begun.elapsed() < size.storm {
        tick(fleet, places)?;
        while let Some((_, deed)) = deeds.get(next).filter(|(at, _)| *at <= begun.elapsed()) {
            act(*deed, fleet, places, &mut done)?;
            next += 1;
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            say(begun.elapsed(), places, &done);
        }
    }
    Ok(done)
}

fn act(deed: Deed, fleet: &mut Fleet, places: &mut Places, done: &mut Done) -> Result<()> {
    match deed {
        Deed::Kill { role, choice, again_after } => done.kills += u64::from(fleet.kill(role, choice, again_after)?),
        Deed::Stop { role, choice, span } => done.stops += u64::from(fleet.stop(role, choice, span)?),
        Deed::Database(how) => {
            places.restart_database(how)?;
            *if how == Restart::Kill { &mut done.database_kills } else { &mut done.database_stops } += 1;
        }
        Deed::Redis(how) => {
            places.trouble_redis(how)?;
            *match how {
                Redis::Kill => &mut done.redis_kills,
                Redis::Stop(_) => &mut done.redis_stops,
                Redis::Flush => &mut done.redis_flushes,
            } += 1;
        }
        Deed::Broker(how) => {
            places.trouble_broker(how)?;
            *match how {
                Broker::Restart => &mut done.broker_restarts,
                Broker::Kill => &mut done.broker_kills,
                Broker::Stop(_) => &mut done.broker_stops,
            } += 1;
        }
    }
    Ok(())
}

/// One line for whoever watches; a database that is away has nothing to say.
fn say(elapsed: Duration, places: &Places, done: &Done) {
    let ledger = places.ledger();
    let count = |text| number(&ledger, text).map_or("?".to_owned(), |count| count.to_string());
    println!(
        "{:>5.0} s  pages {}  records {}  open tasks {}  kills {}  stops {}  cut commits {}",
        elapsed.as_secs_f64(),
        count("SELECT COUNT(*) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'"),
        count("SELECT COUNT(*) FROM ing_record"),
        count("SELECT COUNT(*) FROM ing_task WHERE status_code IN ('QUEUED', 'RUNNING')"),
        done.kills,
        done.stops,
        places.proxy().map_or(0, |proxy| proxy.tally.unknown()),
    );
}
