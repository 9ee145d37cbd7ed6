//! Asking the ledger of a torture, on any database, and taking a copy of it that can be judged.

use std::path::Path;

use anyhow::Result;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

use crate::proofs::judge::block_on;

/// One number.
pub fn number(ledger: &str, text: &'static str) -> Result<i64> {
    block_on(asked(ledger, text))?
}

/// One text; of SQLite alone.
pub fn text(file: &Path, text: &'static str) -> Result<String> {
    block_on(async {
        let mut connection = opened(file).await?;
        let said = sqlx::query_scalar(text).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(said)
    })?
}

async fn asked(ledger: &str, text: &'static str) -> Result<i64> {
    let query = sqlx::raw_sql(text);
    if ledger.starts_with("postgres://") {
        let mut connection = PgConnection::connect(ledger).await?;
        let row = connection.fetch_one(query).await?;
        let number = sqlx::Row::try_get(&row, 0)?;
        connection.close().await?;
        return Ok(number);
    }
    if ledger.starts_with("mysql://") {
        let mut connection = MySqlConnection::connect(ledger).await?;
        let row = connection.fetch_one(query).await?;
        let number = sqlx::Row::try_get(&row, 0)?;
        connection.close().await?;
        return Ok(number);
    }
    let mut connection = opened(Path::new(ledger)).await?;
    let number = sqlx::query_scalar(text).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(number)
}

pub async fn opened(file: &Path) -> Result<SqliteConnection> {
    Ok(SqliteConnectOptions::new().filename(file).connect().await?)
}

/// Copies the whole ledger into a new SQLite file.
pub fn copy(ledger: &str, file: &Path) -> Result<()> {
    block_on(async {
        if ledger.contains("://") {
            return Ok(patra_checker::copy_server(ledger, file).await?);
        }
        let mut connection = opened(Path::new(ledger)).await?;
        let query = sqlx::query("VACUUM INTO ?").bind(file.display().to_string());
        query.execute(&mut connection).await?;
        Ok(connection.close().await?)
    })?
}
