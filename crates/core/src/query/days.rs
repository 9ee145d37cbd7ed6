//! Days in a query: years, months and days as half-open spans of days.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::Date;

/// The first day that can be asked for, which stands for an open beginning where a source needs one.
pub const FIRST: Date = jiff::civil::date(1000, 1, 1);
/// Stands for an open end where a source needs one; an end from here on is open.
pub const LAST: Date = jiff::civil::date(3000, 1, 1);

/// `[from, to)`; an end that is `None` is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Days {
    pub from: Option<Date>,
    pub to: Option<Date>,
}

impl Days {
    pub fn is_empty(&self) -> bool {
        matches!((self.from, self.to), (Some(from), Some(to)) if from >= to)
    }

    /// The last day inside.
    pub fn last(&self) -> Option<Date> {
        self.to.map(|to| to.yesterday().unwrap_or(Date::MIN))
    }

    /// Every day of `other` lies in here.
    pub fn holds(&self, other: &Days) -> bool {
        let from = self.from.is_none_or(|from| other.from.is_some_and(|other| other >= from));
        let to = self.to.is_none_or(|to| other.to.is_some_and(|other| other <= to));
        from && to
    }

    /// Some day is in both.
    pub fn meets(&self, other: &Days) -> bool {
        let before = |from: Option<Date>, to: Option<Date>| from.zip(to).is_none_or(|(from, to)| from < to);
        before(self.from, other.to) && before(other.from, self.to)
    }

    /// A year, a month or a day: `2020`, `2020-05`, `2020-05-17`, also with slashes.
    pub fn parse(text: &str) -> Option<Days> {
        let parts: Vec<&str> = text.split(['-', '/']).collect();
        let widths: &[usize] = &[4, 2, 2];
        let fits = |(part, width): (&&str, &usize)| part.len() == *width && part.bytes().all(|b| b.is_ascii_digit());
        if parts.len() > 3 || !parts.iter().zip(widths).all(fits) {
            return None;
        }
        let number = |at: usize| parts.get(at).map_or(Some(1), |part| part.parse::<i16>().ok());
        let (year, month, day) = (number(0)?, i8::try_from(number(1)?).ok()?, i8::try_from(number(2)?).ok()?);
        let from = Date::new(year, month, day).ok().filter(|from| (FIRST..=LAST).contains(from))?;
        let length = match parts.len() {
            1 => 1.year(),
            2 => 1.month(),
            _ => 1.day(),
        };
        Some(Days { from: Some(from), to: from.checked_add(length).ok().filter(|to| *to < LAST) })
    }

    /// The days that a time in a record names: `2020`, `2020-05`, `2020-05-17`, `2020-05-17T08:00:00Z`.
    pub fn of_record(text: &str) -> Option<Days> {
        let day = text.split(['T', ' ']).next().unwrap_or_default();
        Days::parse(day)
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<Date>| end.map_or_else(|| "*".to_owned(), |day| day.to_string());
        write!(f, "[{} TO {})", end(self.from), end(self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_months_and_days_are_spans_of_days() {
        for (text, want) in [
            ("2020", "[2020-01-01 TO 2021-01-01)"),
            ("2020-12", "[2020-12-01 TO 2021-01-01)"),
            ("2020/02/29", "[2020-02-29 TO 2020-03-01)"),
        ] {
            assert_eq!(Days::parse(text).unwrap().to_string(), want);
        }
        for text in ["", "20", "2020-1", "2021-02-29", "2020-13", "0999", "3000-02", "2020-01-01-01", "20２0"] {
            assert_eq!(Days::parse(text), None, "{text}");
        }
        assert_eq!(Days::of_record("2020-05-17T08:00:00Z"), Days::parse("2020-05-17"));
    }

    #[test]
    fn a_span_holds_meets_or_misses_another() {
        let range = Days { from: Days::parse("2020-01-15").unwrap().from, to: None };
        let day = |text: &str| Days::parse(text).unwrap();
        assert!(range.holds(&day("2020-01-15")) && range.holds(&day("2021")));
        assert!(!range.holds(&day("2020-01")) && range.meets(&day("2020-01")));
        assert!(!range.meets(&day("2019")) && !range.meets(&day("2020-01-14")));
    }
}
