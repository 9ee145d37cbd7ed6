//! The yardstick: the same rows, in the same pages, put into the same table by a bare multi-row upsert.
//!
//! Same table, same indexes, same journal and durability, one transaction per page. No ledger, no outbox, no decoding.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{
    Arguments, AssertSqlSafe, Column, ConnectOptions, Connection, Executor, Row, SqliteConnection, TypeInfo, ValueRef,
};

/// Rows of one statement; the ledger uses the same.
const ROWS_MAX: usize = 200;

pub async fn upsert(from: &Path, to: &Path) -> Result<Value> {
    let mut source = SqliteConnectOptions::new().filename(from).connect().await?;
    let mut target = SqliteConnectOptions::new()
        .filename(to)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    let made = "SELECT sql FROM sqlite_master WHERE tbl_name = 'ing_record' AND sql IS NOT NULL ORDER BY type DESC";
    for text in sqlx::query_scalar::<_, String>(made).fetch_all(&mut source).await? {
        target.execute(AssertSqlSafe(text)).await?;
    }
    let pages: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT batch_id FROM ing_record ORDER BY batch_id").fetch_all(&mut source).await?;
    let (mut rows, mut spent) = (0, Duration::ZERO);
    for page in &pages {
        // In the order of the source's keys, as the ledger writes them.
        let text = "SELECT * FROM ing_record WHERE batch_id = ? ORDER BY id";
        let records = sqlx::query(text).bind(page).fetch_all(&mut source).await?;
        let values: Vec<Vec<Cell>> = records.iter().map(cells).collect::<Result<_>>()?;
        let columns: Vec<&str> =
            records.first().map(|row| row.columns().iter().map(Column::name).collect()).unwrap_or_default();
        let started = Instant::now();
        write_page(&mut target, &columns, &values).await?;
        spent += started.elapsed();
        rows += records.len();
    }
    source.close().await?;
    target.close().await?;
    let per_second = (rows as f64 / spent.as_secs_f64()).round();
    Ok(json!({ "rows": rows, "pages": pages.len(), "seconds": spent.as_secs_f64(), "per_second": per_second }))
}

async fn write_page(target: &mut SqliteConnection, columns: &[&str], rows: &[Vec<Cell>]) -> Result<()> {
    target.execute("BEGIN IMMEDIATE").await?;
    for chunk in rows.chunks(ROWS_MAX) {
        let mut arguments = SqliteArguments::default();
        for cell in chunk.iter().flatten() {
            cell.bind(&mut arguments)?;
        }
        sqlx::query_with(AssertSqlSafe(statement(columns, chunk.len())), arguments).execute(&mut *target).await?;
    }
    target.execute("COMMIT").await?;
    Ok(())
}

fn statement(columns: &[&str], rows: usize) -> String {
    let key = ["provenance_code", "endpoint_name", "provider_id"];
    let marks = format!("({})", vec!["?"; columns.len()].join(","));
    let kept = columns.iter().filter(|column| !key.contains(*column) && **column != "id");
    let set: Vec<String> = kept.map(|column| format!("{column} = excluded.{column}")).collect();
    format!(
        "INSERT INTO ing_record ({}) VALUES {} ON CONFLICT ({}) DO UPDATE SET {}",
        columns.join(","),
        vec![marks; rows].join(","),
        key.join(","),
        set.join(",")
    )
}

enum Cell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    fn bind(&self, arguments: &mut SqliteArguments) -> Result<()> {
        let bound = match self {
            Cell::Null => arguments.add(None::<i64>),
            Cell::Int(number) => arguments.add(*number),
            Cell::Text(text) => arguments.add(text.clone()),
            Cell::Blob(bytes) => arguments.add(bytes.clone()),
        };
        bound.map_err(|error| anyhow::anyhow!(error))
    }
}

fn cells(row: &SqliteRow) -> Result<Vec<Cell>> {
    let cell = |at: usize| -> Result<Cell> {
        let value = row.try_get_raw(at)?;
        let name = value.type_info().name().to_owned();
        Ok(match name.as_str() {
            _ if value.is_null() => Cell::Null,
            "INTEGER" => Cell::Int(row.try_get(at)?),
            "TEXT" => Cell::Text(row.try_get(at)?),
            _ => Cell::Blob(row.try_get(at)?),
        })
    };
    (0..row.len()).map(cell).collect()
}
