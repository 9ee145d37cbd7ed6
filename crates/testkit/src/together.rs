//! Several operations on one source at the same time (INV-10): each keeps to its own cursor, all share the records.
//!
//! The same world is worked by a HARVEST alone, by the others alone and by all together. In a calm world the events of
//! the HARVEST must be the same ones with and without company; in any world the checker must find nothing. A world that
//! changes as it is asked may leave a window of the one or the other unread; where none was left, both end alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::plan::campaign::Campaign;
use patra_core::ports::{Gate, Inspect, ListFilter, Noun, Only};
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;
use patra_engine::gate::LocalGate;
use patra_engine::notice::Silent;
use patra_engine::planner::Trigger;
use patra_sim::vtime::{Scheduler, Turn};
use patra_sim::{FaultLevel, Rng, Source};

use crate::lab::{HISTORY_FROM, Lab, LabResult};
use crate::simulation::Options;
use crate::template;

const TURNS_MAX: u64 = 400_000;
/// Rounds begin so far apart that each is over before the next, with and without company.
const ROUND: Span = Span::DAY.times(8);
const ROUNDS: i64 = 3;

/// What one run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// Events of the HARVEST, in order.
    pub events: Vec<String>,
    pub watermark: Option<String>,
    /// No window of the HARVEST was given up.
    pub whole: bool,
    pub records: BTreeSet<String>,
    /// What the checker complains about.
    pub complaint: Option<String>,
    /// Processes of the company that were killed.
    pub kills: u64,
    /// Plans of each operation.
    pub plans: Vec<String>,
}

/// A world of one source: with `calm` nothing in it depends on how often it is asked.
pub fn options(seed: u64, calm: bool) -> Options {
    let options = Options::of(seed);
    match calm {
        true => Options { faults: FaultLevel::None, mutate_every: 0, scenario: None, ..options },
        false => options,
    }
}

/// Works the world of these options with the given operations.
pub fn run(options: &Options, operations: &[Operation]) -> LabResult<Outcome> {
    let folder = template::scratch()?;
    let mut plan = options.lab_plan(template::database(&folder));
    plan.workers = 1;
    // A harvest that waits longer for its turn still keeps its order.
    plan.settings.gate_deadline = Span::DAY;
    // The harvest begins in the middle of the history: what lies before is for the others.
    plan.since = HISTORY_FROM.plus(Span::DAY);
    template::place(&plan)?;
    let lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent))?;
    let rng = Rng::for_parts(options.seed, &[0x77]);
    let mut company = Company { lab, rng, source: options.sources[0], operations: operations.to_vec(), kills: 0 };
    for round in 0..ROUNDS {
        company.round(round)?;
    }
    company.outcome()
}

struct Company {
    lab: Lab,
    rng: Rng,
    source: Source,
    operations: Vec<Operation>,
    kills: u64,
}

impl Company {
    fn round(&mut self, round: i64) -> LabResult<()> {
        let begin = HISTORY_FROM.plus(Span::DAY.times(2)).plus(ROUND.times(round));
        let wait = begin.since(self.lab.now());
        if wait < Span::ZERO {
            return Err(format!("round {round} begins before the last one has ended"));
        }
        self.lab.time.jump(wait);
        for operation in self.operations.clone() {
            self.plan(operation)?;
        }
        self.work()
    }

    fn plan(&self, operation: Operation) -> LabResult<()> {
        let (trigger, planner) = (self.trigger(operation), self.lab.planner());
        let planned = match operation {
            Operation::Update => {
                let ids: BTreeSet<String> = self.known_ids()?;
                self.lab.runtime.block_on(planner.refresh(&trigger, &ids))
            }
            _ => self.lab.runtime.block_on(planner.plan(&trigger)),
        };
        planned.map(|_| ()).map_err(|error| error.to_string())
    }

    fn known_ids(&self) -> LabResult<BTreeSet<String>> {
        let filter = ListFilter { limit: 1_000, ..ListFilter::default() };
        let rows = self.lab.runtime.block_on(self.lab.store.list(Noun::Record, &filter));
        let rows = rows.map_err(|error| error.to_string())?;
        Ok(rows.iter().filter_map(|row| row["provider_id"].as_str().map(str::to_owned)).collect())
    }

    fn trigger(&self, operation: Operation) -> Trigger {
        let harvest = self.lab.trigger(self.source);
        match operation {
            Operation::Harvest => harvest,
            Operation::Update => {
                let campaign = Campaign { activity: Some("company".into()), only: None };
                Trigger { operation, campaign, ..harvest }
            }
            Operation::Backfill => Trigger {
                operation,
                since: Some(HISTORY_FROM),
                until: Some(HISTORY_FROM.plus(Span::HOUR.times(36))),
                campaign: Campaign { activity: Some("company".into()), only: None },
                ..harvest
            },
        }
    }

