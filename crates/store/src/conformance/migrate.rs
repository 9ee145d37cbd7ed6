//! What a build makes of a schema that is newer or older than itself.

use std::sync::Arc;

use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;

use super::bench::{Bench, TTL, at, namespace, record};
use crate::migrate::{Migration, MigrationState, Migrator, Standing, list};
use crate::{Access, Options, Store, StoreError};

/// What the next releases may do: more columns, tables and indexes, none of which has to be filled.
const MORE: Migration = (
    900,
    "more",
    "ALTER TABLE ing_task ADD COLUMN mood_code BIGINT; ALTER TABLE ing_record ADD COLUMN mood_code BIGINT;
     ALTER TABLE ing_outbox ADD COLUMN mood_code BIGINT; ALTER TABLE ing_cursor ADD COLUMN mood_code BIGINT;
     ALTER TABLE ing_task_run_batch ADD COLUMN mood_code BIGINT; ALTER TABLE ing_plan_slice ADD COLUMN mood_code BIGINT;
     ALTER TABLE reg_provenance ADD COLUMN mood_code BIGINT; CREATE INDEX idx_task_mood ON ing_task (mood_code);
     CREATE TABLE ing_mood (id BIGINT NOT NULL, PRIMARY KEY (id));",
);
/// Takes something away that builds from version 900 on do not use.
const LESS: Migration = (901, "less", "-- needs version 900: nobody reads it any more\nDROP TABLE ing_missing_id;");

fn options(bench: &Bench) -> Options {
    Options { time: crate::Time::Injected, ..Options::new(bench.clock.clone(), 8) }
}

async fn open(bench: &Bench, options: Options) -> Result<Arc<Store>, StoreError> {
    Store::open(&bench.place, options).await
}

/// The migrations of this build and these.
async fn next_release(bench: &Bench, more: &[Migration]) -> Migrator {
    let migrations = [list(bench.store.inner.db.dialect()), more].concat();
    let migrator = Migrator::open(&bench.place, &options(bench)).await.unwrap();
    migrator.with(Vec::leak(migrations))
}

fn standing(states: &[MigrationState], version: i64) -> Option<Standing> {
    states.iter().find(|state| state.version == version).map(|state| state.standing)
}

pub(super) async fn a_build_works_on_a_schema_that_has_more_than_it_knows(bench: Bench) {
    assert_eq!(next_release(&bench, &[MORE]).await.run().await, Ok(vec![(900, "more")]));
    for migrate in [true, false] {
        let store = open(&bench, Options { migrate, ..options(&bench) }).await.unwrap();
        assert_eq!(store.summary().await.unwrap().len(), usize::from(!migrate));
        bench.publish(&[(i64::from(migrate) * 100, 200)]).await;
        let leased = store.acquire_tasks(&Claim::new("w", 1, TTL)).await.unwrap().pop().unwrap();
        let page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
        store.commit_batch(&leased.lease, page).await.unwrap();
        assert!(store.finish_slice(&leased.lease, bench.succeeded()).await.unwrap().plan_completed);
        assert_eq!(store.versions(None).await, Ok(Vec::new()));
        store.close().await;
    }
    assert_eq!(bench.watermark().await, Some(at(200)));
    // The build before has nothing to apply, and says what else is there.
    let before = next_release(&bench, &[]).await;
    let states = before.status().await.unwrap();
    assert_eq!(standing(&states, 900), Some(Standing::Newer));
    assert_eq!((before.fits(&states), before.run().await), (Ok(()), Ok(Vec::new())));
}

pub(super) async fn a_migration_beside_a_running_process_does_not_stop_it(bench: Bench) {
    bench.leased().await;
    let look = || async {
        assert_eq!(bench.store.versions(None).await, Ok(Vec::new()));
        let filter = ListFilter { limit: 5, ..ListFilter::default() };
        assert_eq!(bench.store.list(Noun::Task, &filter).await.unwrap().len(), 1);
    };
    look().await;
    next_release(&bench, &[MORE]).await.run().await.unwrap();
    look().await;
    bench.publish_plan(bench.plan_of(namespace(Operation::Backfill), vec![bench.slice(0, 100, None)])).await;
    let leased = bench.acquire_one().await;
    assert_eq!(
        bench.commit(&leased.lease, bench.page(&leased.batch, vec![record("a", 1, "one")], None)).await.counts.inserted,
        1
    );
}

