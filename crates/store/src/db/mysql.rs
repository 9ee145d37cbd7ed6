//! MySQL and MariaDB: how to connect, what goes into a statement and what comes out of a row.
//!
//! In a row VARBINARY is text that compares byte by byte, BINARY and the BLOBs are bytes.

use std::str::FromStr;

use patra_core::time::Timestamp;
use sqlx::error::BoxDynError;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlRow, MySqlValueRef};
use sqlx::{Arguments, Column, ConnectOptions, Decode, Executor, MySql, MySqlConnection, Row as _, TypeInfo, ValueRef};

use super::wrong;
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::store::Access;
use crate::value::Value;

pub(super) const DIALECT: Dialect = Dialect::Mysql;
/// The server says when it is ready for the next one.
pub(super) const ENDS_WITH_THE_STATEMENT: bool = false;

const STATEMENTS_MAX: usize = 256;
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET SESSION innodb_lock_wait_timeout = 10; \
    SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')";
/// An open transaction that stands still is ended before its lease is (invariants, section 1). MySQL has no such
/// setting.
const SESSION_MARIADB: &str = "SET SESSION idle_transaction_timeout = 20";
const FACTS: &str = "SHOW VARIABLES WHERE Variable_name IN \
    ('version', 'tx_isolation', 'transaction_isolation', 'wsrep_on', 'read_only')";

pub(super) fn options(url: &str) -> Result<MySqlConnectOptions, DbError> {
    let options = MySqlConnectOptions::from_str(url).map_err(|error| DbError::Unavailable(error.to_string()))?;
    Ok(options.statement_cache_capacity(STATEMENTS_MAX).disable_statement_logging())
}

pub(super) async fn connect(options: &MySqlConnectOptions, access: Access) -> Result<MySqlConnection, DbError> {
    let refused = |error| wrong(DIALECT, &error);
    let mut connection = options.connect().await.map_err(refused)?;
    connection.execute(sqlx::raw_sql(SESSION)).await.map_err(refused)?;
    let mut facts = Vec::new();
    for row in sqlx::query(FACTS).fetch_all(&mut connection).await.map_err(refused)? {
        if let [Value::Text(name), Value::Text(value)] = decode(&row)?.as_slice() {
            facts.push((name.to_lowercase(), value.clone()));
        }
    }
    if fit(&facts, access)? {
        connection.execute(sqlx::raw_sql(SESSION_MARIADB)).await.map_err(refused)?;
    }
    Ok(connection)
}

/// Refuses what the ledger cannot stand on; whether it is MariaDB.
fn fit(facts: &[(String, String)], access: Access) -> Result<bool, DbError> {
    let fact = |name: &str| facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let refused = |message: String| Err(DbError::Unavailable(message));
    let version = fact("version").unwrap_or_default();
    let mariadb = version.to_lowercase().contains("mariadb");
    let numbers: Vec<u32> = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    let least: &[u32] = if mariadb { &[10, 6] } else { &[8, 0] };
    if numbers.as_slice() < least {
        return refused(format!("MySQL 8.0 or MariaDB 10.6 or newer is needed, this is {version}"));
    }
    let isolation = fact("transaction_isolation").or_else(|| fact("tx_isolation")).unwrap_or_default();
    if isolation != "READ-COMMITTED" {
        return refused(format!("isolation is `{isolation}`, READ-COMMITTED was asked for"));
    }
    if fact("wsrep_on").is_some_and(|value| value.eq_ignore_ascii_case("on")) {
        return refused("this is a Galera cluster; with several writers it loses updates".into());
    }
    if access == Access::Write && fact("read_only").is_some_and(|value| value.eq_ignore_ascii_case("on")) {
        return refused("the server takes no writes (read_only)".into());
    }
    Ok(mariadb)
}

pub(super) fn arguments(values: Vec<Value>) -> Result<MySqlArguments, DbError> {
    let mut arguments = MySqlArguments::default();
    arguments.reserve(values.len(), values.iter().map(Value::size).sum());
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Shared(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            Value::Time(value) => arguments.add(time_text(value)),
        };
        added.map_err(|error| DbError::Data(error.to_string()))?;
    }
    Ok(arguments)
}

