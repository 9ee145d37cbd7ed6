//! Pipes: small, total conversions of what a path found. What cannot be converted becomes null.

use std::collections::BTreeMap;

use serde_json::Value;

use super::date::PartialDate;
use super::ids::IdKind;
use super::plain::plain;
use super::words::{self, Codes};

/// One conversion. Lists are converted item by item, except by `first`, `last`, `join`, `list`, `count`, `codes` and
/// `licence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// `2026`, `2026-01` or `2026-01-31`, from text, numbers or an element with Year, Month, Day.
    PartialDate,
    /// The day of a time or date, `2026-01-31`.
    Date,
    First,
    Last,
    Join(String),
    /// Always a list, also of one.
    List,
    Lower,
    Trim,
    StripPrefix(String),
    Int,
    Text,
    /// Markup to text.
    Plain,
    /// The normal form of an identifier.
    Id(IdKind),
    Language,
    Licence,
    /// `Y`, `true` or `1`.
    Flag,
    /// A list out of a text, cut at a separator.
    Split(String),
    /// How many there are.
    Count,
    /// Words of the source in ours.
    Codes(Codes),
    /// A text out of its words and their places, as OpenAlex writes abstracts.
    Inverted,
}

const NAMES: &str = "partial_date, date, first, last, join('; '), split(';'), list, count, lower, trim, strip_prefix('..'), \
    int, flag, text, plain, codes('theirs=ours; ..'), language, licence, inverted, doi, orcid, issn, isbn, pmid, pmcid, \
    arxiv, ror";

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
            ("last", None) => Ok(Pipe::Last),
            ("count", None) => Ok(Pipe::Count),
            ("plain", None) => Ok(Pipe::Plain),
            ("flag", None) => Ok(Pipe::Flag),
            ("language", None) => Ok(Pipe::Language),
            ("licence", None) => Ok(Pipe::Licence),
            ("inverted", None) => Ok(Pipe::Inverted),
            ("codes", Some(codes)) => Codes::parse(&codes).map(Pipe::Codes),
            ("split", Some(separator)) if !separator.is_empty() => Ok(Pipe::Split(separator)),
            ("list", None) => Ok(Pipe::List),
            ("lower", None) => Ok(Pipe::Lower),
            ("trim", None) => Ok(Pipe::Trim),
            ("int", None) => Ok(Pipe::Int),
            ("text", None) => Ok(Pipe::Text),
            ("join", Some(separator)) => Ok(Pipe::Join(separator)),
            ("strip_prefix", Some(prefix)) => Ok(Pipe::StripPrefix(prefix)),
            (name, None) if let Some((_, kind)) = IdKind::ALL.iter().find(|(known, _)| *known == name) => {
                Ok(Pipe::Id(*kind))
            }
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
            Pipe::Last => match value {
                Value::Array(items) => items.into_iter().rfind(|item| !item.is_null()).unwrap_or_default(),
                one => one,
            },
            Pipe::Count => match value {
                Value::Null => Value::Null,
                Value::Array(items) => items.len().into(),
                _ => 1.into(),
            },
            Pipe::Codes(codes) => codes.of(&all_texts(&value)).map_or(Value::Null, Value::from),
            Pipe::Licence => words::licence(&all_texts(&value)).map_or(Value::Null, Value::String),
            Pipe::Inverted => inverted(&value).map_or(Value::Null, Value::String),
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
            Pipe::Plain => Value::String(plain(&text)?),
            Pipe::Id(kind) => Value::String(kind.normal(&text)?),
            Pipe::Language => Value::String(words::language(&text)?),
            Pipe::Flag => match text.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => true.into(),
                "n" | "no" | "false" | "0" => false.into(),
                _ => return None,
            },
            Pipe::Split(separator) => {
                let parts = text.split(separator.as_str()).map(str::trim).filter(|part| !part.is_empty());
                parts.map(Value::from).collect()
            }
            Pipe::Date => {
                let date = PartialDate::of(value)?;
                date.day?;
                Value::String(date.to_string())
            }
            _ => Value::String(text),
        })
    }
}

fn all_texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text_of).collect(),
        one => text_of(one).into_iter().collect(),
    }
}

/// Most words of a text that is put together from places.
const PLACES_MAX: u64 = 100_000;

/// `{"Despite": [0], "growing": [1, 7]}` as a text.
fn inverted(value: &Value) -> Option<String> {
    let mut words: BTreeMap<u64, &str> = BTreeMap::new();
    for (word, places) in value.as_object()? {
        for place in places.as_array()?.iter().filter_map(Value::as_u64).filter(|place| *place < PLACES_MAX) {
            words.insert(place, word);
        }
    }
    let text = words.into_values().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn argument(rest: &str) -> Result<String, String> {
    let inside = rest.trim().strip_suffix(')').ok_or("a pipe lacks its `)`")?.trim();
    let quote =
        inside.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or("an argument stands in quotes")?;
    let text = inside.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).filter(|_| inside.len() >= 2);
    Ok(text.ok_or("an argument stands in quotes")?.to_owned())
}

pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(map) => map.get("#text").or_else(|| map.get("value")).and_then(text_of),
        Value::Array(_) => Some(value.to_string()),
    }
}
