//! After the storm: everything is well again, the fleet finishes what is planned, the rest that is owed is harvested,
//! and every change is told.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;

use super::fleet::{Fleet, Role};
use super::ledger::number;
use super::places::Places;
use super::storm::tick;
use super::world::World;
use crate::proofs::rig::patra;

pub const OPEN_TASKS: &str = "SELECT COUNT(*) FROM ing_task WHERE status_code IN ('QUEUED', 'RUNNING')";
pub const PAGES: &str = "SELECT COUNT(*) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'";
const WAITING: &str = "SELECT COUNT(*) FROM ing_outbox WHERE status_code = 'PENDING'";
const PARKED: &str = "SELECT COUNT(*) FROM ing_outbox WHERE status_code = 'PARKED'";
/// A fleet in which nothing moves for this long stands still. Tasks of a source that was out come back after up to
/// five minutes, the shard of a dead relay after one.
const STANDSTILL: Duration = Duration::from_secs(330);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const HARVESTS_MAX: u32 = 6;
pub const GOODBYE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, Serialize)]
pub struct Rested {
    /// From the end of the storm until no task was open.
    pub settled_s: f64,
    /// Harvests that were needed for what the fleet had left owed.
    pub harvests: u32,
    /// All that was owed was read.
    pub complete: bool,
    pub relays_drained_s: f64,
    pub parked: i64,
    /// Events that the broker had acknowledged and lost; sent again.
    pub lost_by_broker: u64,
    /// The slowest goodbye after SIGTERM; none when one had to be killed.
    pub goodbye_s: Option<f64>,
}

pub fn rest(fleet: &mut Fleet, places: &mut Places, world: &World) -> Result<Rested> {
    let begun = Instant::now();
    places.heal()?;
    fleet.wake_all()?;
    let planners = fleet.retire(Role::Planner, GOODBYE_MAX)?;
    let ledger = places.ledger();
    wait_until_none(&ledger, OPEN_TASKS, Some(PAGES), &mut || tick(fleet, places))?;
    let mut rested = Rested { settled_s: begun.elapsed().as_secs_f64(), ..Rested::default() };
    let executors = fleet.retire(Role::Executor, GOODBYE_MAX)?;
    (rested.harvests, rested.complete) = harvest_the_rest(&ledger, world)?;
    let drained = Instant::now();
    wait_until_none(&ledger, WAITING, None, &mut || tick(fleet, places))?;
    rested.lost_by_broker = reconcile(places)?;
    wait_until_none(&ledger, WAITING, None, &mut || tick(fleet, places))?;
    rested.relays_drained_s = drained.elapsed().as_secs_f64();
    rested.parked = number(&ledger, PARKED)?;
    let relays = fleet.retire(Role::Relay, GOODBYE_MAX)?;
    let goodbyes: Option<Vec<Duration>> = [planners, executors, relays].into_iter().collect();
    rested.goodbye_s = goodbyes.and_then(|all| all.into_iter().max()).map(|slowest| slowest.as_secs_f64());
    Ok(rested)
}

/// Waits until there is none left; as long as their number or another one changes, all is well.
pub fn wait_until_none(
    ledger: &str,
    text: &'static str,
    progress: Option<&'static str>,
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let (mut seen, mut moved_at, mut looked_at) = ((0, 0), Instant::now(), None::<Instant>);
    loop {
        tick()?;
        if looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            continue;
        }
        looked_at = Some(Instant::now());
        let left = number(ledger, text)?;
        if left == 0 {
            return Ok(());
        }
        let now = (left, progress.map_or(Ok(0), |progress| number(ledger, progress))?);
        if now != seen {
            (seen, moved_at) = (now, Instant::now());
        }
        ensure!(moved_at.elapsed() < STANDSTILL, "the fleet stands still: {left} left of {text}");
    }
}

/// Slices that ended without proof, and what has become due since, are owed to the next plan.
pub fn harvest_the_rest(ledger: &str, world: &World) -> Result<(u32, bool)> {
    let mut harvests = 0;
    for source in world.sources {
        let harvest = world.harvest(source, ledger);
        let mut complete = false;
        for _ in 0..HARVESTS_MAX {
            harvests += 1;
            let output = harvest.command()?.output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let report: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{source}: {said}"))?;
            complete = report["complete"] == true;
            if complete {
                break;
            }
        }
        if !complete {
            return Ok((harvests, false));
        }
    }
    Ok((harvests, true))
}

/// Compares outbox and stream as an operator would; what the broker has lost is sent again.
fn reconcile(places: &Places) -> Result<u64> {
    let mut command = std::process::Command::new(patra()?);
    command.args(["outbox", "reconcile", "--republish", "--json", "--nats", &places.broker()]);
    let output = command.args(["--database", &places.ledger()]).output()?;
    if !output.status.success() {
        bail!("the outbox was not reconciled: {}", String::from_utf8_lossy(&output.stderr));
    }
    let report: Value = serde_json::from_slice(&output.stdout)?;
    report["missing"].as_u64().context("the reconciliation does not say what was missing")
}
