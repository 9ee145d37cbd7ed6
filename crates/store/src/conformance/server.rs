//! A fresh, empty place on a server of the tests.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor};

static DRAWN: AtomicU32 = AtomicU32::new(0);

/// The URL of an empty database; `None` where no server was started, which is said.
pub(super) async fn fresh(postgres: bool) -> Option<String> {
    let variable = if postgres { "PATRA_TEST_POSTGRES" } else { "PATRA_TEST_MYSQL" };
    let Ok(server) = std::env::var(variable) else {
        eprintln!("skipped: {variable} names no server; `cargo xtask test` starts one");
        return None;
    };
    let name = format!("t{}_{}", std::process::id(), DRAWN.fetch_add(1, Ordering::Relaxed));
    if postgres {
        let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
        admin.execute(AssertSqlSafe(format!("CREATE SCHEMA {name}"))).await.unwrap();
        return Some(format!("{server}?options=-csearch_path%3D{name}"));
    }
    let mut admin = sqlx::MySqlConnection::connect(&server).await.unwrap();
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let (root, _) = server.rsplit_once('/').expect("the URL names a database");
    Some(format!("{root}/{name}"))
}