/// As a literal of DATETIME is written.
fn time_text(value: Timestamp) -> String {
    let mut text = value.to_string();
    text.pop();
    text.replacen('T', " ", 1)
}

pub(super) fn decode(row: &MySqlRow) -> Result<Vec<Value>, DbError> {
    let mut values = Vec::with_capacity(row.columns().len());
    for column in row.columns() {
        let raw = row.try_get_raw(column.ordinal()).map_err(|error| wrong(DIALECT, &error))?;
        values.push(value(raw).map_err(|error| super::unreadable(column.name(), &*error))?);
    }
    Ok(values)
}

fn value(raw: MySqlValueRef<'_>) -> Result<Value, BoxDynError> {
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().name().to_owned();
    match kind.as_str() {
        "BIGINT" | "INT" => <i64 as Decode<MySql>>::decode(raw).map(Value::Int),
        "BINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
            <Vec<u8> as Decode<MySql>>::decode(raw).map(Value::Bytes)
        }
        "DATETIME" => instant(<&[u8] as Decode<MySql>>::decode(raw)?).map(Value::Time),
        _ => Ok(Value::Text(std::str::from_utf8(<&[u8] as Decode<MySql>>::decode(raw)?)?.to_owned())),
    }
}

/// A DATETIME of the binary protocol: its length, then year, month, day, hour, minute, second, microseconds, as far
/// as they are not zero.
fn instant(bytes: &[u8]) -> Result<Timestamp, BoxDynError> {
    let body = bytes.get(1..).unwrap_or_default();
    let part = |at: usize| i8::try_from(body.get(at).copied().unwrap_or(0));
    let year = i16::from_le_bytes([*body.first().ok_or("an empty date")?, *body.get(1).ok_or("half a year")?]);
    let micros = match body.get(7..11) {
        Some(four) => u32::from_le_bytes(four.try_into()?),
        None => 0,
    };
    let nanos = i32::try_from(micros)?.checked_mul(1_000).ok_or("too many microseconds")?;
    let civil = jiff::civil::DateTime::new(year, part(2)?, part(3)?, part(4)?, part(5)?, part(6)?, nanos)?;
    Ok(Timestamp::from_jiff(civil.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_they_were_written() {
        let bytes = [11, 0xea, 0x07, 11, 16, 0, 20, 35, 0x40, 0xe2, 0x01, 0x00];
        assert_eq!(instant(&bytes).unwrap().to_string(), "2026-11-16T00:20:35.123456Z");
        assert_eq!(instant(&[4, 0xea, 0x07, 1, 2]).unwrap().to_string(), "2026-01-02T00:00:00.000000Z");
        assert!(instant(&[0]).is_err());
        let time: Timestamp = "2026-11-16T00:20:35.123456Z".parse().unwrap();
        assert_eq!(time_text(time), "2026-11-16 00:20:35.123456");
    }

    #[test]
    fn servers_that_would_lose_updates_are_refused() {
        let facts = |version: &str, isolation: &str, wsrep: &str| {
            [("version", version), ("tx_isolation", isolation), ("wsrep_on", wsrep)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        assert_eq!(fit(&facts("10.11.14-MariaDB-0+deb12u2", "READ-COMMITTED", "OFF"), Access::Write), Ok(true));
        assert_eq!(fit(&facts("8.4.3", "READ-COMMITTED", "OFF"), Access::Write), Ok(false));
        for wrong in [
            facts("10.5.1-MariaDB", "READ-COMMITTED", "OFF"),
            facts("5.7.44", "READ-COMMITTED", "OFF"),
            facts("8.0.40", "REPEATABLE-READ", "OFF"),
            facts("10.11.14-MariaDB", "READ-COMMITTED", "ON"),
        ] {
            assert!(fit(&wrong, Access::Write).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_replica_will_do_for_reading_only() {
        let replica = [("version", "10.11.14-MariaDB"), ("tx_isolation", "READ-COMMITTED"), ("read_only", "ON")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(fit(&replica, Access::Write).is_err());
        assert_eq!(fit(&replica, Access::Read), Ok(true));
    }
}
