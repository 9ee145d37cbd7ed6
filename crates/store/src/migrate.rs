//! The schema: numbered files, applied once each, in order.
//!
//! On SQLite and PostgreSQL all that is missing is applied in one transaction. MySQL commits each table by itself; its
//! files can be run again after an interruption. One process migrates at a time.

use patra_core::hash::Hash32;

use crate::db::{Db, Tx};
use crate::dialect::Dialect;
use crate::error::{DbError, StoreError};
use crate::value::params;

/// (version, name, text) of a migration.
pub(crate) type Migration = (i64, &'static str, &'static str);

const SQLITE: &[Migration] = include!(concat!(env!("OUT_DIR"), "/sqlite_migrations.rs"));
const POSTGRES: &[Migration] = include!(concat!(env!("OUT_DIR"), "/postgres_migrations.rs"));
const MYSQL: &[Migration] = include!(concat!(env!("OUT_DIR"), "/mysql_migrations.rs"));

const TABLE: &str = "sys_schema_migration";
const APPLIED: &str = "-- migration.applied
    SELECT version, name, checksum FROM sys_schema_migration ORDER BY version";
const RECORD: &str = "-- migration.record
    INSERT INTO sys_schema_migration (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, :now)";

/// Every migration of this build for a database of this kind.
pub(crate) fn list(dialect: Dialect) -> &'static [Migration] {
    match dialect {
        Dialect::Sqlite => SQLITE,
        Dialect::Postgres => POSTGRES,
        Dialect::Mysql => MYSQL,
    }
}

/// The newest version this build knows.
pub(crate) fn known(dialect: Dialect) -> i64 {
    newest(list(dialect))
}

/// Brings the schema to the newest version, or refuses one that is old and may not be changed; refuses one that is
/// newer or that was changed.
pub(crate) async fn migrate(db: &Db, migrations: &[Migration], allowed: bool) -> Result<(), StoreError> {
    let missing = pending(db, migrations).await?;
    match missing.first() {
        None => return Ok(()),
        Some((version, ..)) if !allowed => return Err(StoreError::TooOld { wanted: *version }),
        Some(_) => {}
    }
    let mut tx = db.write().await.map_err(|error| refused(0, "begin", &error))?;
    let applied = apply(&mut tx, db.dialect(), migrations).await;
    // Before the commit: the lock of MySQL belongs to the connection.
    let unlocked = tx.script(db.dialect().migration_unlock()).await;
    match applied {
        Ok(()) => {
            unlocked.map_err(|error| refused(0, "unlock", &error))?;
            tx.commit().await.map_err(|error| refused(0, "commit", &error))
        }
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Migrations that the database does not have yet.
pub(crate) async fn pending(db: &Db, migrations: &[Migration]) -> Result<Vec<Migration>, StoreError> {
    let mut tx = db.read().await.map_err(|error| refused(0, "begin", &error))?;
    let missing = missing(&mut tx, migrations).await;
    tx.rollback().await;
    missing
}

async fn missing(tx: &mut Tx, migrations: &[Migration]) -> Result<Vec<Migration>, StoreError> {
    let asking = |error: DbError| refused(0, "read", &error);
    if !tx.read_schema().await.map_err(asking)?.contains_key(TABLE) {
        return Ok(migrations.to_vec());
    }
    let mut applied = Vec::new();
    for row in tx.rows(TABLE, APPLIED, params! {}).await.map_err(asking)? {
        applied.push((row.int("version")?, row.hash("checksum")?));
    }
    let known = newest(migrations);
    if let Some((found, _)) = applied.iter().find(|(version, _)| *version > known) {
        return Err(StoreError::TooNew { found: *found, known });
    }
    let mut missing = Vec::new();
    for (version, name, text) in migrations {
        match applied.iter().find(|(done, _)| done == version) {
            Some((_, done)) if *done == Hash32::of(text.as_bytes()) => {}
            Some(_) => return Err(StoreError::Changed { version: *version, name: (*name).to_owned() }),
            None => missing.push((*version, *name, *text)),
        }
    }
    Ok(missing)
}

async fn apply(tx: &mut Tx, dialect: Dialect, migrations: &[Migration]) -> Result<(), StoreError> {
    let asking = |error: DbError| refused(0, "lock", &error);
    tx.script(dialect.migration_lock()).await.map_err(asking)?;
    tx.script(dialect.migration_table()).await.map_err(asking)?;
    // Another process may have been faster.
    for (version, name, text) in missing(tx, migrations).await? {
        tx.script(text).await.map_err(|error| refused(version, name, &error))?;
        let row = params! { version: version, name: name, checksum: Hash32::of(text.as_bytes()), now: tx.now() };
        tx.execute(RECORD, row).await.map_err(|error| refused(version, name, &error))?;
    }
    Ok(())
}

fn newest(migrations: &[Migration]) -> i64 {
    migrations.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

fn refused(version: i64, name: &str, error: &DbError) -> StoreError {
    StoreError::Migration { version, name: name.to_owned(), message: error.message() }
}
