//! Values on their way into the driver and out of it.

use patra_core::time::Timestamp;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Decode, Row as _, TypeInfo, ValueRef};

use super::wrong;
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::sql::{Rendered, Slot};
use crate::value::Value;

/// Binds each placeholder in turn.
pub(super) fn bound(
    rendered: &Rendered,
    params: &[(&'static str, Value)],
    values: impl IntoIterator<Item = Value>,
) -> Result<SqliteArguments, DbError> {
    let mut arguments = SqliteArguments::default();
    let mut values = values.into_iter();
    arguments.reserve(rendered.slots.len() + values.size_hint().0, 0);
    for slot in &rendered.slots {
        match slot {
            Slot::Values => values.by_ref().try_for_each(|value| bind(&mut arguments, value))?,
            Slot::Name(name) => {
                let found = params.iter().find(|(known, _)| known == name);
                let (_, value) =
                    found.unwrap_or_else(|| panic!("parameter :{name} of `{}` has no value", rendered.sql));
                bind(&mut arguments, value.clone())?;
            }
        }
    }
    let used = |name: &str| rendered.slots.iter().any(|slot| matches!(slot, Slot::Name(known) if known == name));
    debug_assert!(params.iter().all(|(name, _)| used(name)), "a parameter of `{}` is not used", rendered.sql);
    Ok(arguments)
}

pub(super) fn positional(values: Vec<Value>) -> Result<SqliteArguments, DbError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        bind(&mut arguments, value)?;
    }
    Ok(arguments)
}

fn bind(arguments: &mut SqliteArguments, value: Value) -> Result<(), DbError> {
    let added = match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Shared(value) => arguments.add(value),
        Value::Bytes(value) => arguments.add(value),
        Value::Time(value) => arguments.add(time_text(value)),
    };
    added.map_err(|error| DbError::Data(error.to_string()))
}

/// Instants are text on SQLite; outside the printable years they would not sort.
fn time_text(value: Timestamp) -> String {
    value.to_string()
}

pub(super) fn decode(row: &SqliteRow) -> Result<Vec<Value>, DbError> {
    let mut values = Vec::with_capacity(row.columns().len());
    for at in 0..row.columns().len() {
        let raw = row.try_get_raw(at).map_err(|error| wrong(Dialect::Sqlite, &error))?;
        if raw.is_null() {
            values.push(Value::Null);
            continue;
        }
        let kind = raw.type_info().name().to_owned();
        let value = match kind.as_str() {
            "INTEGER" => <i64 as Decode<sqlx::Sqlite>>::decode(raw).map(Value::Int),
            "TEXT" => <String as Decode<sqlx::Sqlite>>::decode(raw).map(Value::Text),
            _ => <Vec<u8> as Decode<sqlx::Sqlite>>::decode(raw).map(Value::Bytes),
        };
        values.push(value.map_err(|error| DbError::Unavailable(format!("column {at} cannot be read: {error}")))?);
    }
    Ok(values)
}
