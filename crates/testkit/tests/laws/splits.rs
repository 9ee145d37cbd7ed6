//! Splits that race (FM-15): processes that were stopped wake up and cut, commit or complete what others hold by now,
//! and somebody cancels tasks, slices and plans in between. Afterwards every split tiles what it replaces, whoever won.
//! More seeds as a command (`PATRA_SPLIT_SEEDS=2000`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patra_core::failpoint::{Crashed, Failpoints};
use patra_core::id::Id;
use patra_core::ports::{Inspect, Intervention, Ledger, ListFilter, Noun, Operate, Partition};
use patra_core::time::Span;
use patra_engine::notice::{Notice, Notices};
use patra_engine::settings::Settings;
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};
use patra_sim::{Rng, Source};
use patra_testkit::lab::{HISTORY_FROM, Lab, LabPlan, LabResult};
use patra_testkit::strike::Dice;
use patra_testkit::{simulation::HISTORY, template};

use super::seeds::{each_seed, number};

const LEASE: Span = Span::from_seconds(10);
const TURNS_MAX: u64 = 400_000;
/// A cap so small that most slices are cut, some of them again.
const CAP: usize = 6;

/// What was seen to happen, over all seeds.
#[derive(Default)]
struct Met {
    splits: AtomicU64,
    lost: AtomicU64,
    cancels: AtomicU64,
}

impl Notices for Met {
    fn tell(&self, _at: &Partition, notice: Notice) {
        match notice {
            Notice::SliceSplit { .. } => self.splits.fetch_add(1, Ordering::Relaxed),
            Notice::LeaseLost { .. } => self.lost.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

fn plan(seed: u64, database: std::path::PathBuf) -> LabPlan {
    let mut rng = Rng::for_parts(seed, &[0x15]);
    // Cut by time; by time and then by id ranges.
    let source = *rng.pick(&[Source::DataCite, Source::Doaj, Source::PubMed, Source::OaiPmh]);
    let mut plan = LabPlan::new(seed, 20 + rng.below(60), database);
    plan.sources = vec![source];
    plan.history = HISTORY;
    plan.workers = 2;
    plan.settings = Settings { lease_ttl: LEASE, poll: Span::from_seconds(3), ..Settings::default() };
    plan.mutate_every = *rng.pick(&[0, 5]);
    let slice = if source == Source::PubMed { "P1D" } else { *rng.pick(&["PT6H", "P1D"]) };
    let cap = CAP.to_string();
    let size = *rng.pick(&["2", "3"]);
    plan.set = vec![("pagination.size".into(), size.into()), ("window.slice".into(), slice.into())];
    if source == Source::OaiPmh {
        // It tells no total: that a window is too deep is found out on the way.
        plan.set.push(("pagination.max_page".into(), "3".into()));
    } else {
        plan.caps = vec![(source, CAP)];
        plan.set.extend(["pagination.result_cap", "pagination.max_per_slice"].map(|key| (key.to_owned(), cap.clone())));
    }
    plan
}

struct Race<'a> {
    lab: Lab,
    rng: Rng,
    met: &'a Met,
    processes: Vec<Vec<usize>>,
}

impl Race<'_> {
    fn start(&mut self, scheduler: &mut Scheduler) -> Vec<usize> {
        let process = self.lab.process();
        (0..self.lab.plan.workers).map(|worker| self.lab.spawn(scheduler, &process, format!("w{worker}"))).collect()
    }

    fn storm(&mut self) -> LabResult<()> {
        let mut scheduler = Scheduler::new(self.lab.time.clone(), self.rng.bits());
        for _ in 0..2 {
            let actors = self.start(&mut scheduler);
            self.processes.push(actors);
        }
        for _ in 0..TURNS_MAX {
            match scheduler.turn() {
                Turn::Idle => return Ok(()),
                Turn::Crashed(actor, _) => self.restart(&mut scheduler, actor),
                Turn::Ran(actor) => match self.rng.below(60) {
                    0..=2 => scheduler.freeze(actor, self.lab.now().plus(LEASE.times(2))),
                    3 => self.cancel()?,
                    _ => {}
                },
                Turn::Finished(_) | Turn::Advanced => {}
            }
        }
        Err(format!("no end after {TURNS_MAX} turns"))
    }

    fn restart(&mut self, scheduler: &mut Scheduler, actor: usize) {
        let Some(at) = self.processes.iter().position(|process| process.contains(&actor)) else { return };
        self.processes[at].iter().for_each(|actor| scheduler.kill(*actor));
        self.processes[at] = self.start(scheduler);
    }

    /// Cancels something open; what dies on the way has not returned.
    fn cancel(&mut self) -> LabResult<()> {
        let status = *self.rng.pick(&["RUNNING", "QUEUED"]);
        let filter = ListFilter { status: Some(status.into()), limit: 100, ..ListFilter::default() };
        let (store, runtime) = (self.lab.store.clone(), self.lab.runtime.clone());
        let open = runtime.block_on(store.list(Noun::Task, &filter)).map_err(|error| error.to_string())?;
        let Some(task) = open.get(self.rng.below(open.len() as u64) as usize) else { return Ok(()) };
        let id = |key: &str| task[key].as_str().and_then(|text| text.parse::<Id>().ok()).unwrap_or_default();
        let act = Intervention { actor: "law".into(), reason: "race".into() };
        let kind = self.rng.below(30);
        let ordered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                match kind {
                    0 => store.cancel_plan(id("plan_id"), &act).await.is_ok(),
                    1..=9 => store.cancel_slice(id("slice_id"), &act).await.is_ok(),
                    _ => store.cancel_task(id("id"), &act).await.is_ok(),
                }
            })
        }));
        match ordered {
            Ok(done) => self.met.cancels.fetch_add(u64::from(done), Ordering::Relaxed),
            Err(payload) if payload.is::<Crashed>() => 0,
            Err(payload) => std::panic::resume_unwind(payload),
        };
        Ok(())
    }
}

