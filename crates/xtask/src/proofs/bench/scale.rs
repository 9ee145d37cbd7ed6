//! How the throughput grows with the number of executors, against a source that only its latency limits.
//!
//! One run: the fleet begins with one executor and is doubled twice, so that all sizes share the machine, the database
//! and the source. Pages are counted in the ledger.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::proofs::ScaleArgs;
use crate::proofs::torture::fleet::{Fleet, Role};
use crate::proofs::torture::ledger::number;
use crate::proofs::torture::size::Size;
use crate::proofs::torture::world::World;
use crate::servers::{Kind, Servers};

const EXECUTORS: [usize; 3] = [1, 2, 4];
const WORKERS: u32 = 4;
/// Each doubling must bring this much. It holds until a core is full; how full they were is told.
const GROWTH_MIN: f64 = 1.9;
/// New executors have claimed and asked after this.
const WARM_UP: Duration = Duration::from_secs(5);
const PAGES: &str = "SELECT COUNT(*) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'";
const RECORDS: &str = "SELECT COUNT(*) FROM ing_record";
const WAITING: &str = "SELECT COUNT(*) FROM ing_task WHERE status_code = 'QUEUED'";

struct Step {
    executors: usize,
    pages_per_second: f64,
    records_per_second: f64,
    /// The busiest core, as a share of one.
    busiest: f64,
}

pub fn run(args: &ScaleArgs) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut kinds = vec![Kind::Redis];
    kinds.extend(args.backend.server().map(|(kind, _)| kind));
    let servers = Servers::start(&kinds)?;
    let url = |kind: Kind| servers.environment().into_iter().find(|(name, _)| *name == kind.variable());
    let redis = url(Kind::Redis).context("Redis has no address")?.1;
    let database = args.backend.server().and_then(|(kind, _)| url(kind)).map(|(_, url)| url);
    let database = database.unwrap_or_else(|| folder.path().join("scale.db").display().to_string());
    let world = World::start(&size(args), 1, folder.path())?;
    world.apply(&database)?;
    let steps = steps(args, &world, &database, &redis, folder.path())?;
    Ok(told(args, &steps))
}

/// Twice the pages that a fleet without any cost of its own would read.
fn size(args: &ScaleArgs) -> Size {
    let seconds = f64::from(args.seconds) + WARM_UP.as_secs_f64();
    let workers = EXECUTORS.iter().sum::<usize>() as f64 * f64::from(WORKERS);
    let pages = seconds * workers * 1e3 / f64::from(args.latency);
    Size::slow_source(args.latency, (pages * 100.0 * 2.0) as u64)
}

fn steps(args: &ScaleArgs, world: &World, database: &str, redis: &str, folder: &Path) -> Result<Vec<Step>> {
    let mut fleet = Fleet::default();
    let of = |role: Role, more: Vec<String>| {
        let first = [role.name(), "--database", database].map(str::to_owned);
        first.into_iter().chain(more).collect::<Vec<String>>()
    };
    fleet.enlist(Role::Planner, of(Role::Planner, world.trigger()), folder)?;
    wait_for_work(database)?;
    let workers = WORKERS.to_string();
    let mut steps = Vec::new();
    for executors in EXECUTORS {
        for _ in steps.last().map_or(0, |step: &Step| step.executors)..executors {
            let share = ["--workers", &workers, "--partition-max", &workers, "--redis", redis].map(str::to_owned);
            fleet.enlist(Role::Executor, of(Role::Executor, share.to_vec()), folder)?;
        }
        std::thread::sleep(WARM_UP);
        steps.push(step(executors, args, database)?);
        fleet.tend()?;
    }
    ensure!(fleet.fallen.is_empty(), "a process fell: {}", fleet.fallen[0].last_words);
    ensure!(number(database, WAITING)? > 0, "the fleet ran out of work; ask for fewer seconds");
    Ok(steps)
}

fn wait_for_work(database: &str) -> Result<()> {
    let begun = Instant::now();
    while number(database, WAITING)? == 0 {
        ensure!(begun.elapsed() < Duration::from_secs(60), "nothing was planned");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn step(executors: usize, args: &ScaleArgs, database: &str) -> Result<Step> {
    let look = || -> Result<(i64, i64)> { Ok((number(database, PAGES)?, number(database, RECORDS)?)) };
    let (cores, before, begun) = (core_times()?, look()?, Instant::now());
    std::thread::sleep(Duration::from_secs(args.seconds.into()));
    let (cores_then, after, seconds) = (core_times()?, look()?, begun.elapsed().as_secs_f64());
    let busy = cores.iter().zip(&cores_then).map(|(from, to)| (to.0 - from.0) / (to.1 - from.1).max(1.0));
    Ok(Step {
        executors,
        pages_per_second: (after.0 - before.0) as f64 / seconds,
        records_per_second: (after.1 - before.1) as f64 / seconds,
        busiest: busy.fold(0.0, f64::max),
    })
}

/// Busy and whole time of every core so far.
fn core_times() -> Result<Vec<(f64, f64)>> {
    let text = std::fs::read_to_string("/proc/stat").context("how busy the cores are is not known here")?;
    let cores = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    Ok(cores.map(core).collect())
}

fn core(line: &str) -> (f64, f64) {
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    let whole: f64 = ticks.iter().sum();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (whole - idle, whole)
}

fn told(args: &ScaleArgs, steps: &[Step]) -> bool {
    println!("{:?}, {} ms for each answer, {WORKERS} workers each", args.backend, args.latency);
    println!("executors   pages/s   records/s   growth   busiest core");
    let (mut ok, mut rows, mut before) = (true, Vec::<Value>::new(), None::<f64>);
    for step in steps {
        let growth = before.map(|before| step.pages_per_second / before);
        ok &= growth.is_none_or(|growth| growth >= GROWTH_MIN);
        let shown = growth.map_or("-".to_owned(), |growth| format!("{growth:.2}"));
        println!(
            "{:>9} {:>9.1} {:>11.0} {shown:>8} {:>13.0} %",
            step.executors,
            step.pages_per_second,
            step.records_per_second,
            step.busiest * 100.0
        );
        rows.push(json!({ "executors": step.executors, "pages_per_second": step.pages_per_second, "growth": growth, "busiest_core": step.busiest }));
        before = Some(step.pages_per_second);
    }
    println!("at least {GROWTH_MIN} for each doubling: {}", if ok { "ok" } else { "FAILED" });
    println!("{}", json!({ "ok": ok, "backend": args.backend.name(), "latency_ms": args.latency, "steps": rows }));
    ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_disk_is_not_being_busy() {
        assert_eq!(core("cpu0 10 0 5 70 15 0 0 0 0 0"), (15.0, 100.0));
    }
}
