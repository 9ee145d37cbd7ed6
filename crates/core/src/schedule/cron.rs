//! Cron expressions over the civil time of a zone: five fields, minutes first.
//!
//! A clock change neither loses nor doubles a firing. A time that the clock skips fires at the moment it skips to. A time
//! that the clock shows twice fires the first time only, except where every hour is meant: then real hours count.

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::time::Timestamp;

/// Days searched for the next firing: 29 February on a given weekday comes back within 40 years.
const DAYS_MAX: i32 = 40 * 366;

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCron {
    #[error("a cron expression has five fields (minute hour day month weekday), found {found}")]
    Fields { found: usize },
    #[error("`{text}` is no {field}; expected {from} to {to}, `*`, lists, ranges and steps (`*/5`)")]
    Field { field: &'static str, text: String, from: u8, to: u8 },
}

/// Which values of one field fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Written as `*` or `*/n`.
    every: bool,
}

impl Field {
    fn has(self, value: u8) -> bool {
        self.bits & (1 << value) != 0
    }

    fn values(self) -> impl DoubleEndedIterator<Item = u8> {
        (0..60).filter(move |value| self.has(*value))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl FromStr for Cron {
    type Err = NotCron;

    fn from_str(text: &str) -> Result<Cron, NotCron> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(NotCron::Fields { found: fields.len() });
        };
        let mut weekday = Kind { name: "weekday", from: 0, to: 7, names: &WEEKDAYS }.read(weekday)?;
        if weekday.has(7) {
            weekday.bits |= 1;
        }
        Ok(Cron {
            minute: Kind { name: "minute", from: 0, to: 59, names: &[] }.read(minute)?,
            hour: Kind { name: "hour", from: 0, to: 23, names: &[] }.read(hour)?,
            day: Kind { name: "day", from: 1, to: 31, names: &[] }.read(day)?,
            month: Kind { name: "month", from: 1, to: 12, names: &MONTHS }.read(month)?,
            weekday,
        })
    }
}

/// One of the five fields.
struct Kind {
    name: &'static str,
    from: u8,
    to: u8,
    /// Names of the values from `from` on.
    names: &'static [&'static str],
}

impl Kind {
    fn read(&self, text: &str) -> Result<Field, NotCron> {
        let wrong = || NotCron::Field { field: self.name, text: text.to_owned(), from: self.from, to: self.to };
        let mut bits = 0;
        for item in text.split(',') {
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, step.parse::<u8>().ok().filter(|step| *step > 0).ok_or_else(wrong)?),
                None => (item, 1),
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" => (self.from, self.to),
                Some((from, to)) => (self.value(from).ok_or_else(wrong)?, self.value(to).ok_or_else(wrong)?),
                // `5/10` counts on from five.
                None if item.contains('/') => (self.value(range).ok_or_else(wrong)?, self.to),
                None => {
                    let only = self.value(range).ok_or_else(wrong)?;
                    (only, only)
                }
            };
            if from > to {
                return Err(wrong());
            }
            (from..=to).step_by(step.into()).for_each(|value| bits |= 1 << value);
        }
        Ok(Field { bits, every: text.starts_with('*') && !text.contains(',') })
    }

    fn value(&self, text: &str) -> Option<u8> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(at) => u8::try_from(at).ok()? + self.from,
            None => text.parse().ok()?,
        };
        (self.from..=self.to).contains(&value).then_some(value)
    }
}