    /// One worker for each operation, all behind one gate; those beside the harvest die and come back.
    fn work(&mut self) -> LabResult<()> {
        let mut scheduler = Scheduler::new(self.lab.time.clone(), self.rng.bits());
        let gate: Arc<dyn Gate> = Arc::new(LocalGate::new(Arc::new(self.lab.time.clone()), Failpoints::none()));
        let mut workers = Vec::new();
        for operation in self.operations.clone() {
            workers.push((self.start(&mut scheduler, operation, &gate), operation));
        }
        for _ in 0..TURNS_MAX {
            match scheduler.turn() {
                Turn::Idle => return Ok(()),
                Turn::Ran(actor) if self.rng.below(40) == 0 => {
                    let Some(at) = workers.iter().position(|(worker, _)| *worker == actor) else { continue };
                    let operation = workers[at].1;
                    if operation != Operation::Harvest {
                        scheduler.kill(actor);
                        self.kills += 1;
                        workers[at].0 = self.start(&mut scheduler, operation, &gate);
                    }
                }
                _ => {}
            }
        }
        Err(format!("no end after {TURNS_MAX} turns"))
    }

    fn start(&mut self, scheduler: &mut Scheduler, operation: Operation, gate: &Arc<dyn Gate>) -> usize {
        let only = Only { provenance: None, operation: Some(operation) };
        let process = self.lab.process_for(only, gate.clone());
        self.lab.spawn(scheduler, &process, format!("{}-{}", operation.code(), self.kills))
    }

    fn outcome(self) -> LabResult<Outcome> {
        let list = |noun| {
            let filter = ListFilter { limit: 1_000, ..ListFilter::default() };
            self.lab.runtime.block_on(self.lab.store.list(noun, &filter)).map_err(|error| error.to_string())
        };
        let text = |row: &patra_core::ports::Shown, key: &str| row[key].to_string();
        let harvest = |row: &patra_core::ports::Shown| row["operation_code"] == "HARVEST";
        let mut events: Vec<(u64, String)> = Vec::new();
        for row in list(Noun::CursorEvent)?.iter().filter(|row| harvest(row)) {
            // Not the window of the slice: where a second reading begins depends on when the first was made.
            let keys = ["event_no", "prev_value", "new_value", "cause_code", "direction_code"];
            let told: Vec<String> = keys.iter().map(|key| text(row, key)).collect();
            events.push((row["event_no"].as_u64().unwrap_or(0), told.join(" ")));
        }
        events.sort();
        let cursors = list(Noun::Cursor)?;
        let watermark = cursors.iter().find(|row| harvest(row)).map(|row| text(row, "cursor_value"));
        let given_up =
            |row: &patra_core::ports::Shown| row["status_code"] == "PARTIAL" || row["status_code"] == "FAILED";
        let whole = !list(Noun::Slice)?.iter().any(|row| harvest(row) && given_up(row));
        let records = list(Noun::Record)?.iter().map(|row| text(row, "provider_id")).collect();
        let mut plans: Vec<String> = list(Noun::Plan)?.iter().map(|row| text(row, "operation_code")).collect();
        plans.sort();
        let mut input = self.lab.check_input()?;
        // A worker that died holding its turn at the gate may have asked without anybody knowing.
        input.rules.iter_mut().for_each(|rules| rules.rates.clear());
        let verdict = self.lab.judge(&input);
        let complaint = (!verdict.ok).then(|| {
            let findings = verdict.findings.iter().filter(|finding| finding.severity == patra_checker::Severity::Error);
            let told: Vec<String> =
                findings.take(6).map(|f| format!("{} {}: {}", f.check, f.source, f.message)).collect();
            told.join("\n")
        });
        let events = events.into_iter().map(|(_, told)| told).collect();
        Ok(Outcome { events, watermark, whole, records, complaint, kills: self.kills, plans })
    }
}

/// The law of one seed: what is wrong, if anything.
pub fn judge(seed: u64, others: &[Operation]) -> LabResult<Option<String>> {
    let calm = !seed.is_multiple_of(4);
    let options = options(seed, calm);
    // Only these can be asked for known ids.
    let by_id = matches!(options.sources[0], Source::PubMed | Source::Crossref);
    let others: Vec<Operation> =
        others.iter().copied().filter(|operation| by_id || *operation != Operation::Update).collect();
    let others = others.as_slice();
    let all: Vec<Operation> = [&[Operation::Harvest], others].concat();
    let alone = run(&options, &[Operation::Harvest])?;
    let together = run(&options, &all)?;
    if let Some(complaint) = &together.complaint {
        return Ok(Some(format!("{complaint}\n{options:?}")));
    }
    if alone.watermark != together.watermark && (calm || (alone.whole && together.whole)) {
        return Ok(Some(format!("watermark {:?}, alone {:?}", together.watermark, alone.watermark)));
    }
    if !calm {
        return Ok(None);
    }
    if alone.events != together.events {
        return Ok(Some(format!("events {:#?}\nalone {:#?}\n{options:?}", together.events, alone.events)));
    }
    let apart = run(&options, others)?;
    let union: BTreeSet<&String> = alone.records.union(&apart.records).collect();
    if union != together.records.iter().collect() {
        return Ok(Some(format!("{} records, the union has {}: {options:?}", together.records.len(), union.len())));
    }
    Ok(None)
}
