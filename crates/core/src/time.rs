//! Instants and lengths of time, both in whole microseconds.
//!
//! Everything finer than a microsecond is cut off before it is compared or stored, because the
//! databases round differently. Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A UTC instant in microseconds since 1970. Prints as `2026-01-02T03:04:05.000006Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// The text is not an instant we can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time")]
pub struct NotATime {
    pub text: String,
}

impl Timestamp {
    /// 0001-01-01T00:00:00Z: below every time a source can name.
    pub const MIN: Timestamp = Timestamp(-62_135_596_800 * MICROS_PER_SECOND);
    /// 9999-12-30T00:00:00Z: above every time a source can name.
    pub const MAX: Timestamp = Timestamp(253_402_128_000 * MICROS_PER_SECOND);

    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Clamped into the years 1..9999, so that every instant can be printed.
    pub fn from_jiff(instant: jiff::Timestamp) -> Self {
        Timestamp(instant.as_microsecond()).clamp(Self::MIN, Self::MAX)
    }

    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.clamp(Self::MIN, Self::MAX).0)
            .expect("the clamped range lies inside what jiff can hold")
    }

    pub const fn plus(self, span: Span) -> Self {
        Timestamp(self.0.saturating_add(span.0))
    }

    pub const fn minus(self, span: Span) -> Self {
        Timestamp(self.0.saturating_sub(span.0))
    }

    /// `self - earlier`, negative when `earlier` is later.
    pub const fn since(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.to_jiff().to_zoned(jiff::tz::TimeZone::UTC);
        let micros = self.clamp(&Self::MIN, &Self::MAX).0.rem_euclid(MICROS_PER_SECOND);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
            civil.year(),
            civil.month(),
            civil.day(),
            civil.hour(),
            civil.minute(),
            civil.second(),
            micros
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads what [`Display`](fmt::Display) writes, any RFC 3339 instant, and a plain day as its UTC midnight.
impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(Timestamp::from_jiff(instant));
        }
        let wrong = || NotATime { text: text.to_owned() };
        // The parser of days would drop a time of day without a word.
        if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            return Err(wrong());
        }
        let day = text.parse::<jiff::civil::Date>().map_err(|_| wrong())?;
        let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| wrong())?;
        Ok(Timestamp::from_jiff(midnight.timestamp()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A length of time in microseconds; may be negative as a difference. Prints as ISO-8601 (`PT10M`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

impl Span {
    pub const ZERO: Span = Span(0);
    pub const SECOND: Span = Span(MICROS_PER_SECOND);
    pub const MINUTE: Span = Span(60 * MICROS_PER_SECOND);
    pub const HOUR: Span = Span(3_600 * MICROS_PER_SECOND);
    pub const DAY: Span = Span(86_400 * MICROS_PER_SECOND);

    pub const fn from_micros(micros: i64) -> Self {
        Span(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Span(millis.saturating_mul(1_000))
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Span(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub const fn millis(self) -> i64 {
        self.0 / 1_000
    }

    pub const fn times(self, factor: i64) -> Self {
        Span(self.0.saturating_mul(factor))
    }

    pub const fn plus(self, other: Span) -> Self {
        Span(self.0.saturating_add(other.0))
    }

    /// Never negative, for handing to a timer.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("PT0S");
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        let total = self.0.unsigned_abs();
        let (days, rest) = (total / 86_400_000_000, total % 86_400_000_000);
        let (hours, rest) = (rest / 3_600_000_000, rest % 3_600_000_000);
        let (minutes, rest) = (rest / 60_000_000, rest % 60_000_000);
        let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
        write!(f, "{sign}P")?;
        if days > 0 {
            write!(f, "{days}D")?;
        }
        if hours + minutes + seconds + micros > 0 {
            f.write_str("T")?;
        }
        for (count, unit) in [(hours, 'H'), (minutes, 'M')] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        match (seconds, micros) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, "{seconds}S"),
            _ => write!(f, "{}S", format!("{seconds}.{micros:06}").trim_end_matches('0')),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads ISO-8601 lengths of fixed size (`PT10M`, `P1DT2H`, `P1W`). Months and years have no fixed size and are refused.
impl FromStr for Span {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let wrong = || NotATime { text: text.to_owned() };
        let span: jiff::Span = text.parse().map_err(|_| wrong())?;
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(wrong());
        }
        let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
        let rest = span.weeks(0).days(0);
        let length = rest.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
        let micros = i64::try_from(length.as_micros()).map_err(|_| wrong())?;
        Ok(Span(days.saturating_mul(Span::DAY.0).saturating_add(micros)))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_prints_six_digits_and_reads_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_164_800_000_001, "2024-02-29T00:00:00.000001Z"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_micros(micros)));
        }
    }

    #[test]
    fn finer_digits_are_cut_off_and_offsets_are_turned_to_utc() {
        let cut: Timestamp = "2026-01-01T23:59:59.9999996Z".parse().unwrap();
        assert_eq!(cut.to_string(), "2026-01-01T23:59:59.999999Z");
        let offset: Timestamp = "2026-01-01T00:00:00+02:00".parse().unwrap();
        assert_eq!(offset.to_string(), "2025-12-31T22:00:00.000000Z");
    }

    #[test]
    fn a_day_is_its_utc_midnight_and_nonsense_is_refused() {
        assert_eq!("2026-03-01".parse::<Timestamp>().unwrap().to_string(), "2026-03-01T00:00:00.000000Z");
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!("2026-03-01T10:00:00".parse::<Timestamp>().is_err(), "a time of day without a zone");
    }

    #[test]
    fn lengths_print_and_read_in_iso_form() {
        for (text, micros) in [
            ("PT0S", 0),
            ("PT10M", 600_000_000),
            ("P1DT2H", 93_600_000_000),
            ("PT1.5S", 1_500_000),
            ("P31D", 31 * 86_400_000_000),
        ] {
            assert_eq!(Span::from_micros(micros).to_string(), text);
            assert_eq!(text.parse(), Ok(Span::from_micros(micros)));
        }
        assert_eq!("P1W".parse(), Ok(Span::DAY.times(7)));
        assert!("P1M".parse::<Span>().is_err());
    }
}
