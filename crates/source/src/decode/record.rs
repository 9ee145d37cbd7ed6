//! From what the paths found to a record, or to the reason why it cannot be one.
//!
//! | Part | Rule |
//! |---|---|
//! | id | every part must give a value; joined with `:`; at most 2048 bytes |
//! | updated_at | absent or empty is `None`, except where the window is filtered by it; unreadable is `BAD_TIME` |
//! | fields | null and empty are left out; a required one must be there, unless the record is a tombstone (`fields.rs`) |
//!
//! Numbers and strings go into the fields as the source wrote them, so nothing is rounded.

use bytes::Bytes;
use jiff::tz::TimeZone;
use patra_core::hash::Hash32;
use patra_core::page::{BadItem, BadReason, Item};
use patra_core::path::Pipe;
use patra_core::spec::snapshot::TimeKind;
use serde_json::Value;

use super::fields::{self, Members};
use super::group::Scope;
use super::{exact, time};

/// Longest id of a record.
pub const ID_BYTES_MAX: usize = 2048;

/// An extract whose paths have been given numbers in a trie.
#[derive(Debug)]
pub struct Slots {
    pub text: String,
    pub alternatives: Vec<Slot>,
}

#[derive(Debug)]
pub struct Slot {
    pub at: Place,
    pub arity: Arity,
    pub pipes: Vec<Pipe>,
}

/// Where the matches of a path are found.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Raw(usize),
    Tree(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// At most one match.
    One,
    /// Always a list.
    Many,
    /// One match is itself, several are a list (XML, where every element may repeat).
    OneOrMany,
}

/// Matches of one record or page.
#[derive(Clone, Copy)]
pub struct Matches<'f, 'a> {
    pub raw: &'f [Vec<&'a str>],
    pub trees: &'f [Vec<Value>],
    pub scope: Scope<'f>,
}

impl<'f, 'a> Matches<'f, 'a> {
    fn raw(&self, slot: usize) -> &'f [&'a str] {
        let all = &self.raw[slot];
        &all[self.scope.matches(slot, all.len())]
    }

    fn trees(&self, slot: usize) -> &'f [Value] {
        let all = &self.trees[slot];
        &all[self.scope.matches(slot, all.len())]
    }

    /// The matches of one element of a list.
    pub fn of(self, group: usize, element: usize) -> Matches<'f, 'a> {
        Matches { scope: self.scope.of(group, element), ..self }
    }

    pub fn is_inside(&self) -> bool {
        self.scope.element.is_some()
    }
}

/// A value as written, or as converted.
#[derive(Debug)]
pub enum One<'a> {
    Raw(&'a str),
    Tree(Value),
}

#[derive(Debug)]
pub struct RecordPlan {
    pub id: Vec<Slots>,
    pub updated_at: Option<Slots>,
    pub version: Option<Slots>,
    pub deleted: Option<Slots>,
    pub fields: Members,
    pub time_kind: TimeKind,
    pub zone: TimeZone,
    /// The window is filtered by the record's time, so it must be there.
    pub time_required: bool,
}

pub type Trouble = (BadReason, String, String);

impl Slots {
    /// The first alternative that gives a value which is neither null nor empty.
    pub fn value<'a>(&self, matches: Matches<'_, 'a>) -> Result<Option<One<'a>>, String> {
        for slot in &self.alternatives {
            if let Some(one) = slot.value(matches)? {
                return Ok(Some(one));
            }
        }
        Ok(None)
    }

    pub fn text(&self, matches: Matches<'_, '_>) -> Result<Option<String>, String> {
        self.value(matches)?.map_or(Ok(None), |one| one.text())
    }

    /// Whether anything matched, also with an empty text, but not with a word for no.
    pub fn is_true(&self, matches: Matches<'_, '_>) -> bool {
        self.alternatives.iter().any(|slot| match slot.at {
            Place::Raw(at) => matches.raw(at).iter().any(|raw| !is_no(&raw.trim_matches('"').to_lowercase())),
            Place::Tree(at) => matches.trees(at).iter().any(|tree| match tree {
                Value::String(text) => text.is_empty() || !is_no(&text.to_lowercase()),
                other => !is_no(&other.to_string()),
            }),
        })
    }
}

fn is_no(text: &str) -> bool {
    matches!(text, "" | "null" | "false" | "0" | "n" | "no" | "[]" | "{}")
}

impl Slot {
    fn value<'a>(&self, matches: Matches<'_, 'a>) -> Result<Option<One<'a>>, String> {
        let mut values = match self.at {
            Place::Raw(at) => match matches.raw(at) {
                [] => return Ok(None),
                [first, ..] if self.arity == Arity::One && self.pipes.is_empty() => {
                    return Ok((!is_empty_raw(first)).then_some(One::Raw(first)));
                }
                all => all.iter().map(|raw| exact_tree(raw)).collect::<Result<Vec<_>, _>>()?,
            },
            Place::Tree(at) => matches.trees(at).to_vec(),
        };
        if values.is_empty() {
            return Ok(None);
        }
        let mut value = match self.arity {
            Arity::One => values.swap_remove(0),
            Arity::OneOrMany if values.len() == 1 => values.swap_remove(0),
            _ => Value::Array(values),
        };
        for pipe in &self.pipes {
            value = pipe.apply(value);
        }
        Ok((!is_empty(&value)).then_some(One::Tree(value)))
    }
}

