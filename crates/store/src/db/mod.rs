//! Connections and transactions: this folder alone names the driver.
//!
//! SQLite has one connection that writes, so writers queue here and not in the database, and a few that read; a
//! server has one pool for both. A transaction that ends neither by commit nor by rollback (a panic in a step) is
//! rolled back before its connection is used again.

mod connection;
mod mysql;
mod pool;
mod postgres;
mod sqlite;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use patra_core::ports::Clock;
use patra_core::time::{Span, Timestamp};

use crate::dialect::{Begin, Dialect, Meaning};
use crate::error::DbError;
use crate::sql::{LIST_MAX, Rendered, Slot, Statements, list_shape, next_chunk, numbered};
use crate::store::{Access, Options, Time};
use crate::value::{Row, Value};
use connection::{Place, held};
use pool::{Held, Pool};

pub(crate) type Params = Vec<(&'static str, Value)>;
/// Columns of every table, by table.
pub(crate) type Schema = BTreeMap<String, Vec<String>>;

#[derive(Clone)]
pub(crate) struct Db {
    shared: Arc<Shared>,
}

struct Shared {
    place: Place,
    access: Access,
    statements: Arc<Statements>,
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    #[cfg(test)]
    connections: u32,
    clock: Arc<dyn Clock>,
    time: Time,
    schema: Arc<OnceLock<Arc<Schema>>>,
    /// How far the database's clock was ahead of ours when it was last read.
    ahead_us: AtomicI64,
}

impl Db {
    pub async fn open(place: &str, options: &Options) -> Result<Db, DbError> {
        let memory = place.ends_with(":memory:");
        let place = Place::parse(place, options)?;
        let dialect = place.dialect();
        let (writers, readers) = match dialect {
            Dialect::Sqlite if memory => {
                let only = Pool::new(1, true);
                (only.clone(), only)
            }
            Dialect::Sqlite => (Pool::new(1, false), Pool::new(options.connections, false)),
            Dialect::Postgres | Dialect::Mysql => {
                let all = Pool::new(options.connections, false);
                (all.clone(), all)
            }
        };
        writers.put(place.connect().await?);
        // SQLite has no clock of its own.
        let time = if dialect == Dialect::Sqlite { Time::Injected } else { options.time };
        Ok(Db {
            shared: Arc::new(Shared {
                place,
                access: options.access,
                statements: Arc::new(Statements::new(dialect)),
                writers,
                readers,
                #[cfg(test)]
                connections: options.connections,
                clock: options.clock.clone(),
                time,
                schema: Arc::default(),
                ahead_us: AtomicI64::new(0),
            }),
        })
    }

    pub fn dialect(&self) -> Dialect {
        self.shared.statements.dialect()
    }

    pub fn access(&self) -> Access {
        self.shared.access
    }

    pub async fn write(&self) -> Result<Tx, DbError> {
        if self.shared.access == Access::Read {
            return Err(DbError::Unavailable("the database was opened for reading only".into()));
        }
        self.begin(&self.shared.writers, self.dialect().begin_write()).await
    }

    /// A snapshot that holds no lock.
    pub async fn read(&self) -> Result<Tx, DbError> {
        self.begin(&self.shared.readers, self.dialect().begin_read()).await
    }

    /// The database's clock, as far as it is known without asking.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now().plus(Span::from_micros(self.shared.ahead_us.load(Ordering::Relaxed)))
    }

    async fn begin(&self, pool: &Arc<Pool>, begin: Begin) -> Result<Tx, DbError> {
        loop {
            let mut held = pool.take(&self.shared.place).await?;
            match self.begun(&mut held, begin).await {
                Ok(now) => {
                    let (statements, schema) = (self.shared.statements.clone(), self.shared.schema.clone());
                    return Ok(Tx { held: Some(held), statements, schema, now, broken: false });
                }
                // Nothing was done on it yet, so another connection may be tried.
                Err(DbError::Unavailable(_)) if held.reused && !matches!(self.dialect(), Dialect::Sqlite) => {
                    held.discard();
                }
                Err(error) => {
                    if matches!(error, DbError::Unavailable(_) | DbError::Full(_)) {
                        held.discard();
                    }
                    held.give_back();
                    return Err(error);
                }
            }
        }
    }

    /// Begins; the time of the transaction.
    async fn begun(&self, place: &mut Held, begin: Begin) -> Result<Timestamp, DbError> {
        let connection = held(place.connection())?;
        if self.shared.time == Time::Injected {
            connection.control(begin.plain).await?;
            return Ok(self.shared.clock.now());
        }
        let now = connection.begin_on_time(begin.on_time).await?;
        self.shared.ahead_us.store(now.since(self.shared.clock.now()).micros(), Ordering::Relaxed);
        Ok(now)
    }

    #[cfg(test)]
    pub async fn settled(&self) {
        let size = if self.dialect() == Dialect::Sqlite { 1 } else { self.shared.connections };
        self.shared.writers.settled(size).await;
    }

    /// Closes idle connections, so that SQLite folds its log into the database file.
    pub async fn close(&self) {
        self.shared.readers.close().await;
        self.shared.writers.close().await;
    }
}

