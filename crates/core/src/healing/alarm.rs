//! What a person must hear of: decided from facts of the ledger, so that every process comes to the same alarms.

use serde::{Deserialize, Serialize};

use crate::healing::{Circuit, CircuitState, Site, Thresholds};
use crate::ports::Partition;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AlarmKind {
    /// The fuse has blown (L4): nothing goes on before a person has looked.
    SourceStopped,
    /// It fails again and again: the circuit is open, or planning is held because of errors.
    PersistentFailure,
    /// The watermark of a harvest does not move although there is something to read.
    WatermarkStalled,
    /// More is queued than there should be, or nobody takes up what is due.
    Stock,
    /// A budget is used up.
    Budget,
}

impl AlarmKind {
    pub const ALL: [AlarmKind; 5] = [
        AlarmKind::SourceStopped,
        AlarmKind::PersistentFailure,
        AlarmKind::WatermarkStalled,
        AlarmKind::Stock,
        AlarmKind::Budget,
    ];

    pub const fn code(self) -> &'static str {
        match self {
            AlarmKind::SourceStopped => "SOURCE_STOPPED",
            AlarmKind::PersistentFailure => "PERSISTENT_FAILURE",
            AlarmKind::WatermarkStalled => "WATERMARK_STALLED",
            AlarmKind::Stock => "STOCK",
            AlarmKind::Budget => "BUDGET",
        }
    }

    pub fn from_code(code: &str) -> Option<AlarmKind> {
        AlarmKind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    pub kind: AlarmKind,
    pub provenance: String,
    /// Endpoint, partition or rate key; empty for a whole source.
    pub what: String,
    pub message: String,
}

impl Alarm {
    /// Two alarms with the same key are one.
    pub fn key(&self) -> String {
        format!("{}:{}/{}", self.kind.code(), self.provenance, self.what)
    }

    fn at(kind: AlarmKind, site: &Site, message: String) -> Alarm {
        Alarm { kind, provenance: site.provenance.clone(), what: site.endpoint.clone(), message }
    }
}

/// What alarms follow from, read in one snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub now: Timestamp,
    /// Endpoints whose fuse has blown.
    pub blown: Vec<(Site, String)>,
    /// Endpoints that a person has paused; an empty endpoint stands for all.
    pub paused: Vec<Site>,
    pub circuits: Vec<(Site, Circuit)>,
    /// Planning is held until then, and why.
    pub held: Vec<(Site, Timestamp, String)>,
    pub harvests: Vec<HarvestPlan>,
    pub stock: Vec<Stock>,
    /// Rate keys whose budget is used up, and when it comes back.
    pub empty_budgets: Vec<(String, Timestamp)>,
}

/// A HARVEST plan that is live or was made lately, with the watermark of its namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct HarvestPlan {
    pub site: Site,
    pub made_at: Timestamp,
    pub to: Timestamp,
    pub live: bool,
    pub watermark: Option<Timestamp>,
    /// When the watermark moved last.
    pub moved_at: Option<Timestamp>,
}

/// The queue of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Stock {
    pub partition: Partition,
    /// Counted up to one more than the limit.
    pub queued: u64,
    /// When the task that waits longest was due.
    pub due_at: Option<Timestamp>,
}

/// The alarms that are on, each once.
pub fn alarms(facts: &Facts, thresholds: &Thresholds) -> Vec<Alarm> {
    let mut all: Vec<Alarm> = Vec::new();
    let blown = facts.blown.iter().map(|(site, reason)| Alarm::at(AlarmKind::SourceStopped, site, reason.clone()));
    all.extend(blown);
    all.extend(failing(facts));
    all.extend(facts.harvests.iter().filter_map(|plan| stalled(facts, plan, thresholds)));
    all.extend(facts.stock.iter().filter_map(|stock| overstocked(facts, stock, thresholds)));
    all.extend(facts.empty_budgets.iter().map(|(key, reset_at)| {
        let provenance = key.split('/').next().unwrap_or_default().to_owned();
        let message = format!("the budget of {key} is used up until {reset_at}");
        Alarm { kind: AlarmKind::Budget, provenance, what: key.clone(), message }
    }));
    all.sort_by_key(Alarm::key);
    all.dedup_by_key(|alarm| alarm.key());
    all
}

fn failing(facts: &Facts) -> impl Iterator<Item = Alarm> + '_ {
    let open = facts.circuits.iter().filter(|(_, circuit)| circuit.state != CircuitState::Closed);
    let open = open.map(|(site, circuit)| {
        let message = format!("it does not answer; asked again from {} on", circuit.until);
        Alarm::at(AlarmKind::PersistentFailure, site, message)
    });
    let held = facts.held.iter().filter(|(_, until, _)| *until > facts.now);
    open.chain(held.map(|(site, _, reason)| Alarm::at(AlarmKind::PersistentFailure, site, reason.clone())))
}

/// Somebody still works for the namespace, a plan beyond its watermark is old, and the watermark stands (INV-11).
fn stalled(facts: &Facts, plan: &HarvestPlan, thresholds: &Thresholds) -> Option<Alarm> {
    let long_ago = facts.now.minus(thresholds.stall_after);
    let owed = plan.made_at <= long_ago && plan.watermark.is_none_or(|watermark| watermark < plan.to);
    let stands = plan.moved_at.is_none_or(|moved| moved <= long_ago);
    let alive = |other: &HarvestPlan| other.site == plan.site && (other.live || other.made_at > long_ago);
    if !owed || !stands || is_stopped(facts, &plan.site) || !facts.harvests.iter().any(alive) {
        return None;
    }
    let message = match plan.watermark {
        Some(watermark) => {
            format!("the watermark stands at {watermark}, {} is planned since {}", plan.to, plan.made_at)
        }
        None => format!("nothing is complete yet of what was planned at {}", plan.made_at),
    };
    Some(Alarm::at(AlarmKind::WatermarkStalled, &plan.site, message))
}

