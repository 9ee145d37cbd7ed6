//! Calendar arithmetic: where a step of a given length begins in a source's zone.
//!
//! Steps of whole days follow the zone's civil days, so a day of the clock change has 23 or 25 hours and is
//! still one step. Shorter steps are counted from the zone's own midnight through its current offset.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// Civil unit that window edges are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    Minute,
    Hour,
    Day,
}

impl Align {
    pub const fn span(self) -> Span {
        match self {
            Align::Minute => Span::MINUTE,
            Align::Hour => Span::HOUR,
            Align::Day => Span::DAY,
        }
    }
}

/// The zone is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a time zone")]
pub struct UnknownZone {
    pub name: String,
}

/// A step of fixed calendar length in one zone; finds the edges around an instant.
#[derive(Clone, Debug)]
pub struct Stepper {
    zone: TimeZone,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Days(i64),
    Micros(i64),
}

impl Stepper {
    /// A step of at least one microsecond; whole days become civil days.
    pub fn new(step: Span, zone: &str) -> Result<Stepper, UnknownZone> {
        let zone = zone_of(zone)?;
        let micros = step.micros().max(1);
        let step = match micros % Span::DAY.micros() {
            0 => Step::Days(micros / Span::DAY.micros()),
            _ => Step::Micros(micros),
        };
        Ok(Stepper { zone, step })
    }

    /// The latest edge at or before `instant`.
    pub fn floor(&self, instant: Timestamp) -> Timestamp {
        match self.step {
            Step::Days(days) => {
                let date = self.date_of(instant);
                let number = day_number(date);
                self.midnight(date_of_number(number.div_euclid(days) * days))
            }
            Step::Micros(step) => {
                let offset = self.offset_micros(instant);
                let local = instant.micros() + offset;
                Timestamp::from_micros(local.div_euclid(step) * step - offset)
            }
        }
    }

    /// The earliest edge at or after `instant`.
    pub fn ceil(&self, instant: Timestamp) -> Timestamp {
        let floor = self.floor(instant);
        if floor == instant { instant } else { self.next(instant) }
    }

    /// The earliest edge after `instant`.
    pub fn next(&self, instant: Timestamp) -> Timestamp {
        let floor = self.floor(instant);
        match self.step {
            Step::Days(days) => {
                let number = day_number(self.date_of(floor));
                self.midnight(date_of_number(number + days))
            }
            Step::Micros(step) => Timestamp::from_micros(floor.micros().saturating_add(step)),
        }
    }

    /// The latest edge before `instant`.
    pub fn previous(&self, instant: Timestamp) -> Timestamp {
        self.floor(Timestamp::from_micros(instant.micros().saturating_sub(1)))
    }

    pub fn is_edge(&self, instant: Timestamp) -> bool {
        self.floor(instant) == instant
    }

    fn date_of(&self, instant: Timestamp) -> Date {
        instant.to_jiff().to_zoned(self.zone.clone()).date()
    }

    fn offset_micros(&self, instant: Timestamp) -> i64 {
        i64::from(self.zone.to_offset(instant.to_jiff()).seconds()) * 1_000_000
    }

    fn midnight(&self, date: Date) -> Timestamp {
        match date.to_zoned(self.zone.clone()) {
            Ok(zoned) => zoned.start_of_day().map_or(Timestamp::MAX, |start| Timestamp::from_jiff(start.timestamp())),
            Err(_) => Timestamp::MAX,
        }
    }
}

/// Resolves an IANA zone name; `UTC` always works.
pub fn zone_of(name: &str) -> Result<TimeZone, UnknownZone> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| UnknownZone { name: name.to_owned() })
}

fn day_number(date: Date) -> i64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    date.since(epoch).map_or(0, |span| i64::from(span.get_days()))
}

fn date_of_number(number: i64) -> Date {
    let epoch = jiff::civil::date(1970, 1, 1);
    let days = jiff::Span::new().try_days(number).unwrap_or_default();
    epoch.saturating_add(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn days_of_a_zone_begin_at_its_midnight_also_when_the_clock_changes() {
        let day = Stepper::new(Span::DAY, "America/New_York").unwrap();
        for (instant, floor, next) in [
            ("2026-01-15T12:00:00Z", "2026-01-15T05:00:00Z", "2026-01-16T05:00:00Z"),
            // 8 March 2026 has 23 hours, 1 November 2026 has 25.
            ("2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"),
            ("2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"),
            ("2024-02-29T12:00:00Z", "2024-02-29T05:00:00Z", "2024-03-01T05:00:00Z"),
        ] {
            assert_eq!(day.floor(at(instant)), at(floor), "{instant}");
            assert_eq!(day.next(at(instant)), at(next), "{instant}");
            assert_eq!(day.ceil(at(floor)), at(floor));
            assert_eq!(day.previous(at(next)), at(floor));
        }
    }

    #[test]
    fn shorter_steps_follow_the_offset_of_the_zone() {
        let hour = Stepper::new(Span::HOUR, "Asia/Kolkata").unwrap();
        assert_eq!(hour.floor(at("2026-01-01T00:45:00Z")), at("2026-01-01T00:30:00Z"));
        let utc = Stepper::new(Span::HOUR, "UTC").unwrap();
        assert_eq!(utc.ceil(at("2026-01-01T00:45:00Z")), at("2026-01-01T01:00:00Z"));
        assert!(utc.is_edge(at("2026-01-01T01:00:00Z")));
    }

    #[test]
    fn a_step_of_one_microsecond_makes_every_instant_an_edge() {
        let micro = Stepper::new(Span::from_micros(1), "UTC").unwrap();
        let instant = at("2026-01-01T01:00:00.000007Z");
        assert_eq!(micro.floor(instant), instant);
        assert_eq!(micro.next(instant), instant.plus(Span::from_micros(1)));
    }

    #[test]
    fn an_unknown_zone_is_refused() {
        assert!(Stepper::new(Span::DAY, "Mars/Olympus").is_err());
    }
}