/// An open transaction. Dropping it rolls back.
pub(crate) struct Tx {
    /// `None` once it has ended.
    held: Option<Held>,
    statements: Arc<Statements>,
    schema: Arc<OnceLock<Arc<Schema>>>,
    now: Timestamp,
    /// An I/O error or a stale statement was seen; the connection is not used again.
    broken: bool,
}

impl Tx {
    /// The database's clock when the transaction began (INV-24). Waiting for a lock makes it a little old, which only
    /// ever shortens a lease.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Runs a statement; the number of rows it matched.
    pub async fn execute(&mut self, text: &'static str, params: Params) -> Result<u64, DbError> {
        let rendered = self.statements.render(text, 0);
        let values = bound(&rendered, &params, []);
        self.run(&rendered, values).await
    }

    /// Runs a statement with `{rows:n}` over as many rows as `values` holds, in chunks.
    pub async fn execute_rows(&mut self, text: &'static str, width: usize, values: Vec<Value>) -> Result<u64, DbError> {
        debug_assert_eq!(values.len() % width, 0, "every row has {width} values");
        let rows_max = self.statements.dialect().binds_max() / width;
        let sizes: Vec<usize> = values.chunks(width).map(|row| row.iter().map(Value::size).sum()).collect();
        let (mut values, mut done, mut matched) = (values.into_iter(), 0, 0);
        while done < sizes.len() {
            let rows = next_chunk(&sizes[done..], rows_max);
            let rendered = self.statements.render(text, rows);
            let bound = bound(&rendered, &[], values.by_ref().take(rows * width));
            matched += self.run(&rendered, bound).await?;
            done += rows;
        }
        Ok(matched)
    }

    /// Runs a statement with `{list}` over all of `list`, in chunks.
    pub async fn execute_list(&mut self, text: &'static str, params: Params, list: &[Value]) -> Result<u64, DbError> {
        let mut matched = 0;
        for part in list.chunks(LIST_MAX) {
            let (rendered, values) = self.listed(text, &params, part);
            matched += self.run(&rendered, values).await?;
        }
        Ok(matched)
    }

