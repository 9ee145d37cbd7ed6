//! What a database has of the migrations, compared with those of this build.

use patra_core::hash::Hash32;
use patra_core::time::Timestamp;

use super::{Migration, NEEDS, TABLE, newest, untouched};
use crate::db::{Db, Tx};
use crate::error::{DbError, StoreError};
use crate::value::{Row, params};

const APPLIED: &str = "-- migration.applied
    SELECT version, name, checksum, applied_at, needs_version FROM sys_schema_migration ORDER BY version";
/// As the first releases made the table.
const APPLIED_BEFORE: &str = "-- migration.applied_before
    SELECT version, name, checksum, applied_at, NULL AS needs_version FROM sys_schema_migration ORDER BY version";

/// How a migration of the build and one of the database stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Applied,
    Pending,
    /// Applied with another content than this build's.
    Changed,
    /// Applied by a build that knows more than this one.
    Newer,
}

impl Standing {
    pub fn name(self) -> &'static str {
        match self {
            Standing::Applied => "applied",
            Standing::Pending => "pending",
            Standing::Changed => "changed",
            Standing::Newer => "newer",
        }
    }
}

/// One migration, known here or there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationState {
    pub version: i64,
    pub name: String,
    pub standing: Standing,
    pub applied_at: Option<Timestamp>,
    /// Builds that do not know this version cannot work on the schema any more.
    pub needs_version: Option<i64>,
}

/// A migration as the database has it.
struct Applied {
    version: i64,
    name: String,
    checksum: Hash32,
    applied_at: Timestamp,
    needs_version: Option<i64>,
}

impl TryFrom<&Row> for Applied {
    type Error = StoreError;

    fn try_from(row: &Row) -> Result<Applied, StoreError> {
        Ok(Applied {
            version: row.int("version")?,
            name: row.string("name")?,
            checksum: row.hash("checksum")?,
            applied_at: row.time("applied_at")?,
            needs_version: row.opt_int("needs_version")?,
        })
    }
}

pub(super) async fn of(db: &Db, migrations: &[Migration]) -> Result<Vec<MigrationState>, StoreError> {
    let mut tx = db.read().await.map_err(|error| untouched("reach", &error))?;
    let states = read(&mut tx, migrations).await;
    tx.rollback().await;
    states
}

/// Every migration of the build and of the database, by version.
pub(super) async fn read(tx: &mut Tx, migrations: &[Migration]) -> Result<Vec<MigrationState>, StoreError> {
    let asking = |error: DbError| untouched("read", &error);
    let mut applied: Vec<Applied> = Vec::new();
    if let Some(columns) = tx.read_schema().await.map_err(asking)?.get(TABLE) {
        let has_needs = columns.iter().any(|column| column == NEEDS);
        let text = if has_needs { APPLIED } else { APPLIED_BEFORE };
        for row in tx.rows(TABLE, text, params! {}).await.map_err(asking)? {
            applied.push(Applied::try_from(&row)?);
        }
    }
    let mut states: Vec<MigrationState> = applied.iter().map(|row| state_of(row, migrations)).collect();
    for (version, name, text) in migrations {
        if applied.iter().all(|row| row.version != *version) {
            let (name, needs_version) = ((*name).to_owned(), super::needs_of(text));
            let standing = Standing::Pending;
            states.push(MigrationState { version: *version, name, standing, applied_at: None, needs_version });
        }
    }
    states.sort_by_key(|state| state.version);
    Ok(states)
}

fn state_of(row: &Applied, migrations: &[Migration]) -> MigrationState {
    let standing = match migrations.iter().find(|(version, ..)| *version == row.version) {
        None => Standing::Newer,
        Some((_, _, text)) if row.checksum == Hash32::of(text.as_bytes()) => Standing::Applied,
        Some(_) => Standing::Changed,
    };
    MigrationState {
        version: row.version,
        name: row.name.clone(),
        standing,
        applied_at: Some(row.applied_at),
        needs_version: row.needs_version,
    }
}

/// Migrations to apply; refuses a database that this build cannot work with.
pub(super) fn missing(states: &[MigrationState], migrations: &[Migration]) -> Result<Vec<Migration>, StoreError> {
    let known = newest(migrations);
    let there = states.iter().filter(|state| state.standing != Standing::Pending);
    let found = there.clone().map(|state| state.version).max().unwrap_or(0);
    let needed = there.filter_map(|state| state.needs_version).max().unwrap_or(0);
    if needed > known {
        return Err(StoreError::TooNew { found, needed, known });
    }
    if let Some(changed) = states.iter().find(|state| state.standing == Standing::Changed) {
        return Err(StoreError::Changed { version: changed.version, name: changed.name.clone() });
    }
    let pending =
        |version: i64| states.iter().any(|state| state.version == version && state.standing == Standing::Pending);
    Ok(migrations.iter().filter(|(version, ..)| pending(*version)).copied().collect())
}
