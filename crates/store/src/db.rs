//! Connections and transactions: the only module that names the driver.
//!
//! One connection writes, behind a mutex, so writers queue here and not in the database; a few others read.
//! A transaction that ends neither by commit nor by rollback (a panic in a step) is rolled back before the
//! connection is used again. After an I/O error a connection is closed and opened anew.

mod bind;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteQueryResult, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, Either, Executor, Row as _, SqliteConnection};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::dialect::{Dialect, Meaning};
use crate::error::DbError;
use crate::sql::{LIST_MAX, Rendered, Statements, chunks, list_shape};
use crate::store::Durability;
use crate::value::{Row, Value};
use bind::{bound, decode, positional};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENTS_MAX: usize = 256;
/// Records of a few kilobytes waste half of the default page of 4 KiB.
const PAGE_BYTES: u32 = 8_192;
/// Negative: in KiB. A page of a thousand records is written without spilling.
const CACHE_KIB: &str = "-16384";
/// The log is folded into the database every 16 MiB, not in every second commit.
const CHECKPOINT_PAGES: &str = "2000";

pub(crate) type Params = Vec<(&'static str, Value)>;

#[derive(Clone)]
pub(crate) struct Db {
    shared: Arc<Shared>,
}

struct Shared {
    connect: SqliteConnectOptions,
    /// A database in memory lives and dies with its only connection.
    memory: bool,
    statements: Arc<Statements>,
    writer: Arc<AsyncMutex<Option<SqliteConnection>>>,
    readers: Arc<Readers>,
    schema: Arc<OnceLock<Arc<Schema>>>,
}

/// Columns of every table, by table.
pub(crate) type Schema = BTreeMap<String, Vec<String>>;

struct Readers {
    idle: Mutex<Vec<SqliteConnection>>,
    permits: Arc<Semaphore>,
}

impl Db {
    pub async fn open(place: &str, durability: Durability, readers: u32) -> Result<Db, DbError> {
        let path = place.strip_prefix("sqlite://").or_else(|| place.strip_prefix("sqlite:")).unwrap_or(place);
        let memory = path == ":memory:";
        let synchronous = match durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let connect = if memory {
            SqliteConnectOptions::new().in_memory(true)
        } else {
            SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal)
        };
        let connect = connect
            .create_if_missing(true)
            .synchronous(synchronous)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(false)
            .page_size(PAGE_BYTES)
            .pragma("cache_size", CACHE_KIB)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging();
        let writer = connect.connect().await.map_err(|error| wrong(Dialect::Sqlite, &error))?;
        Ok(Db {
            shared: Arc::new(Shared {
                connect,
                memory,
                statements: Arc::new(Statements::new(Dialect::Sqlite)),
                writer: Arc::new(AsyncMutex::new(Some(writer))),
                readers: Arc::new(Readers {
                    idle: Mutex::new(Vec::new()),
                    permits: Arc::new(Semaphore::new(readers.max(1) as usize)),
                }),
                schema: Arc::default(),
            }),
        })
    }

    pub async fn write(&self) -> Result<Tx, DbError> {
        let held = self.writer().await?;
        self.begin(held, self.dialect().begin_write()).await
    }

    /// A snapshot that holds no lock.
    pub async fn read(&self) -> Result<Tx, DbError> {
        let held = if self.shared.memory { self.writer().await? } else { self.reader().await? };
        self.begin(held, self.dialect().begin_read()).await
    }

    fn dialect(&self) -> Dialect {
        self.shared.statements.dialect()
    }

    async fn writer(&self) -> Result<Held, DbError> {
        let mut guard = self.shared.writer.clone().lock_owned().await;
        if guard.is_none() {
            *guard = Some(self.connect().await?);
        }
        Ok(Held::Writer { guard, memory: self.shared.memory })
    }

    async fn reader(&self) -> Result<Held, DbError> {
        let readers = self.shared.readers.clone();
        let closed = |_| DbError::Unavailable("the store is closed".into());
        let permit = readers.permits.clone().acquire_owned().await.map_err(closed)?;
        let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Held::Reader { connection: Some(connection), readers, _permit: permit })
    }

    async fn connect(&self) -> Result<SqliteConnection, DbError> {
        self.shared.connect.connect().await.map_err(|error| wrong(self.dialect(), &error))
    }

    async fn begin(&self, mut held: Held, begin: &'static str) -> Result<Tx, DbError> {
        let dialect = self.dialect();
        let begun = match held.connection() {
            Some(connection) => {
                finished(connection.fetch_many(sqlx::query(begin))).await.map_err(|error| wrong(dialect, &error))
            }
            None => Err(gone()),
        };
        if let Err(error) = begun {
            if matches!(error, DbError::Unavailable(_)) {
                held.discard();
            }
            return Err(error);
        }
        let (statements, schema) = (self.shared.statements.clone(), self.shared.schema.clone());
        Ok(Tx { held: Some(held), statements, schema, broken: false })
    }

    /// Closes idle connections and the writer, so that the log is folded into the database file.
    pub async fn close(&self) {
        let idle: Vec<_> = self.shared.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        let writer = if self.shared.memory { None } else { self.shared.writer.lock().await.take() };
        for connection in idle.into_iter().chain(writer) {
            if let Err(error) = connection.close().await {
                tracing::warn!("a connection did not close cleanly: {error}");
            }
        }
    }
}

