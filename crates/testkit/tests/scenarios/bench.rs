//! Runs one row: a laboratory with one source, the situation switched on, several rounds of planning and reading.

use std::sync::Arc;

use patra_core::failpoint::Failpoints;
use patra_core::ports::{Inspect, ListFilter, Noun};
use patra_core::time::Span;
use patra_engine::settings::Settings;
use patra_sim::vtime::{Scheduler, Turn};
use patra_sim::{Scenario, SimRequest, Source, TruthPlan, World, WorldPlan};
use patra_testkit::lab::{HISTORY_FROM, Lab, LabPlan, LabResult, definition_of};
use patra_testkit::template;

use super::definitions::Definition;
use super::expect::{Expect, Seen};
use super::watch::Watch;

/// All laboratories of this binary share it, because they share a database to begin with.
const HISTORY: Span = Span::DAY.times(2);
const SEED: u64 = 7;

/// One situation and what is expected.
pub struct Row {
    pub id: &'static str,
    pub records: u64,
    pub definition: Definition,
    pub set: &'static [(&'static str, &'static str)],
    /// Further situations that make it visible.
    pub beside: &'static [&'static str],
    /// What one query reaches, in world and definition.
    pub cap: Option<usize>,
    /// How long records go on to appear.
    pub live: Span,
    pub adjust: Option<fn(&mut TruthPlan)>,
    pub act: Act,
    pub expect: &'static [Expect],
}

/// How the rounds follow each other.
#[derive(Clone, Copy, PartialEq)]
pub enum Act {
    /// At once, half a day later, and when everything has settled.
    Rounds,
    /// The same; what moves stands still before the last rounds.
    Silenced,
    /// The first round begins just before midnight.
    BeforeMidnight,
    /// The first round begins at noon and the next one after midnight.
    OverMidnight,
    /// The process dies near the end of the only slice.
    Crash,
    /// The source holds records back for a month.
    Month { silenced: bool },
}

impl Row {
    /// A row with the usual world: static, a few hundred records, the shipped definition.
    pub const fn new(id: &'static str, expect: &'static [Expect]) -> Row {
        Row {
            id,
            records: 300,
            definition: Definition::Shipped,
            set: &[],
            beside: &[],
            cap: None,
            live: Span::ZERO,
            adjust: None,
            act: Act::Rounds,
            expect,
        }
    }

    fn plan(&self, database: std::path::PathBuf, source: Source) -> LabPlan {
        let mut plan = LabPlan::new(SEED, self.records, database);
        plan.sources = vec![source];
        plan.history = HISTORY;
        plan.live = self.live;
        plan.workers = 2;
        plan.settings = Settings { poll: Span::from_seconds(3), ..Settings::default() };
        plan.mutate_every = 0;
        plan.adjust = self.adjust;
        plan.scenarios = self.beside.iter().chain([&self.id]).map(|id| (*id).to_owned()).collect();
        plan.set = self.set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        if let Some(cap) = self.cap {
            plan.caps = vec![(source, cap)];
            let keys = ["pagination.result_cap", "pagination.max_per_slice"];
            plan.set.extend(keys.map(|key| (key.to_owned(), cap.to_string())));
        }
        plan
    }
}

/// Runs a row; an error says what was not as expected.
pub fn run(row: &Row) -> LabResult<()> {
    let scenario = Scenario::by_id(row.id).ok_or("there is no such situation")?;
    let folder = template::scratch()?;
    let plan = row.plan(template::database(&folder), scenario.source);
    template::place(&plan)?;
    let watch = Arc::new(Watch::default());
    let mut lab = Lab::open(plan, Failpoints::none(), watch.clone())?;
    if let Some(text) = row.definition.text(scenario.source)? {
        lab.publish(definition_of(scenario.source).0, &text)?;
    }
    act(&mut lab, row.act)?;
    let seen = look(&lab, row.id, scenario.source, watch)?;
    let fired = lab.counters(scenario.source).situations.get(row.id).copied().unwrap_or(0);
    if fired == 0 && !(row.id == "DJ-4" && held_back()) {
        return Err("the situation did not come about".into());
    }
    row.expect.iter().try_for_each(|expect| seen.check(*expect).map_err(|why| format!("{expect:?}: {why}")))
}

