//! PostgreSQL: how to connect, what goes into a statement and what comes out of a row.

use std::str::FromStr;

use patra_core::time::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnectOptions, PgRow, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{
    Arguments, Column, ConnectOptions, Decode, Encode, Executor, PgConnection, Postgres, Row as _, Type, TypeInfo,
    ValueRef,
};

use super::wrong;
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::store::Access;
use crate::value::Value;

pub(super) const DIALECT: Dialect = Dialect::Postgres;
/// The server says when it is ready for the next one.
pub(super) const ENDS_WITH_THE_STATEMENT: bool = false;

const STATEMENTS_MAX: usize = 256;
const VERSION_MIN: i64 = 130_000;
/// Instants are counted from 2000-01-01.
const EPOCH_MICROS: i64 = 946_684_800 * 1_000_000;
/// An open transaction that stands still is ended before its lease is (invariants, section 1). A plan made while a table
/// was small is kept until the table is analysed, so none may rest on reading the whole of it. Where there is no other way
/// the plan then looks costly enough to be compiled, which takes 50 ms for a table of seven rows.
const SESSION: &str = "SET TIME ZONE 'UTC'; SET idle_in_transaction_session_timeout = '20s'; SET lock_timeout = '10s'; \
    SET enable_seqscan = off; SET jit = off; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";
const FACTS: &str = "SELECT current_setting('server_version_num')::BIGINT AS version, \
    current_setting('default_transaction_isolation') AS isolation, \
    pg_is_in_recovery()::INT::BIGINT AS standby";

pub(super) fn options(url: &str) -> Result<PgConnectOptions, DbError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| DbError::Unavailable(error.to_string()))?;
    Ok(options.statement_cache_capacity(STATEMENTS_MAX).application_name("patra").disable_statement_logging())
}

pub(super) async fn connect(options: &PgConnectOptions, access: Access) -> Result<PgConnection, DbError> {
    let mut connection = options.connect().await.map_err(|error| wrong(DIALECT, &error))?;
    connection.execute(sqlx::raw_sql(SESSION)).await.map_err(|error| wrong(DIALECT, &error))?;
    let facts = sqlx::query(FACTS).fetch_one(&mut connection).await.map_err(|error| wrong(DIALECT, &error))?;
    fit(&decode(&facts)?, access)?;
    Ok(connection)
}

/// Refuses what the ledger cannot stand on.
fn fit(facts: &[Value], access: Access) -> Result<(), DbError> {
    let [Value::Int(version), Value::Text(isolation), Value::Int(standby)] = facts else {
        return Err(DbError::Unavailable("the server did not tell its version".into()));
    };
    if *version < VERSION_MIN {
        return Err(DbError::Unavailable(format!("PostgreSQL 13 or newer is needed, this is {}", version / 10_000)));
    }
    if isolation != "read committed" {
        return Err(DbError::Unavailable(format!("isolation is `{isolation}`, `read committed` was asked for")));
    }
    if *standby != 0 && access == Access::Write {
        return Err(DbError::Unavailable("the server is a standby and takes no writes".into()));
    }
    Ok(())
}

/// A null of no type: the statement decides what it is.
struct Untyped;

impl Type<Postgres> for Untyped {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Untyped {
    fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }
}

/// `timestamptz` as the server sends it.
struct Instant(Timestamp);

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        const TIMESTAMPTZ: Oid = Oid(1184);
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.0.clamp(Timestamp::MIN, Timestamp::MAX).micros() - EPOCH_MICROS;
        buffer.extend(micros.to_be_bytes());
        Ok(IsNull::No)
    }
}

pub(super) fn arguments(values: Vec<Value>) -> Result<PgArguments, DbError> {
    let mut arguments = PgArguments::default();
    arguments.reserve(values.len(), values.iter().map(Value::size).sum());
    for value in values {
        let added = match value {
            Value::Null => arguments.add(Untyped),
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Shared(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            Value::Time(value) => arguments.add(Instant(value)),
        };
        added.map_err(|error| DbError::Data(error.to_string()))?;
    }
    Ok(arguments)
}

pub(super) fn decode(row: &PgRow) -> Result<Vec<Value>, DbError> {
    let mut values = Vec::with_capacity(row.columns().len());
    for column in row.columns() {
        let raw = row.try_get_raw(column.ordinal()).map_err(|error| wrong(DIALECT, &error))?;
        values.push(value(raw).map_err(|error| super::unreadable(column.name(), &*error))?);
    }
    Ok(values)
}

fn value(raw: PgValueRef<'_>) -> Result<Value, BoxDynError> {
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().name().to_owned();
    if raw.format() == PgValueFormat::Text {
        return Ok(Value::Text(raw.as_str()?.to_owned()));
    }
    match kind.as_str() {
        "INT8" => <i64 as Decode<Postgres>>::decode(raw).map(Value::Int),
        "INT4" => <i32 as Decode<Postgres>>::decode(raw).map(|value| Value::Int(value.into())),
        "BYTEA" => <Vec<u8> as Decode<Postgres>>::decode(raw).map(Value::Bytes),
        "TIMESTAMPTZ" => {
            let micros = i64::from_be_bytes(raw.as_bytes()?.try_into()?);
            Ok(Value::Time(Timestamp::from_micros(micros.saturating_add(EPOCH_MICROS))))
        }
        _ => <String as Decode<Postgres>>::decode(raw).map(Value::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_will_do_for_reading_only() {
        let standby = [Value::Int(150_000), Value::Text("read committed".into()), Value::Int(1)];
        assert!(fit(&standby, Access::Write).is_err());
        assert_eq!(fit(&standby, Access::Read), Ok(()));
    }
}
