//! How well a fleet keeps to a limit it knows, and how soon it finds one that has changed without a word.
//!
//! The simulator counts to the request. First it takes exactly what the definition says; then only a fifth of it, and then
//! all of it again, and only its refusals tell. What was used and refused is read from its own request log.
//!
//! ```text
//! 0 s ....... 10 s ......................... + minutes ........... + 60 s ........... + 45 s
//!   not judged |  all of the limit is judged  |  a fifth is taken  |  all of it again   |
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use patra_checker::{ServedRow, read_jsonl};
use serde_json::json;

use crate::proofs::RateArgs;
use crate::proofs::kill::folder;
use crate::proofs::torture::fleet::{Fleet, Role};
use crate::proofs::torture::ledger::number;
use crate::proofs::torture::size::Size;
use crate::proofs::torture::world::World;
use crate::servers::{Kind, Servers};

const LIMIT: u32 = 50;
const LOWERED: u32 = 10;
const EXECUTORS: usize = 4;
const WORKERS: &str = "4";
const WARM_UP: Duration = Duration::from_secs(10);
const LOWERED_FOR: Duration = Duration::from_secs(60);
const RAISED_FOR: Duration = Duration::from_secs(45);
/// Nobody is asked before work is planned and claimed.
const BEGINS_WITHIN: Duration = Duration::from_secs(90);
/// Wanted: share of the allowed requests that were made, share of refused ones, seconds until near a new limit.
const USED_LEAST: f64 = 0.97;
const REFUSED_MOST: f64 = 0.002;
const NEAR_WITHIN_S: f64 = 30.0;
/// Near a limit: so much of it was used in so many seconds in a row, and nothing was refused.
const NEAR_SHARE: f64 = 0.9;
const NEAR_FOR_US: i64 = 5_000_000;
const STEP_US: i64 = 250_000;
const WAITING: &str = "SELECT COUNT(*) FROM ing_task WHERE status_code IN ('QUEUED', 'RUNNING')";

/// One request: when, and whether it was answered.
type Request = (i64, bool);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    requests: usize,
    used: f64,
    refused: f64,
    /// Seconds until near the lowered and the raised limit.
    down_s: Option<f64>,
    up_s: Option<f64>,
}

pub fn run(args: &RateArgs) -> Result<bool> {
    let (folder, _guard) = folder(args.keep.as_deref())?;
    std::fs::create_dir_all(&folder)?;
    let mut kinds = vec![Kind::Redis];
    kinds.extend(args.backend.server().map(|(kind, _)| kind));
    let servers = Servers::start(&kinds)?;
    let url = |kind: Kind| servers.environment().into_iter().find(|(name, _)| *name == kind.variable());
    let redis = url(Kind::Redis).context("Redis has no address")?.1;
    let database = args.backend.server().and_then(|(kind, _)| url(kind)).map(|(_, url)| url);
    let database = database.unwrap_or_else(|| folder.join("rate.db").display().to_string());
    let steady = Duration::from_secs_f64(args.minutes * 60.0);
    let changes = [WARM_UP + steady, WARM_UP + steady + LOWERED_FOR];
    let size = Size::limited(whole(steady), LIMIT, &[(changes[0], LOWERED), (changes[1], LIMIT)]);
    let world = World::start(&size, 1, &folder)?;
    world.apply(&database)?;
    work(&world, &database, &redis, &folder, whole(steady))?;
    let mut requests = requests(&world.end()?)?;
    requests.sort_unstable();
    Ok(told(args, &figures(&requests, changes)?))
}

fn whole(steady: Duration) -> Duration {
    WARM_UP + steady + LOWERED_FOR + RAISED_FOR
}

/// Lets the fleet work for so long after its first page.
fn work(world: &World, database: &str, redis: &str, folder: &Path, length: Duration) -> Result<()> {
    let mut fleet = Fleet::default();
    let of = |role: Role, more: Vec<String>| {
        let first = [role.name(), "--database", database].map(str::to_owned);
        first.into_iter().chain(more).collect::<Vec<String>>()
    };
    fleet.enlist(Role::Planner, of(Role::Planner, world.trigger()), folder)?;
    for _ in 0..EXECUTORS {
        let share = ["--workers", WORKERS, "--partition-max", WORKERS, "--redis", redis].map(str::to_owned);
        fleet.enlist(Role::Executor, of(Role::Executor, share.to_vec()), folder)?;
    }
    wait_for_work(database)?;
    std::thread::sleep(length + Duration::from_secs(2));
    fleet.tend()?;
    ensure!(fleet.fallen.is_empty(), "a process fell: {}", fleet.fallen[0].last_words);
    ensure!(number(database, WAITING)? > 0, "the fleet ran out of work");
    Ok(())
}

