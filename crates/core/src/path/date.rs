//! Dates as they are known: a year, a month of a year, or a day.

use serde_json::Value;

use super::pipe::text_of;

/// A year, a month of a year, or a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialDate {
    pub year: i16,
    pub month: Option<i8>,
    pub day: Option<i8>,
}

impl PartialDate {
    /// Reads text (`2026-01`, `2026 Jan 31`, `20260131`), `[2026,1,31]`, `[[2026,1]]`, or an object with year,
    /// month and day in any case, as ORCID and PubMed write them.
    pub fn of(value: &Value) -> Option<PartialDate> {
        match value {
            Value::String(text) => PartialDate::of_text(text),
            Value::Number(number) => PartialDate::of_text(&number.to_string()),
            Value::Array(items) => match items.first()? {
                Value::Array(_) | Value::Object(_) => PartialDate::of(&items[0]),
                Value::String(text) if items.len() == 1 => PartialDate::of_text(text),
                _ => {
                    let part = |at: usize| items.get(at).and_then(text_of);
                    PartialDate::build(&part(0)?, part(1).as_deref(), part(2).as_deref())
                }
            },
            Value::Object(map) => {
                let part = |name: &str| {
                    map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).and_then(|(_, v)| text_of(v))
                };
                match part("year") {
                    Some(year) => PartialDate::build(&year, part("month").as_deref(), part("day").as_deref()),
                    None => PartialDate::of_text(&part("medlinedate").or_else(|| text_of(value))?),
                }
            }
            _ => None,
        }
    }

    fn of_text(text: &str) -> Option<PartialDate> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 8 {
            return PartialDate::build(&text[..4], Some(&text[4..6]), Some(&text[6..8]));
        }
        if digits != 4 {
            return PartialDate::year_last(text);
        }
        let rest = text[4..].trim_start_matches(['-', '/', ' ', '.']);
        // A range (`1998 Dec-1999 Jan`) begins with its first date; a time ends the date.
        let mut parts = rest.split(|letter: char| !letter.is_alphanumeric());
        let (month, day) = (parts.next(), parts.next());
        let day =
            day.map(|day| &day[..day.bytes().take_while(u8::is_ascii_digit).count()]).filter(|day| day.len() <= 2);
        PartialDate::build(&text[..4], month, day)
    }

    /// `March 2011`, `15 March 2011`, `March 15, 2011`, `07.04.2017`. What stands between slashes may be a day or a
    /// month, so it is not read.
    fn year_last(text: &str) -> Option<PartialDate> {
        let parts: Vec<&str> = text.split([' ', ',', '.']).filter(|part| !part.is_empty()).collect();
        let year = parts.last().filter(|year| year.len() == 4)?;
        let named = |part: &str| part.starts_with(|first: char| first.is_alphabetic());
        match parts[..parts.len() - 1] {
            [month] if named(month) => month_of(month).and_then(|_| PartialDate::build(year, Some(month), None)),
            [month, day] if named(month) && !named(day) => PartialDate::build(year, Some(month), Some(day)),
            [day, month] if named(month) && !named(day) => PartialDate::build(year, Some(month), Some(day)),
            [day, month] if text.matches('.').count() == 2 => PartialDate::build(year, Some(month), Some(day)),
            _ => None,
        }
    }

    fn build(year: &str, month: Option<&str>, day: Option<&str>) -> Option<PartialDate> {
        let year: i16 = year.trim().parse().ok().filter(|year| (1..=9999).contains(year))?;
        let Some(month) = month.map(str::trim).and_then(month_of) else {
            return Some(PartialDate { year, month: None, day: None });
        };
        let day = day.and_then(|day| day.trim().parse::<i8>().ok());
        let day = day.filter(|day| jiff::civil::Date::new(year, month, *day).is_ok());
        Some(PartialDate { year, month: Some(month), day })
    }

    /// The first day it may mean.
    pub fn first_day(&self) -> Option<jiff::civil::Date> {
        jiff::civil::Date::new(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok()
    }
}

impl std::fmt::Display for PartialDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}", self.year)?;
        if let Some(month) = self.month {
            write!(f, "-{month:02}")?;
        }
        match (self.month, self.day) {
            (Some(_), Some(day)) => write!(f, "-{day:02}"),
            _ => Ok(()),
        }
    }
}

fn month_of(text: &str) -> Option<i8> {
    const NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    if let Ok(month) = text.parse::<i8>() {
        return (1..=12).contains(&month).then_some(month);
    }
    let start: String = text.chars().take(3).flat_map(char::to_lowercase).collect();
    let at = NAMES.iter().position(|name| *name == start)?;
    i8::try_from(at + 1).ok()
}
