//! Times of records in all the forms sources write them, and in forms that only look like times.

use super::targets::Clock::{Iso, IsoNewYork, Millis, Partial, Seconds};
use super::targets::Target;
use super::{Family, Want, is};

pub fn build(family: &mut Family) {
    for (clock, value, want) in [
        (Iso, r#""2026-01-31T10:00:00Z""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31t10:00:00z""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31T10:00:00.123456789Z""#, "2026-01-31T10:00:00.123456Z"),
        (Iso, r#""2026-01-31T10:00:00,5Z""#, "2026-01-31T10:00:00.500000Z"),
        (Iso, r#""2026-01-31T10:00:00+14:00""#, "2026-01-30T20:00:00.000000Z"),
        (Iso, r#""2026-01-31T10:00:00-1200""#, "2026-01-31T22:00:00.000000Z"),
        (Iso, r#""2026-01-31T10:00:00""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31 10:00:00""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31T10:00""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31T24:00:00Z""#, ""),
        (Iso, r#""2026-01-31""#, "2026-01-31T00:00:00.000000Z"),
        (Iso, r#"" 2026/01/31\n""#, "2026-01-31T00:00:00.000000Z"),
        (Iso, r#""20260131""#, "2026-01-31T00:00:00.000000Z"),
        (Iso, "20260131", "2026-01-31T00:00:00.000000Z"),
        (Iso, r#""20260131T100000Z""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""Sat, 31 Jan 2026 10:00:00 GMT""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""Sat, 31 Jan 2026 10:00:00 -0500""#, "2026-01-31T15:00:00.000000Z"),
        (Iso, r#"{"Year":"2026","Month":"Jan","Day":"31"}"#, "2026-01-31T00:00:00.000000Z"),
        (
            Iso,
            r#"{"year":{"value":"2016"},"month":{"value":"02"},"day":{"value":"29"}}"#,
            "2016-02-29T00:00:00.000000Z",
        ),
        (Iso, r#""2024-02-29""#, "2024-02-29T00:00:00.000000Z"),
        (Iso, r#""2016-12-31T23:59:60Z""#, "2016-12-31T23:59:59.000000Z"),
        (Iso, r#""0001-01-01T00:00:00Z""#, "0001-01-01T00:00:00.000000Z"),
        (Iso, r#""9999-12-30T00:00:00Z""#, "9999-12-30T00:00:00.000000Z"),
        (Iso, r#""20260131T100000""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2026-01-31T10""#, "2026-01-31T10:00:00.000000Z"),
        (Iso, r#""2569-01-31T10:00:00Z""#, "2569-01-31T10:00:00.000000Z"),
        (Iso, r#""1582-10-10""#, "1582-10-10T00:00:00.000000Z"),
        (Iso, r#""2026-01-31T10:00:00Z[America/New_York]""#, "2026-01-31T10:00:00.000000Z"),
        // The clock jumps from 02:00 to 03:00; a time in the gap is read as if the clock had not jumped.
        (IsoNewYork, r#""2026-03-08T02:30:00""#, "2026-03-08T07:30:00.000000Z"),
        (IsoNewYork, r#""2026-03-08T01:59:59""#, "2026-03-08T06:59:59.000000Z"),
        (IsoNewYork, r#""2026-03-08T03:00:00""#, "2026-03-08T07:00:00.000000Z"),
        // 01:30 comes twice; the first is meant.
        (IsoNewYork, r#""2026-11-01T01:30:00""#, "2026-11-01T05:30:00.000000Z"),
        (IsoNewYork, r#""2026-11-01T01:30:00-05:00""#, "2026-11-01T06:30:00.000000Z"),
        (IsoNewYork, r#""2026-03-08""#, "2026-03-08T05:00:00.000000Z"),
        (IsoNewYork, r#""0001-01-01""#, "0001-01-01T04:56:02.000000Z"),
        (Seconds, "0", "1970-01-01T00:00:00.000000Z"),
        (Seconds, "-1", "1969-12-31T23:59:59.000000Z"),
        (Seconds, "1769853600", "2026-01-31T10:00:00.000000Z"),
        (Seconds, r#""1769853600""#, "2026-01-31T10:00:00.000000Z"),
        (Seconds, "1769853600.123456789", "2026-01-31T10:00:00.123456Z"),
        (Seconds, "-0.5", "1969-12-31T23:59:59.500000Z"),
        (Seconds, "253402128000", "9999-12-30T00:00:00.000000Z"),
        (Seconds, "-62135596800", "0001-01-01T00:00:00.000000Z"),
        (Millis, "1769853600123", "2026-01-31T10:00:00.123000Z"),
        (Millis, r#""1769853600123.5""#, "2026-01-31T10:00:00.123500Z"),
        (Millis, "-1", "1969-12-31T23:59:59.999000Z"),
        (Partial, r#""2026""#, "2026-01-01T00:00:00.000000Z"),
        (Partial, "2026", "2026-01-01T00:00:00.000000Z"),
        (Partial, r#""2026-02""#, "2026-02-01T00:00:00.000000Z"),
        (Partial, "[2026,2,28]", "2026-02-28T00:00:00.000000Z"),
        (Partial, "[[1957,10]]", "1957-10-01T00:00:00.000000Z"),
        (Partial, r#""1998 Dec-1999 Jan""#, "1998-12-01T00:00:00.000000Z"),
        (Partial, r#"{"MedlineDate":"1998 Dec-1999 Jan"}"#, "1998-12-01T00:00:00.000000Z"),
        (Partial, r#""2549""#, "2549-01-01T00:00:00.000000Z"),
        (Partial, r#""2026 Spring""#, "2026-01-01T00:00:00.000000Z"),
        (Partial, r#""2026-13-45""#, "2026-01-01T00:00:00.000000Z"),
        (Partial, r#""2026-02-30""#, "2026-02-01T00:00:00.000000Z"),
    ] {
        let want = if want.is_empty() { Want::Refused } else { is(want) };
        family.add(Target::Date(clock), format!("{clock:?} {value}"), value, want);
    }
    for (clock, value) in
        [(Iso, "null"), (Iso, r#""""#), (Iso, "[]"), (Iso, "{}"), (Partial, "null"), (Seconds, "null")]
    {
        family.add(Target::Date(clock), format!("{clock:?} {value} is no time"), value, Want::Nothing);
    }
    for (clock, value) in [
        (Iso, r#""yesterday""#),
        (Iso, r#""9999-12-31""#),
        (IsoNewYork, r#""9999-12-31T23:59:59""#),
        (Partial, "[[]]"),
        (Iso, r#""0000-00-00""#),
        (Iso, r#""0000-00-00 00:00:00""#),
        (Iso, r#""2026-13-01""#),
        (Iso, r#""2026-02-29""#),
        (Iso, r#""2026-04-31T00:00:00Z""#),
        (Iso, r#""2026-01-01T00:60:00Z""#),
        (Iso, r#""2026-01-01T00:00:61Z""#),
        (Iso, r#""2026-01-01T00:00:00+26:00""#),
        (Iso, r#""2026""#),
        (Iso, "2026"),
        (Iso, r#""2026-01""#),
        (Iso, "1769853600"),
        (Iso, r#""07.04.2017""#),
        (Iso, r#""01/31/2026""#),
        (Iso, r#""31 Jan 2026""#),
        (Iso, r#""March 2011""#),
        (Iso, r#""2010/2014""#),
        (Iso, r#""2026-W05-6""#),
        (Iso, r#""2026-031""#),
        (Iso, r#""10000-01-01""#),
        (Iso, r#""+010000-01-01T00:00:00Z""#),
        (Iso, r#""２０２６-01-31""#),
        (Iso, r#""2026-01-31T10:00:00Zx""#),
        (Iso, r#""2026-01-31T10:00:00 EST""#),
        (Iso, r#""2026\u201301\u201331""#),
        (Iso, r#""\ud800""#),
        (Iso, r#""2026-01-31\u0000""#),
        (Iso, r#"{"x":1}"#),
        (Iso, "true"),
        (Iso, "1e400"),
        (Seconds, r#""2026-01-31""#),
        (Seconds, "99999999999999999999"),
        (Seconds, "9223372036854775807"),
        (Seconds, "-9223372036854775808"),
        (Seconds, "253402300800"),
        (Seconds, "1e400"),
        (Seconds, r#""1.""#),
        (Seconds, r#"".5""#),
        (Seconds, r#""0x10""#),
        (Seconds, r#""NaN""#),
        (Seconds, r#""1.-5""#),
        (Millis, "9223372036854775807"),
        (Millis, "1e300"),
        (Partial, "true"),
        (Partial, "[null]"),
        (Partial, "[[null]]"),
        (Partial, r#""0000""#),
        (Partial, "[0,1,1]"),
        (Partial, "[99999,1,1]"),
        (Partial, r#""26-01-31""#),
        (Partial, r#""\u0e52\u0e55\u0e54\u0e59""#),
    ] {
        family.add(Target::Date(clock), format!("{clock:?} {value} is refused"), value, Want::Refused);
    }
    let long = format!("\"{}\"", "9".repeat(1_000_000));
    family.add(Target::Date(Iso), "a million digits", long.clone(), Want::Refused);
    family.add(Target::Date(Seconds), "a million digits of seconds", long.clone(), Want::Refused);
    family.add(
        Target::Date(Seconds),
        "a fraction of a million digits",
        format!("\"1.{}\"", "9".repeat(1_000_000)),
        Want::Accepted,
    );
    family.add(Target::Date(Partial), "a million digits of a year", long, Want::Refused);
    family.add(
        Target::Date(Partial),
        "nested lists",
        format!("{}2026{}", "[".repeat(120), "]".repeat(120)),
        Want::Accepted,
    );
    family.add(
        Target::Date(Partial),
        "deeply nested lists",
        format!("{}2026{}", "[".repeat(200), "]".repeat(200)),
        Want::Refused,
    );
}