fn wait_for_work(database: &str) -> Result<()> {
    const PAGES: &str = "SELECT COUNT(*) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'";
    let begun = Instant::now();
    while number(database, PAGES)? == 0 {
        ensure!(begun.elapsed() < BEGINS_WITHIN, "no page was read within {} s", BEGINS_WITHIN.as_secs());
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn requests(kept: &Path) -> Result<Vec<Request>> {
    let served: Vec<ServedRow> = read_jsonl(&kept.join("served.jsonl"))?;
    Ok(served.iter().map(|row| (row.at_us, row.status != 429)).collect())
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// The simulator counts its changes from the first request, and so do we.
fn figures(requests: &[Request], changes: [Duration; 2]) -> Result<Figures> {
    let first = requests.first().context("the simulator was never asked")?.0;
    let [down, up] = changes.map(|change| first + micros(change));
    let from = first + micros(WARM_UP);
    let inside: Vec<&Request> = requests.iter().filter(|(at, _)| (from..down).contains(at)).collect();
    let good = inside.iter().filter(|(_, good)| *good).count();
    let allowed = f64::from(LIMIT) * (down - from) as f64 / 1e6;
    Ok(Figures {
        requests: inside.len(),
        used: good as f64 / allowed,
        refused: (inside.len() - good) as f64 / inside.len().max(1) as f64,
        down_s: near(requests, (down, up), LOWERED),
        up_s: near(requests, (up, up + micros(RAISED_FOR)), LIMIT),
    })
}

/// Seconds from a change until the end of the first stretch that is near the limit.
fn near(requests: &[Request], (from, to): (i64, i64), limit: u32) -> Option<f64> {
    let wanted = f64::from(limit) * NEAR_FOR_US as f64 / 1e6 * NEAR_SHARE;
    let is_near = |end: &i64| {
        let stretch = requests.iter().filter(|(at, _)| (end - NEAR_FOR_US..*end).contains(at));
        let (good, refused): (Vec<&Request>, Vec<&Request>) = stretch.partition(|(_, good)| *good);
        refused.is_empty() && good.len() as f64 >= wanted
    };
    let mut ends = (0..).map(|step| from + NEAR_FOR_US + step * STEP_US).take_while(|end| *end <= to);
    ends.find(is_near).map(|end| (end - from) as f64 / 1e6)
}

fn told(args: &RateArgs, figures: &Figures) -> bool {
    let shown = |seconds: Option<f64>| seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.1} s"));
    let within = |seconds: Option<f64>| seconds.is_some_and(|seconds| seconds <= NEAR_WITHIN_S);
    let lines = [
        ("allowed requests that were made", format!("{:.2} %", figures.used * 100.0), figures.used >= USED_LEAST),
        ("refused with 429", format!("{:.3} %", figures.refused * 100.0), figures.refused <= REFUSED_MOST),
        ("near 10/s after the drop", shown(figures.down_s), within(figures.down_s)),
        ("near 50/s after the return", shown(figures.up_s), within(figures.up_s)),
    ];
    println!("{:?}, {EXECUTORS} executors, {} requests in {} min", args.backend, figures.requests, args.minutes);
    for (what, figure, ok) in &lines {
        println!("{what:<32} {figure:>10}  {}", if *ok { "ok" } else { "MISSED" });
    }
    let ok = lines.iter().all(|(_, _, ok)| *ok);
    println!(
        "{}",
        json!({
            "ok": ok, "backend": args.backend.name(), "minutes": args.minutes, "requests": figures.requests,
            "used": figures.used, "refused": figures.refused, "down_s": figures.down_s, "up_s": figures.up_s,
        })
    );
    ok
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evenly(from_s: i64, to_s: i64, per_second: i64) -> Vec<Request> {
        (0..(to_s - from_s) * per_second)
            .map(|number| (from_s * 1_000_000 + number * 1_000_000 / per_second, true))
            .collect()
    }

    #[test]
    fn near_needs_five_seconds_of_nine_tenths_without_a_refusal() {
        let mut requests = evenly(0, 8, 8);
        requests.extend(evenly(8, 30, 10));
        assert_eq!(near(&requests, (0, 60_000_000), 10), Some(10.25));
        requests.push((9_000_000, false));
        assert_eq!(near(&requests, (0, 60_000_000), 10), Some(14.25));
        assert_eq!(near(&evenly(0, 30, 8), (0, 30_000_000), 10), None);
    }

    #[test]
    fn the_share_is_of_what_was_allowed_after_the_warm_up() {
        let mut requests = evenly(0, 70, 49);
        requests.push((20_000_000, false));
        requests.sort_unstable();
        let told = figures(&requests, [Duration::from_secs(70), Duration::from_secs(130)]).unwrap();
        assert_eq!(told.used, 0.98);
        assert!((told.refused - 1.0 / 2_941.0).abs() < 1e-9);
    }
}