    pub async fn rows(&mut self, table: &'static str, text: &'static str, params: Params) -> Result<Vec<Row>, DbError> {
        let rendered = self.statements.render(text, 0);
        let values = bound(&rendered, &params, []);
        self.fetch(table, rendered.sql.clone(), values).await
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
            let (rendered, values) = self.listed(text, &params, part);
            all.extend(self.fetch(table, rendered.sql.clone(), values).await?);
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

    /// Runs a text composed at run time from checked names; values come as parameters only, each written `?`.
    pub async fn rows_composed(
        &mut self,
        table: &'static str,
        text: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, DbError> {
        self.fetch(table, numbered(self.statements.dialect(), text), values).await
    }

    /// Names composed into a statement are taken from here. Read once: it changes by migrations alone, and those are
    /// over before the first step asks.
    pub async fn schema(&mut self) -> Result<Arc<Schema>, DbError> {
        if let Some(schema) = self.schema.get() {
            return Ok(schema.clone());
        }
        let schema = self.read_schema().await?;
        Ok(self.schema.get_or_init(|| Arc::new(schema)).clone())
    }

    /// The schema as it is now.
    pub async fn read_schema(&mut self) -> Result<Schema, DbError> {
        let mut schema = Schema::new();
        let query = self.statements.dialect().columns_query();
        for row in self.rows("schema", query, Vec::new()).await? {
            schema.entry(row.string("table_name")?).or_default().push(row.string("column_name")?);
        }
        Ok(schema)
    }

    /// As [`Tx::rows_composed`], for statements that return nothing.
    pub async fn execute_composed(&mut self, text: &str, values: Vec<Value>) -> Result<u64, DbError> {
        let rendered = Rendered { sql: numbered(self.statements.dialect(), text), slots: Vec::new() };
        self.run(&rendered, values).await
    }

    /// Runs a script of several statements without parameters.
    pub async fn script(&mut self, text: &str) -> Result<(), DbError> {
        held(self.held.as_mut().and_then(Held::connection))?.script(text).await
    }

    pub async fn commit(mut self) -> Result<(), DbError> {
        let connection = held(self.held.as_mut().and_then(Held::connection))?;
        match connection.control("COMMIT").await {
            Ok(()) => {
                self.held.take().into_iter().for_each(Held::give_back);
                Ok(())
            }
            Err(busy @ DbError::Busy(_)) => Err(busy),
            Err(full @ DbError::Full(_)) => {
                self.broken = true;
                Err(full)
            }
            Err(other) => {
                self.broken = true;
                Err(DbError::CommitUnknown(other.message()))
            }
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
    ) -> (Arc<Rendered>, Vec<Value>) {
        let shape = list_shape(part.len());
        let rendered = self.statements.render(text, shape);
        let last = part.last().cloned().unwrap_or(Value::Null);
        let filling = std::iter::repeat_n(last, shape.saturating_sub(part.len()));
        let values = bound(&rendered, params, part.iter().cloned().chain(filling));
        (rendered, values)
    }

    async fn run(&mut self, rendered: &Rendered, values: Vec<Value>) -> Result<u64, DbError> {
        let connection = held(self.held.as_mut().and_then(Held::connection))?;
        let result = connection.execute(rendered.sql.clone(), values).await;
        self.broken |= matches!(result, Err(DbError::Unavailable(_) | DbError::Full(_) | DbError::Stale(_)));
        result
    }

    async fn fetch(&mut self, table: &'static str, sql: Arc<str>, values: Vec<Value>) -> Result<Vec<Row>, DbError> {
        let connection = held(self.held.as_mut().and_then(Held::connection))?;
        let result = connection.fetch(table, sql, values).await;
        self.broken |= matches!(result, Err(DbError::Unavailable(_) | DbError::Full(_) | DbError::Stale(_)));
        result
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
        // What is broken is closed, which rolls back too; asking it may take for ever.
        Some(connection) if !broken => connection.control("ROLLBACK").await.is_ok(),
        _ => false,
    };
    // SQLite may have rolled back by itself after an error; a connection that did is still closed, to be sure.
    if !undone {
        held.discard();
    }
    held.give_back();
}

/// The values of each placeholder in turn.
fn bound(rendered: &Rendered, params: &[(&'static str, Value)], values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut values = values.into_iter();
    let mut all = Vec::with_capacity(rendered.slots.len() + values.size_hint().0);
    for slot in &rendered.slots {
        match slot {
            Slot::Values => all.extend(values.by_ref()),
            Slot::Name(name) => {
                let found = params.iter().find(|(known, _)| known == name);
                let (_, value) =
                    found.unwrap_or_else(|| panic!("parameter :{name} of `{}` has no value", rendered.sql));
                all.push(value.clone());
            }
        }
    }
    let used = |name: &str| rendered.slots.iter().any(|slot| matches!(slot, Slot::Name(known) if known == name));
    debug_assert!(params.iter().all(|(name, _)| used(name)), "a parameter of `{}` is not used", rendered.sql);
    all
}

fn gone() -> DbError {
    DbError::Unavailable("the connection is closed".into())
}

fn unreadable(column: &str, error: &(dyn std::error::Error + Send + Sync)) -> DbError {
    DbError::Unavailable(format!("column {column} cannot be read: {error}"))
}

fn wrong(dialect: Dialect, error: &sqlx::Error) -> DbError {
    let message = error.to_string();
    let sqlx::Error::Database(inner) = error else { return DbError::Unavailable(message) };
    let code = match inner.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        Some(error) => error.number().to_string(),
        None => inner.code().unwrap_or_default().into_owned(),
    };
    match dialect.meaning(&code) {
        Meaning::Busy => DbError::Busy(message),
        Meaning::Stale => DbError::Stale(message),
        Meaning::Unique => DbError::Unique(message),
        Meaning::Data => DbError::Data(message),
        Meaning::Full => DbError::Full(message),
        Meaning::Unavailable => DbError::Unavailable(message),
    }
}
