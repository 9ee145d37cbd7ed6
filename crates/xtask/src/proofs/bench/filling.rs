//! A ledger with many queued tasks, written by the database itself from one row of a real plan.

use anyhow::Result;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, MySqlConnection, PgConnection};

/// Sources over which the tasks are spread.
const SOURCES: u32 = 20;

/// Adds slices with queued tasks, numbered from `from` up to `to`.
pub async fn queue(place: &str, from: u64, to: u64) -> Result<()> {
    let words = Words::of(place);
    let numbers = numbers(from, to);
    let source = format!("CONCAT('bench-', n.i % {SOURCES})");
    let slices = format!(
        "INSERT INTO ing_plan_slice (id, plan_id, provenance_code, endpoint_name, operation_code, namespace_hash,
            slice_no, slice_signature_hash, slice_spec, expr_hash, expr_snapshot, window_from, window_to, status_code,
            created_at, updated_at)
        {numbers}
        SELECT n.i, s.plan_id, {source}, s.endpoint_name, s.operation_code, s.namespace_hash, 1000000 + n.i, {},
            s.slice_spec, s.expr_hash, s.expr_snapshot, s.window_from, s.window_to, 'DISPATCHED', s.created_at,
            s.updated_at
          FROM n, (SELECT * FROM ing_plan_slice ORDER BY id DESC LIMIT 1) s",
        words.hex
    );
    let tasks = format!(
        "INSERT INTO ing_task (id, schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name,
            operation_code, params, first_token, idempotent_key, expr_hash, priority, status_code, scheduled_at,
            created_at, updated_at)
        {numbers}
        SELECT n.i, t.schedule_instance_id, t.plan_id, n.i, {source}, t.endpoint_name, t.operation_code, t.params,
            t.first_token, {}, t.expr_hash, t.priority, 'QUEUED', t.scheduled_at, t.created_at, t.updated_at
          FROM n, (SELECT * FROM ing_task ORDER BY id DESC LIMIT 1) t",
        words.bytes
    );
    execute(place, &[words.prepare, &slices, &tasks, words.look_again]).await
}

/// What the finished tasks of each source have left behind.
pub async fn controls(place: &str) -> Result<()> {
    let controls = format!(
        "INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, source_behind_us,
            updated_at)
        {}
        SELECT n.i, CONCAT('bench-', n.i % {SOURCES}), t.endpoint_name, 0, 0, 0, t.updated_at
          FROM n, (SELECT * FROM ing_task ORDER BY id DESC LIMIT 1) t",
        numbers(1, u64::from(SOURCES))
    );
    execute(place, &[&controls]).await
}

fn numbers(from: u64, to: u64) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})")
}

/// What each database calls things.
struct Words {
    prepare: &'static str,
    bytes: &'static str,
    hex: &'static str,
    look_again: &'static str,
}

impl Words {
    fn of(place: &str) -> Words {
        match place.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres") => Words {
                prepare: "SELECT 1",
                bytes: "sha256(CAST(CAST(n.i AS text) AS bytea))",
                hex: "encode(sha256(CAST(CAST(n.i AS text) AS bytea)), 'hex')",
                look_again: "ANALYZE",
            },
            Some("mysql") => Words {
                prepare: "SET max_recursive_iterations = 4294967295",
                bytes: "UNHEX(SHA2(n.i, 256))",
                hex: "SHA2(n.i, 256)",
                look_again: "ANALYZE TABLE ing_task",
            },
            _ => Words {
                prepare: "PRAGMA synchronous = OFF",
                bytes: "randomblob(32)",
                hex: "lower(hex(randomblob(32)))",
                look_again: "PRAGMA wal_checkpoint(TRUNCATE)",
            },
        }
    }
}

async fn execute(place: &str, texts: &[&str]) -> Result<()> {
    let texts = texts.iter().map(|text| AssertSqlSafe((*text).to_owned()));
    match place.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres") => {
            let mut connection = PgConnection::connect(place).await?;
            for text in texts {
                connection.execute(text).await?;
            }
            connection.close().await?;
        }
        Some("mysql") => {
            let mut connection = MySqlConnection::connect(place).await?;
            for text in texts {
                connection.execute(text).await?;
            }
            connection.close().await?;
        }
        _ => {
            let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(place).connect().await?;
            for text in texts {
                connection.execute(text).await?;
            }
            connection.close().await?;
        }
    }
    Ok(())
}
