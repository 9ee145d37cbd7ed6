//! One connection to one of the databases, spoken to in [`Value`]s.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream::BoxStream;
use patra_core::time::Timestamp;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, Column, Connection as _, Either, Executor, MySqlConnection, PgConnection, Row as _, SqliteConnection,
};

use super::{gone, mysql, postgres, sqlite, wrong};
use crate::dialect::Dialect;
use crate::error::DbError;
use crate::store::{Access, Options};
use crate::value::{Row, Value};

/// Where a database is and how to reach it.
pub(super) enum Place {
    Sqlite(Box<SqliteConnectOptions>),
    Postgres(Box<PgConnectOptions>, Access),
    Mysql(Box<MySqlConnectOptions>, Access),
}

impl Place {
    /// Reads `postgres://…`, `mysql://…`, `mariadb://…`, `sqlite:path`, a plain path or `:memory:`.
    pub fn parse(place: &str, options: &Options) -> Result<Place, DbError> {
        let access = options.access;
        let scheme = place.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("postgres" | "postgresql") => Ok(Place::Postgres(Box::new(postgres::options(place)?), access)),
            Some("mysql") => Ok(Place::Mysql(Box::new(mysql::options(place)?), access)),
            Some("mariadb") => {
                let place = place.replacen("mariadb", "mysql", 1);
                Ok(Place::Mysql(Box::new(mysql::options(&place)?), access))
            }
            _ => {
                let path = place.strip_prefix("sqlite://").or_else(|| place.strip_prefix("sqlite:")).unwrap_or(place);
                let path = (path != ":memory:").then_some(path);
                Ok(Place::Sqlite(Box::new(sqlite::options(path, options.durability, access))))
            }
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Place::Sqlite(_) => Dialect::Sqlite,
            Place::Postgres(..) => Dialect::Postgres,
            Place::Mysql(..) => Dialect::Mysql,
        }
    }

    pub async fn connect(&self) -> Result<Connection, DbError> {
        Ok(match self {
            Place::Sqlite(options) => Connection::Sqlite(Box::new(sqlite::connect(options).await?)),
            Place::Postgres(options, access) => {
                Connection::Postgres(Box::new(postgres::connect(options, *access).await?))
            }
            Place::Mysql(options, access) => Connection::Mysql(Box::new(mysql::connect(options, *access).await?)),
        })
    }
}

pub(super) enum Connection {
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<PgConnection>),
    Mysql(Box<MySqlConnection>),
}

/// The same body for each driver; `$driver` is its module.
macro_rules! on_each {
    ($self:expr, $connection:ident, $driver:ident => $body:expr) => {
        match $self {
            Connection::Sqlite($connection) => {
                use super::sqlite as $driver;
                $body
            }
            Connection::Postgres($connection) => {
                use super::postgres as $driver;
                $body
            }
            Connection::Mysql($connection) => {
                use super::mysql as $driver;
                $body
            }
        }
    };
}

impl Connection {
    /// The number of rows that were matched.
    pub async fn execute(&mut self, sql: Arc<str>, values: Vec<Value>) -> Result<u64, DbError> {
        on_each!(self, connection, driver => {
            let query = sqlx::query_with(AssertSqlSafe(sql), driver::arguments(values)?);
            let done = finished(connection.fetch_many(query), driver::ENDS_WITH_THE_STATEMENT).await;
            done.map(|done| done.0).map_err(|error| wrong(driver::DIALECT, &error))
        })
    }

    pub async fn fetch(&mut self, table: &'static str, sql: Arc<str>, values: Vec<Value>) -> Result<Vec<Row>, DbError> {
        on_each!(self, connection, driver => {
            let query = sqlx::query_with(AssertSqlSafe(sql), driver::arguments(values)?);
            let done = finished(connection.fetch_many(query), driver::ENDS_WITH_THE_STATEMENT).await;
            let (_, rows) = done.map_err(|error| wrong(driver::DIALECT, &error))?;
            let names: Arc<[String]> = match rows.first() {
                Some(row) => row.columns().iter().map(|column| column.name().to_owned()).collect(),
                None => Arc::new([]),
            };
            rows.iter().map(|row| Ok(Row { table, names: names.clone(), values: driver::decode(row)? })).collect()
        })
    }

    /// Begins or ends a transaction.
    pub async fn control(&mut self, text: &'static str) -> Result<(), DbError> {
        if let Connection::Sqlite(connection) = self {
            // Prepared once; a script is prepared at every use.
            let done = finished(connection.fetch_many(sqlx::query(text)), sqlite::ENDS_WITH_THE_STATEMENT).await;
            return done.map(|_| ()).map_err(|error| wrong(sqlite::DIALECT, &error));
        }
        self.script(text).await
    }

    /// Statements without parameters, in one round trip.
    pub async fn script(&mut self, text: &str) -> Result<(), DbError> {
        on_each!(self, connection, driver => {
            let done = connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await;
            done.map(|_| ()).map_err(|error| wrong(driver::DIALECT, &error))
        })
    }

    /// A script that ends by selecting one text.
    async fn ask(&mut self, text: &'static str) -> Result<String, DbError> {
        let row = on_each!(self, connection, driver => {
            let row = connection.fetch_one(sqlx::raw_sql(text)).await;
            driver::decode(&row.map_err(|error| wrong(driver::DIALECT, &error))?)?
        });
        match row.into_iter().next() {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(DbError::Unavailable("the database did not answer as asked".into())),
        }
    }

    /// Begins a transaction and reads the database's clock in the same round trip.
    pub async fn begin_on_time(&mut self, text: &'static str) -> Result<Timestamp, DbError> {
        let micros = self.ask(text).await?;
        let micros = micros.parse().map_err(|_| DbError::Unavailable(format!("the clock reads `{micros}`")))?;
        Ok(Timestamp::from_micros(micros))
    }

    pub async fn close(self) {
        let closed = match self {
            Connection::Sqlite(connection) => connection.close().await,
            Connection::Postgres(connection) => connection.close().await,
            Connection::Mysql(connection) => connection.close().await,
        };
        if let Err(error) = closed {
            tracing::warn!("a connection did not close cleanly: {error}");
        }
    }
}

/// What is meant where a transaction has no connection any more.
pub(super) fn held(connection: Option<&mut Connection>) -> Result<&mut Connection, DbError> {
    connection.ok_or_else(gone)
}

type Answers<'a, Done, Row> = BoxStream<'a, Result<Either<Done, Row>, sqlx::Error>>;

/// Rows matched and rows returned by one statement.
async fn finished<Done: Matched, Row>(
    mut answers: Answers<'_, Done, Row>,
    ends_with_the_statement: bool,
) -> Result<(u64, Vec<Row>), sqlx::Error> {
    let (mut matched, mut rows) = (0, Vec::new());
    while let Some(answer) = answers.try_next().await? {
        match answer {
            Either::Left(done) => matched += done.matched(),
            Either::Right(row) => {
                rows.push(row);
                continue;
            }
        }
        if ends_with_the_statement {
            break;
        }
    }
    Ok((matched, rows))
}

trait Matched {
    fn matched(&self) -> u64;
}

macro_rules! matched {
    ($($result:ty),+) => {
        $(impl Matched for $result {
            fn matched(&self) -> u64 {
                self.rows_affected()
            }
        })+
    };
}

matched!(sqlx::sqlite::SqliteQueryResult, sqlx::postgres::PgQueryResult, sqlx::mysql::MySqlQueryResult);
