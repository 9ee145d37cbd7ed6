//! Nasty situations by their ids, with what a reader is expected to do about each. Most are switched on with
//! `World::enable`; some are how a provider always behaves and are listed so that a test can name what it relies on.
//! Every case that a reader meets is counted (`Counters::situations`).

mod reaction;
mod table;

pub use reaction::Reaction;
pub use table::SCENARIOS;

use crate::faults::FaultKind as F;
use crate::provider::Kind;
use crate::source::Source;
use crate::world::{Lane, Outage, World};

/// One situation.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub id: &'static str,
    pub source: Source,
    /// What happens, in one sentence.
    pub what: &'static str,
    /// What a reader does about it.
    pub reaction: Reaction,
    switch: Switch,
}

/// How a situation comes about.
#[derive(Debug, Clone, Copy)]
enum Switch {
    /// The provider always does this.
    Always,
    /// The provider has a switch of its own.
    Provider,
    /// Every n-th request of a kind meets the next of these faults.
    Pace(u64, Kind, &'static [F]),
    /// The mutation feed runs at this pace.
    Mutations(u32),
    /// One query reaches only so many results.
    Cap(usize),
    /// So many records get one stamp at once.
    MassRevision(usize),
    /// Every n-th record is listed, but cannot be had alone.
    Withheld(usize),
    /// Refused for a while from the next request on: throttled, or as if nothing existed.
    Outage(i64, bool),
}

impl Scenario {
    /// True when there is nothing to switch: the provider always behaves so.
    pub fn is_always_on(&self) -> bool {
        matches!(self.switch, Switch::Always)
    }

    /// The situation with this id.
    pub fn by_id(id: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.id == id)
    }
}

impl World {
    /// Switches a situation on; false when the id is unknown or its source is not part of this world.
    pub fn enable(&mut self, id: &str) -> bool {
        let Some(scenario) = Scenario::by_id(id) else {
            return false;
        };
        let start_us = self.start_us;
        self.lanes.get_mut(&scenario.source).is_some_and(|lane| lane.enable(scenario, start_us))
    }
}

impl Lane {
    fn enable(&mut self, scenario: &'static Scenario, start_us: i64) -> bool {
        let own = self.provider.enable(scenario.id);
        let situation = scenario.id;
        match scenario.switch {
            Switch::Always => {}
            Switch::Provider => return own,
            Switch::Pace(every, kind, faults) => self.faults.pace(situation, every, kind, faults),
            Switch::Mutations(every) => {
                self.feed.set_every(every);
                self.feed_situation = Some(situation);
            }
            Switch::Cap(cap) => return self.provider.set_cap(cap),
            Switch::MassRevision(limit) => {
                let truth = self.provider.truth_mut();
                let now_us = truth.now_us().max(start_us);
                return truth.restamp_many(limit, now_us) > 0;
            }
            Switch::Withheld(every) => {
                let truth = self.provider.truth_mut();
                let now_us = truth.now_us().max(start_us);
                return truth.withhold_every(every, now_us) > 0;
            }
            Switch::Outage(span_us, throttles) => {
                self.outage = Some(Outage { situation, span_us, until_us: None, throttles });
            }
        }
        true
    }
}
