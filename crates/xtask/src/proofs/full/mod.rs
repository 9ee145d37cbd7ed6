//! Disk full (FM-10, INV-36): a fleet works on a database whose file system is filled up again and again. It must wait
//! while nothing can be written and go on by itself when there is space; what it has made must be equal to the truth.
//!
//! ```text
//! { work --> ballast until nothing is committed any more --> space --> first commit }* --> quiet --> judge
//! ```

mod report;
mod room;
mod store;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use patra_checker::OVERLAP_US;

use self::report::Report;
use self::store::Store;
use super::judge::{doubled, now_us};
use super::kill::folder;
use super::torture::fleet::{Fleet, Role};
use super::torture::ledger::{self, number};
use super::torture::quiet::{GOODBYE_MAX, OPEN_TASKS, PAGES, harvest_the_rest, wait_until_none};
use super::torture::size::{LEASE, Size};
use super::torture::world::World;
use super::torture::{logs, storm, verdict};
use super::{Backend, FullArgs};

const EXECUTORS: usize = 2;
const WORKERS: &str = "2";
const PLAN_EVERY: &str = "PT3S";
const PER_SECOND: u32 = 12;
/// Pages that are committed between two times without space.
const PAGES_BETWEEN: i64 = 40;
/// So many new pages show that work goes on; a single one may find a little space by chance.
const PAGES_RESUMED: i64 = 5;
/// Nothing was committed for this long: there is no space, and everybody has noticed.
const STILL: Duration = Duration::from_secs(4);
/// There must be no space within this; a database goes on for a while in the space that it has.
const FULL_WITHIN: Duration = Duration::from_secs(90);
/// INV-36.
const RESUMED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(20);
/// What one cycle takes in time, as a rule; there must be work for all of them.
const CYCLE: Duration = Duration::from_secs(12);

pub fn run(args: &FullArgs) -> Result<bool> {
    storm::watch_signals();
    let (folder, _guard) = folder(args.keep.as_deref())?;
    let report = filled(args.backend, args.cycles, args.seed, &folder)?;
    println!("{}", report.table());
    println!("{}", report.json());
    Ok(report.ok())
}

/// One time without space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    /// From the ballast to the last commit before nothing went any more.
    pub full_after_s: f64,
    /// How long there was no space, until the ballast was taken away.
    pub full_s: f64,
    /// From there to the first new commits; none when it did not come in time.
    pub resumed_s: Option<f64>,
}

fn filled(backend: Backend, cycles: usize, seed: u64, folder: &Path) -> Result<Report> {
    let begun = Instant::now();
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs)?;
    let size = size(cycles);
    let store = Store::start(backend)?;
    let world = World::start(&size, seed, folder)?;
    world.apply(&store.ledger())?;
    let fleet = enlisted(&store, &world, &logs)?;
    println!("{} processes on {}, {} records", fleet.starts, backend.name(), size.records);
    let mut proof = Proof { from_us: now_us(), store, fleet };
    let mut done = Vec::new();
    for number in 1..=cycles {
        let cycle = proof.cycle()?;
        println!("{number:>4}  {}", report::shown(&cycle));
        done.push(cycle);
    }
    proof.judged(backend, seed, done, world, folder, begun)
}

fn size(cycles: usize) -> Size {
    let storm = CYCLE * u32::try_from(cycles).unwrap_or(u32::MAX);
    Size { executors: EXECUTORS, planners: 1, relays: 0, per_second: PER_SECOND, ..Size::lasting(storm, PER_SECOND) }
}

fn enlisted(store: &Store, world: &World, logs: &Path) -> Result<Fleet> {
    let mut fleet = Fleet::default();
    let database = store.ledger();
    let of = |role: Role, more: &[&str]| -> Vec<String> {
        let args = [role.name(), "-v", "--database", database.as_str()];
        args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
    };
    let mut args = of(Role::Planner, &["--every", PLAN_EVERY]);
    args.extend(world.trigger());
    fleet.enlist(Role::Planner, args, logs)?;
    let lease = LEASE.as_secs().to_string();
    for _ in 0..EXECUTORS {
        let share = ["--workers", WORKERS, "--partition-max", WORKERS, "--lease", &lease];
        fleet.enlist(Role::Executor, of(Role::Executor, &share), logs)?;
    }
    Ok(fleet)
}

/// On a server transactions overlap.
fn overlap_us(backend: Backend) -> i64 {
    if backend.server().is_some() { OVERLAP_US } else { 0 }
}