fn overstocked(facts: &Facts, stock: &Stock, thresholds: &Thresholds) -> Option<Alarm> {
    let Partition { provenance, endpoint, operation } = &stock.partition;
    let site = Site { provenance: provenance.clone(), endpoint: endpoint.clone() };
    let waits = stock.due_at.is_some_and(|due| facts.now.since(due) >= thresholds.idle_after);
    let message = if stock.queued > u64::from(thresholds.queued_max) {
        format!("more than {} tasks are queued", thresholds.queued_max)
    } else if waits && !is_stopped(facts, &site) {
        format!("nobody takes up what is due since {}", stock.due_at?)
    } else {
        return None;
    };
    let what = format!("{endpoint}/{operation}");
    Some(Alarm { kind: AlarmKind::Stock, provenance: provenance.clone(), what, message })
}

/// It stands for a reason that has its own alarm, or because a person wants it.
fn is_stopped(facts: &Facts, site: &Site) -> bool {
    let open = facts.circuits.iter().any(|(at, circuit)| at == site && circuit.state != CircuitState::Closed);
    let of = |at: &Site| at.provenance == site.provenance && (at.endpoint.is_empty() || at.endpoint == site.endpoint);
    let budget = |(key, _): &(String, Timestamp)| key.split('/').next() == Some(&site.provenance);
    open || facts.empty_budgets.iter().any(budget)
        || facts.blown.iter().any(|(at, _)| of(at))
        || facts.paused.iter().any(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn ago(minutes: i64) -> Timestamp {
        NOW.minus(Span::MINUTE.times(minutes))
    }

    fn site() -> Site {
        Site { provenance: "crossref".into(), endpoint: "works".into() }
    }

    fn facts(change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let mut facts = Facts { now: NOW, ..Facts::default() };
        change(&mut facts);
        alarms(&facts, &Thresholds::default()).iter().map(Alarm::key).collect()
    }

    fn plan(made: i64, to: i64, watermark: Option<i64>, moved: Option<i64>) -> HarvestPlan {
        let (watermark, moved_at) = (watermark.map(ago), moved.map(ago));
        HarvestPlan { site: site(), made_at: ago(made), to: ago(to), live: false, watermark, moved_at }
    }

    #[test]
    fn a_watermark_is_stalled_when_it_stands_and_something_is_owed_and_somebody_works() {
        let fresh = || plan(5, 10, Some(60), Some(60));
        for (case, plans, want) in [
            ("an old plan and a fresh one", vec![plan(40, 50, Some(60), Some(60)), fresh()], true),
            ("an old plan that is live", vec![HarvestPlan { live: true, ..plan(40, 50, None, None) }], true),
            ("nobody works for it any more", vec![plan(40, 50, Some(60), Some(60))], false),
            ("it has moved", vec![plan(40, 50, Some(60), Some(10)), fresh()], false),
            ("nothing is owed", vec![plan(40, 60, Some(60), Some(60)), plan(5, 60, Some(60), Some(60))], false),
            ("only a fresh plan", vec![fresh()], false),
        ] {
            let found = facts(|facts| facts.harvests = plans);
            assert_eq!(!found.is_empty(), want, "{case}: {found:?}");
        }
    }

    #[test]
    fn what_stands_for_a_known_reason_has_that_alarm_alone() {
        let old = || vec![plan(40, 50, Some(60), Some(60)), plan(5, 10, Some(60), Some(60))];
        let blown = facts(|facts| {
            facts.harvests = old();
            facts.blown = vec![(site(), "401".into())];
        });
        assert_eq!(blown, ["SOURCE_STOPPED:crossref/works"]);
        let open = Circuit { state: CircuitState::Open, until: NOW, epoch: 1 };
        let dark = facts(|facts| {
            facts.harvests = old();
            facts.circuits = vec![(site(), open)];
            facts.held = vec![(site(), NOW.plus(Span::HOUR), "errors".into())];
        });
        assert_eq!(dark, ["PERSISTENT_FAILURE:crossref/works"], "once for both");
        assert!(facts(|facts| facts.held = vec![(site(), NOW, "errors".into())]).is_empty(), "it is over");
    }

    #[test]
    fn a_queue_is_too_long_or_not_taken_up() {
        let partition = Partition { provenance: "x".into(), endpoint: "e".into(), operation: "HARVEST".into() };
        let most = u64::from(Thresholds::default().queued_max);
        for (queued, due, want) in [(most, 29, false), (most + 1, 0, true), (1, 30, true)] {
            let stock = Stock { partition: partition.clone(), queued, due_at: Some(ago(due)) };
            assert_eq!(!facts(|facts| facts.stock = vec![stock]).is_empty(), want, "{queued} {due}");
        }
    }

    #[test]
    fn an_empty_budget_is_told_under_its_source() {
        let found = facts(|facts| facts.empty_budgets = vec![("openalex/key".into(), NOW)]);
        assert_eq!(found, ["BUDGET:openalex/openalex/key"]);
    }
}
