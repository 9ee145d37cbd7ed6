//! What a seed decides.

use patra_core::time::Span;
use patra_engine::settings::Settings;
use patra_sim::{FaultLevel, Rng, Source};

use super::{HISTORY, LEASE};
use crate::clocks::{Lies, SCALES};
use crate::lab::LabPlan;

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
    /// Changes at a time.
    pub mutate_burst: u32,
    /// Caps also where a window cannot be cut: slices fail with OVERFLOW.
    pub overflow: bool,
    /// A situation of the simulators that is on from the start.
    pub scenario: Option<&'static str>,
    /// Whose clocks lie, and by how much at most.
    pub lies: Lies,
    pub lie_scale: Span,
    /// Queued tasks at which plans get no more for now.
    pub stock_max: u32,
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
            mutate_burst: 1,
            overflow: false,
            scenario: None,
            lies: Lies::Nobody,
            lie_scale: Span::ZERO,
            stock_max: *Rng::for_parts(seed, &[0x53]).pick(&[1, 2, 10_000]),
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

    pub(crate) fn lab_plan(&self, database: std::path::PathBuf) -> LabPlan {
        let mut plan = LabPlan::new(self.seed, self.records, database);
        plan.sources = self.sources.clone();
        plan.faults = self.faults;
        plan.history = HISTORY;
        plan.workers = self.workers;
        plan.settings = Settings { lease_ttl: LEASE, poll: Span::from_seconds(3), ..Settings::default() };
        plan.settings.thresholds.stock_max = self.stock_max;
        plan.mutate_every = self.mutate_every;
        plan.mutate_burst = self.mutate_burst;
        plan.scenarios = self.scenario.iter().map(|id| (*id).to_owned()).collect();
        plan.set = vec![("pagination.size".into(), self.page_size.to_string()), ("window.slice".into(), self.slice())];
        if self.lie_scale > Span::DAY {
            plan.set.push(("window.max".into(), self.slice()));
        }
        plan.set.extend(self.set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
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

    /// The same run with clocks that lie.
    pub fn with_lies(self, lies: Lies) -> Options {
        let lie_scale = *Rng::for_parts(self.seed, &[0xC0]).pick(&SCALES);
        // Rounds enough for windows to be read for good between two lies.
        let rounds = if lies == Lies::Everyone { 5 } else { self.rounds };
        Options { lies, lie_scale, rounds, ..self }
    }

    pub fn with_overflow(self) -> Options {
        Options { overflow: true, ..self }
    }

    /// Wide slices, so that a slice has pages enough for something to happen between them.
    fn slice(&self) -> String {
        if self.lie_scale > Span::DAY {
            // A database that is a year ahead plans the year.
            return "P40D".into();
        }
        let by_day = self.sources.iter().any(|source| matches!(source, Source::PubMed | Source::OpenFda));
        if by_day { "P1D".into() } else { "PT12H".into() }
    }
}
