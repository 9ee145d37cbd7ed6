//! Faults by probability, by request number and at a fixed pace, all seeded. In a random level no kind of request fails more
//! than four times in a row, so a patient reader always gets on.

use std::collections::BTreeMap;

use crate::moment::SECOND_US;
use crate::provider::Kind;
use crate::rng::Rng;
use crate::source::Source;

/// How often things go wrong by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FaultLevel {
    #[default]
    None,
    /// About 3 % of requests.
    Mild,
    /// About 25 % of requests.
    Storm,
}

/// One way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// 429 with `Retry-After` in seconds.
    ThrottleSeconds,
    /// 429 with `Retry-After` as an HTTP date.
    ThrottleDate,
    /// 429 without `Retry-After`.
    ThrottleBare,
    Error500,
    Error502,
    /// 503 with `Retry-After`.
    Error503,
    /// The body ends early; the provider has moved on.
    CutBody,
    /// No answer, nothing happened at the provider.
    Reset,
    /// No answer, but the provider has moved on.
    ResetAfter,
    /// The provider's own error under a success status.
    ErrorBody,
    /// A web page instead of data, status 200.
    HtmlPage,
    /// A right answer, late.
    Slow,
    /// Every open cursor is forgotten before the request is answered.
    ExpireCursor,
}

impl FaultKind {
    /// Every kind, in a fixed order.
    pub const ALL: [FaultKind; 13] = [
        FaultKind::ThrottleSeconds,
        FaultKind::ThrottleDate,
        FaultKind::ThrottleBare,
        FaultKind::Error500,
        FaultKind::Error502,
        FaultKind::Error503,
        FaultKind::CutBody,
        FaultKind::Reset,
        FaultKind::ResetAfter,
        FaultKind::ErrorBody,
        FaultKind::HtmlPage,
        FaultKind::Slow,
        FaultKind::ExpireCursor,
    ];

    /// The name in logs and counters.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::ThrottleSeconds => "throttle-seconds",
            FaultKind::ThrottleDate => "throttle-date",
            FaultKind::ThrottleBare => "throttle-bare",
            FaultKind::Error500 => "error-500",
            FaultKind::Error502 => "error-502",
            FaultKind::Error503 => "error-503",
            FaultKind::CutBody => "cut-body",
            FaultKind::Reset => "reset",
            FaultKind::ResetAfter => "reset-after",
            FaultKind::ErrorBody => "error-body",
            FaultKind::HtmlPage => "html-page",
            FaultKind::Slow => "slow",
            FaultKind::ExpireCursor => "expire-cursor",
        }
    }

    /// True when the provider answers first and the fault spoils or delays the answer.
    pub fn acts_after(self) -> bool {
        matches!(self, FaultKind::CutBody | FaultKind::ResetAfter | FaultKind::Slow | FaultKind::ExpireCursor)
    }
}

/// What shall go wrong.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    pub level: FaultLevel,
    pub seed: u64,
    /// Relative weight of each kind; kinds left out never happen by chance.
    pub weights: Vec<(FaultKind, f64)>,
    /// Faults by request number of a source, counted from 1.
    pub script: Vec<(Source, u64, FaultKind)>,
    pub consecutive_max: u32,
    /// Faults by chance that cost a whole walk are at least so many requests apart; in between a 500 takes their place.
    pub walk_loss_apart: u64,
    pub slow_us: (i64, i64),
}

impl FaultPlan {
    /// All kinds at a level; the rarer ones are those that cost a whole walk.
    pub fn new(level: FaultLevel, seed: u64) -> Self {
        let weight = |kind: &FaultKind| {
            if matches!(kind, FaultKind::ExpireCursor) { 0.3 } else { 1.0 }
        };
        Self {
            level,
            seed,
            weights: FaultKind::ALL.iter().map(|kind| (*kind, weight(kind))).collect(),
            script: Vec::new(),
            consecutive_max: 4,
            walk_loss_apart: 200,
            slow_us: (2 * SECOND_US, 45 * SECOND_US),
        }
    }

    /// Nothing goes wrong by chance.
    pub fn none() -> Self {
        Self::new(FaultLevel::None, 0)
    }

    fn probability(&self) -> f64 {
        match self.level {
            FaultLevel::None => 0.0,
            FaultLevel::Mild => 0.03,
            FaultLevel::Storm => 0.25,
        }
    }
}

/// The running decision for one source.
#[derive(Debug, Clone)]
pub struct FaultDice {
    plan: FaultPlan,
    source: Source,
    rng: Rng,
    request_number: u64,
    walk_lost_at: Option<u64>,
    in_a_row: BTreeMap<Kind, u32>,
    paced: Vec<Paced>,
    /// The situation that the last decision belongs to.
    situation: Option<&'static str>,
}

/// A fault at every n-th request of one kind.
#[derive(Debug, Clone)]
struct Paced {
    situation: &'static str,
    every: u64,
    kind: Kind,
    faults: Vec<FaultKind>,
    seen: u64,
}

impl FaultDice {
    /// The decisions of a plan for one source.
    pub fn new(plan: FaultPlan, source: Source) -> Self {
        let rng = Rng::for_parts(plan.seed, &[0xFA, source as u64]);
        Self {
            plan,
            source,
            rng,
            request_number: 0,
            walk_lost_at: None,
            in_a_row: BTreeMap::new(),
            paced: Vec::new(),
            situation: None,
        }
    }

