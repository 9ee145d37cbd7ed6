//! The crash sweep (FM-1): every failpoint, every mode, and afterwards a copy equal to the truth.
//!
//! One small scenario reaches all failpoints: two-phase details with an id that is refused (bisection), windows over
//! the cap (splits), a cursor that cannot be asked twice (new passes), SIGTERM in the middle (releases), an operator
//! who cancels a task, plans that wait for the queue to fall (dispatches).

use std::sync::Arc;

use patra_core::failpoint::{Crashed, Failpoints};
use patra_core::id::Id;
use patra_core::plan::build::namespace_of;
use patra_core::ports::{Inspect, Intervention, Ledger, ListFilter, Noun, Walk};
use patra_core::time::Span;
use patra_engine::notice::Silent;
use patra_engine::settings::Settings;
use patra_sim::vtime::{Scheduler, Turn, VirtualTime};
use patra_sim::{FaultLevel, Source};

use crate::lab::{HISTORY_FROM, Lab, LabPlan, LabResult};
use crate::simulation::HISTORY;
use crate::strike::{Mode, OnePoint};
use crate::template;

const LEASE: Span = Span::from_seconds(10);
/// SIGTERM comes after so many turns.
const TERMINATE_AFTER: u32 = 60;
const TURNS_MAX: u32 = 200_000;

/// One cell of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub failpoint: &'static str,
    pub mode: Mode,
    pub hit: u64,
}

/// What became of a cell.
#[derive(Debug)]
pub struct Swept {
    pub fired: bool,
    /// Empty when the copy equals the truth.
    pub complaint: String,
}

pub fn sweep(cell: Cell) -> LabResult<Swept> {
    let folder = template::scratch()?;
    let plan = plan(template::database(&folder));
    template::place(&plan)?;
    let time = VirtualTime::starting_at(HISTORY_FROM.plus(HISTORY));
    let point = Arc::new(OnePoint::new(cell.failpoint, cell.mode, cell.hit, time.clone(), LEASE.times(2)));
    let mut lab = Lab::open_on(plan, time, Failpoints::with(point.clone()), Arc::new(Silent))?;
    broken_phase(&mut lab)?;
    for pause in [Span::ZERO, Span::DAY.times(6), Span::HOUR] {
        lab.time.jump(pause);
        lab.drain()?;
        lab.round()?;
    }
    let mut input = lab.check_input()?;
    // Dead processes take their gate's memory with them.
    input.rules.iter_mut().for_each(|rules| rules.rates.clear());
    let verdict = lab.judge(&input);
    let even = verdict.sources.iter().all(|source| source.watermark == source.watermark_truth);
    let complaint =
        if verdict.ok && even { String::new() } else { format!("{:?} {:?}", verdict.findings, verdict.sources) };
    Ok(Swept { fired: point.fired(), complaint })
}

fn plan(database: std::path::PathBuf) -> LabPlan {
    let mut plan = LabPlan::new(11, 120, database);
    plan.sources = vec![Source::PubMed, Source::Crossref, Source::Doaj];
    plan.faults = FaultLevel::Mild;
    plan.history = HISTORY;
    plan.workers = 2;
    plan.settings = Settings { lease_ttl: LEASE, poll: Span::from_seconds(3), ..Settings::default() };
    plan.settings.thresholds.stock_max = 2;
    plan.mutate_every = 5;
    plan.scenarios = vec!["PM-11".into(), "CR-1".into()];
    plan.caps = vec![(Source::PubMed, 12), (Source::Doaj, 12)];
    plan.set_for = vec![
        (Source::PubMed, "pagination.size", "12"),
        (Source::PubMed, "pagination.result_cap", "12"),
        (Source::PubMed, "pagination.max_per_slice", "12"),
        (Source::PubMed, "detail.id_batch_size", "4"),
        (Source::Doaj, "pagination.size", "3"),
        (Source::Doaj, "pagination.result_cap", "12"),
        (Source::Doaj, "pagination.max_per_slice", "12"),
        (Source::Doaj, "window.slice", "PT12H"),
        (Source::Crossref, "pagination.size", "2"),
        (Source::Crossref, "window.slice", "PT12H"),
    ];
    plan
}

/// Planning, work and SIGTERM with the failpoint armed; whoever dies is started again.
fn broken_phase(lab: &mut Lab) -> LabResult<()> {
    for _ in 0..2 {
        for source in lab.plan.sources.clone() {
            caught(|| drop(lab.plan_source(source)));
        }
        cancel_one(lab)?;
        work(lab)?;
        lab.time.jump(Span::HOUR.times(7));
    }
    for source in lab.plan.sources.clone() {
        reconcile(lab, source)?;
    }
    Ok(())
}

/// The newest task that is queued; what it would have read is owed to the next plan.
fn cancel_one(lab: &Lab) -> LabResult<()> {
    let filter = ListFilter { status: Some("QUEUED".into()), limit: 1, ..ListFilter::default() };
    let found = lab.runtime.block_on(lab.store.list(Noun::Task, &filter)).map_err(|error| error.to_string())?;
    let task = found.first().and_then(|row| row["id"].as_str()).and_then(|id| id.parse::<Id>().ok());
    let act = Intervention { actor: "lab".into(), reason: "sweep".into() };
    if let Some(task) = task {
        caught(|| drop(lab.runtime.block_on(lab.store.cancel_task(task, &act))));
    }
    Ok(())
}

/// Runs a step in which the process may die.
fn caught(step: impl FnOnce()) {
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step))
        && !payload.is::<Crashed>()
    {
        std::panic::resume_unwind(payload);
    }
}

fn work(lab: &mut Lab) -> LabResult<()> {
    let mut scheduler = Scheduler::new(lab.time.clone(), 5);
    let mut actors = start(lab, &mut scheduler);
    for turn in 0..TURNS_MAX {
        if turn == TERMINATE_AFTER {
            lab.terminate();
        }
        match scheduler.turn() {
            Turn::Idle if turn > TERMINATE_AFTER => return Ok(()),
            Turn::Idle => {}
            Turn::Crashed(..) => {
                actors.iter().for_each(|actor| scheduler.kill(*actor));
                actors = start(lab, &mut scheduler);
            }
            Turn::Finished(_) if scheduler.alive().is_empty() && turn <= TERMINATE_AFTER * 2 => {
                actors = start(lab, &mut scheduler);
            }
            Turn::Ran(_) | Turn::Finished(_) | Turn::Advanced => {}
        }
    }
    Err("the broken phase does not end".into())
}

fn start(lab: &mut Lab, scheduler: &mut Scheduler) -> Vec<usize> {
    let process = lab.process();
    (0..lab.plan.workers).map(|worker| lab.spawn(scheduler, &process, format!("w{worker}"))).collect()
}

fn reconcile(lab: &Lab, source: Source) -> LabResult<()> {
    let trigger = lab.trigger(source);
    let spec = lab.runtime.block_on(lab.planner().compile(&trigger)).map_err(|error| error.to_string())?.spec;
    let walk = Walk {
        namespace: namespace_of(&spec),
        origin: spec.window.origin,
        settling_lag: spec.window.safety_lag,
        shares: spec.shares,
    };
    caught(|| drop(lab.runtime.block_on(lab.store.reconcile(&walk))));
    Ok(())
}
