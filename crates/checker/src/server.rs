//! A ledger on a server, copied row by row in one snapshot into a SQLite file, so that one set of checks judges all
//! databases. Times become the text that SQLite would hold; nothing else is changed.

use std::path::Path;

use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Connection, Executor, MySqlConnection, PgConnection, Row};
use sqlx::{SqliteConnection, TypeInfo, ValueRef};

use crate::rows::DumpError;

/// Rows of a table read at a time.
const PAGE_ROWS: usize = 1_000;

const TABLES_POSTGRES: &str = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT)
      FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, ordinal_position";
const TABLES_MYSQL: &str = "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), CAST(data_type AS CHAR)
      FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1, ordinal_position";

/// A table with its columns, each as it is selected.
struct Table {
    name: String,
    columns: Vec<String>,
    selected: Vec<String>,
}

enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Whether this names a server rather than a file.
pub fn is_server(place: &str) -> bool {
    ["postgres://", "postgresql://", "mysql://", "mariadb://"].iter().any(|scheme| place.starts_with(scheme))
}

/// Copies everything into a new file.
pub async fn copy(url: &str, file: &Path) -> Result<(), DumpError> {
    let target = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut target = target.connect().await?;
    target.execute("BEGIN").await?;
    if url.starts_with("postgres") {
        copy_postgres(url, &mut target).await?;
    } else {
        copy_mysql(&url.replacen("mariadb://", "mysql://", 1), &mut target).await?;
    }
    target.execute("COMMIT").await?;
    target.close().await?;
    Ok(())
}

async fn copy_postgres(url: &str, target: &mut SqliteConnection) -> Result<(), DumpError> {
    let mut source = PgConnection::connect(url).await?;
    source.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let names = sqlx::query(TABLES_POSTGRES).fetch_all(&mut source).await?;
    let names = names.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    for table in tables(names.collect::<Result<_, sqlx::Error>>()?, selected_postgres) {
        create(target, &table).await?;
        let cursor = format!("DECLARE patra_check CURSOR FOR SELECT {} FROM {}", table.selected.join(", "), table.name);
        source.execute(AssertSqlSafe(cursor)).await?;
        loop {
            let rows = sqlx::query("FETCH 1000 FROM patra_check").persistent(false).fetch_all(&mut source).await?;
            for row in &rows {
                let cells = (0..table.columns.len()).map(|at| cell_postgres(row, at));
                insert(target, &table, cells.collect::<Result<_, sqlx::Error>>()?).await?;
            }
            if rows.len() < PAGE_ROWS {
                break;
            }
        }
        source.execute("CLOSE patra_check").await?;
    }
    Ok(source.close().await?)
}

async fn copy_mysql(url: &str, target: &mut SqliteConnection) -> Result<(), DumpError> {
    let mut source = MySqlConnection::connect(url).await?;
    source.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
    source.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
    let names = sqlx::query(TABLES_MYSQL).fetch_all(&mut source).await?;
    let names = names.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    for table in tables(names.collect::<Result<_, sqlx::Error>>()?, selected_mysql) {
        create(target, &table).await?;
        let mut done = 0;
        loop {
            let (columns, order) = (table.selected.join(", "), &table.columns[0]);
            let page = format!("SELECT {columns} FROM {} ORDER BY {order} LIMIT {PAGE_ROWS} OFFSET {done}", table.name);
            let rows = sqlx::query(AssertSqlSafe(page)).persistent(false).fetch_all(&mut source).await?;
            for row in &rows {
                let cells = (0..table.columns.len()).map(|at| cell_mysql(row, at));
                insert(target, &table, cells.collect::<Result<_, sqlx::Error>>()?).await?;
            }
            done += rows.len();
            if rows.len() < PAGE_ROWS {
                break;
            }
        }
    }
    Ok(source.close().await?)
}

fn tables(names: Vec<(String, String, String)>, select: fn(&str, &str) -> String) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (table, column, kind) in names {
        if tables.last().is_none_or(|last| last.name != table) {
            tables.push(Table { name: table, columns: Vec::new(), selected: Vec::new() });
        }
        if let Some(last) = tables.last_mut() {
            last.selected.push(select(&column, &kind.to_lowercase()));
            last.columns.push(column);
        }
    }
    tables
}

fn selected_postgres(column: &str, kind: &str) -> String {
    match kind {
        "timestamp with time zone" => {
            format!("to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
        }
        _ => column.to_owned(),
    }
}

fn selected_mysql(column: &str, kind: &str) -> String {
    match kind {
        "datetime" => format!("DATE_FORMAT({column}, '%Y-%m-%dT%H:%i:%s.%fZ')"),
        // Text that compares byte by byte.
        "varbinary" => format!("CONVERT({column} USING utf8mb4)"),
        _ => column.to_owned(),
    }
}

fn cell_postgres(row: &sqlx::postgres::PgRow, at: usize) -> Result<Cell, sqlx::Error> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(Cell::Null);
    }
    Ok(match raw.type_info().name() {
        "INT8" => Cell::Int(row.try_get(at)?),
        "BYTEA" => Cell::Bytes(row.try_get(at)?),
        _ => Cell::Text(row.try_get(at)?),
    })
}

fn cell_mysql(row: &sqlx::mysql::MySqlRow, at: usize) -> Result<Cell, sqlx::Error> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(Cell::Null);
    }
    Ok(match raw.type_info().name() {
        "BIGINT" => Cell::Int(row.try_get(at)?),
        "BINARY" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => Cell::Bytes(row.try_get(at)?),
        _ => Cell::Text(row.try_get(at)?),
    })
}

async fn create(target: &mut SqliteConnection, table: &Table) -> Result<(), DumpError> {
    let text = format!("CREATE TABLE \"{}\" ({})", table.name, table.columns.join(", "));
    target.execute(AssertSqlSafe(text)).await?;
    Ok(())
}

async fn insert(target: &mut SqliteConnection, table: &Table, cells: Vec<Cell>) -> Result<(), DumpError> {
    let mut arguments = SqliteArguments::default();
    for cell in cells {
        let added = match cell {
            Cell::Null => arguments.add(None::<i64>),
            Cell::Int(value) => arguments.add(value),
            Cell::Text(value) => arguments.add(value),
            Cell::Bytes(value) => arguments.add(value),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    let marks = vec!["?"; table.columns.len()].join(", ");
    let text = format!("INSERT INTO \"{}\" VALUES ({marks})", table.name);
    target.execute(sqlx::query_with(AssertSqlSafe(text), arguments)).await?;
    Ok(())
}
