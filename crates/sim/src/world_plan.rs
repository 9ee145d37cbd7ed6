//! What a world is made of: how many records, over which sources and times, and what goes wrong.

use crate::faults::FaultPlan;
use crate::moment::{HOUR_US, MINUTE_US};
use crate::provider::Rate;
use crate::rng::Rng;
use crate::served::LogMode;
use crate::source::Source;
use crate::truth_plan::TruthPlan;

/// The plan of a world; [`WorldPlan::new`] fills in the usual values.
#[derive(Debug, Clone)]
pub struct WorldPlan {
    pub seed: u64,
    /// Split evenly over the sources.
    pub records_total: u64,
    pub sources: Vec<Source>,
    pub faults: FaultPlan,
    /// History is `[from, to)`; the harvest starts at `to`.
    pub from: i64,
    pub to: i64,
    /// Up to here new versions appear by themselves while the harvest runs.
    pub live_to: i64,
    pub lag_us: i64,
    pub lookback_us: i64,
    /// One mutation in so many requests; 0 is never.
    pub mutate_every: u32,
    /// So many at a time.
    pub mutate_burst: u32,
    pub mutations_max: u64,
    pub log: LogMode,
    pub enforce_rate: bool,
    pub enforce_concurrency: bool,
    /// One limit for all providers in place of their own.
    pub rate_override: Option<Rate>,
    /// Other limits for `rate_override`, so long after the first request.
    pub limit_steps: Vec<(i64, u32)>,
    /// Smaller result caps, so that small truths reach them.
    pub caps: Vec<(Source, usize)>,
    /// Scenario ids to switch on from the start.
    pub scenarios: Vec<String>,
    /// A last change to each source's plan, after everything else.
    pub adjust: Option<fn(&mut TruthPlan)>,
}

impl WorldPlan {
    /// All sources, no faults, no mutations, no live span.
    pub fn new(seed: u64, records_total: u64, from: i64, to: i64) -> Self {
        Self {
            seed,
            records_total,
            sources: Source::ALL.to_vec(),
            faults: FaultPlan::none(),
            from,
            to,
            live_to: to,
            lag_us: 10 * MINUTE_US,
            lookback_us: 2 * HOUR_US,
            mutate_every: 0,
            mutate_burst: 1,
            mutations_max: 10_000,
            log: LogMode::Rows,
            enforce_rate: true,
            enforce_concurrency: false,
            rate_override: None,
            limit_steps: Vec::new(),
            caps: Vec::new(),
            scenarios: Vec::new(),
            adjust: None,
        }
    }

    /// The plan of one source's truth; the remainder of the split goes to the first sources.
    pub fn truth_plan(&self, source: Source) -> TruthPlan {
        let count = self.sources.len().max(1) as u64;
        let place = self.sources.iter().position(|have| *have == source).unwrap_or_default() as u64;
        let records = self.records_total / count + u64::from(place < self.records_total % count);
        let seed = Rng::for_parts(self.seed, &[source as u64]).bits();
        let mut plan = TruthPlan::new(source, seed, records, self.from, self.to);
        plan.live_to = self.live_to;
        plan.lag_us = self.lag_us;
        plan.lookback_us = self.lookback_us;
        if self.mutate_every > 0 {
            plan.reserve = plan.reserve.max(self.mutations_max.min(2_000));
        }
        if let Some(adjust) = self.adjust {
            adjust(&mut plan);
        }
        plan
    }
}