    /// From here on, every n-th request of a kind meets the next of these faults: a situation with an id.
    pub fn pace(&mut self, situation: &'static str, every: u64, kind: Kind, faults: &[FaultKind]) {
        self.paced.push(Paced { situation, every, kind, faults: faults.to_vec(), seen: 0 });
    }

    /// No more faults by chance, script or pace: the calm after the storm.
    pub fn silence(&mut self) {
        self.plan.level = FaultLevel::None;
        self.plan.script.clear();
        self.paced.clear();
    }

    /// The situation whose pace made the last decision.
    pub fn situation(&self) -> Option<&'static str> {
        self.situation
    }

    /// The fault for the next request, if any.
    pub fn decide(&mut self, kind: Kind) -> Option<FaultKind> {
        self.request_number += 1;
        self.situation = None;
        if let Some(fault) = self.certain(kind) {
            return Some(fault);
        }
        let in_a_row = self.in_a_row.entry(kind).or_default();
        let hit = self.rng.chance(self.plan.probability());
        let pick = self.rng.bits();
        if !hit || *in_a_row >= self.plan.consecutive_max {
            *in_a_row = 0;
            return None;
        }
        *in_a_row += 1;
        self.weighted(pick).map(|fault| self.spare_walks(fault))
    }

    /// Long walks need quiet stretches, or a reader that must begin again would never arrive.
    fn spare_walks(&mut self, fault: FaultKind) -> FaultKind {
        let loses_page = matches!(fault, FaultKind::CutBody | FaultKind::ResetAfter) && self.source.keeps_position();
        if !loses_page && fault != FaultKind::ExpireCursor {
            return fault;
        }
        let number = self.request_number;
        if self.walk_lost_at.is_some_and(|at| number - at < self.plan.walk_loss_apart) {
            return FaultKind::Error500;
        }
        self.walk_lost_at = Some(number);
        fault
    }

    /// How long a slow answer takes on top.
    pub fn slowness_us(&mut self) -> i64 {
        self.rng.between(self.plan.slow_us.0, self.plan.slow_us.1)
    }

    /// A seeded number for details of a fault, such as where a body is cut.
    pub fn detail(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn certain(&mut self, kind: Kind) -> Option<FaultKind> {
        let mut found = None;
        for paced in self.paced.iter_mut().filter(|paced| paced.kind == kind) {
            paced.seen += 1;
            if paced.seen.is_multiple_of(paced.every.max(1)) {
                let turn = paced.seen / paced.every.max(1) - 1;
                found = found.or(paced.faults.get((turn % paced.faults.len().max(1) as u64) as usize).copied());
                self.situation = self.situation.or(Some(paced.situation));
            }
        }
        let number = self.request_number;
        let scripted = self.plan.script.iter().find(|(source, at, _)| *source == self.source && *at == number);
        scripted.map(|(_, _, fault)| *fault).or(found)
    }

    fn weighted(&self, pick: u64) -> Option<FaultKind> {
        let total: f64 = self.plan.weights.iter().map(|(_, weight)| weight).sum();
        let mut left = (pick >> 11) as f64 / (1_u64 << 53) as f64 * total;
        for (kind, weight) in &self.plan.weights {
            left -= weight;
            if left < 0.0 {
                return Some(*kind);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(level: FaultLevel) -> f64 {
        let mut dice = FaultDice::new(FaultPlan::new(level, 9), Source::Doaj);
        (0..20_000).filter(|_| dice.decide(Kind::Search).is_some()).count() as f64 / 20_000.0
    }

    #[test]
    fn levels_fire_at_their_rate() {
        assert_eq!(share(FaultLevel::None), 0.0);
        assert!((0.02..0.04).contains(&share(FaultLevel::Mild)));
        assert!((0.2..0.3).contains(&share(FaultLevel::Storm)));
    }

    #[test]
    fn a_storm_fires_every_kind_but_never_five_times_in_a_row() {
        let mut dice = FaultDice::new(FaultPlan::new(FaultLevel::Storm, 4), Source::Crossref);
        let mut seen = std::collections::HashSet::new();
        let mut in_a_row = 0;
        for _ in 0..20_000 {
            match dice.decide(Kind::Search) {
                Some(kind) => {
                    seen.insert(kind);
                    in_a_row += 1;
                }
                None => in_a_row = 0,
            }
            assert!(in_a_row <= 4);
        }
        assert_eq!(seen.len(), FaultKind::ALL.len());
    }

    #[test]
    fn a_script_and_a_pace_hit_exactly() {
        let mut plan = FaultPlan::none();
        plan.script.push((Source::Doaj, 2, FaultKind::Reset));
        let mut dice = FaultDice::new(plan, Source::Doaj);
        dice.pace("X-1", 3, Kind::Search, &[FaultKind::Slow, FaultKind::CutBody]);
        let got: Vec<_> = (0..6).map(|_| dice.decide(Kind::Search)).collect();
        assert_eq!(got, [None, Some(FaultKind::Reset), Some(FaultKind::Slow), None, None, Some(FaultKind::CutBody)]);
    }
}