struct Proof {
    from_us: i64,
    fleet: Fleet,
    store: Store,
}

impl Proof {
    fn cycle(&mut self) -> Result<Cycle> {
        let from = self.pages().unwrap_or(0);
        let worked = self.wait(RESUMED_WITHIN, |_, pages| pages.is_some_and(|pages| pages >= from + PAGES_BETWEEN))?;
        ensure!(worked.is_some(), "the fleet does not work although there is space");
        let (full_after_s, full_s, before) = self.full()?;
        self.store.room.free()?;
        let freed = Instant::now();
        self.store.start_if_fallen()?;
        let resumed = self.wait(RESUMED_WITHIN, |proof, pages| {
            // A server may fall only now, at what it could not write before.
            proof.store.start_if_fallen().ok();
            pages.is_some_and(|pages| pages >= before + PAGES_RESUMED)
        })?;
        Ok(Cycle { full_after_s, full_s, resumed_s: resumed.map(|_| freed.elapsed().as_secs_f64()) })
    }

    /// Fills the room until nothing was committed for a while: when the last commit was, how long there was none since,
    /// and how many pages there are.
    fn full(&mut self) -> Result<(f64, f64, i64)> {
        let begun = Instant::now();
        let (mut seen, mut moved) = (None, Instant::now());
        let still = self.wait(FULL_WITHIN, |proof, pages| {
            if proof.store.room.fill().is_err() {
                return false;
            }
            // A server that does not answer commits nothing.
            if pages.is_some() && pages != seen {
                (seen, moved) = (pages, Instant::now());
            }
            moved.elapsed() >= STILL
        })?;
        ensure!(still.is_some(), "the database still finds space after {} s", FULL_WITHIN.as_secs());
        let after = moved.duration_since(begun).as_secs_f64();
        let pages = seen.context("the ledger cannot be read")?;
        Ok((after, begun.elapsed().as_secs_f64() - after, pages))
    }

    /// Looks at the ledger until something is so; none when it was not in time.
    fn wait(
        &mut self,
        span: Duration,
        mut is_so: impl FnMut(&mut Proof, Option<i64>) -> bool,
    ) -> Result<Option<Duration>> {
        let begun = Instant::now();
        while begun.elapsed() < span {
            let looked = Instant::now();
            let pages = self.pages();
            if is_so(self, pages) {
                return Ok(Some(begun.elapsed()));
            }
            while looked.elapsed() < LOOK_EVERY {
                self.tick()?;
            }
        }
        Ok(None)
    }

    fn pages(&self) -> Option<i64> {
        number(&self.store.ledger(), PAGES).ok()
    }

    fn tick(&mut self) -> Result<()> {
        storm::go_on()?;
        std::thread::sleep(TICK);
        self.fleet.tend()
    }

    fn judged(
        mut self,
        backend: Backend,
        seed: u64,
        cycles: Vec<Cycle>,
        world: World,
        folder: &Path,
        begun: Instant,
    ) -> Result<Report> {
        println!("no more ballast; the fleet finishes its work");
        let ledger = self.store.ledger();
        ensure!(number(&ledger, OPEN_TASKS)? > 0, "the fleet had run out of work before the last cycle");
        self.fleet.retire(Role::Planner, GOODBYE_MAX)?;
        wait_until_none(&ledger, OPEN_TASKS, Some(PAGES), &mut || self.tick())?;
        self.fleet.retire(Role::Executor, GOODBYE_MAX)?;
        let (harvests, complete) = harvest_the_rest(&ledger, &world)?;
        let complaints = self.store.complaints()?;
        let copy = folder.join("ledger.db");
        ledger::copy(&ledger, &copy)?;
        let (verdict, arrivals) = verdict(&copy, world, &ledger, overlap_us(backend), (self.from_us, now_us()))?;
        Ok(Report {
            backend,
            seed,
            cycles,
            server_restarts: self.store.restarts,
            fallen: self.fleet.fallen.clone(),
            starts: self.fleet.starts,
            waits: report::Waits::read(&folder.join("logs"))?,
            workers: (EXECUTORS as u64) * WORKERS.parse::<u64>()?,
            panics: logs::said(&folder.join("logs"))?.panics.len(),
            harvests,
            complete,
            complaints,
            double_commits: doubled(&copy)?,
            verdict,
            twice_the_rate: arrivals.twice_the_rate,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }
}