impl Cron {
    /// The first firing after `instant`; `None` for a day that never comes, like 30 February.
    pub fn next(&self, zone: &TimeZone, instant: Timestamp) -> Option<Timestamp> {
        // A clock change at midnight can move a firing of the day before past this one.
        let mut date = zone.to_datetime(instant.to_jiff()).date().yesterday().ok()?;
        for _ in 0..DAYS_MAX {
            let first = self.firings(zone, date).into_iter().filter(|at| *at > instant).min();
            if first.is_some() {
                return first;
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The last firing at or before `instant`.
    pub fn latest(&self, zone: &TimeZone, instant: Timestamp) -> Option<Timestamp> {
        let mut date = zone.to_datetime(instant.to_jiff()).date().tomorrow().ok()?;
        for _ in 0..DAYS_MAX {
            let last = self.firings(zone, date).into_iter().filter(|at| *at <= instant).max();
            if last.is_some() {
                return last;
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    /// Every firing of one civil day.
    fn firings(&self, zone: &TimeZone, date: Date) -> Vec<Timestamp> {
        if !self.is_on(date) {
            return Vec::new();
        }
        let times = self.hour.values().flat_map(|hour| self.minute.values().map(move |minute| (hour, minute)));
        times.flat_map(|(hour, minute)| self.instants(zone, date, hour, minute)).collect()
    }

    /// Day and weekday both given: either is enough, as in every cron.
    fn is_on(&self, date: Date) -> bool {
        let day = self.day.has(date.day().unsigned_abs());
        let weekday = self.weekday.has(date.weekday().to_sunday_zero_offset().unsigned_abs());
        let fits = match (self.day.every, self.weekday.every) {
            (false, false) => day || weekday,
            _ => day && weekday,
        };
        fits && self.month.has(date.month().unsigned_abs())
    }

    fn instants(&self, zone: &TimeZone, date: Date, hour: u8, minute: u8) -> Vec<Timestamp> {
        let time = Time::constant(hour.cast_signed(), minute.cast_signed(), 0, 0);
        let civil = DateTime::from_parts(date, time);
        let ambiguous = zone.to_ambiguous_timestamp(civil);
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(civil).ok().map(Timestamp::from_jiff);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset).into_iter().collect(),
            AmbiguousOffset::Gap { before, after } => {
                // The moment of the change: read with the old offset, the skipped time lies after it.
                let inside = at(after).map(|instant| instant.to_jiff());
                let change = inside.and_then(|inside| zone.following(inside).next());
                let change = change.map(|change| Timestamp::from_jiff(change.timestamp()));
                change.or_else(|| at(before)).into_iter().collect()
            }
            AmbiguousOffset::Fold { before, after } => match self.hour.every {
                true => at(before).into_iter().chain(at(after)).collect(),
                false => at(before).into_iter().collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::zone_of;
    use crate::time::Span;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(text: &str) -> Cron {
        text.parse().unwrap()
    }

    /// The firings in `[from, to)`.
    fn between(text: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let (cron, zone) = (cron(text), zone_of(zone).unwrap());
        let mut found = Vec::new();
        let mut now = at(from).minus(Span::from_micros(1));
        while let Some(next) = cron.next(&zone, now).filter(|next| *next < at(to)) {
            found.push(next.to_string()[5..16].to_owned());
            now = next;
        }
        found
    }

    #[test]
    fn a_skipped_time_fires_once_when_the_clock_has_skipped_it() {
        // New York, 8 March 2026: 02:00 becomes 03:00 (07:00 UTC).
        let day = |text| between(text, "America/New_York", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
        assert_eq!(day("30 2 * * *"), ["03-08T07:00"]);
        assert_eq!(day("0,15,30,45 2 * * *"), ["03-08T07:00"]);
        assert_eq!(day("30 3 * * *"), ["03-08T07:30"]);
        assert_eq!(day("0 * * * *").len(), 23);
        assert_eq!(day("*/15 * * * *").len(), 23 * 4);
    }

    #[test]
    fn a_repeated_time_fires_once_unless_every_hour_is_meant() {
        // New York, 1 November 2026: 02:00 becomes 01:00 again (06:00 UTC).
        let day = |text| between(text, "America/New_York", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");
        assert_eq!(day("30 1 * * *"), ["11-01T05:30"]);
        assert_eq!(day("0 1-3 * * *"), ["11-01T05:00", "11-01T07:00", "11-01T08:00"]);
        assert_eq!(day("0 * * * *").len(), 25);
        assert_eq!(day("0 */6 * * *"), ["11-01T04:00", "11-01T11:00", "11-01T17:00", "11-01T23:00"]);
    }

    #[test]
    fn days_weekdays_months_and_steps() {
        let year = |text| between(text, "UTC", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        assert_eq!(year("0 0 29 2 *"), Vec::<String>::new());
        assert_eq!(cron("0 0 29 2 *").next(&TimeZone::UTC, at("2026-01-01T00:00:00Z")), Some(at("2028-02-29")));
        assert_eq!(cron("0 0 30 2 *").next(&TimeZone::UTC, at("2026-01-01T00:00:00Z")), None);
        assert_eq!(year("0 0 13 * FRI").len(), 52 + 12 - 3, "either the thirteenth or a Friday");
        assert_eq!(year("0 12 1 jan-mar *"), ["01-01T12:00", "02-01T12:00", "03-01T12:00"]);
        assert_eq!(year("@monthly").len(), 12);
        assert_eq!(year("0 0 * * 7"), year("0 0 * * sun"));
        assert_eq!(between("5/20 3 * * *", "UTC", "2026-01-01", "2026-01-02").len(), 3);
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, told) in [
            ("* * * *", "five fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "weekday"),
            ("*/0 * * * *", "minute"),
            ("5-1 * * * *", "minute"),
            ("a * * * *", "minute"),
            ("", "five fields"),
        ] {
            let error = text.parse::<Cron>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn next_and_latest_agree(minute in 0u8..60, hour in 0u8..24, every in any::<bool>(), seconds in 1_767_225_600i64..1_830_000_000) {
            let text = if every { format!("{minute} * * * *") } else { format!("{minute} {hour} * * *") };
            for zone in ["UTC", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin"] {
                let (cron, zone, now) = (cron(&text), zone_of(zone).unwrap(), Timestamp::from_seconds(seconds));
                let next = cron.next(&zone, now).unwrap();
                prop_assert!(next > now);
                prop_assert_eq!(cron.latest(&zone, next), Some(next));
                let before = cron.latest(&zone, now).unwrap();
                prop_assert!(before <= now);
                prop_assert_eq!(cron.next(&zone, before), Some(next));
            }
        }
    }
}
