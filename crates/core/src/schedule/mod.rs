//! Schedules: what is triggered by the clock, when it is due, and what becomes of times that were missed.
//!
//! A due time is decided here from the expression alone, so any number of planners come to the same one; the ledger lets
//! one of them fire it. A firing is a row of its own: a planner that dies with it leaves it to the next.

mod cron;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

pub use cron::{Cron, NotCron};

use crate::calendar::{UnknownZone, zone_of};
use crate::hash::Hash32;
use crate::id::Id;
use crate::plan::refresh::Refresh;
use crate::spec::snapshot::Operation;
use crate::time::{Span, Timestamp};

/// How late a firing may be without counting as missed.
pub const GRACE: Span = Span::MINUTE.times(10);

/// What happens when the plan of the firing before is still being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Overlap {
    /// This firing makes no plan.
    Skip,
    /// It waits until that plan has ended.
    Queue,
}

/// What happens to due times at which no planner ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CatchUp {
    /// They are passed over.
    Skip,
    /// The latest of them fires for all.
    Once,
    /// Every one of them fires.
    All,
}

macro_rules! coded {
    ($kind:ident { $($state:ident = $code:literal),+ $(,)? }) => {
        impl $kind {
            pub const fn code(self) -> &'static str {
                match self { $($kind::$state => $code),+ }
            }
            pub fn from_code(code: &str) -> Option<$kind> {
                [$($kind::$state),+].into_iter().find(|known| known.code() == code)
            }
        }
    };
}

coded! { Overlap { Skip = "SKIP", Queue = "QUEUE" } }
coded! { CatchUp { Skip = "SKIP", Once = "ONCE", All = "ALL" } }

/// What a firing asks for (5.2.1): the window, and what a command line could set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// BACKFILL: the window that ends at the due time.
    pub last: Option<Span>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub activity: Option<String>,
    /// UPDATE: which records are asked for again.
    pub refresh: Option<Refresh>,
    /// UPDATE: how many of them at most.
    pub limit: Option<u32>,
    pub query: Option<String>,
    /// The query in the source's own words.
    pub native_query: Option<String>,
    pub base_url: Option<String>,
    pub allow_host: Vec<String>,
    pub set: Vec<(String, String)>,
    pub contact: Option<String>,
    pub priority: Option<u8>,
}