/// What is wrong with one seed, if anything.
fn judge(seed: u64, met: &Arc<Met>) -> LabResult<Option<String>> {
    let folder = template::scratch()?;
    let plan = plan(seed, template::database(&folder));
    template::place(&plan)?;
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let dice = Arc::new(Dice::new(seed, 200, time.clone(), LEASE.times(2)));
    let lab = Lab::open_on(plan, time, Failpoints::with(dice.clone()), met.clone())?;
    let rng = Rng::for_parts(seed, &[0x16]);
    let mut race = Race { lab, rng, met, processes: Vec::new() };
    for pause in [Span::ZERO, Span::HOUR.times(9)] {
        race.lab.time.jump(pause);
        for source in race.lab.plan.sources.clone() {
            // A planner that is struck is started again by the next round.
            let lab = &race.lab;
            let planned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lab.plan_source(source).is_ok()));
            if let Some(payload) = planned.err().filter(|payload| !payload.is::<Crashed>()) {
                std::panic::resume_unwind(payload);
            }
        }
        race.storm()?;
    }
    dice.quiet();
    let mut lab = race.lab;
    lab.world.lock().silence();
    lab.time.jump(LEASE.times(3));
    lab.drain()?;
    for pause in [Span::ZERO, Span::DAY.times(6), Span::HOUR] {
        lab.time.jump(pause);
        lab.round()?;
    }
    let mut input = lab.check_input()?;
    // Two processes with a gate each.
    input.rules.iter_mut().for_each(|rules| rules.rates.clear());
    let verdict = lab.judge(&input);
    let errors = verdict.findings.iter().filter(|finding| finding.severity == patra_checker::Severity::Error);
    let told: Vec<String> = errors.take(4).map(|finding| format!("{} {}", finding.check, finding.message)).collect();
    Ok((!verdict.ok).then(|| format!("{:?}: {}", lab.plan.sources, told.join(", "))))
}

#[test]
fn whoever_wins_a_split_tiles_what_it_replaces() {
    super::quiet_crashes();
    let (seeds, met) = (number("PATRA_SPLIT_SEEDS", 60), Arc::new(Met::default()));
    let red = each_seed(seeds, |seed| judge(seed, &met));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let (splits, lost, cancels) = (count(&met.splits), count(&met.lost), count(&met.cancels));
    println!("{seeds} seeds: {splits} splits, {cancels} cancels, {lost} writes refused to those who came too late");
    assert!(red.is_empty(), "{} red seeds\n{}", red.len(), red.join("\n"));
    assert!(splits > seeds && lost > 0 && cancels > seeds / 2, "the race was not run");
}
