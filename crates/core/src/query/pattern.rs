//! How a value is written: literal text with places for the value or for days.
//!
//! `{value}` takes a value, `{from}`, `{last}` and `{to}` take the first day, the last day and the day after it.
//! A day may say how it is written, `{from:%Y/%m/%d}`; a form without days or months is coarse, and a range that does
//! not begin or end where such a year or month does is widened to it.

use jiff::ToSpan;
use jiff::civil::Date;

use super::days::{Days, FIRST, LAST};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Literal(String),
    Value,
    From(String),
    Last(String),
    To(String),
}

const ISO: &str = "%Y-%m-%d";

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let end = rest[open..].find('}').map(|end| open + end).ok_or("`{` is not closed")?;
            if open > 0 {
                pieces.push(Piece::Literal(rest[..open].to_owned()));
            }
            pieces.push(piece(&rest[open + 1..end])?);
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Pattern(pieces))
    }

    pub fn with_value(&self, value: &str) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            _ => value.to_owned(),
        };
        self.0.iter().map(piece).collect()
    }

    /// The days written, and whether they are exactly those asked for.
    pub fn with_days(&self, days: &Days) -> (String, bool) {
        let (mut text, mut exact) = (String::new(), true);
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Value => {}
                Piece::From(form) => {
                    let from = days.from.unwrap_or(FIRST);
                    exact &= begins(from, form);
                    text.push_str(&written(from, form));
                }
                Piece::Last(form) => {
                    exact &= days.to.is_none_or(|to| begins(to, form));
                    text.push_str(&written(days.last().unwrap_or(LAST), form));
                }
                Piece::To(form) => {
                    let to = days.to.unwrap_or(LAST);
                    exact &= begins(to, form);
                    text.push_str(&written(if begins(to, form) { to } else { after(to, form) }, form));
                }
            }
        }
        (text, exact)
    }
}

fn piece(inside: &str) -> Result<Piece, String> {
    let (name, form) = inside.split_once(':').unwrap_or((inside, ISO));
    if jiff::fmt::strtime::format(form, FIRST).is_err() {
        return Err(format!("`{form}` is not a way to write a day"));
    }
    match name {
        "value" if !inside.contains(':') => Ok(Piece::Value),
        "from" => Ok(Piece::From(form.to_owned())),
        "last" => Ok(Piece::Last(form.to_owned())),
        "to" => Ok(Piece::To(form.to_owned())),
        _ => Err(format!("`{{{inside}}}` stands for nothing")),
    }
}

fn written(day: Date, form: &str) -> String {
    jiff::fmt::strtime::format(form, day).unwrap_or_default()
}

/// The day begins the year, month or day that the form can name.
fn begins(day: Date, form: &str) -> bool {
    form.contains("%d") || (day.day() == 1 && (form.contains("%m") || day.month() == 1))
}

/// A day of the next year or month.
fn after(day: Date, form: &str) -> Date {
    let length = if form.contains("%m") { 1.month() } else { 1.year() };
    day.checked_add(length).unwrap_or(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(from: &str, to: &str) -> Days {
        let day = |text: &str| Days::parse(text).and_then(|days| days.from);
        Days { from: day(from), to: day(to) }
    }

    #[test]
    fn days_are_written_as_the_pattern_says_and_coarse_forms_are_widened() {
        for (pattern, from, to, want, exact) in [
            ("{from:%Y/%m/%d}:{last:%Y/%m/%d}[dp]", "2020-01-01", "2021-01-01", "2020/01/01:2020/12/31[dp]", true),
            ("[{from} TO {to}}", "2020-01-01", "2021-01-01", "[2020-01-01 TO 2021-01-01}", true),
            ("{from:%Y}-{last:%Y}", "2020-01-01", "2021-01-01", "2020-2020", true),
            ("{from:%Y}-{last:%Y}", "2020-02-01", "2021-01-02", "2020-2021", false),
            ("{from:%Y}<{to:%Y}", "2020-01-01", "2021-03-01", "2020<2022", false),
            ("{from:%Y%m}..{last:%Y%m}", "2020-02-01", "2020-03-01", "202002..202002", true),
            ("{from}..{last}", "", "", "1000-01-01..3000-01-01", true),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(pattern.with_days(&days(from, to)), (want.to_owned(), exact));
        }
        for wrong in ["{val}", "{value", "{from:%Q}", "{value:%Y}"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
