//! Nasty situations by their ids. Most are switched on with `World::enable`; some are how a provider always behaves and are
//! listed so that a test can name what it relies on.

use crate::faults::FaultKind as F;
use crate::moment::{HOUR_US, MINUTE_US};
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
    /// Refused for a while from the next request on: throttled, or as if nothing existed.
    Outage(i64, bool),
}

impl Scenario {
    /// True when there is nothing to switch: the provider always behaves so.
    pub fn is_always_on(&self) -> bool {
        matches!(self.switch, Switch::Always)
    }
}

const fn row(id: &'static str, source: Source, what: &'static str, switch: Switch) -> Scenario {
    Scenario { id, source, what, switch }
}

/// Every situation that is implemented.
pub const SCENARIOS: &[Scenario] = &[
    row("CR-1", Source::Crossref, "every third walk loses its cursor after the first page", Switch::Provider),
    row("CR-2", Source::Crossref, "cursors hold `+` and `/`; sent unencoded they are invalid", Switch::Always),
    row(
        "CR-3",
        Source::Crossref,
        "next-cursor is still there after the last page; following it gives no items",
        Switch::Always,
    ),
    row("CR-4", Source::Crossref, "works are re-indexed during the walk, the total moves", Switch::Mutations(2)),
    row("CR-5", Source::Crossref, "504 after a minute for pages above 200 rows", Switch::Provider),
    row(
        "CR-6",
        Source::Crossref,
        "429 as HTML without Retry-After, and a limit header that changes",
        Switch::Pace(7, Kind::Search, &[F::ThrottleBare]),
    ),
    row("CR-7", Source::Crossref, "DOIs with slashes, brackets, hashes and letters outside ASCII", Switch::Always),
    row(
        "CR-9",
        Source::Crossref,
        "200 with status error and message-type exception",
        Switch::Pace(6, Kind::Search, &[F::ErrorBody]),
    ),
    row("CR-10", Source::Crossref, "[[null]] dates, abstracts with JATS tags, titles with markup", Switch::Always),
    row("PM-1", Source::PubMed, "200 with ERROR instead of an id list", Switch::Pace(5, Kind::Search, &[F::ErrorBody])),
    row("PM-2", Source::PubMed, "the count says more than the 300 ids that can be read", Switch::Cap(300)),
    row(
        "PM-3",
        Source::PubMed,
        "429 in bursts, with and without Retry-After",
        Switch::Pace(4, Kind::Search, &[F::ThrottleSeconds, F::ThrottleBare]),
    ),
    row("PM-4", Source::PubMed, "every fourth detail request: 400 around an upstream 502", Switch::Provider),
    row("PM-5", Source::PubMed, "some ids are missing in the detail answer, some are books", Switch::Always),
    row("PM-6", Source::PubMed, "every fifth detail answer is the prolog alone, status 200", Switch::Provider),
    row("PM-8", Source::PubMed, "a mass revision puts thousands of records on one day", Switch::MassRevision(2_000)),
    row("PM-9", Source::PubMed, "records become searchable later than they are dated", Switch::Always),
    row(
        "PM-11",
        Source::PubMed,
        "one id without a record makes the whole detail request fail with 400",
        Switch::Provider,
    ),
    row(
        "PO-1",
        Source::OaiPmh,
        "tokens expire: 200 with badResumptionToken",
        Switch::Pace(7, Kind::Search, &[F::ExpireCursor]),
    ),
    row("PO-2", Source::OaiPmh, "noRecordsMatch for an empty window", Switch::Always),
    row("PO-3", Source::OaiPmh, "the old address `/oai-pmh/oai2` answers 301 and keeps the query", Switch::Always),
    row("PO-4", Source::OaiPmh, "ten records a page", Switch::Provider),
    row("PO-6", Source::OaiPmh, "deleted headers without metadata", Switch::Always),
    row("PO-7", Source::OaiPmh, "from later than until: badArgument", Switch::Always),
    row("PO-9", Source::OaiPmh, "now and then a control character that XML forbids", Switch::Provider),
    row("PO-10", Source::OaiPmh, "now and then the server repeats the token it was asked with", Switch::Provider),
    row("AO-7", Source::OaiPmh, "a token with other arguments: badArgument", Switch::Always),
    row("AO-9", Source::OaiPmh, "503 with Retry-After in mid-list", Switch::Pace(4, Kind::Search, &[F::Error503])),
    row("SIM-OAI-SIZE", Source::OaiPmh, "tokens without completeListSize and cursor", Switch::Provider),
    row("DJ-1", Source::Doaj, "results beyond the cap: 400 (cap lowered to 200)", Switch::Cap(200)),
    row("DJ-2", Source::Doaj, "`TO *` and other wildcards: 400", Switch::Always),
    row("DJ-3", Source::Doaj, "the next link leads beyond the cap", Switch::Always),
    row("DJ-6", Source::Doaj, "400 records with the same second", Switch::MassRevision(400)),
    row("DJ-7", Source::Doaj, "429 from the proxy as HTML", Switch::Pace(5, Kind::Search, &[F::ThrottleBare])),
    row(
        "DJ-10",
        Source::Doaj,
        "a failing index answers with the same 400 as a bad query",
        Switch::Pace(6, Kind::Search, &[F::ErrorBody]),
    ),
    row("DC-1", Source::DataCite, "page numbers beyond the cap give the last page again", Switch::Always),
    row("DC-2", Source::DataCite, "a cursor that cannot be read starts from record 1", Switch::Always),
    row("DC-3", Source::DataCite, "records leave the updated window during the walk", Switch::Mutations(2)),
    row("DC-4", Source::DataCite, "429 for five minutes", Switch::Outage(5 * MINUTE_US, true)),
    row("DC-5", Source::DataCite, "a bad query: 400 with the parser's text", Switch::Always),
    row("DC-6", Source::DataCite, "DOIs with commas inside the cursor", Switch::Always),
    row("DC-7", Source::DataCite, "500 on one page", Switch::Pace(5, Kind::Search, &[F::Error500])),
    row("FD-1", Source::OpenFda, "404 means an empty window", Switch::Always),
    row("FD-2", Source::OpenFda, "skip beyond the reach: 400 (reach lowered to 300)", Switch::Cap(300)),
    row("FD-3", Source::OpenFda, "429 below the declared limit", Switch::Pace(4, Kind::Search, &[F::ThrottleBare])),
    row("FD-5", Source::OpenFda, "a full last page carries a Link; following it gives 404", Switch::Always),
    row("FD-6", Source::OpenFda, "an unreadable search: 400", Switch::Always),
    row("FD-7", Source::OpenFda, "a follow-up changes safetyreportversion", Switch::Always),
    row("FD-8", Source::OpenFda, "the whole dataset is gone for an hour", Switch::Outage(HOUR_US, false)),
    row("TF-1", Source::TimeFeed, "more records share one stamp than a page holds", Switch::MassRevision(500)),
    row("TF-2", Source::TimeFeed, "ids that differ by case or by a trailing space only", Switch::Always),
];

impl World {
    /// Switches a situation on; false when the id is unknown or its source is not part of this world.
    pub fn enable(&mut self, id: &str) -> bool {
        let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.id == id) else {
            return false;
        };
        let start_us = self.start_us;
        self.lanes.get_mut(&scenario.source).is_some_and(|lane| lane.enable(scenario, start_us))
    }
}

impl Lane {
    fn enable(&mut self, scenario: &Scenario, start_us: i64) -> bool {
        let own = self.provider.enable(scenario.id);
        match scenario.switch {
            Switch::Always => {}
            Switch::Provider => return own,
            Switch::Pace(every, kind, faults) => self.faults.pace(every, kind, faults),
            Switch::Mutations(every) => self.feed.set_every(every),
            Switch::Cap(cap) => return self.provider.set_cap(cap),
            Switch::MassRevision(limit) => {
                let truth = self.provider.truth_mut();
                let now_us = truth.now_us().max(start_us);
                return truth.restamp_many(limit, now_us) > 0;
            }
            Switch::Outage(span_us, throttles) => self.outage = Some(Outage { span_us, until_us: None, throttles }),
        }
        true
    }
}