fn act(lab: &mut Lab, act: Act) -> LabResult<()> {
    let mut last = vec![Span::DAY.times(6), Span::HOUR];
    match act {
        Act::Rounds => rounds(lab, &[Span::ZERO, Span::HOUR.times(12)])?,
        Act::Silenced => {
            rounds(lab, &[Span::ZERO, Span::HOUR.times(12), Span::HOUR.times(20), Span::HOUR.times(5)])?;
            lab.world.lock().silence();
        }
        Act::BeforeMidnight => rounds(lab, &[Span::from_seconds(86_396)])?,
        Act::OverMidnight => rounds(lab, &[Span::HOUR.times(36), Span::HOUR.times(24)])?,
        Act::Crash => crash(lab)?,
        Act::Month { silenced } => {
            rounds(lab, &[Span::ZERO])?;
            let behind = watermark(lab)?.is_none_or(|at| at <= lab.now().minus(Span::DAY.times(30)).micros());
            if !behind {
                return Err("what is held back counts as read".into());
            }
            rounds(lab, &[Span::DAY.times(33)])?;
            if silenced {
                lab.world.lock().silence();
            }
            last.insert(0, Span::DAY.times(40));
        }
    }
    rounds(lab, &last)
}

fn rounds(lab: &mut Lab, pauses: &[Span]) -> LabResult<()> {
    for pause in pauses {
        lab.time.jump(*pause);
        lab.round()?;
    }
    Ok(())
}

fn watermark(lab: &Lab) -> LabResult<Option<i64>> {
    Ok(lab.verdict()?.sources.first().and_then(|source| source.watermark))
}

/// One process works until most pages were served, and dies; the next one goes on.
fn crash(lab: &mut Lab) -> LabResult<()> {
    let source = lab.plan.sources[0];
    lab.time.jump(Span::HOUR.times(5));
    lab.plan_source(source).map_err(|error| error.to_string())?;
    let mut scheduler = Scheduler::new(lab.time.clone(), SEED);
    let process = lab.process();
    lab.spawn(&mut scheduler, &process, "first".into());
    let pages = lab.plan.records / 10;
    while lab.counters(source).requests < pages * 9 / 10 {
        if scheduler.turn() == Turn::Idle {
            return Err("the first process ended before it could die".into());
        }
    }
    scheduler.alive().into_iter().for_each(|actor| scheduler.kill(actor));
    lab.drain()
}

fn look(lab: &Lab, id: &'static str, source: Source, watch: Arc<Watch>) -> LabResult<Seen> {
    let input = lab.check_input()?;
    let end = lab.now().micros();
    let past = input.truth.iter().map(|row| row.updated_at).filter(|at| *at <= end);
    let truth_to = past.max().unwrap_or(i64::MIN);
    let filter = ListFilter { limit: 1_000, ..ListFilter::default() };
    let missing = lab.runtime.block_on(lab.store.list(Noun::MissingId, &filter)).map_err(|error| error.to_string())?;
    let served = lab.world.lock().served(source.name()).to_vec();
    Ok(Seen { id, watch, verdict: lab.judge(&input), served, missing, truth_to })
}

/// Whoever asks for the last days is told that there is nothing, although there is; the engine does not ask.
fn held_back() -> bool {
    let to = HISTORY_FROM.plus(HISTORY).micros();
    let mut plan = WorldPlan::new(SEED, 100, HISTORY_FROM.micros(), to);
    plan.sources = vec![Source::OaiPmh];
    plan.scenarios = vec!["DJ-4".into()];
    let mut world = World::new(plan);
    let list = "/oai-pmh/oai?verb=ListRecords&metadataPrefix=oai_dc&from=2026-03-01T00:00:00Z";
    let answer = world.answer(&SimRequest::get(list), to);
    String::from_utf8_lossy(&answer.body).contains("noRecordsMatch")
        && world.counters("oai-pmh").situations.contains_key("DJ-4")
}
