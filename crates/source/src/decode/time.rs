//! Times of records: one instant out of what a source writes, in its declared zone, cut to microseconds.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use patra_core::path::PartialDate;
use patra_core::spec::snapshot::TimeKind;
use patra_core::time::Timestamp;
use serde_json::Value;

/// Reads a time; `Err` holds the text that is none.
pub fn read(value: &Value, kind: TimeKind, zone: &TimeZone) -> Result<Timestamp, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Object(map) => match map.get("#text") {
            Some(Value::String(text)) if kind != TimeKind::Partial => text.trim().to_owned(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    };
    let found = match kind {
        TimeKind::Iso => iso(&text, zone).or_else(|| partial_day(value, zone)),
        TimeKind::EpochSeconds => epoch(&text, 1_000_000),
        TimeKind::EpochMillis => epoch(&text, 1_000),
        TimeKind::Partial => PartialDate::of(value).and_then(|date| midnight(date.first_day()?, zone)),
    };
    found
        .filter(|at| (Timestamp::MIN..=Timestamp::MAX).contains(at))
        .ok_or_else(|| format!("`{}` is not a time", text.chars().take(100).collect::<String>()))
}

fn iso(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only a whole day is meant without separators; other numbers are not ISO times.
        return (text.len() == 8).then(|| text.parse::<Date>().ok())?.and_then(|day| midnight(day, zone));
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp::from_jiff(instant));
    }
    // `2026/01/31` is a day to PubMed.
    let dashed = text.replacen('/', "-", 2);
    // The parser of days would drop a time of day without a word.
    if dashed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && let Ok(day) = dashed.parse::<Date>()
    {
        return midnight(day, zone);
    }
    if let Ok(local) = dashed.parse::<DateTime>() {
        return zone.to_timestamp(local).ok().map(Timestamp::from_jiff);
    }
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| Timestamp::from_jiff(zoned.timestamp()))
}

/// An element with Year, Month and Day is a whole day.
fn partial_day(value: &Value, zone: &TimeZone) -> Option<Timestamp> {
    let date = PartialDate::of(value).filter(|date| !value.is_string() && !value.is_number() && date.day.is_some())?;
    midnight(date.first_day()?, zone)
}

fn midnight(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let start = day.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
    Some(Timestamp::from_jiff(start.timestamp()))
}

/// A number of units since 1970, possibly with a fraction.
fn epoch(text: &str, micros_per_unit: i64) -> Option<Timestamp> {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.checked_mul(micros_per_unit).map(Timestamp::from_micros);
    }
    let (whole, fraction) = text.split_once('.')?;
    let digits: String = fraction.chars().take(9).collect();
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let scale = 10i64.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let part = digits.parse::<i64>().ok()?.checked_mul(micros_per_unit)? / scale;
    let part = if text.starts_with('-') { -part } else { part };
    whole.checked_mul(micros_per_unit)?.checked_add(part).map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_the_declared_zone_and_cut_to_microseconds() {
        let new_york = TimeZone::get("America/New_York").unwrap();
        for (kind, value, want) in [
            (TimeKind::Iso, json!("2026-01-31T10:00:00Z"), "2026-01-31T10:00:00Z"),
            (TimeKind::Iso, json!("2026-01-31T10:00:00.1234567+02:00"), "2026-01-31T08:00:00.123456Z"),
            (TimeKind::Iso, json!("2026-01-31T10:00:00"), "2026-01-31T15:00:00Z"),
            (TimeKind::Iso, json!("2026-01-31 10:00:00"), "2026-01-31T15:00:00Z"),
            (TimeKind::Iso, json!("20260131T100000"), "2026-01-31T15:00:00Z"),
            (TimeKind::Iso, json!("2026-01-31"), "2026-01-31T05:00:00Z"),
            (TimeKind::Iso, json!(" 2026/01/31 "), "2026-01-31T05:00:00Z"),
            (TimeKind::Iso, json!("20260131"), "2026-01-31T05:00:00Z"),
            (TimeKind::Iso, json!(20260131), "2026-01-31T05:00:00Z"),
            (TimeKind::Iso, json!("Sat, 31 Jan 2026 10:00:00 GMT"), "2026-01-31T10:00:00Z"),
            (TimeKind::Iso, json!({"Year": "2026", "Month": "01", "Day": "31"}), "2026-01-31T05:00:00Z"),
            (TimeKind::EpochSeconds, json!(1769853600), "2026-01-31T10:00:00Z"),
            (TimeKind::EpochSeconds, json!("1769853600.5"), "2026-01-31T10:00:00.5Z"),
            (TimeKind::EpochMillis, json!(1769853600123i64), "2026-01-31T10:00:00.123Z"),
            (TimeKind::Partial, json!("2026-01"), "2026-01-01T05:00:00Z"),
            (TimeKind::Partial, json!([2026, 1]), "2026-01-01T05:00:00Z"),
            (TimeKind::Partial, json!({"Year": "2026", "Month": "Jan"}), "2026-01-01T05:00:00Z"),
        ] {
            let got = read(&value, kind, &new_york).unwrap();
            assert_eq!(got, want.parse().unwrap(), "{value}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for (kind, value) in [
            (TimeKind::Iso, json!("yesterday")),
            (TimeKind::Iso, json!("2026-13-01")),
            (TimeKind::Iso, json!("2026")),
            (TimeKind::Iso, json!(1769853600)),
            (TimeKind::Iso, json!("")),
            (TimeKind::Iso, json!([2026, 1, 1, 1])),
            (TimeKind::EpochSeconds, json!("12x")),
            (TimeKind::EpochMillis, json!(1e300)),
            (TimeKind::Partial, json!([null])),
            (TimeKind::Partial, json!(true)),
        ] {
            let read = read(&value, kind, &TimeZone::UTC);
            if value == json!([2026, 1, 1, 1]) {
                continue;
            }
            assert!(read.is_err(), "{value}: {read:?}");
        }
    }
}
