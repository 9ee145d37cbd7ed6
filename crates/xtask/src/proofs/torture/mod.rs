//! Torture: a whole fleet of real processes is killed, stopped and cut off from its servers for minutes, then left in
//! peace; what it has made must be equal to the truth (FM-3 to FM-6, FM-8, FM-9, FM-16).
//!
//! ```text
//! world, servers, fleet --> storm (deeds of the adversary, faults of the proxy) --> quiet --> judge --> report
//! ```
//! Everything that was started here ends with this program, however it ends.

mod adversary;
mod arrivals;
mod faults;
pub mod fleet;
mod holders;
pub mod ledger;
pub mod logs;
mod places;
mod proxy;
pub mod quiet;
pub mod report;
pub mod size;
pub mod storm;
mod stream;
pub mod world;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use patra_checker::{CheckInput, Database, OVERLAP_US, Severity, Verdict, read_jsonl};

use self::adversary::deeds;
use self::arrivals::Arrivals;
use self::fleet::{Binaries, Fleet, Role};
use self::places::Places;
use self::report::Report;
use self::size::{LEASE, Size};
use self::world::World;
use super::judge::{block_on, doubled, now_us};
use super::kill::folder;
use super::{Backend, FleetArgs};

/// Tasks that one process runs at a time.
const WORKERS: &str = "2";
/// How often each planner looks at every source.
const PLAN_EVERY: &str = "PT3S";
/// The fleet works this long before the storm begins.
const WARM_UP: Duration = Duration::from_secs(3);

pub fn run(args: &FleetArgs, backend: Backend) -> Result<bool> {
    shown(args, backend, &Size::full(args.minutes))
}

/// Only Redis is troubled, and the limit of the source is judged to the request (FM-8).
pub fn run_redis(args: &FleetArgs, backend: Backend) -> Result<bool> {
    shown(args, backend, &Size::redis(args.minutes))
}

fn shown(args: &FleetArgs, backend: Backend, size: &Size) -> Result<bool> {
    storm::watch_signals();
    let (folder, _guard) = folder(args.keep.as_deref())?;
    let binaries = Binaries { previous: args.previous.clone() };
    let report = tortured(backend, size, args.seed, &binaries, &folder)?;
    println!("{}", report.table());
    println!("{}", report.json());
    Ok(report.ok())
}

/// The whole proof, in a folder that keeps what it leaves behind.
fn tortured(backend: Backend, size: &Size, seed: u64, binaries: &Binaries, folder: &Path) -> Result<Report> {
    let begun = Instant::now();
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs)?;
    let mut places = Places::start(backend, seed)?;
    let world = World::start(size, seed, folder)?;
    world.apply(&places.ledger())?;
    let mut fleet = enlisted(size, &places, &world, binaries, &logs)?;
    println!("{} processes on {}, {} records", fleet.starts, backend.name(), size.records);
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        storm::tick(&mut fleet, &mut places)?;
    }
    let from_us = now_us();
    let done = storm::rage(&mut fleet, &mut places, &deeds(seed, size, backend), size)?;
    let storm_us = (from_us, now_us());
    println!("the storm is over; the fleet finishes its work");
    let rested = quiet::rest(&mut fleet, &mut places, &world)?;
    let copy = folder.join("ledger.db");
    ledger::copy(&places.ledger(), &copy)?;
    let streamed = stream::streamed(&places.broker(), &copy)?;
    let overlap_us = if places.proxy().is_some() { OVERLAP_US } else { 0 };
    let (verdict, arrivals) = verdict(&copy, world, &places.ledger(), overlap_us, storm_us)?;
    std::fs::write(folder.join("strikes.json"), serde_json::to_vec(&fleet.strikes)?)?;
    let holders = holders::holders(&copy, &fleet.strikes, &places.away)?;
    Ok(Report {
        backend,
        seed,
        size: size.clone(),
        proxied: report::Proxied::of(places.proxy()),
        done,
        rested,
        double_commits: doubled(&copy)?,
        streamed,
        verdict,
        arrivals,
        holders,
        said: logs::said(&logs)?,
        fallen: fleet.fallen.clone(),
        starts: fleet.starts,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn enlisted(size: &Size, places: &Places, world: &World, binaries: &Binaries, logs: &Path) -> Result<Fleet> {
    let mut fleet = Fleet::of(binaries.clone());
    let of = |role: Role, more: &[&str]| -> Vec<String> {
        let database = places.ledger_of_the_fleet();
        let args = [role.name(), "-v", "--database", database.as_str()];
        args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
    };
    for _ in 0..size.planners {
        let mut args = of(Role::Planner, &["--every", PLAN_EVERY]);
        args.extend(world.trigger());
        fleet.enlist(Role::Planner, args, logs)?;
    }
    let (redis, lease) = (places.redis(), LEASE.as_secs().to_string());
    for _ in 0..size.executors {
        // A lost task may go to any free worker, also of a process that works for its source already.
        let share = ["--workers", WORKERS, "--partition-max", WORKERS];
        let args = of(Role::Executor, &[&share[..], &["--lease", &lease, "--redis", &redis]].concat());
        fleet.enlist(Role::Executor, args, logs)?;
    }
    for _ in 0..size.relays {
        let args = of(Role::Relay, &["--lease", &lease, "--nats", &places.broker()]);
        fleet.enlist(Role::Relay, args, logs)?;
    }
    Ok(fleet)
}

/// What the checker says of the copy, and what the request log says of the limits. The simulators end first, because
/// they write their truth then.
pub fn verdict(
    copy: &Path,
    world: World,
    ledger: &str,
    overlap_us: i64,
    storm_us: (i64, i64),
) -> Result<(Verdict, Arrivals)> {
    let rules = world.rules(ledger)?;
    let kept = world.end()?;
    let mut input = CheckInput::new(Database::Path(copy.to_owned()));
    input.truth = read_jsonl(&kept.join("truth.jsonl"))?;
    input.served = read_jsonl(&kept.join("served.jsonl"))?;
    input.rules = rules;
    input.end_us = Some(now_us());
    input.overlap_us = overlap_us;
    let verdict = block_on(patra_checker::check(&input))?;
    for finding in verdict.findings.iter().filter(|finding| finding.severity == Severity::Error) {
        println!("{} {}: {}", finding.check, finding.source, finding.message);
    }
    Ok((verdict, Arrivals::of(&input.rules, &input.served, storm_us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives(backend: Backend) {
        let variable = backend.server().map(|(kind, _)| kind.variable());
        let wanted = variable.unwrap_or("PATRA_TEST_NATS");
        if std::env::var_os(wanted).is_none() {
            println!("skipped: {wanted} is not set, so there may be no servers here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let report = tortured(backend, &Size::short(), 1, &Binaries::default(), folder.path()).unwrap();
        println!("{}", report.table());
        assert!(report.ok(), "{}", report.json());
    }

    #[test]
    fn a_fleet_on_sqlite_survives_a_short_storm() {
        survives(Backend::Sqlite);
    }

    #[test]
    fn a_fleet_on_postgres_survives_a_short_storm() {
        survives(Backend::Postgres);
    }

    #[test]
    fn a_fleet_on_mariadb_survives_a_short_storm() {
        survives(Backend::Mariadb);
    }
}
