//! Random schedules (FM-2): every option of a run follows from its seed.
//!
//! Safety phase: faults of the sources, failpoints, kills and stops of processes, more than one process at a time.
//! Progress phase: everything is healthy again, and what is owed must get done. Then the checker judges.

mod options;

use std::sync::Arc;

use patra_checker::Verdict;
use patra_core::failpoint::{Crashed, Failpoints};
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_sim::Rng;
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};

use crate::clocks::{Liar, Lies};
use crate::lab::{HISTORY_FROM, Lab, LabResult};
use crate::strike::Dice;
use crate::template;
pub use options::Options;

/// Every simulated run begins after this much history.
pub const HISTORY: Span = Span::DAY.times(2);
const LEASE: Span = Span::from_seconds(10);
/// Clocks that lie may keep tasks from being due; the storm does not wait for them.
const LYING_TURNS_MAX: u64 = 4_000;
/// A run that takes more turns than this stands still.
const TURNS_MAX: u64 = 400_000;

/// What a run came to.
pub struct Report {
    pub options: Options,
    pub verdict: Verdict,
    pub kills: u64,
    pub crashes: u64,
    pub strikes: u32,
    pub end: Timestamp,
    /// Over everything the sources were asked and when: equal for equal seeds.
    pub log_hash: String,
    /// Over every lease that was ever taken: who, when, at which epoch, and how it ended.
    pub leases: String,
    /// The latest time that is not in the future any source gave a record.
    pub truth_to: i64,
}

impl Report {
    /// Nothing is missing, nothing is wrong, and nothing the sources hold lies above the watermark.
    pub fn ok(&self) -> bool {
        let reached = |watermark: Option<i64>| watermark.is_some_and(|watermark| watermark > self.truth_to);
        let sources = &self.verdict.sources;
        self.verdict.ok
            && sources.iter().all(|source| source.watermark == source.watermark_truth && reached(source.watermark))
    }

    /// What a person needs to look into a red seed.
    pub fn complaint(&self) -> String {
        let findings: Vec<String> = self
            .verdict
            .findings
            .iter()
            .filter(|finding| finding.severity == patra_checker::Severity::Error)
            .take(8)
            .map(|finding| format!("  {} {}: {} {}", finding.check, finding.source, finding.message, finding.evidence))
            .collect();
        let marks: Vec<String> = self
            .verdict
            .sources
            .iter()
            .map(|source| {
                format!("  {} watermark {:?} truth {:?}", source.source, source.watermark, source.watermark_truth)
            })
            .collect();
        let (findings, marks) = (findings.join("\n"), marks.join("\n"));
        format!("{:?}\n{findings}\n{marks}, truth to {}", self.options, self.truth_to)
    }
}

/// Runs one seed.
pub fn run(seed: u64) -> LabResult<Report> {
    run_with(Options::of(seed), None)
}

/// Runs with given options; the database, the truth and the request log are kept in `keep`.
pub fn run_with(options: Options, keep: Option<std::path::PathBuf>) -> LabResult<Report> {
    let mut run = begun(options)?;
    run.safety()?;
    run.progress()?;
    if let Some(folder) = keep {
        run.lab.keep(&folder)?;
    }
    run.report()
}

fn begun(options: Options) -> LabResult<Run> {
    let folder = template::scratch()?;
    let liar = Liar::new(options.seed, options.lies, options.lie_scale);
    let mut plan = options.lab_plan(template::database(&folder));
    plan.clocks = liar.clocks();
    template::place(&plan)?;
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let dice = Arc::new(Dice::new(options.seed, options.strike_one_in, time.clone(), LEASE.times(2)));
    let lab = Lab::open_on(plan, time, Failpoints::with(dice.clone()), Arc::new(Silent))?;
    let rng = Rng::for_parts(options.seed, &[0x52]);
    Ok(Run { lab, folder, rng, options, dice, liar, kills: 0, crashes: 0, turns: 0 })
}

/// The laboratory as a storm leaves it, and its folder: nothing is mended, and much may be owed.
pub fn stormed(options: Options) -> LabResult<(Lab, tempfile::TempDir)> {
    stormed_after(options, |_| Ok(()))
}

/// As [`stormed`], in a laboratory that was prepared for it.
pub fn stormed_after(
    options: Options,
    prepare: impl FnOnce(&Lab) -> LabResult<()>,
) -> LabResult<(Lab, tempfile::TempDir)> {
    let mut run = begun(options)?;
    prepare(&run.lab)?;
    run.safety()?;
    Ok((run.lab, run.folder))
}

struct Run {
    lab: Lab,
    /// Where the database lies, as long as anyone looks at it.
    folder: tempfile::TempDir,
    rng: Rng,
    options: Options,
    dice: Arc<Dice>,
    liar: Liar,
    kills: u64,
    crashes: u64,
    turns: u64,
}

