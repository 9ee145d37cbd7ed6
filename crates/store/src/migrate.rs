//! The schema: numbered files, applied once each, in order, in one transaction.

use patra_core::hash::Hash32;
use patra_core::time::Timestamp;

use crate::db::{Db, Tx};
use crate::error::{DbError, StoreError};
use crate::value::params;

/// (version, name, text) of every migration, from `migrations/sqlite`.
pub(crate) const MIGRATIONS: &[(i64, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/sqlite_migrations.rs"));

const CREATE: &str = "CREATE TABLE IF NOT EXISTS sys_schema_migration (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum BLOB NOT NULL, applied_at TEXT NOT NULL)";
const APPLIED: &str = "-- migration.applied
    SELECT version, name, checksum FROM sys_schema_migration ORDER BY version";
const RECORD: &str = "-- migration.record
    INSERT INTO sys_schema_migration (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, :now)";

/// The newest version this build knows.
pub(crate) fn known() -> i64 {
    MIGRATIONS.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// Brings the schema to the newest version; refuses one that is newer or that was changed.
pub(crate) async fn migrate(db: &Db, now: Timestamp, migrations: &[(i64, &str, &str)]) -> Result<(), StoreError> {
    let mut tx = db.write().await.map_err(|error| refused(0, "begin", &error))?;
    match apply(&mut tx, now, migrations).await {
        Ok(()) => tx.commit().await.map_err(|error| refused(0, "commit", &error)),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

async fn apply(tx: &mut Tx, now: Timestamp, migrations: &[(i64, &str, &str)]) -> Result<(), StoreError> {
    let asking = |error: DbError| refused(0, "read", &error);
    tx.script(CREATE).await.map_err(asking)?;
    let mut applied = Vec::new();
    for row in tx.rows("sys_schema_migration", APPLIED, params! {}).await.map_err(asking)? {
        applied.push((row.int("version")?, row.hash("checksum")?));
    }
    let newest = migrations.iter().map(|(version, ..)| *version).max().unwrap_or(0);
    if let Some((found, _)) = applied.iter().find(|(version, _)| *version > newest) {
        return Err(StoreError::TooNew { found: *found, known: newest });
    }
    for (version, name, text) in migrations {
        let checksum = Hash32::of(text.as_bytes());
        match applied.iter().find(|(done, _)| done == version) {
            Some((_, done)) if *done == checksum => continue,
            Some(_) => return Err(StoreError::Changed { version: *version, name: (*name).to_owned() }),
            None => {}
        }
        tx.script(text).await.map_err(|error| refused(*version, name, &error))?;
        let row = params! { version: *version, name: *name, checksum: checksum, now: now };
        tx.execute(RECORD, row).await.map_err(|error| refused(*version, name, &error))?;
    }
    Ok(())
}

fn refused(version: i64, name: &str, error: &DbError) -> StoreError {
    StoreError::Migration { version, name: name.to_owned(), message: error.message() }
}
