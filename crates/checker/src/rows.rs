//! Reads columns in the order in which they were selected; nonsense in one is an error that names the row.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::time;

/// Why a database could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("{table}, column {column} of row {row}: {message}")]
    Nonsense { table: &'static str, column: usize, row: i64, message: String },
}

/// One row, read from left to right.
pub struct Columns<'r> {
    row: &'r SqliteRow,
    table: &'static str,
    at: usize,
}

impl<'r> Columns<'r> {
    pub fn int(&mut self) -> Result<i64, DumpError> {
        self.take()
    }

    pub fn int_opt(&mut self) -> Result<Option<i64>, DumpError> {
        self.take()
    }

    pub fn text(&mut self) -> Result<String, DumpError> {
        self.take()
    }

    pub fn text_opt(&mut self) -> Result<Option<String>, DumpError> {
        self.take()
    }

    pub fn blob(&mut self) -> Result<Vec<u8>, DumpError> {
        self.take()
    }

    pub fn blob_opt(&mut self) -> Result<Option<Vec<u8>>, DumpError> {
        self.take()
    }

    /// A column that may be large, without copying it.
    pub fn with_blob<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, DumpError> {
        let column = self.next();
        let bytes: &[u8] = self.row.try_get(column).map_err(|error| self.nonsense(column, error.to_string()))?;
        Ok(look(bytes))
    }

    pub fn time(&mut self) -> Result<i64, DumpError> {
        let column = self.at;
        self.time_opt()?.ok_or_else(|| self.nonsense(column, "no time".to_owned()))
    }

    pub fn time_opt(&mut self) -> Result<Option<i64>, DumpError> {
        let column = self.next();
        let text: Option<&str> = self.row.try_get(column).map_err(|error| self.nonsense(column, error.to_string()))?;
        let Some(text) = text else { return Ok(None) };
        let instant = time::instant(text);
        instant.map(Some).ok_or_else(|| self.nonsense(column, format!("`{text}` is not a time")))
    }

    fn next(&mut self) -> usize {
        self.at += 1;
        self.at - 1
    }

    fn take<T>(&mut self) -> Result<T, DumpError>
    where
        T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        let column = self.next();
        self.row.try_get(column).map_err(|error| self.nonsense(column, error.to_string()))
    }

    fn nonsense(&self, column: usize, message: String) -> DumpError {
        let row = self.row.try_get(0).unwrap_or(-1);
        DumpError::Nonsense { table: self.table, column, row, message }
    }
}

/// A row type that can be read from the columns of its table.
pub trait FromColumns: Sized {
    const TABLE: &'static str;
    /// Selects the columns, the id first, without an order.
    const SELECT: &'static str;
    fn read(columns: &mut Columns<'_>) -> Result<Self, DumpError>;
}

/// A whole table of small rows, by id.
pub async fn load<T: FromColumns>(connection: &mut SqliteConnection) -> Result<Vec<T>, DumpError> {
    let rows = sqlx::query(T::SELECT).fetch_all(&mut *connection).await?;
    rows.iter().map(|row| T::read(&mut Columns { row, table: T::TABLE, at: 0 })).collect()
}

/// A table of large rows, so many at a time. `SELECT` must take the last id and the limit.
pub async fn load_in_pages<T: FromColumns>(connection: &mut SqliteConnection, limit: i64) -> Result<Vec<T>, DumpError> {
    let mut list = Vec::new();
    let mut last = i64::MIN;
    loop {
        let rows = sqlx::query(T::SELECT).bind(last).bind(limit).fetch_all(&mut *connection).await?;
        for row in &rows {
            list.push(T::read(&mut Columns { row, table: T::TABLE, at: 0 })?);
        }
        let Some(end) = rows.last() else { return Ok(list) };
        last = end.try_get(0)?;
    }
}