/// A connection in use, and the way back to its place.
enum Held {
    Writer { guard: OwnedMutexGuard<Option<SqliteConnection>>, memory: bool },
    Reader { connection: Option<SqliteConnection>, readers: Arc<Readers>, _permit: OwnedSemaphorePermit },
}

impl Held {
    fn connection(&mut self) -> Option<&mut SqliteConnection> {
        match self {
            Held::Writer { guard, .. } => guard.as_mut(),
            Held::Reader { connection, .. } => connection.as_mut(),
        }
    }

    /// Closes the connection instead of giving it back; SQLite rolls back what was open.
    fn discard(&mut self) {
        match self {
            Held::Writer { memory: true, .. } => {}
            Held::Writer { guard, .. } => **guard = None,
            Held::Reader { connection, .. } => *connection = None,
        }
    }

    fn give_back(mut self) {
        if let Held::Reader { connection, readers, .. } = &mut self
            && let Some(connection) = connection.take()
        {
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

/// An open transaction. Dropping it rolls back.
pub(crate) struct Tx {
    /// `None` once it has ended.
    held: Option<Held>,
    statements: Arc<Statements>,
    schema: Arc<OnceLock<Arc<Schema>>>,
    /// An I/O error was seen; the connection is not used again.
    broken: bool,
}

impl Tx {
    /// Runs a statement; the number of rows it matched.
    pub async fn execute(&mut self, text: &'static str, params: Params) -> Result<u64, DbError> {
        let rendered = self.statements.render(text, 0);
        let arguments = bound(&rendered, &params, [])?;
        self.run(&rendered, arguments).await
    }

    /// Runs a statement with `{rows:n}` over as many rows as `values` holds, in chunks.
    pub async fn execute_rows(&mut self, text: &'static str, width: usize, values: Vec<Value>) -> Result<u64, DbError> {
        debug_assert_eq!(values.len() % width, 0, "every row has {width} values");
        let rows_max = self.statements.dialect().binds_max() / width;
        let mut values = values.into_iter();
        let mut matched = 0;
        for rows in chunks(values.len() / width, rows_max) {
            let rendered = self.statements.render(text, rows);
            let arguments = bound(&rendered, &[], values.by_ref().take(rows * width))?;
            matched += self.run(&rendered, arguments).await?;
        }
        Ok(matched)
    }

    /// Runs a statement with `{list}` over all of `list`, in chunks.
    pub async fn execute_list(&mut self, text: &'static str, params: Params, list: &[Value]) -> Result<u64, DbError> {
        let mut matched = 0;
        for part in list.chunks(LIST_MAX) {
            let (rendered, arguments) = self.listed(text, &params, part)?;
            matched += self.run(&rendered, arguments).await?;
        }
        Ok(matched)
    }

    pub async fn rows(&mut self, table: &'static str, text: &'static str, params: Params) -> Result<Vec<Row>, DbError> {
        let rendered = self.statements.render(text, 0);
        let arguments = bound(&rendered, &params, [])?;
        self.fetch(table, rendered.sql.clone(), arguments).await
    }

    pub async fn rows_listed(
        &mut self,
        table: &'static str,
        text: &'static str,
        params: Params,
        list: &[Value],
    ) -> Result<Vec<Row>, DbError> {
        let mut all = Vec::new();
        for part in list.chunks(LIST_MAX) {
            let (rendered, arguments) = self.listed(text, &params, part)?;
            all.extend(self.fetch(table, rendered.sql.clone(), arguments).await?);
        }
        Ok(all)
    }

    /// The first row, if any.
    pub async fn row(
        &mut self,
        table: &'static str,
        text: &'static str,
        params: Params,
    ) -> Result<Option<Row>, DbError> {
        Ok(self.rows(table, text, params).await?.into_iter().next())
    }

    /// Runs a text composed at run time from checked names; values come as parameters only.
    pub async fn rows_composed(
        &mut self,
        table: &'static str,
        text: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, DbError> {
        self.fetch(table, text.into(), positional(values)?).await
    }

    /// Names composed into a statement are taken from here. Read once: it changes by migrations alone, and those are
    /// over before the first step asks.
    pub async fn schema(&mut self) -> Result<Arc<Schema>, DbError> {
        if let Some(schema) = self.schema.get() {
            return Ok(schema.clone());
        }
        let mut schema = Schema::new();
        let query = self.statements.dialect().columns_query();
        for row in self.rows("schema", query, Vec::new()).await? {
            schema.entry(row.string("table_name")?).or_default().push(row.string("column_name")?);
        }
        Ok(self.schema.get_or_init(|| Arc::new(schema)).clone())
    }

    /// How the database writes a parameter; values are bound in the order of their placeholders.
    pub fn placeholder(&self) -> &'static str {
        self.statements.dialect().placeholder()
    }

    /// As [`Tx::rows_composed`], for statements that return nothing.
    pub async fn execute_composed(&mut self, text: &str, values: Vec<Value>) -> Result<u64, DbError> {
        let rendered = Rendered { sql: text.into(), slots: Vec::new() };
        let arguments = positional(values)?;
        self.run(&rendered, arguments).await
    }

    /// Runs a script of several statements without parameters.
    pub async fn script(&mut self, text: &str) -> Result<(), DbError> {
        let dialect = self.statements.dialect();
        let connection = self.held.as_mut().and_then(Held::connection).ok_or_else(gone)?;
        let result = sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await;
        result.map(|_| ()).map_err(|error| wrong(dialect, &error))
    }

    pub async fn commit(mut self) -> Result<(), DbError> {
        let dialect = self.statements.dialect();
        let connection = self.held.as_mut().and_then(Held::connection).ok_or_else(gone)?;
        match finished(connection.fetch_many(sqlx::query("COMMIT"))).await {
            Ok(_) => {
                self.held.take().into_iter().for_each(Held::give_back);
                Ok(())
            }
            Err(error) => match wrong(dialect, &error) {
                busy @ DbError::Busy(_) => Err(busy),
                other => {
                    self.broken = true;
                    Err(DbError::CommitUnknown(other.message()))
                }
            },
        }
    }

    pub async fn rollback(mut self) {
        if let Some(held) = self.held.take() {
            roll_back(held, self.broken).await;
        }
    }

    fn listed(
        &self,
        text: &'static str,
        params: &[(&'static str, Value)],
        part: &[Value],
    ) -> Result<(Arc<Rendered>, SqliteArguments), DbError> {
        let shape = list_shape(part.len());
        let rendered = self.statements.render(text, shape);
        let last = part.last().cloned().unwrap_or(Value::Null);
        let filling = std::iter::repeat_n(last, shape.saturating_sub(part.len()));
        let arguments = bound(&rendered, params, part.iter().cloned().chain(filling))?;
        Ok((rendered, arguments))
    }

    async fn run(&mut self, rendered: &Rendered, arguments: SqliteArguments) -> Result<u64, DbError> {
        let dialect = self.statements.dialect();
        let connection = self.held.as_mut().and_then(Held::connection).ok_or_else(gone)?;
        let query = sqlx::query_with(AssertSqlSafe(rendered.sql.clone()), arguments);
        let result = finished(connection.fetch_many(query)).await.map_err(|error| wrong(dialect, &error));
        self.broken |= matches!(result, Err(DbError::Unavailable(_)));
        result.map(|(matched, _)| matched)
    }

    async fn fetch(
        &mut self,
        table: &'static str,
        sql: Arc<str>,
        arguments: SqliteArguments,
    ) -> Result<Vec<Row>, DbError> {
        let dialect = self.statements.dialect();
        let connection = self.held.as_mut().and_then(Held::connection).ok_or_else(gone)?;
        let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
        let result = finished(connection.fetch_many(query)).await.map_err(|error| wrong(dialect, &error));
        self.broken |= matches!(result, Err(DbError::Unavailable(_)));
        let (_, rows) = result?;
        let names: Arc<[String]> = match rows.first() {
            Some(row) => row.columns().iter().map(|column| column.name().to_owned()).collect(),
            None => Arc::new([]),
        };
        rows.iter().map(|row| Ok(Row { table, names: names.clone(), values: decode(row)? })).collect()
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let broken = self.broken;
        match tokio::runtime::Handle::try_current() {
            // The place is given back only after the rollback, so the next transaction waits for it.
            Ok(runtime) => drop(runtime.spawn(roll_back(held, broken))),
            Err(_) => held.discard(),
        }
    }
}

async fn roll_back(mut held: Held, broken: bool) {
    let undone = match held.connection() {
        Some(connection) => finished(connection.fetch_many(sqlx::query("ROLLBACK"))).await.is_ok(),
        None => false,
    };
    // SQLite may have rolled back by itself after an error; a connection that did is still closed, to be sure.
    if broken || !undone {
        held.discard();
    }
    held.give_back();
}

type Answers<'a> = futures::stream::BoxStream<'a, Result<Either<SqliteQueryResult, SqliteRow>, sqlx::Error>>;

/// Rows matched and rows returned by one statement. Ends with the statement: whoever waits for the stream to close
/// sleeps and wakes once more for every statement.
async fn finished(mut answers: Answers<'_>) -> Result<(u64, Vec<SqliteRow>), sqlx::Error> {
    let mut rows = Vec::new();
    while let Some(answer) = answers.try_next().await? {
        match answer {
            Either::Left(done) => return Ok((done.rows_affected(), rows)),
            Either::Right(row) => rows.push(row),
        }
    }
    Ok((0, rows))
}

fn gone() -> DbError {
    DbError::Unavailable("the connection is closed".into())
}

fn wrong(dialect: Dialect, error: &sqlx::Error) -> DbError {
    let message = error.to_string();
    let sqlx::Error::Database(inner) = error else { return DbError::Unavailable(message) };
    match dialect.meaning(&inner.code().unwrap_or_default()) {
        Meaning::Busy => DbError::Busy(message),
        Meaning::Unique => DbError::Unique(message),
        Meaning::Data => DbError::Data(message),
        Meaning::Unavailable => DbError::Unavailable(message),
    }
}
