//! Lucene ranges as several sources accept them: `field:[a TO b}`. A square bracket includes what the text denotes, a curly
//! one excludes it.

use crate::moment::denoted;

/// Why a range was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeFault {
    /// The field is not asked for at all.
    Absent,
    /// A bound is `*`.
    Open,
    /// Anything else, with the text that does not parse.
    Broken(String),
}

/// The half-open span `[from, to)` that a query asks of a field.
pub fn range_of(query: &str, field: &str) -> Result<(i64, i64), RangeFault> {
    let start = query.find(&format!("{field}:")).ok_or(RangeFault::Absent)?;
    let text = query[start + field.len() + 1..].trim_start();
    let broken = || RangeFault::Broken(text.to_owned());
    let include_from = match text.chars().next() {
        Some('[') => true,
        Some('{') => false,
        _ => return Err(broken()),
    };
    let end = text.find([']', '}']).ok_or_else(broken)?;
    let include_to = text.as_bytes()[end] == b']';
    let (low, high) = text[1..end].split_once(" TO ").ok_or_else(broken)?;
    if low.trim() == "*" || high.trim() == "*" {
        return Err(RangeFault::Open);
    }
    let low = denoted(low.trim().trim_matches('"')).ok_or_else(broken)?;
    let high = denoted(high.trim().trim_matches('"')).ok_or_else(broken)?;
    let from = if include_from { low.0 } else { low.1 };
    let to = if include_to { high.1 } else { high.0 };
    Ok((from, to.max(from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{DAY_US, SECOND_US};

    #[test]
    fn brackets_decide_what_is_included() {
        let day = 1_767_225_600 * SECOND_US;
        for (query, want) in [
            ("updated:[2026-01-01 TO 2026-01-02]", Ok((day, day + 2 * DAY_US))),
            ("x AND updated:[2026-01-01T00:00:00Z TO 2026-01-02T00:00:00Z}", Ok((day, day + DAY_US))),
            ("updated:{2026-01-01T00:00:00Z TO 2026-01-02T00:00:00Z}", Ok((day + SECOND_US, day + DAY_US))),
            ("updated:[20260103 TO 20260101]", Ok((day + 2 * DAY_US, day + 2 * DAY_US))),
            ("updated:[2026-01-01 TO *]", Err(RangeFault::Open)),
            ("created:[2026-01-01 TO 2026]", Err(RangeFault::Absent)),
        ] {
            assert_eq!(range_of(query, "updated"), want, "{query}");
        }
        assert!(matches!(range_of("updated:[2026", "updated"), Err(RangeFault::Broken(_))));
    }
}
