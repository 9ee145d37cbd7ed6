//! The schema: numbered files, applied once each, in order.
//!
//! On SQLite and PostgreSQL all that is missing is applied in one transaction. MySQL commits each table by itself; its
//! files can be run again after an interruption. One process migrates at a time.
//!
//! A build works on a schema that has more than it knows (INV-43): migrations add, and what they add may stay empty. A
//! migration that takes something away says so in a line `-- needs version N`: builds that do not know version N, which
//! stopped using it, are refused from then on. N is below the migration's own version, so the release before still works.

mod migrator;
mod state;

use patra_core::hash::Hash32;

use crate::db::{Db, Tx};
use crate::dialect::Dialect;
use crate::error::{DbError, StoreError};
use crate::value::params;
pub use migrator::Migrator;
pub use state::{MigrationState, Standing};

/// (version, name, text) of a migration.
pub(crate) type Migration = (i64, &'static str, &'static str);

const SQLITE: &[Migration] = include!(concat!(env!("OUT_DIR"), "/sqlite_migrations.rs"));
const POSTGRES: &[Migration] = include!(concat!(env!("OUT_DIR"), "/postgres_migrations.rs"));
const MYSQL: &[Migration] = include!(concat!(env!("OUT_DIR"), "/mysql_migrations.rs"));

const TABLE: &str = "sys_schema_migration";
const NEEDS: &str = "needs_version";
/// The first releases had no such column.
const ADD_NEEDS: &str = "ALTER TABLE sys_schema_migration ADD COLUMN needs_version BIGINT";
const RECORD: &str = "-- migration.record
    INSERT INTO sys_schema_migration (version, name, checksum, applied_at, needs_version)
    VALUES (:version, :name, :checksum, :now, :needs)";

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

/// Applies what is missing, or refuses a schema that lacks something and may not be changed; refuses one that this
/// build cannot work with. Says what was applied.
pub(crate) async fn bring_up(db: &Db, migrations: &[Migration], allowed: bool) -> Result<Vec<Migration>, StoreError> {
    let missing = state::missing(&state::of(db, migrations).await?, migrations)?;
    match missing.first() {
        None => return Ok(Vec::new()),
        Some((version, ..)) if !allowed => return Err(StoreError::TooOld { wanted: *version }),
        Some(_) => {}
    }
    let mut tx = db.write().await.map_err(|error| untouched("reach", &error))?;
    let applied = apply(&mut tx, db.dialect(), migrations).await;
    // Before the commit: the lock of MySQL belongs to the connection.
    let unlocked = tx.script(db.dialect().migration_unlock()).await;
    match applied {
        Ok(applied) => {
            unlocked.map_err(|error| untouched("unlock", &error))?;
            tx.commit().await.map_err(|error| untouched("commit", &error))?;
            Ok(applied)
        }
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

async fn apply(tx: &mut Tx, dialect: Dialect, migrations: &[Migration]) -> Result<Vec<Migration>, StoreError> {
    let asking = |error: DbError| untouched("lock", &error);
    tx.script(dialect.migration_lock()).await.map_err(asking)?;
    for text in preparations(tx, dialect).await.map_err(asking)? {
        tx.script(text).await.map_err(asking)?;
    }
    // Another process may have been faster.
    let missing = state::missing(&state::read(tx, migrations).await?, migrations)?;
    for (version, name, text) in &missing {
        tx.script(text).await.map_err(|error| refused(*version, name, &error))?;
        let checksum = Hash32::of(text.as_bytes());
        let row = params! { version: *version, name: *name, checksum: checksum, now: tx.now(), needs: needs_of(text) };
        tx.execute(RECORD, row).await.map_err(|error| refused(*version, name, &error))?;
    }
    Ok(missing)
}

/// What the table of migrations itself needs first.
async fn preparations(tx: &mut Tx, dialect: Dialect) -> Result<Vec<&'static str>, DbError> {
    let schema = tx.read_schema().await?;
    Ok(match schema.get(TABLE) {
        None => vec![dialect.migration_table()],
        Some(columns) if !columns.iter().any(|column| column == NEEDS) => vec![ADD_NEEDS],
        Some(_) => Vec::new(),
    })
}

/// The version a build must know to work on the schema that this migration leaves; `None` for any build before.
fn needs_of(text: &str) -> Option<i64> {
    let mut marks = text.lines().filter_map(|line| line.strip_prefix("-- needs version "));
    let number = marks.next()?.split(|letter: char| !letter.is_ascii_digit()).next()?;
    number.parse().ok()
}

fn newest(migrations: &[Migration]) -> i64 {
    migrations.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

fn untouched(step: &'static str, error: &DbError) -> StoreError {
    StoreError::Schema { step, message: error.message() }
}

fn refused(version: i64, name: &str, error: &DbError) -> StoreError {
    StoreError::Migration { version, name: name.to_owned(), message: error.message() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_leaves_the_release_before_working() {
        for (version, name, text) in [SQLITE, POSTGRES, MYSQL].concat() {
            let needs = needs_of(text);
            assert!(needs.is_none_or(|needs| needs < version), "{version} {name} needs {needs:?}");
        }
    }

    #[test]
    fn every_database_has_the_same_migrations() {
        let marks = |list: &[Migration]| -> Vec<_> {
            list.iter().map(|(version, name, text)| (*version, *name, needs_of(text))).collect()
        };
        assert_eq!(marks(SQLITE), marks(POSTGRES));
        assert_eq!(marks(SQLITE), marks(MYSQL));
    }

    #[test]
    fn a_mark_is_a_line_of_its_own() {
        assert_eq!(needs_of("-- why\n-- needs version 12: `part` is read no more\nDROP INDEX x;"), Some(12));
        assert_eq!(needs_of("-- what needs version 12\nCREATE TABLE x (y BIGINT);"), None);
    }
}
