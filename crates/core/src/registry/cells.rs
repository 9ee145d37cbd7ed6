//! Keys of a block as columns of a row, and back.
//!
//! Flags are 0 and 1, whole numbers are numbers, everything else is text: codes, ISO-8601 times and lengths,
//! shares as decimal numbers, lists and maps as JSON. A key that is not given is a null.

use std::collections::BTreeMap;

use crate::ports::Cell;

use super::definition::{Map, Value};
use super::grammar::{Block, Key, Kind, Stored};

pub type Columns = BTreeMap<String, Cell>;

/// A row that no version of this program writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}.{column} holds nonsense: {message}")]
pub struct BadRow {
    pub table: String,
    pub column: String,
    pub message: String,
}

/// Writes every column of a block, nulls included.
pub fn write(columns: &mut Columns, block: &'static Block, map: Option<&Map>) {
    for key in block.keys {
        let value = map.and_then(|map| map.get(key.name));
        match (key.stored, &key.kind, value) {
            (Stored::Column(column), kind, value) => {
                columns.insert(column.to_owned(), value.map_or(Cell::Null, |value| to_cell(kind, value)));
            }
            (Stored::Flat, Kind::Block(inner), Some(Value::Map(map))) => write(columns, inner, Some(map)),
            (Stored::Flat, Kind::Block(inner), _) => write(columns, inner, None),
            _ => {}
        }
    }
}

/// Reads the columns of a block back; nulls give no key.
pub fn read(columns: &Columns, block: &'static Block, table: &str) -> Result<Map, BadRow> {
    let mut map = Map::default();
    for key in block.keys {
        match (key.stored, &key.kind) {
            (Stored::Column(column), kind) => match columns.get(column) {
                None | Some(Cell::Null) => {}
                Some(cell) => map.push(key.name, from_cell(key, kind, cell, table, column)?),
            },
            (Stored::Flat, Kind::Block(inner)) => map.push(key.name, Value::Map(read(columns, inner, table)?)),
            _ => {}
        }
    }
    Ok(map)
}

/// A text column that must be there.
pub fn text(columns: &Columns, table: &str, column: &str) -> Result<String, BadRow> {
    match columns.get(column) {
        Some(Cell::Text(text)) => Ok(text.clone()),
        _ => Err(bad(table, column, "a text is missing")),
    }
}

/// The place of a row among its like.
pub fn position(columns: &Columns) -> i64 {
    match columns.get("position") {
        Some(Cell::Int(position)) => *position,
        _ => 0,
    }
}

pub fn bad(table: &str, column: &str, message: &str) -> BadRow {
    BadRow { table: table.to_owned(), column: column.to_owned(), message: message.to_owned() }
}

pub fn to_cell(kind: &Kind, value: &Value) -> Cell {
    match (kind, value) {
        (_, Value::Flag(flag)) => Cell::Int(i64::from(*flag)),
        (_, Value::Integer(number)) => Cell::Int(*number),
        (_, Value::Text(text)) if !matches!(kind, Kind::Json) => Cell::Text(text.clone()),
        (_, value) => Cell::Text(value.to_json().to_string()),
    }
}

fn from_cell(key: &Key, kind: &Kind, cell: &Cell, table: &str, column: &str) -> Result<Value, BadRow> {
    let value = match (kind, cell) {
        (Kind::Flag, Cell::Int(number)) => Some(Value::Flag(*number != 0)),
        (Kind::Integer { .. }, Cell::Int(number)) => Some(Value::Integer(*number)),
        (Kind::Share | Kind::Factor | Kind::List(_) | Kind::Map | Kind::Json | Kind::Block(_), Cell::Text(text)) => {
            serde_json::from_str(text).ok().and_then(|json| Value::from_json(kind, &json))
        }
        (Kind::Flag | Kind::Integer { .. }, Cell::Text(_)) => None,
        (_, Cell::Text(text)) => Some(Value::Text(text.clone())),
        _ => None,
    };
    value.ok_or_else(|| bad(table, column, &format!("not a value of `{}`", key.name)))
}