pub(super) async fn a_schema_that_needs_a_newer_build_is_refused(bench: Bench) {
    let known = bench.store.schema_version();
    next_release(&bench, &[MORE, LESS]).await.run().await.unwrap();
    let refusal = StoreError::TooNew { found: 901, needed: 900, known };
    assert_eq!(open(&bench, options(&bench)).await.err(), Some(refusal.clone()));
    assert_eq!(open(&bench, Options { access: Access::Read, ..options(&bench) }).await.err(), Some(refusal.clone()));
    assert!(refusal.to_string().contains("use a newer build"));
    let ours = next_release(&bench, &[]).await;
    assert_eq!(ours.run().await, Err(refusal.clone()));
    assert_eq!(ours.dry_run().await, Err(refusal.clone()));
    let states = ours.status().await.unwrap();
    assert_eq!((standing(&states, 901), ours.fits(&states)), (Some(Standing::Newer), Err(refusal)));
    // The release between the two does without what was taken away.
    let between = next_release(&bench, &[MORE]).await;
    assert_eq!(between.fits(&between.status().await.unwrap()), Ok(()));
}

pub(super) async fn a_dry_run_says_what_a_run_does_and_changes_nothing(bench: Bench) {
    let next = next_release(&bench, &[MORE, LESS]).await;
    let before = bench.column("SELECT version FROM sys_schema_migration").await;
    let texts: Vec<String> = next.dry_run().await.unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, [MORE.2, LESS.2]);
    assert_eq!(bench.column("SELECT version FROM sys_schema_migration").await, before);
    assert_eq!(standing(&next.status().await.unwrap(), 900), Some(Standing::Pending));
    assert_eq!(next.run().await, Ok(vec![(900, "more"), (901, "less")]));
    assert_eq!((next.run().await, next.dry_run().await), (Ok(Vec::new()), Ok(Vec::new())));
    let states = next.status().await.unwrap();
    assert!(states.iter().all(|state| state.standing == Standing::Applied && state.applied_at == Some(bench.now())));
}

pub(super) async fn who_may_not_migrate_is_told_what_is_missing(bench: Bench) {
    bench.change("DELETE FROM sys_schema_migration WHERE version = 4").await;
    for access in [Access::Write, Access::Read] {
        let refused = open(&bench, Options { migrate: false, access, ..options(&bench) }).await.err().unwrap();
        assert_eq!(refused, StoreError::TooOld { wanted: 4 });
        assert!(refused.to_string().contains("patra migrate"));
    }
}

pub(super) async fn the_table_of_migrations_of_the_first_releases_is_kept(bench: Bench) {
    bench.change("ALTER TABLE sys_schema_migration DROP COLUMN needs_version").await;
    open(&bench, Options { migrate: false, ..options(&bench) }).await.unwrap();
    let next = next_release(&bench, &[MORE, LESS]).await;
    assert_eq!(next.dry_run().await.unwrap().len(), 3);
    assert_eq!(next.run().await.unwrap().len(), 2);
    let needs = "SELECT version, ' ', needs_version FROM sys_schema_migration WHERE needs_version IS NOT NULL";
    assert_eq!(bench.column(needs).await, ["901 900"]);
}

pub(super) async fn what_is_opened_for_reading_is_not_written(bench: Bench) {
    bench.publish(&[(0, 100)]).await;
    let slots = bench.column("SELECT slot, owner, leased_until FROM ing_worker").await;
    let reader = open(&bench, Options { access: Access::Read, ..options(&bench) }).await.unwrap();
    assert_eq!(reader.list(Noun::Task, &ListFilter { limit: 5, ..ListFilter::default() }).await.unwrap().len(), 1);
    let refused = reader.acquire_tasks(&Claim::new("w", 1, TTL)).await;
    assert!(matches!(&refused, Err(LedgerError::Unavailable { message, .. }) if message.contains("reading only")));
    reader.close().await;
    assert_eq!(bench.column("SELECT slot, owner, leased_until FROM ing_worker").await, slots);
}
