//! What the headers of an answer say about limits: `Retry-After`, `X-RateLimit-*`, `RateLimit`.

use patra_core::page::RateHints;
use patra_core::time::{Span, Timestamp};

/// Numbers above this are instants, not lengths of time (2001 in seconds).
const EPOCH_FROM: i64 = 1_000_000_000;

type Headers = [(String, String)];

/// Reads the hints; `now` is the injected clock.
pub fn hints(headers: &Headers, now: Timestamp) -> RateHints {
    let combined = header(headers, "ratelimit").map(combined).unwrap_or_default();
    let number = |names: &[&str]| names.iter().find_map(|name| leading_number(header(headers, name)?));
    let reset = ["x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset"]
        .iter()
        .find_map(|name| instant(header(headers, name)?, now, headers));
    RateHints {
        limit: number(&["x-ratelimit-limit", "x-rate-limit-limit", "ratelimit-limit"]).or(combined.limit),
        interval: interval(headers),
        remaining: number(&["x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining"])
            .or(combined.remaining),
        reset_at: reset
            .or_else(|| combined.reset_seconds.map(|seconds| printable(now.plus(Span::from_seconds(seconds))))),
        retry_after: retry_after(headers, now),
    }
}

/// The time that a limit is for: `x-rate-limit-interval: 1s`, or `w=60` where limits are listed.
fn interval(headers: &Headers) -> Option<Span> {
    let own = ["x-rate-limit-interval", "x-ratelimit-interval"].iter().find_map(|name| length(header(headers, name)?));
    let listed = || ["ratelimit-policy", "ratelimit-limit"].iter().find_map(|name| window(header(headers, name)?));
    own.or_else(listed)
}

/// `1s`, `500ms`, `1m`, `1h`, or seconds.
fn length(text: &str) -> Option<Span> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = text[..digits].parse().ok().filter(|number| (1..=EPOCH_FROM).contains(number))?;
    let unit = match text[digits..].trim() {
        "ms" => Span::from_millis(1),
        "" | "s" | "sec" => Span::SECOND,
        "m" | "min" => Span::MINUTE,
        "h" => Span::HOUR,
        _ => return None,
    };
    Some(unit.times(number))
}

/// `w=60` of the first policy that has one.
fn window(value: &str) -> Option<Span> {
    let parts = value.split([',', ';']).filter_map(|part| part.trim().split_once('='));
    parts.filter(|(name, _)| name.trim() == "w").find_map(|(_, seconds)| length(seconds))
}

/// `Retry-After` in seconds, as a date or as an instant; also Zenodo-like own headers.
pub fn retry_after(headers: &Headers, now: Timestamp) -> Option<Timestamp> {
    let value = header(headers, "retry-after").or_else(|| header(headers, "x-ratelimit-retry-after"))?;
    instant(value, now, headers)
}

