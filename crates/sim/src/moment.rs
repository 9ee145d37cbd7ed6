//! Times as providers write and read them. Inside the simulator every time is an `i64` of microseconds since the epoch.

use jiff::{Timestamp, Zoned, civil, tz::TimeZone};

pub const MILLISECOND_US: i64 = 1_000;
pub const SECOND_US: i64 = 1_000_000;
pub const MINUTE_US: i64 = 60 * SECOND_US;
pub const HOUR_US: i64 = 60 * MINUTE_US;
pub const DAY_US: i64 = 24 * HOUR_US;

/// The largest multiple of `grain` that is not above `at`.
pub fn floor(at: i64, grain: i64) -> i64 {
    at.div_euclid(grain.max(1)) * grain.max(1)
}

/// The named zone, or UTC when the bundled database does not know it.
pub fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// The instant as a civil time in a zone; times out of range stop at the ends of the calendar.
pub fn civil_in(at: i64, zone: &TimeZone) -> Zoned {
    let bounded = at.clamp(Timestamp::MIN.as_microsecond(), Timestamp::MAX.as_microsecond());
    Timestamp::from_microsecond(bounded).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone.clone())
}

/// The first instant of a civil day in a zone.
pub fn day_start(day: civil::Date, zone: &TimeZone) -> Option<i64> {
    day.to_zoned(zone.clone()).ok().map(|start| start.timestamp().as_microsecond())
}

/// `2026-01-31T23:59:59Z`
pub fn iso_seconds(at: i64) -> String {
    civil_in(at, &TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-31T23:59:59.123456Z`
pub fn iso_micros(at: i64) -> String {
    civil_in(at, &TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// `Sat, 31 Jan 2026 23:59:59 GMT`
pub fn http_date(at: i64) -> String {
    civil_in(at, &TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The half-open span that a written date or time denotes in UTC: `2026-01-02` is a day, `2026-01-02T05` an hour, and so
/// on down to microseconds. Also reads `20260102` and `2026/01/02`.
pub fn denoted(text: &str) -> Option<(i64, i64)> {
    denoted_in(text, &TimeZone::UTC)
}

/// As [`denoted`], with the date read in a zone.
pub fn denoted_in(text: &str, zone: &TimeZone) -> Option<(i64, i64)> {
    let text = text.trim().trim_end_matches('Z');
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let (day, precision) = denoted_date(date)?;
    let Some(time) = time else {
        let end = match precision {
            Precision::Year => civil::Date::new(day.year() + 1, 1, 1).ok()?,
            Precision::Month => day.last_of_month().tomorrow().ok()?,
            Precision::Day => day.tomorrow().ok()?,
        };
        return Some((day_start(day, zone)?, day_start(end, zone)?));
    };
    let (offset, unit) = denoted_time(time)?;
    let start = day_start(day, zone)? + offset;
    Some((start, start + unit))
}

enum Precision {
    Year,
    Month,
    Day,
}

fn denoted_date(text: &str) -> Option<(civil::Date, Precision)> {
    let compact = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> =
        if compact { vec![&text[..4], &text[4..6], &text[6..]] } else { text.split(['-', '/']).collect() };
    let number = |at: usize| parts.get(at).map_or(Some(1), |part| part.parse::<i8>().ok());
    let precision = match parts.len() {
        1 => Precision::Year,
        2 => Precision::Month,
        3 => Precision::Day,
        _ => return None,
    };
    let year = parts.first()?.parse::<i16>().ok()?;
    Some((civil::Date::new(year, number(1)?, number(2)?).ok()?, precision))
}

/// Offset into the day and the unit that the written precision stands for.
fn denoted_time(text: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let units = [HOUR_US, MINUTE_US, SECOND_US];
    let parts: Vec<&str> = whole.split(':').collect();
    if parts.is_empty() || parts.len() > units.len() || (fraction.is_some() && parts.len() < units.len()) {
        return None;
    }
    let limits = [24, 60, 60];
    let mut offset = 0;
    for (at, part) in parts.iter().enumerate() {
        let value = part.parse::<i64>().ok().filter(|value| (0..limits[at]).contains(value))?;
        offset += value * units[at];
    }
    let Some(fraction) = fraction else {
        return Some((offset, units[parts.len() - 1]));
    };
    if fraction.is_empty() || fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unit = 10_i64.pow(6 - fraction.len() as u32);
    Some((offset + fraction.parse::<i64>().ok()? * unit, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_precision_decides_the_span() {
        let day = 1_767_225_600 * SECOND_US; // 2026-01-01T00:00:00Z
        for (text, want) in [
            ("2026-01-01", Some((day, day + DAY_US))),
            ("20260101", Some((day, day + DAY_US))),
            ("2026/01/01", Some((day, day + DAY_US))),
            ("2026-01", Some((day, day + 31 * DAY_US))),
            ("2026-01-01T05", Some((day + 5 * HOUR_US, day + 6 * HOUR_US))),
            ("2026-01-01T05:00:01Z", Some((day + 5 * HOUR_US + SECOND_US, day + 5 * HOUR_US + 2 * SECOND_US))),
            ("2026-01-01T00:00:00.25Z", Some((day + 250_000, day + 260_000))),
            ("2026-13-01", None),
            ("2026-01-01T25", None),
            ("yesterday", None),
        ] {
            assert_eq!(denoted(text), want, "{text}");
        }
    }

    #[test]
    fn a_day_in_new_york_starts_at_its_own_midnight_and_may_have_23_hours() {
        let zone = zone("America/New_York");
        let (from, to) = denoted_in("2026/03/08", &zone).unwrap();
        assert_eq!(iso_seconds(from), "2026-03-08T05:00:00Z");
        assert_eq!(to - from, 23 * HOUR_US);
    }

    #[test]
    fn times_are_written_as_providers_write_them() {
        let at = 1_767_225_600 * SECOND_US + 1;
        assert_eq!(iso_micros(at), "2026-01-01T00:00:00.000001Z");
        assert_eq!(http_date(at), "Thu, 01 Jan 2026 00:00:00 GMT");
    }
}
