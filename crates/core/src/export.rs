//! What is exported: which records, in which order, and how each of them looks to the outside.
//!
//! A selection has one order and never another, so an export that was cut goes on after the last record it wrote. All
//! records come in the order of their keys. Those that changed in a span of time come in the order of their changes, by an
//! index of their own, and the span ends before the export begins: what changes meanwhile belongs to the next one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hash::Hash32;
use crate::id::Id;
use crate::query::{Answer, Codes, Mapped, Query, eval};
use crate::time::Timestamp;

/// Name of the shape; fields may be added under it.
pub const SCHEMA: &str = "patra.export.v1";

/// A stored record as it is handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// Of its row; it orders what changed at the same moment.
    pub row: Id,
    pub source: String,
    pub entity: String,
    pub id: String,
    pub version: i64,
    pub deleted: bool,
    pub merged_into: Option<String>,
    pub updated_at: Option<Timestamp>,
    pub first_seen_at: Timestamp,
    pub changed_at: Timestamp,
    /// The one that the event of this version carries.
    pub content_hash: Hash32,
    pub batch: Id,
    /// Mapped fields, JSON.
    pub fields: String,
}

impl Exported {
    /// Where an export goes on after this record.
    pub fn place(&self, span: Option<Changes>) -> Place {
        let key = match span {
            None => Key::Named { entity: self.entity.clone(), id: self.id.clone() },
            Some(_) => Key::Changed { at: self.changed_at, row: self.row },
        };
        Place { source: self.source.clone(), key }
    }
}

/// From one moment of change to another, half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The last record that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub source: String,
    pub key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Key {
    Named { entity: String, id: String },
    Changed { at: Timestamp, row: Id },
}

impl Place {
    /// Before the first record of a source.
    pub fn before(source: &str, span: Option<Changes>) -> Place {
        let key = match span {
            None => Key::Named { entity: String::new(), id: String::new() },
            Some(span) => Key::Changed { at: span.from, row: Id(0) },
        };
        Place { source: source.to_owned(), key }
    }
}

/// Which records are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    pub source: Option<String>,
    /// In the query language, in normal form.
    pub query: Option<String>,
    /// Dated by its source at this time or later.
    pub since: Option<Timestamp>,
}

impl Selection {
    /// What a name or a cut export belongs to.
    pub fn fingerprint(&self) -> Hash32 {
        Hash32::of_json(&json!({ "schema": SCHEMA, "selection": self }))
    }
}

/// A selection ready to be asked.
#[derive(Debug)]
pub struct Wanted {
    since: Option<Timestamp>,
    query: Option<Query>,
}

impl Wanted {
    pub fn of(selection: &Selection) -> Result<Wanted, crate::query::QueryError> {
        let query = selection.query.as_deref().map(Query::parse).transpose()?;
        Ok(Wanted { since: selection.since, query })
    }

    /// What the fields cannot decide is handed out, as it is kept; so is a deletion, which shows no fields.
    pub fn takes(&self, record: &Exported) -> bool {
        let dated = self.since.is_none_or(|since| record.updated_at.is_none_or(|at| at >= since));
        let asked = |query: &Query| {
            record.deleted || eval(query.expr(), &Mapped::read(&record.fields), &Codes::default()) != Answer::No
        };
        dated && self.query.as_ref().is_none_or(asked)
    }
}

/// The fields that stand in columns of their own in formats made of columns: name and path.
pub const FLAT: &[(&str, &str)] = &[
    ("doi", "/ids/doi"),
    ("pmid", "/ids/pmid"),
    ("title", "/title"),
    ("type", "/type"),
    ("language", "/language"),
    ("published", "/dates/published"),
    ("venue", "/venue/title"),
    ("status", "/status"),
];

/// The texts of [`FLAT`], in its order; what a record does not say is absent.
pub fn flat(fields: &Value) -> Vec<Option<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    FLAT.iter().map(|(_, path)| fields.pointer(path).and_then(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(updated: Option<i64>, deleted: bool, fields: &str) -> Exported {
        Exported {
            row: Id(1),
            source: "s".into(),
            entity: "works".into(),
            id: "a".into(),
            version: 1,
            deleted,
            merged_into: None,
            updated_at: updated.map(Timestamp::from_seconds),
            first_seen_at: Timestamp::from_seconds(1),
            changed_at: Timestamp::from_seconds(2),
            content_hash: Hash32::of(b"x"),
            batch: Id(9),
            fields: fields.into(),
        }
    }

    #[test]
    fn a_selection_takes_what_matches_and_what_cannot_be_decided() {
        let wanted = |query: Option<&str>, since: Option<i64>| {
            let selection =
                Selection { source: None, query: query.map(str::to_owned), since: since.map(Timestamp::from_seconds) };
            Wanted::of(&selection).unwrap()
        };
        let heart = r#"{"title":"Heart failure","language":"en"}"#;
        for (query, since, record, want) in [
            (None, None, record(Some(5), false, heart), true),
            (Some("title:heart"), None, record(Some(5), false, heart), true),
            (Some("title:liver"), None, record(Some(5), false, heart), false),
            (Some("title:liver"), None, record(Some(5), true, heart), true),
            (Some("type:review"), None, record(Some(5), false, heart), true),
            (None, Some(5), record(Some(5), false, heart), true),
            (None, Some(6), record(Some(5), false, heart), false),
            (None, Some(6), record(None, false, heart), true),
        ] {
            assert_eq!(wanted(query, since).takes(&record), want, "{query:?} {since:?} {record:?}");
        }
    }

    #[test]
    fn another_selection_has_another_fingerprint() {
        let one = Selection { source: Some("a".into()), ..Selection::default() };
        let other = Selection { query: Some("a".into()), ..Selection::default() };
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.fingerprint(), one.clone().fingerprint());
    }

    #[test]
    fn flat_columns_are_read_out_of_the_fields() {
        let fields = json!({"ids": {"doi": "10.1/x"}, "title": "T", "dates": {"published": "2026"}, "status": ["a"]});
        let texts = flat(&fields);
        assert_eq!(texts.len(), FLAT.len());
        let found: Vec<(&str, &str)> =
            FLAT.iter().zip(&texts).filter_map(|((name, _), text)| Some((*name, text.as_deref()?))).collect();
        assert_eq!(found, [("doi", "10.1/x"), ("title", "T"), ("published", "2026")]);
    }
}
