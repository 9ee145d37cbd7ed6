//! Whether a record matches: yes, no, or not to be decided because it does not say.
//!
//! The rules of three values: `AND` is the least, `OR` the greatest, with no < unknown < yes; `NOT` turns yes and no.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::ast::{Expr, Term, Value};
use super::days::Days;
use super::field::{Field, Kind};
use super::values::record_identifier;
use super::words::{composed, contains, folded};

/// The answer of a record to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    No,
    Unknown,
    Yes,
}

impl Answer {
    fn of(holds: bool) -> Answer {
        if holds { Answer::Yes } else { Answer::No }
    }

    fn turned(self) -> Answer {
        match self {
            Answer::No => Answer::Yes,
            Answer::Unknown => Answer::Unknown,
            Answer::Yes => Answer::No,
        }
    }
}

/// What a source writes for a neutral code, by field (`type`, `language`).
pub type Codes = BTreeMap<Field, BTreeMap<String, String>>;

/// What a record says of itself.
pub trait Facts {
    /// The values of a field; `None` where the record does not say.
    fn values(&self, field: Field) -> Option<Vec<String>>;
}

/// Decides a condition; `codes` are the source's own words for types and languages.
pub fn eval(expr: &Expr, facts: &dyn Facts, codes: &Codes) -> Answer {
    match expr {
        Expr::Term(term) => eval_term(term, facts, codes),
        Expr::Not(inner) => eval(inner, facts, codes).turned(),
        Expr::And(parts) => parts.iter().map(|part| eval(part, facts, codes)).min().unwrap_or(Answer::Yes),
        Expr::Or(parts) => parts.iter().map(|part| eval(part, facts, codes)).max().unwrap_or(Answer::No),
    }
}

fn eval_term(term: &Term, facts: &dyn Facts, codes: &Codes) -> Answer {
    if term.field == Field::TitleAbstract {
        let part = |field| eval_term(&Term { field, value: term.value.clone() }, facts, codes);
        return part(Field::Title).max(part(Field::Abstract));
    }
    let Some(found) = facts.values(term.field) else { return Answer::Unknown };
    let one = |text: &String| match &term.value {
        Value::Text(wanted) => same(term.field, wanted, text, codes),
        Value::Prefix(start) => held(start, text, |start, words| {
            start.iter().all(|start| words.iter().any(|word| word.starts_with(start.as_str())))
        }),
        Value::Days(days) => on_days(days, text),
    };
    found.iter().map(one).max().unwrap_or(Answer::Unknown)
}

fn on_days(wanted: &Days, text: &str) -> Answer {
    match Days::of_record(text) {
        Some(days) if wanted.holds(&days) => Answer::Yes,
        Some(days) if !wanted.meets(&days) => Answer::No,
        _ => Answer::Unknown,
    }
}

fn same(field: Field, wanted: &str, text: &str, codes: &Codes) -> Answer {
    match field.kind() {
        Kind::Text => held(wanted, text, |wanted, words| contains(words, wanted)),
        Kind::Name => held(wanted, text, names),
        Kind::Code => {
            let own = codes.get(&field).and_then(|codes| codes.get(wanted));
            let same = |wanted: &str| held(wanted, text, |wanted, words| bare(wanted) == bare(words));
            own.map_or(Answer::No, |own| same(own)).max(same(wanted))
        }
        Kind::Id => Answer::of(record_identifier(field, text) == wanted),
        Kind::Day => Answer::No,
    }
}

/// Words held against words. Letters that differ in their accents alone are not told apart by every source, so they decide
/// nothing, neither for a record nor against it.
fn held(wanted: &str, text: &str, fits: impl Fn(&[String], &[String]) -> bool) -> Answer {
    if fits(&composed(wanted), &composed(text)) {
        return Answer::Yes;
    }
    match fits(&folded(wanted), &folded(text)) {
        true => Answer::Unknown,
        false => Answer::No,
    }
}

/// "The Lancet" and "Lancet" are one journal.
fn bare(words: &[String]) -> &[String] {
    match words {
        [article, rest @ ..] if article == "the" && !rest.is_empty() => rest,
        _ => words,
    }
}

/// Each word of `wanted` is a word of the name, or stands for initials of it.
fn names(wanted: &[String], name: &[String]) -> bool {
    let initial = |letter: char| name.iter().any(|word| word.starts_with(letter));
    let fits = |word: &String| {
        let initials = word.chars().count() <= 3 && wanted.len() > 1 && word.chars().all(initial);
        name.contains(word) || initials
    };
    wanted.iter().all(fits)
}

/// A mapped record.
pub struct Mapped(Json);

impl Mapped {
    /// Reads the fields of a record as the ledger keeps them; a text that is no object says nothing.
    pub fn read(fields: &str) -> Mapped {
        Mapped(serde_json::from_str(fields).unwrap_or(Json::Null))
    }
}

impl Facts for Mapped {
    fn values(&self, field: Field) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        for path in field.records() {
            follow(&self.0, path, &mut texts);
            // A source's own words for a type stand beside ours.
            if !texts.is_empty() && field != Field::Type {
                break;
            }
        }
        (!texts.is_empty()).then_some(texts)
    }
}

/// The texts at a path; lists are passed through, and the members of `a|b` stand together.
fn follow(json: &Json, path: &str, texts: &mut Vec<String>) {
    if let Json::Array(items) = json {
        return items.iter().for_each(|item| follow(item, path, texts));
    }
    match path.split_once('.') {
        Some((name, rest)) => json.get(name).into_iter().for_each(|inner| follow(inner, rest, texts)),
        None if path.contains('|') => {
            let mut parts = Vec::new();
            path.split('|').filter_map(|name| json.get(name)).for_each(|value| collect(value, &mut parts));
            texts.extend((!parts.is_empty()).then(|| parts.join(" ")));
        }
        None => json.get(path).into_iter().for_each(|value| collect(value, texts)),
    }
}

/// Each item of a list is a value of its own; the texts of an object stand together.
fn collect(json: &Json, texts: &mut Vec<String>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Json::Object(map) => {
            let mut parts = Vec::new();
            map.values().for_each(|value| collect(value, &mut parts));
            texts.extend((!parts.is_empty()).then(|| parts.join(" ")));
        }
        Json::String(text) => texts.extend((!text.trim().is_empty()).then(|| text.clone())),
        Json::Number(number) => texts.push(number.to_string()),
        Json::Bool(_) | Json::Null => {}
    }
}
