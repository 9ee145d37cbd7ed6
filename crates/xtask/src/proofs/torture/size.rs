//! How large a torture is.

use std::time::Duration;

use super::faults::Speech;
use crate::proofs::Backend;
use crate::servers::Kind;

impl Backend {
    pub fn name(self) -> &'static str {
        match self {
            Backend::Sqlite => "sqlite",
            Backend::Postgres => "postgres",
            Backend::Mariadb => "mariadb",
        }
    }

    /// Its server and how one speaks with it; SQLite has none.
    pub fn server(self) -> Option<(Kind, Speech)> {
        match self {
            Backend::Sqlite => None,
            Backend::Postgres => Some((Kind::Postgres, Speech::Postgres)),
            Backend::Mariadb => Some((Kind::Mysql, Speech::Mysql)),
        }
    }
}

pub const LEASE: Duration = Duration::from_secs(2);
/// Of what a source could give in the time. The rest is lost to faults, most of it to waits after Redis has changed;
/// the fleet must not run out of work.
const SHARE: f64 = 0.5;
const PAGE: u32 = 10;
/// How long a source with a limit takes to answer.
const LIMITED_LATENCY_MS: u32 = 30;

/// Together: a cursor that cannot be asked twice, next links, numbered pages under a cap, and time alone.
const SOURCES: [&str; 4] = ["crossref", "datacite", "doaj", "timefeed"];

/// What happens to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Everything at once.
    Storm,
    /// Only Redis is killed, stopped and emptied, at a pace that leaves the fleet time to come back to it.
    Redis,
    /// Nothing happens.
    Fair,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    pub weather: Weather,
    pub sources: &'static [&'static str],
    pub executors: usize,
    pub planners: usize,
    pub relays: usize,
    pub storm: Duration,
    /// Days of history.
    pub days: u32,
    /// Records over all sources.
    pub records: u64,
    /// Records of a page.
    pub page: u32,
    /// How long an answer takes; none by default.
    pub latency_ms: Option<u32>,
    /// Requests that each source takes in a second.
    pub per_second: u32,
    /// The simulator refuses more than that, and more than these after so long; it takes everything when there are none.
    pub limits: Vec<(Duration, u32)>,
    /// Mean time between two kills; other deeds are rarer in proportion.
    pub kill_every: Duration,
    /// Refused writes of zombies that must have been seen.
    pub stale_least: u64,
    /// The time to a takeover is judged, not only shown.
    pub judge_times: bool,
}

impl Size {
    /// The size of the issue, for so many minutes.
    pub fn full(minutes: f64) -> Size {
        let (storm, per_second) = (Duration::from_secs_f64(minutes * 60.0), 8);
        Size {
            weather: Weather::Storm,
            sources: &SOURCES,
            executors: 16,
            planners: 2,
            relays: 2,
            storm,
            days: 12,
            records: records(storm, per_second, SOURCES.len()),
            page: PAGE,
            latency_ms: None,
            per_second,
            limits: Vec::new(),
            kill_every: Duration::from_millis(2_500),
            stale_least: (10.0 * minutes).min(100.0) as u64,
            judge_times: true,
        }
    }

    /// A fleet at work on one source of 50 requests in a second, whose Redis is taken away again and again.
    pub fn redis(minutes: f64) -> Size {
        let (storm, per_second) = (Duration::from_secs_f64(minutes * 60.0), 50);
        Size {
            weather: Weather::Redis,
            sources: &["datacite"],
            executors: 4,
            planners: 1,
            relays: 1,
            storm,
            days: 12,
            records: records(storm, per_second, 1),
            page: PAGE,
            latency_ms: None,
            per_second,
            limits: Vec::new(),
            kill_every: Duration::from_secs(25),
            stale_least: 0,
            judge_times: false,
        }
    }

    /// One source that only its latency limits, with work for so long and so many executors.
    pub fn slow_source(latency_ms: u32, records: u64) -> Size {
        Size {
            weather: Weather::Fair,
            executors: 0,
            records,
            page: 100,
            latency_ms: Some(latency_ms),
            per_second: 10_000,
            ..Size::redis(0.0)
        }
    }

    /// One source with a limit that it keeps to itself, and twice the work for so long.
    pub fn limited(length: Duration, per_second: u32, changes: &[(Duration, u32)]) -> Size {
        Size {
            weather: Weather::Fair,
            records: (length.as_secs_f64() * f64::from(per_second) * f64::from(PAGE) * 2.0) as u64,
            latency_ms: Some(LIMITED_LATENCY_MS),
            limits: changes.to_vec(),
            ..Size::redis(0.0)
        }
    }

    /// Work for so long, and nothing else to judge.
    pub fn lasting(storm: Duration, per_second: u32) -> Size {
        Size { storm, per_second, records: records(storm, per_second, SOURCES.len()), ..Size::full(1.0) }
    }

    /// Small enough to run beside other tests.
    #[cfg(test)]
    pub fn short() -> Size {
        let (storm, per_second) = (Duration::from_secs(12), 20);
        Size {
            weather: Weather::Storm,
            sources: &SOURCES,
            executors: 4,
            planners: 2,
            relays: 2,
            storm,
            days: 1,
            records: records(storm, per_second, SOURCES.len()) / 2,
            page: PAGE,
            latency_ms: None,
            per_second,
            limits: Vec::new(),
            kill_every: Duration::from_secs(1),
            stale_least: 0,
            judge_times: false,
        }
    }

    pub fn rate(&self) -> String {
        // A killed process never hands its permits back, and each counts as a request under way for five minutes.
        format!("{{ per_second: {}, burst: 4, concurrency: 1000, key: [source] }}", self.per_second)
    }
}

fn records(storm: Duration, per_second: u32, sources: usize) -> u64 {
    (storm.as_secs_f64() * f64::from(per_second) * SHARE * f64::from(PAGE) * sources as f64) as u64
}
