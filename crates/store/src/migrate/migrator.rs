//! Looking at the schema and changing it, apart from working with it: `patra migrate`.

use super::{Migration, MigrationState, bring_up, list, newest, preparations, state, untouched};
use crate::db::Db;
use crate::error::{DbError, StoreError};
use crate::store::{Options, shown};

/// A database whose schema is looked at or changed.
pub struct Migrator {
    db: Db,
    migrations: &'static [Migration],
}

impl Migrator {
    /// Connects and changes nothing; with [`crate::Access::Read`] it never will.
    pub async fn open(place: &str, options: &Options) -> Result<Migrator, StoreError> {
        let wrong = |error: DbError| StoreError::Open { place: shown(place), message: error.message() };
        let db = Db::open(place, options).await.map_err(wrong)?;
        let migrations = list(db.dialect());
        Ok(Migrator { db, migrations })
    }

    /// The newest version this build knows.
    pub fn known(&self) -> i64 {
        newest(self.migrations)
    }

    /// Every migration of the build and of the database, by version, whether or not the two fit.
    pub async fn status(&self) -> Result<Vec<MigrationState>, StoreError> {
        state::of(&self.db, self.migrations).await
    }

    /// Whether this build can work on the database once what is pending has been applied.
    pub fn fits(&self, states: &[MigrationState]) -> Result<(), StoreError> {
        state::missing(states, self.migrations).map(|_| ())
    }

    /// (what, text) of everything that [`Migrator::run`] would run, in its order.
    pub async fn dry_run(&self) -> Result<Vec<(String, String)>, StoreError> {
        let missing = state::missing(&self.status().await?, self.migrations)?;
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let asking = |error: DbError| untouched("read", &error);
        let mut tx = self.db.read().await.map_err(asking)?;
        let first = preparations(&mut tx, self.db.dialect()).await;
        tx.rollback().await;
        let first = first.map_err(asking)?.into_iter().map(|text| ("the table of migrations".into(), text.to_owned()));
        let then =
            missing.iter().map(|(version, name, text)| (format!("migration {version} ({name})"), (*text).into()));
        Ok(first.chain(then).collect())
    }

    /// Applies what is missing; (version, name) of each.
    pub async fn run(&self) -> Result<Vec<(i64, &'static str)>, StoreError> {
        let applied = bring_up(&self.db, self.migrations, true).await?;
        Ok(applied.into_iter().map(|(version, name, _)| (version, name)).collect())
    }

    pub async fn close(&self) {
        self.db.close().await;
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, migrations: &'static [Migration]) -> Migrator {
        self.migrations = migrations;
        self
    }
}
