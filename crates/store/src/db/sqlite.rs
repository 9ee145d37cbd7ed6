//! SQLite: how to connect, what goes into a statement and what comes out of a row.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{Arguments, Column, ConnectOptions, Decode, Row as _, SqliteConnection, TypeInfo, ValueRef};

use super::wrong;
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::store::{Access, Durability};
use crate::value::Value;

pub(super) const DIALECT: Dialect = Dialect::Sqlite;
/// Whoever waits for the stream to close sleeps and wakes once more for every statement.
pub(super) const ENDS_WITH_THE_STATEMENT: bool = true;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENTS_MAX: usize = 256;
/// Records of a few kilobytes waste half of the default page of 4 KiB.
const PAGE_BYTES: u32 = 8_192;
/// Negative: in KiB. A page of a thousand records is written without spilling.
const CACHE_KIB: &str = "-16384";
/// The log is folded into the database every 16 MiB, not in every second commit.
const CHECKPOINT_PAGES: &str = "2000";

/// How to open a file, or a database in memory for `None`.
pub(super) fn options(path: Option<&str>, durability: Durability, access: Access) -> SqliteConnectOptions {
    let synchronous = match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    let options = match (path, access) {
        (None, _) => SqliteConnectOptions::new().in_memory(true),
        (Some(path), Access::Write) => {
            let options = SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal);
            options.create_if_missing(true)
        }
        (Some(path), Access::Read) => SqliteConnectOptions::new().filename(path).read_only(true),
    };
    options
        .synchronous(synchronous)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(false)
        .page_size(PAGE_BYTES)
        .pragma("cache_size", CACHE_KIB)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .statement_cache_capacity(STATEMENTS_MAX)
        .disable_statement_logging()
}

pub(super) async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, DbError> {
    options.connect().await.map_err(|error| wrong(DIALECT, &error))
}

pub(super) fn arguments(values: Vec<Value>) -> Result<SqliteArguments, DbError> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Shared(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            // Instants are text here; inside the printable years they sort as they should.
            Value::Time(value) => arguments.add(value.to_string()),
        };
        added.map_err(|error| DbError::Data(error.to_string()))?;
    }
    Ok(arguments)
}

pub(super) fn decode(row: &SqliteRow) -> Result<Vec<Value>, DbError> {
    let mut values = Vec::with_capacity(row.columns().len());
    for at in 0..row.columns().len() {
        let raw = row.try_get_raw(at).map_err(|error| wrong(DIALECT, &error))?;
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
        values.push(value.map_err(|error| super::unreadable(row.columns()[at].name(), &*error))?);
    }
    Ok(values)
}