impl One<'_> {
    /// A scalar as text; the first of a list.
    pub fn text(&self) -> Result<Option<String>, String> {
        match self {
            One::Raw(raw) if raw.starts_with('"') => {
                serde_json::from_str(raw).map(Some).map_err(|error| error.to_string())
            }
            One::Raw(raw) if raw.starts_with(['{', '[']) => One::Tree(exact_tree(raw)?).text(),
            // Numbers as written: an id of 30 digits stays one.
            One::Raw(raw) => Ok(Some((*raw).to_owned())),
            One::Tree(Value::String(text)) => Ok(Some(text.clone())),
            One::Tree(Value::Array(items)) => match items.iter().find(|item| !is_empty(item)) {
                Some(first) => One::Tree(first.clone()).text(),
                None => Ok(None),
            },
            One::Tree(Value::Object(map)) => match map.get("#text") {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                _ => Err("an object where a text is expected".to_owned()),
            },
            One::Tree(Value::Null) => Ok(None),
            One::Tree(scalar) => Ok(Some(scalar.to_string())),
        }
    }

    pub fn tree(self) -> Result<Value, String> {
        match self {
            One::Raw(raw) => tree(raw),
            One::Tree(value) => Ok(value),
        }
    }

    /// As it stands in the fields of a record.
    pub fn write(&self, output: &mut String) -> Result<(), String> {
        match self {
            // A plain string needs no parsing; anything else might hold what cannot be read back (1e400).
            One::Raw(raw) if raw.starts_with('"') && !raw.contains('\\') => {
                refuse_nul(raw)?;
                output.push_str(raw);
            }
            One::Raw(raw) => {
                refuse_nul_in(&tree(raw)?)?;
                output.push_str(raw);
            }
            One::Tree(value) => {
                refuse_nul_in(value)?;
                output.push_str(&value.to_string());
            }
        }
        Ok(())
    }
}

/// For texts and ids, where no digit may be lost.
fn exact_tree(raw: &str) -> Result<Value, String> {
    exact::tree(raw).map_err(|error| error.to_string())
}

fn tree(raw: &str) -> Result<Value, String> {
    serde_json::from_str(raw).map_err(|error| error.to_string())
}

fn is_empty_raw(raw: &str) -> bool {
    matches!(raw, "null" | "\"\"" | "[]" | "{}")
}

pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn refuse_nul(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("a NUL character".to_owned()) } else { Ok(()) }
}

fn refuse_nul_in(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => refuse_nul(text),
        Value::Array(items) => items.iter().try_for_each(refuse_nul_in),
        Value::Object(map) => {
            map.iter().try_for_each(|(key, value)| refuse_nul(key).and_then(|()| refuse_nul_in(value)))
        }
        _ => Ok(()),
    }
}

impl RecordPlan {
    /// Makes a record of the matches, or says why not.
    pub fn build(&self, matches: Matches<'_, '_>, content_hash: Hash32, payload: Bytes) -> Result<Item, BadItem> {
        let id = match self.id_of(matches) {
            Ok(id) => id,
            Err(trouble) => return Err(bad(None, trouble, payload)),
        };
        match self.rest(matches, &id, content_hash, &payload) {
            Ok(item) => Ok(item),
            Err(trouble) => Err(bad(Some(id), trouble, payload)),
        }
    }

    fn id_of(&self, matches: Matches<'_, '_>) -> Result<String, Trouble> {
        let mut id = String::new();
        for (at, slots) in self.id.iter().enumerate() {
            let part = slots.text(matches).map_err(|message| (BadReason::BadText, slots.text.clone(), message))?;
            let part = part.filter(|part| !part.trim().is_empty());
            let part = part.ok_or_else(|| (BadReason::NoId, slots.text.clone(), "the record has no id".to_owned()))?;
            if at > 0 {
                id.push(':');
            }
            id.push_str(&part);
        }
        let path = || self.id.first().map(|slots| slots.text.clone()).unwrap_or_default();
        if id.len() > ID_BYTES_MAX {
            return Err((BadReason::TooLong, path(), format!("the id has {} bytes", id.len())));
        }
        if id.chars().any(char::is_control) {
            return Err((BadReason::BadText, path(), "the id holds a control character".to_owned()));
        }
        Ok(id)
    }

    fn rest(&self, matches: Matches<'_, '_>, id: &str, content_hash: Hash32, payload: &Bytes) -> Result<Item, Trouble> {
        let deleted = self.deleted.as_ref().is_some_and(|slots| slots.is_true(matches));
        let updated_at = match &self.updated_at {
            None => None,
            Some(slots) => self.time_of(slots, matches, deleted)?,
        };
        let version = match &self.version {
            None => None,
            Some(slots) => {
                let version = slots.text(matches);
                version.map_err(|message| (BadReason::BadField, slots.text.clone(), message))?
            }
        };
        let fields = fields::write(&self.fields, matches, deleted)?;
        Ok(Item { id: id.to_owned(), updated_at, version, deleted, content_hash, fields, payload: payload.clone() })
    }

    fn time_of(
        &self,
        slots: &Slots,
        matches: Matches<'_, '_>,
        deleted: bool,
    ) -> Result<Option<patra_core::time::Timestamp>, Trouble> {
        let wrong = |message: String| (BadReason::BadTime, slots.text.clone(), message);
        match slots.value(matches).map_err(wrong)? {
            Some(one) => time::read(&one.tree().map_err(wrong)?, self.time_kind, &self.zone).map(Some).map_err(wrong),
            None if self.time_required && !deleted => Err(wrong("the record has no time".to_owned())),
            None => Ok(None),
        }
    }
}

pub fn bad(id: Option<String>, (reason, path, message): Trouble, raw: Bytes) -> BadItem {
    BadItem { id, reason, path, message, raw }
}