impl Run {
    fn safety(&mut self) -> LabResult<()> {
        for _ in 0..self.options.rounds {
            self.plan_all();
            self.storm()?;
            let pause = Span::HOUR.times(1 + self.rng.below(20) as i64);
            self.lab.time.jump(pause);
        }
        Ok(())
    }

    /// Plans every source; a planner that dies or fails is simply started again by the next round.
    fn plan_all(&mut self) {
        for source in self.options.sources.clone() {
            let planned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.lab.plan_source(source)));
            if planned.is_err_and(|payload| payload.is::<Crashed>()) {
                self.crashes += 1;
            }
        }
    }

    /// Works with processes that die, stop and come back.
    fn storm(&mut self) -> LabResult<()> {
        let seed = self.rng.bits();
        let mut scheduler = Scheduler::new(self.lab.time.clone(), seed);
        let mut processes: Vec<Vec<usize>> = Vec::new();
        for _ in 0..self.options.processes {
            let actors = self.start(&mut scheduler);
            processes.push(actors);
        }
        let until = self.turns + LYING_TURNS_MAX;
        loop {
            self.turns += 1;
            if self.options.lies == Lies::Everyone && self.turns > until {
                return Ok(());
            }
            if self.turns > TURNS_MAX {
                return Err(format!("no end after {TURNS_MAX} turns: {:?}", self.options));
            }
            self.liar.between_turns(&self.lab.time, &self.lab.world);
            match scheduler.turn() {
                Turn::Idle => return Ok(()),
                Turn::Crashed(actor, _) => {
                    self.crashes += 1;
                    self.restart(&mut scheduler, &mut processes, actor);
                }
                Turn::Ran(actor) => self.meddle(&mut scheduler, &mut processes, actor),
                Turn::Finished(_) | Turn::Advanced => {}
            }
        }
    }

    fn start(&mut self, scheduler: &mut Scheduler) -> Vec<usize> {
        let process = self.lab.process();
        (0..self.options.workers).map(|worker| self.lab.spawn(scheduler, &process, format!("w{worker}"))).collect()
    }

    /// The whole process of an actor dies, and a new one begins.
    fn restart(&mut self, scheduler: &mut Scheduler, processes: &mut [Vec<usize>], actor: usize) {
        if let Some(process) = processes.iter_mut().find(|process| process.contains(&actor)) {
            process.iter().for_each(|actor| scheduler.kill(*actor));
            *process = self.start(scheduler);
        }
    }

    fn meddle(&mut self, scheduler: &mut Scheduler, processes: &mut [Vec<usize>], actor: usize) {
        if self.options.kill_one_in > 0 && self.rng.below(self.options.kill_one_in) == 0 {
            self.kills += 1;
            self.restart(scheduler, processes, actor);
        } else if self.options.freeze_one_in > 0 && self.rng.below(self.options.freeze_one_in) == 0 {
            let until = self.lab.now().plus(LEASE.times(2));
            scheduler.freeze(actor, until);
        }
    }

    /// No more faults: everything owed must be done, twice read where it settles late.
    fn progress(&mut self) -> LabResult<()> {
        self.dice.quiet();
        self.lab.world.lock().silence();
        self.liar.heal(&self.lab.time);
        self.lab.time.jump(LEASE.times(3));
        self.lab.drain()?;
        for pause in [Span::ZERO, Span::DAY.times(6), Span::HOUR] {
            self.lab.time.jump(pause);
            self.lab.round()?;
        }
        Ok(())
    }

    fn report(self) -> LabResult<Report> {
        let mut input = self.lab.check_input()?;
        input.steady_clock = self.options.lies != Lies::Everyone;
        if self.options.processes > 1 || self.crashes + self.kills > 0 || !input.steady_clock {
            // Two processes with a gate each may exceed the rate together; a shared gate is another store's matter.
            input.rules.iter_mut().for_each(|rules| rules.rates.clear());
        }
        let asked: Vec<String> = input
            .served
            .iter()
            .map(|row| format!("{} {} {}", row.at_us, row.path_query, row.response_sha256))
            .collect();
        let log_hash = patra_core::hash::Hash32::of(asked.join("\n").as_bytes()).to_string();
        let end = self.lab.now().micros();
        let past = input.truth.iter().map(|row| row.updated_at).filter(|at| *at <= end);
        let leases = self.lab.leases()?;
        let verdict = self.lab.judge(&input);
        Ok(Report {
            end: self.lab.now(),
            verdict,
            kills: self.kills,
            crashes: self.crashes,
            strikes: self.dice.fired(),
            truth_to: past.max().unwrap_or(i64::MIN),
            log_hash,
            leases,
            options: self.options,
        })
    }
}
