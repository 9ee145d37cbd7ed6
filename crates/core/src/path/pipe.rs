//! Pipes: small, total conversions of what a path found. What cannot be converted becomes null.

use serde_json::Value;

/// One conversion. Lists are converted item by item, except by `first`, `join` and `list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// `2026`, `2026-01` or `2026-01-31`, from text, numbers or an element with Year, Month, Day.
    PartialDate,
    /// The day of a time or date, `2026-01-31`.
    Date,
    First,
    Join(String),
    /// Always a list, also of one.
    List,
    Lower,
    Trim,
    StripPrefix(String),
    Int,
    Text,
}

const NAMES: &str = "partial_date, date, first, join('; '), list, lower, trim, strip_prefix('..'), int, text";

impl Pipe {
    pub fn parse(text: &str) -> Result<Pipe, String> {
        let (name, argument) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => (name.trim_end(), Some(argument(rest)?)),
        };
        match (name, argument) {
            ("partial_date", None) => Ok(Pipe::PartialDate),
            ("date", None) => Ok(Pipe::Date),
            ("first", None) => Ok(Pipe::First),
            ("list", None) => Ok(Pipe::List),
            ("lower", None) => Ok(Pipe::Lower),
            ("trim", None) => Ok(Pipe::Trim),
            ("int", None) => Ok(Pipe::Int),
            ("text", None) => Ok(Pipe::Text),
            ("join", Some(separator)) => Ok(Pipe::Join(separator)),
            ("strip_prefix", Some(prefix)) => Ok(Pipe::StripPrefix(prefix)),
            _ => Err(format!("`{text}` is not a known pipe, there are: {NAMES}")),
        }
    }

    /// Needs the parts of an element, not only its text.
    pub fn wants_tree(&self) -> bool {
        matches!(self, Pipe::PartialDate)
    }

    pub fn apply(&self, value: Value) -> Value {
        match self {
            Pipe::First => match value {
                Value::Array(items) => items.into_iter().find(|item| !item.is_null()).unwrap_or_default(),
                one => one,
            },
            Pipe::Join(separator) => match value {
                Value::Array(items) if items.is_empty() => Value::Null,
                Value::Array(items) => {
                    let parts: Vec<String> = items.iter().filter_map(text_of).collect();
                    Value::String(parts.join(separator))
                }
                one => text_of(&one).map_or(Value::Null, Value::String),
            },
            Pipe::List => match value {
                Value::Null => Value::Null,
                Value::Array(items) => Value::Array(items),
                one => Value::Array(vec![one]),
            },
            Pipe::PartialDate => PartialDate::of(&value).map_or(Value::Null, |date| Value::String(date.to_string())),
            each => match value {
                Value::Array(items) => items.into_iter().map(|item| each.apply(item)).collect(),
                one => each.on_scalar(&one).unwrap_or_default(),
            },
        }
    }

    fn on_scalar(&self, value: &Value) -> Option<Value> {
        let text = text_of(value)?;
        Some(match self {
            Pipe::Lower => Value::String(text.to_lowercase()),
            Pipe::Trim => Value::String(text.trim().to_owned()),
            Pipe::StripPrefix(prefix) => Value::String(text.strip_prefix(prefix.as_str()).unwrap_or(&text).to_owned()),
            Pipe::Int => Value::from(text.trim().parse::<i64>().ok()?),
            Pipe::Date => {
                let date = PartialDate::of(value)?;
                date.day?;
                Value::String(date.to_string())
            }
            _ => Value::String(text),
        })
    }
}

fn argument(rest: &str) -> Result<String, String> {
    let inside = rest.trim().strip_suffix(')').ok_or("a pipe lacks its `)`")?.trim();
    let quote =
        inside.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or("an argument stands in quotes")?;
    let text = inside.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).filter(|_| inside.len() >= 2);
    Ok(text.ok_or("an argument stands in quotes")?.to_owned())
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(map) => map.get("#text").or_else(|| map.get("value")).and_then(text_of),
        Value::Array(_) => Some(value.to_string()),
    }
}

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
            return None;
        }
        let rest = text[4..].trim_start_matches(['-', '/', ' ', '.']);
        // A range (`1998 Dec-1999 Jan`) begins with its first date; a time ends the date.
        let mut parts = rest.split(|letter: char| !letter.is_alphanumeric());
        let (month, day) = (parts.next(), parts.next());
        let day =
            day.map(|day| &day[..day.bytes().take_while(u8::is_ascii_digit).count()]).filter(|day| day.len() <= 2);
        PartialDate::build(&text[..4], month, day)
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