pub fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// An HTTP date, an ISO instant, seconds from now, or seconds (milliseconds) since 1970.
///
/// An instant is one of the source's clock; as long after its `Date` as it says, we are to wait on ours.
fn instant(text: &str, now: Timestamp, headers: &Headers) -> Option<Timestamp> {
    let date = header(headers, "date").and_then(http_date);
    let ours = |at: Timestamp| printable(date.map_or(at, |date| now.plus(at.since(date))));
    if let Some(at) = http_date(text).or_else(|| text.parse::<Timestamp>().ok()) {
        return Some(ours(at));
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    // Rounded up: never earlier than the source asked for.
    let number = number.ceil().min(1e15) as i64;
    Some(match number {
        seconds if seconds < EPOCH_FROM => printable(now.plus(Span::from_seconds(seconds))),
        seconds if seconds < EPOCH_FROM * 1000 => ours(Timestamp::from_seconds(seconds)),
        millis => ours(Timestamp::from_micros(millis.saturating_mul(1000))),
    })
}

/// An instant that can be stored and printed; some sources say never with a very large number.
fn printable(at: Timestamp) -> Timestamp {
    at.clamp(Timestamp::MIN, Timestamp::MAX)
}

pub fn http_date(text: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok().map(Timestamp::from_seconds)
}

#[derive(Default)]
struct Combined {
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_seconds: Option<i64>,
}

/// `limit=100, remaining=50, reset=5` and `"default";q=100;r=50;t=5`.
fn combined(value: &str) -> Combined {
    let mut found = Combined::default();
    for part in value.split([',', ';']) {
        let Some((name, number)) = part.trim().split_once('=') else { continue };
        let number = leading_number(number);
        match name.trim() {
            "limit" | "q" => found.limit = found.limit.or(number),
            "remaining" | "r" => found.remaining = found.remaining.or(number),
            "reset" | "t" => found.reset_seconds = found.reset_seconds.or(number.and_then(|n| i64::try_from(n).ok())),
            _ => {}
        }
    }
    found
}

fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn at(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        for (value, want) in [
            ("120", at("2026-01-01T00:02:00Z")),
            ("0.2", at("2026-01-01T00:00:01Z")),
            ("Thu, 01 Jan 2026 00:05:00 GMT", at("2026-01-01T00:05:00Z")),
            ("1767226200", at("2026-01-01T00:10:00Z")),
            ("1767226200000", at("2026-01-01T00:10:00Z")),
            ("2026-01-01T00:00:30Z", at("2026-01-01T00:00:30Z")),
            ("-5", None),
            ("soon", None),
            ("NaN", None),
            ("", None),
        ] {
            let headers = [("retry-after".to_owned(), value.to_owned())];
            assert_eq!(retry_after(&headers, now()), want, "{value}");
        }
    }

    #[test]
    fn an_instant_is_counted_from_the_sources_own_date() {
        let date = ("date".to_owned(), "Wed, 01 Jan 2025 00:00:00 GMT".to_owned());
        for value in ["Wed, 01 Jan 2025 00:05:00 GMT", "2025-01-01T00:05:00Z", "1735689900", "300"] {
            let headers = [date.clone(), ("retry-after".to_owned(), value.to_owned())];
            assert_eq!(retry_after(&headers, now()), at("2026-01-01T00:05:00Z"), "{value}");
        }
    }

    #[test]
    fn limits_are_read_from_every_spelling() {
        let want = RateHints {
            limit: Some(10),
            interval: None,
            remaining: Some(3),
            reset_at: at("2026-01-01T00:00:30Z"),
            retry_after: None,
        };
        for headers in [
            vec![("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "30")],
            vec![("x-rate-limit-limit", "10"), ("x-rate-limit-remaining", "3"), ("x-rate-limit-reset", "1767225630")],
            vec![("ratelimit", "limit=10, remaining=3, reset=30")],
            vec![("ratelimit", "\"default\";q=10;r=3;t=30")],
            vec![("ratelimit-limit", "10"), ("ratelimit-remaining", "3"), ("ratelimit-reset", "30")],
        ] {
            let owned: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(hints(&owned, now()), want, "{headers:?}");
        }
        assert_eq!(hints(&[], now()), RateHints::default());
    }

    #[test]
    fn the_time_a_limit_is_for_is_read_where_it_is_told() {
        for (name, value, want) in [
            ("x-rate-limit-interval", "1s", Some(Span::SECOND)),
            ("x-rate-limit-interval", "500ms", Some(Span::from_millis(500))),
            ("x-ratelimit-interval", "60", Some(Span::MINUTE)),
            ("x-rate-limit-interval", "2m", Some(Span::MINUTE.times(2))),
            ("ratelimit-limit", "10, 10;w=1", Some(Span::SECOND)),
            ("ratelimit-policy", "\"default\";q=100;w=3600", Some(Span::HOUR)),
            ("x-rate-limit-interval", "0s", None),
            ("x-rate-limit-interval", "soon", None),
            ("x-rate-limit-interval", "", None),
            ("ratelimit-limit", "10", None),
        ] {
            let headers = [(name.to_owned(), value.to_owned())];
            assert_eq!(hints(&headers, now()).interval, want, "{name}: {value}");
        }
    }
}
