//! The columns of an export, the same in every format; `docs/export.md` explains them and a test keeps both equal.

use patra_core::export::{Exported, FLAT, flat};
use patra_core::time::Timestamp;
use serde_json::Value;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Flag,
    Time,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub optional: bool,
}

const fn column(name: &'static str, kind: Kind, optional: bool) -> Column {
    Column { name, kind, optional }
}

/// In this order; after them come those of [`FLAT`], then `fields`.
pub const COLUMNS: &[Column] = &[
    column("source", Kind::Text, false),
    column("entity", Kind::Text, false),
    column("id", Kind::Text, false),
    column("version", Kind::Number, false),
    column("deleted", Kind::Flag, false),
    column("merged_into", Kind::Text, true),
    column("updated_at", Kind::Time, true),
    column("first_seen_at", Kind::Time, false),
    column("changed_at", Kind::Time, false),
    column("content_hash", Kind::Text, false),
    column("batch_id", Kind::Text, false),
];

/// All columns of a format made of columns.
pub fn columns() -> impl Iterator<Item = Column> {
    let flat = FLAT.iter().map(|(name, _)| column(name, Kind::Text, true));
    COLUMNS.iter().copied().chain(flat).chain([column("fields", Kind::Text, false)])
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Empty,
    Text(String),
    Number(i64),
    Flag(bool),
    Time(Timestamp),
}

/// The cells of a record, one for each of [`columns`].
pub fn cells(record: &Exported) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    let perhaps = |text: Option<String>| text.map_or(Cell::Empty, Cell::Text);
    let mut cells = vec![
        text(&record.source),
        text(&record.entity),
        text(&record.id),
        Cell::Number(record.version),
        Cell::Flag(record.deleted),
        perhaps(record.merged_into.clone()),
        record.updated_at.map_or(Cell::Empty, Cell::Time),
        Cell::Time(record.first_seen_at),
        Cell::Time(record.changed_at),
        Cell::Text(record.content_hash.to_string()),
        Cell::Text(record.batch.to_string()),
    ];
    let fields: Value = serde_json::from_str(&record.fields).unwrap_or_default();
    cells.extend(flat(&fields).into_iter().map(perhaps));
    cells.push(text(&record.fields));
    cells
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use patra_core::hash::Hash32;
    use patra_core::id::Id;

    pub fn record(number: i64, fields: &str) -> Exported {
        Exported {
            row: Id(number),
            source: "crossref".into(),
            entity: "works".into(),
            id: format!("10.1/{number}"),
            version: 1,
            deleted: number % 2 == 1,
            merged_into: None,
            updated_at: (number % 3 != 0).then(|| Timestamp::from_seconds(number)),
            first_seen_at: Timestamp::from_seconds(1_800_000_000),
            changed_at: Timestamp::from_seconds(1_800_000_000 + number),
            content_hash: Hash32::of(&number.to_be_bytes()),
            batch: Id(77),
            fields: fields.into(),
        }
    }

    #[test]
    fn every_column_has_its_cell_and_of_its_kind() {
        let cells = cells(&record(4, r#"{"title":"T","ids":{"doi":"10.1/4"}}"#));
        assert_eq!(cells.len(), columns().count());
        for (column, cell) in columns().zip(&cells) {
            let fits = match cell {
                Cell::Empty => column.optional,
                Cell::Text(_) => column.kind == Kind::Text,
                Cell::Number(_) => column.kind == Kind::Number,
                Cell::Flag(_) => column.kind == Kind::Flag,
                Cell::Time(_) => column.kind == Kind::Time,
            };
            assert!(fits, "{column:?} {cell:?}");
        }
    }

    #[test]
    fn the_document_names_every_column() {
        let document = include_str!("../../../docs/export.md");
        for column in columns() {
            assert!(document.contains(&format!("| `{}` |", column.name)), "docs/export.md lacks `{}`", column.name);
        }
    }
}
