//! Random schedules (FM-2): every option of a run follows from its seed.
//!
//! Safety phase: faults of the sources, failpoints, kills and stops of processes, more than one process at a time.
//! Progress phase: everything is healthy again, and what is owed must get done. Then the checker judges.

use std::sync::Arc;

use patra_checker::Verdict;
use patra_core::failpoint::{Crashed, Failpoints};
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_engine::settings::Settings;
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};
use patra_sim::{FaultLevel, Rng, Source};

use crate::lab::{HISTORY_FROM, Lab, LabPlan, LabResult};
use crate::strike::Dice;
use crate::template;

/// Every simulated run begins after this much history.
pub const HISTORY: Span = Span::DAY.times(2);
const LEASE: Span = Span::from_seconds(10);
/// A run that takes more turns than this stands still.
const TURNS_MAX: u64 = 400_000;

/// Everything a seed decides.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub sources: Vec<Source>,
    pub records: u64,
    pub faults: FaultLevel,
    pub workers: usize,
    /// Processes at the same time; each has its own gate, so rates are judged only when there is one.
    pub processes: usize,
    /// One kill in so many turns; 0 is never.
    pub kill_one_in: u64,
    pub freeze_one_in: u64,
    pub strike_one_in: u64,
    pub rounds: u32,
    pub page_size: u64,
    pub caps: usize,
    pub mutate_every: u32,
    /// Caps also where a window cannot be cut: slices fail with OVERFLOW.
    pub overflow: bool,
    /// A situation of the simulators that is on from the start.
    pub scenario: Option<&'static str>,
    /// Further `--set` of the source.
    pub set: Vec<(&'static str, &'static str)>,
}

impl Options {
    pub fn of(seed: u64) -> Options {
        let mut rng = Rng::for_parts(seed, &[0x51]);
        let pick = |rng: &mut Rng, of: &[u64]| *rng.pick(of);
        Options {
            seed,
            sources: vec![*rng.pick(&Source::ALL)],
            records: 10 + rng.below(60),
            faults: *rng.pick(&[FaultLevel::None, FaultLevel::Mild, FaultLevel::Storm]),
            workers: 1 + rng.below(3) as usize,
            processes: 1 + rng.below(2) as usize,
            kill_one_in: pick(&mut rng, &[0, 0, 40, 150]),
            freeze_one_in: pick(&mut rng, &[0, 0, 60, 200]),
            strike_one_in: pick(&mut rng, &[0, 30, 120, 400]),
            rounds: 1 + rng.below(3) as u32,
            page_size: pick(&mut rng, &[2, 3, 7, 25]),
            caps: pick(&mut rng, &[10, 25, 1_000]) as usize,
            mutate_every: pick(&mut rng, &[0, 3, 9]) as u32,
            overflow: false,
            scenario: None,
            set: Vec::new(),
        }
        .with_refusals(rng.below(2) == 0)
    }

    /// PM-11: detail requests with a missing id are refused whole.
    pub fn with_refusals(self, on: bool) -> Options {
        match on && self.sources == [Source::PubMed] {
            true => Options { scenario: Some("PM-11"), set: vec![("detail.id_batch_size", "5")], ..self },
            false => self,
        }
    }

    fn lab_plan(&self, database: std::path::PathBuf) -> LabPlan {
        let mut plan = LabPlan::new(self.seed, self.records, database);
        plan.sources = self.sources.clone();
        plan.faults = self.faults;
        plan.history = HISTORY;
        plan.workers = self.workers;
        plan.settings = Settings { lease_ttl: LEASE, poll: Span::from_seconds(3), ..Settings::default() };
        plan.mutate_every = self.mutate_every;
        plan.scenarios = self.scenario.iter().map(|id| (*id).to_owned()).collect();
        plan.set.extend(self.set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        plan.set = vec![("pagination.size".into(), self.page_size.to_string()), ("window.slice".into(), self.slice())];
        // A day of openFDA or an hour of Crossref cannot be cut any further: a small cap there is an OVERFLOW, rightly.
        let fine =
            self.overflow || !self.sources.iter().any(|source| matches!(source, Source::OpenFda | Source::Crossref));
        if self.caps < 1_000 && fine {
            plan.caps = self.sources.iter().map(|source| (*source, self.caps)).collect();
            let cap = self.caps.to_string();
            plan.set.push(("pagination.result_cap".into(), cap.clone()));
            plan.set.push(("pagination.max_per_slice".into(), cap));
        }
        plan
    }

    pub fn with_overflow(self) -> Options {
        Options { overflow: true, ..self }
    }

    /// Wide slices, so that a slice has pages enough for something to happen between them.
    fn slice(&self) -> String {
        let by_day = self.sources.iter().any(|source| matches!(source, Source::PubMed | Source::OpenFda));
        if by_day { "P1D".into() } else { "PT12H".into() }
    }
}

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
}

impl Report {
    /// Nothing is missing and nothing is wrong.
    pub fn ok(&self) -> bool {
        self.verdict.ok && self.verdict.sources.iter().all(|source| source.watermark == source.watermark_truth)
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
        format!("{:?}\n{}\n{}", self.options, findings.join("\n"), marks.join("\n"))
    }
}

/// Runs one seed.
pub fn run(seed: u64) -> LabResult<Report> {
    run_with(Options::of(seed), None)
}

/// Runs with given options; the database, the truth and the request log are kept in `keep`.
pub fn run_with(options: Options, keep: Option<std::path::PathBuf>) -> LabResult<Report> {
    let folder = template::scratch()?;
    let plan = options.lab_plan(template::database(&folder));
    template::place(&plan)?;
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let dice = Arc::new(Dice::new(options.seed, options.strike_one_in, time.clone(), LEASE.times(2)));
    let lab = Lab::open_on(plan, time, Failpoints::with(dice.clone()), Arc::new(Silent))?;
    let mut run =
        Run { lab, rng: Rng::for_parts(options.seed, &[0x52]), options, dice, kills: 0, crashes: 0, turns: 0 };
    run.safety()?;
    run.progress()?;
    if let Some(folder) = keep {
        run.lab.keep(&folder)?;
    }
    run.report()
}

struct Run {
    lab: Lab,
    rng: Rng,
    options: Options,
    dice: Arc<Dice>,
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
        loop {
            self.turns += 1;
            if self.turns > TURNS_MAX {
                return Err(format!("no end after {TURNS_MAX} turns: {:?}", self.options));
            }
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
        if self.options.processes > 1 || self.crashes + self.kills > 0 {
            // Two processes with a gate each may exceed the rate together; a shared gate is another store's matter.
            input.rules.iter_mut().for_each(|rules| rules.rates.clear());
        }
        let asked: Vec<String> = input
            .served
            .iter()
            .map(|row| format!("{} {} {}", row.at_us, row.path_query, row.response_sha256))
            .collect();
        let log_hash = patra_core::hash::Hash32::of(asked.join("\n").as_bytes()).to_string();
        let verdict = self.lab.judge(&input);
        Ok(Report {
            end: self.lab.now(),
            verdict,
            kills: self.kills,
            crashes: self.crashes,
            strikes: self.dice.fired(),
            log_hash,
            options: self.options,
        })
    }
}
