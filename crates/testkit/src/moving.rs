//! Moving result sets (FM-14): records enter, leave and move between the pages of every kind of paging, and no slice
//! that succeeds has missed one that stayed. The checker looks after every round, before a second reading could mend it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use patra_core::failpoint::Failpoints;
use patra_core::id::Id;
use patra_core::ports::Partition;
use patra_core::time::Span;
use patra_engine::notice::{Notice, Notices};
use patra_engine::settings::Settings;
use patra_sim::{Rng, Source};

use crate::lab::{Lab, LabPlan, LabResult};
use crate::simulation::HISTORY;
use crate::template;

/// A way of turning pages.
pub struct Kind {
    pub name: &'static str,
    source: Source,
    set: &'static [(&'static str, &'static str)],
    /// Slices of it can be made smaller, so that none needs more than three passes.
    cuttable: bool,
}

pub const KINDS: [Kind; 8] = [
    Kind { name: "server cursor", source: Source::Crossref, set: &[], cuttable: false },
    Kind { name: "token", source: Source::OaiPmh, set: &[], cuttable: true },
    Kind { name: "next url", source: Source::DataCite, set: &[], cuttable: true },
    Kind { name: "time", source: Source::TimeFeed, set: &[], cuttable: true },
    Kind { name: "offset, overlapping", source: Source::OpenFda, set: &[], cuttable: false },
    Kind { name: "offset, plain", source: Source::OpenFda, set: &[("pagination.overlap", "0")], cuttable: false },
    Kind { name: "page, backward", source: Source::Doaj, set: &[], cuttable: true },
    Kind { name: "page, forward", source: Source::Doaj, set: &[("pagination.backward", "false")], cuttable: true },
];
/// Page numbers that rise: what leaves makes the next page skip a record.
pub const FORWARD: &Kind = &KINDS[7];
/// Passes after which a slice that can be cut is cut.
const PASSES: u32 = 3;

/// How fast a source moves: so many changes at a time in one of so many requests.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub every: u32,
    pub burst: u32,
}

/// How many passes each task took, and how it ended.
#[derive(Default)]
struct Passes(Mutex<Tally>);

/// What became of the slices of a run.
#[derive(Default)]
pub struct Tally {
    begun: BTreeMap<Id, u32>,
    /// Slices that succeeded, by the number of passes.
    pub succeeded: BTreeMap<u32, u64>,
    pub split: u64,
    /// Neither proven nor cut.
    pub ended: u64,
}

impl Tally {
    pub fn add(&mut self, more: &Tally) {
        more.succeeded.iter().for_each(|(passes, slices)| *self.succeeded.entry(*passes).or_default() += slices);
        self.split += more.split;
        self.ended += more.ended;
    }
}

impl Notices for Passes {
    fn tell(&self, _at: &Partition, notice: Notice) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::PassBegan { task, pass_no, .. } => {
                tally.begun.insert(task, pass_no);
            }
            Notice::SliceSucceeded { task, .. } => {
                let passes = tally.begun.get(&task).copied().unwrap_or(1);
                *tally.succeeded.entry(passes).or_default() += 1;
            }
            Notice::SliceSplit { .. } => tally.split += 1,
            Notice::SliceEnded { .. } => tally.ended += 1,
            _ => {}
        }
    }
}

fn plan(kind: &Kind, seed: u64, pace: Option<Pace>, database: std::path::PathBuf) -> LabPlan {
    let mut rng = Rng::for_parts(seed, &[0x14]);
    let mut plan = LabPlan::new(seed, 20 + rng.below(60), database);
    plan.sources = vec![kind.source];
    plan.history = HISTORY;
    plan.workers = 1 + rng.below(3) as usize;
    plan.settings = Settings { poll: Span::from_seconds(3), ..Settings::default() };
    let drawn = Pace { every: *rng.pick(&[1, 3, 9]), burst: *rng.pick(&[1, 1, 3]) };
    let pace = pace.unwrap_or(drawn);
    (plan.mutate_every, plan.mutate_burst) = (pace.every, pace.burst);
    let by_day = kind.source == Source::OpenFda;
    let slice = if by_day { "P1D" } else { *rng.pick(&["PT6H", "PT12H", "P1D"]) };
    let size = *rng.pick(&["2", "3", "7"]);
    plan.set = vec![("pagination.size".into(), size.into()), ("window.slice".into(), slice.into())];
    plan.set_for = kind.set.iter().map(|(key, value)| (kind.source, *key, *value)).collect();
    plan
}

/// What is wrong with one seed of one kind, if anything, and what became of its slices. Without a pace the seed has one.
pub fn judge(kind: &Kind, seed: u64, pace: Option<Pace>) -> LabResult<(Option<String>, Tally)> {
    let folder = template::scratch()?;
    let plan = plan(kind, seed, pace, template::database(&folder));
    template::place(&plan)?;
    let passes = Arc::new(Passes::default());
    let mut lab = Lab::open(plan, Failpoints::none(), passes.clone())?;
    let mut wrong = Vec::new();
    for pause in [Span::ZERO, Span::HOUR.times(7)] {
        lab.time.jump(pause);
        lab.round()?;
        wrong.extend(complaint(&lab, "while it moves")?);
    }
    lab.world.lock().silence();
    for pause in [Span::ZERO, Span::DAY.times(8), Span::HOUR] {
        lab.time.jump(pause);
        lab.round()?;
    }
    wrong.extend(complaint(&lab, "at rest")?);
    let tally = std::mem::take(&mut *passes.0.lock().unwrap_or_else(PoisonError::into_inner));
    let most = tally.succeeded.keys().next_back().copied().unwrap_or(0);
    if kind.cuttable && most > PASSES {
        wrong.push(format!("a slice needed {most} passes"));
    }
    let told = (!wrong.is_empty()).then(|| format!("{}: {}", kind.name, wrong.join("; ")));
    Ok((told, tally))
}

fn complaint(lab: &Lab, when: &str) -> LabResult<Option<String>> {
    let verdict = lab.verdict()?;
    let errors = verdict.findings.iter().filter(|finding| finding.severity == patra_checker::Severity::Error);
    let told: Vec<String> = errors.take(3).map(|finding| format!("{} {}", finding.check, finding.message)).collect();
    Ok((!verdict.ok).then(|| format!("{when}: {}", told.join(", "))))
}