impl Ask {
    /// From when to when, for a firing that was due then.
    pub fn window(&self, due: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        match self.last {
            Some(last) => (Some(due.minus(last)), Some(due)),
            None => (self.since, self.until),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub id: Id,
    pub name: String,
    pub cron: String,
    pub zone: String,
    pub jitter: Span,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    pub provenance: String,
    pub endpoint: Option<String>,
    pub operation: Operation,
    pub channel: String,
    pub ask: Ask,
    pub paused: bool,
    /// The next due time by the expression.
    pub next_due: Timestamp,
    /// Raised by every change: of two planners that saw the same, one wins.
    pub version: i64,
}

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASchedule {
    #[error(transparent)]
    Cron(#[from] NotCron),
    #[error(transparent)]
    Zone(#[from] UnknownZone),
    #[error("`{cron}` never fires")]
    Never { cron: String },
}

/// What is to be done at a moment for a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Due times to fire; at most one.
    pub fire: Option<Timestamp>,
    /// Where the schedule goes on.
    pub next_due: Timestamp,
}

impl Schedule {
    fn read(&self) -> Result<(Cron, TimeZone), NotASchedule> {
        Ok((self.cron.parse()?, zone_of(&self.zone)?))
    }

    /// The first due time after `instant`.
    pub fn due_after(&self, instant: Timestamp) -> Result<Timestamp, NotASchedule> {
        let (cron, zone) = self.read()?;
        cron.next(&zone, instant).ok_or_else(|| NotASchedule::Never { cron: self.cron.clone() })
    }

    /// When a due time is acted on: later by a share of the jitter that is the same for all planners.
    pub fn fire_at(&self, due: Timestamp) -> Timestamp {
        if self.jitter <= Span::ZERO {
            return due;
        }
        let draw = Hash32::of_parts(&[&self.id.0.to_be_bytes(), &due.micros().to_be_bytes()]).short();
        due.plus(Span::from_micros((draw % self.jitter.micros().unsigned_abs()).cast_signed()))
    }

    /// What is due at `now`; `None` while nothing is.
    pub fn turn(&self, now: Timestamp) -> Result<Option<Turn>, NotASchedule> {
        if self.paused || self.fire_at(self.next_due) > now {
            return Ok(None);
        }
        let missed = self.fire_at(self.next_due).plus(GRACE) < now;
        let fire = match self.catch_up {
            CatchUp::Skip if missed => None,
            CatchUp::Once if missed => Some(self.latest_fired(now)?),
            CatchUp::Skip | CatchUp::Once | CatchUp::All => Some(self.next_due),
        };
        let passed = fire.unwrap_or_else(|| now.max(self.next_due));
        Ok(Some(Turn { fire, next_due: self.due_after(passed)? }))
    }

    /// The latest due time whose moment has come.
    fn latest_fired(&self, now: Timestamp) -> Result<Timestamp, NotASchedule> {
        let (cron, zone) = self.read()?;
        let mut latest = cron.latest(&zone, now).unwrap_or(self.next_due);
        while latest > self.next_due && self.fire_at(latest) > now {
            let before = Timestamp::from_micros(latest.micros() - 1);
            latest = cron.latest(&zone, before).unwrap_or(self.next_due);
        }
        Ok(latest.max(self.next_due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daily() -> Schedule {
        Schedule {
            id: Id(7),
            name: "nightly".into(),
            cron: "0 3 * * *".into(),
            zone: "UTC".into(),
            jitter: Span::ZERO,
            overlap: Overlap::Skip,
            catch_up: CatchUp::Once,
            provenance: "crossref".into(),
            endpoint: None,
            operation: Operation::Harvest,
            channel: "stable".into(),
            ask: Ask::default(),
            paused: false,
            next_due: at("2026-05-01T03:00:00Z"),
            version: 1,
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn missed_times_are_caught_up_as_declared() {
        let (due, second, third) = (at("2026-05-01T03:00:00Z"), at("2026-05-02T03:00:00Z"), at("2026-05-03T03:00:00Z"));
        let turn = |catch_up, now: &str| Schedule { catch_up, ..daily() }.turn(at(now)).unwrap();
        for all in [CatchUp::Skip, CatchUp::Once, CatchUp::All] {
            assert_eq!(turn(all, "2026-05-01T02:59:59Z"), None);
            let fired = Some(Turn { fire: Some(due), next_due: second });
            assert_eq!(turn(all, "2026-05-01T03:00:00Z"), fired);
            assert_eq!(turn(all, "2026-05-01T03:10:00Z"), fired, "late, not missed");
        }
        let late = "2026-05-02T12:00:00Z";
        assert_eq!(turn(CatchUp::Skip, late), Some(Turn { fire: None, next_due: third }));
        assert_eq!(turn(CatchUp::Once, late), Some(Turn { fire: Some(second), next_due: third }));
        assert_eq!(turn(CatchUp::All, late), Some(Turn { fire: Some(due), next_due: second }));
        let paused = Schedule { paused: true, ..daily() };
        assert_eq!(paused.turn(at(late)), Ok(None));
    }

    #[test]
    fn jitter_is_drawn_once_for_each_due_time() {
        let schedule = Schedule { jitter: Span::HOUR, ..daily() };
        let at_due = schedule.fire_at(schedule.next_due);
        assert_eq!(at_due, schedule.clone().fire_at(schedule.next_due));
        assert!(at_due >= schedule.next_due && at_due < schedule.next_due.plus(Span::HOUR));
        let next = schedule.due_after(schedule.next_due).unwrap();
        assert_ne!(schedule.fire_at(next).since(next), at_due.since(schedule.next_due));
    }

    #[test]
    fn a_window_may_move_with_the_due_time() {
        let due = at("2026-05-01T03:00:00Z");
        let moving = Ask { last: Some(Span::DAY), ..Ask::default() };
        assert_eq!(moving.window(due), (Some(due.minus(Span::DAY)), Some(due)));
        assert_eq!(Ask::default().window(due), (None, None));
    }
}
