//! `patra migrate`: brings a database up to this build, or says what that would mean.

use std::sync::Arc;

use patra_core::ports::Registry;
use patra_store::{Access, MigrationState, Migrator, Options, Standing, shown};
use serde_json::{Value, json};

use crate::cli::{Global, MigrateArgs};
use crate::clock::SystemClock;
use crate::failure::Failure;
use crate::place::{is_there, place_of, unopened};
use crate::table;
use crate::wiring::{Desk, outdated};

pub async fn run(global: &Global, args: &MigrateArgs) -> Result<(), Failure> {
    match (args.status, args.dry_run) {
        (true, _) => status(global).await,
        (_, true) => dry_run(global).await,
        _ => apply(global).await,
    }
}

/// The database of a command that changes nothing; an empty one where there is none.
async fn look(global: &Global) -> Result<Migrator, Failure> {
    let place = place_of(global.database())?;
    if is_there(place) {
        return connect(global, place, Access::Read).await;
    }
    if !global.quiet {
        eprintln!("there is no database `{place}` yet; `patra migrate` makes it");
    }
    connect(global, ":memory:", Access::Read).await
}

async fn connect(global: &Global, place: &str, access: Access) -> Result<Migrator, Failure> {
    let options = Options { access, connections: 1, ..Options::new(Arc::new(SystemClock::start()), 0) };
    Migrator::open(place, &options).await.map_err(|error| unopened(global.database(), &error))
}

async fn status(global: &Global) -> Result<(), Failure> {
    let unfit = |error| unopened(global.database(), &error);
    let migrator = look(global).await?;
    let states = migrator.status().await.map_err(unfit)?;
    let rows: Vec<Value> = states.iter().map(row).collect();
    if global.json {
        println!("{}", Value::Array(rows));
    } else {
        println!("{}", table::of_rows(&rows, &["version", "name", "state", "applied_at", "needs_version"]));
        println!("{}", in_a_sentence(global, &states));
    }
    migrator.fits(&states).map_err(unfit)
}

fn row(state: &MigrationState) -> Value {
    json!({
        "version": state.version,
        "name": state.name,
        "state": state.standing.name(),
        "applied_at": state.applied_at,
        "needs_version": state.needs_version,
    })
}

fn in_a_sentence(global: &Global, states: &[MigrationState]) -> String {
    let count = |standing| states.iter().filter(|state| state.standing == standing).count();
    let database = shown(global.database());
    match (count(Standing::Pending), count(Standing::Newer)) {
        (0, 0) => format!("{database} is up to date"),
        (0, newer) => format!("{database} has all migrations of this build and {newer} of newer ones"),
        (pending, _) => format!("{pending} pending: `patra migrate` applies them"),
    }
}

async fn dry_run(global: &Global) -> Result<(), Failure> {
    let unfit = |error| unopened(global.database(), &error);
    let texts = look(global).await?.dry_run().await.map_err(unfit)?;
    let sources = if texts.is_empty() { Some(to_publish(global).await?) } else { None };
    if global.json {
        let texts: Vec<Value> = texts.iter().map(|(what, sql)| json!({ "what": what, "sql": sql })).collect();
        println!("{}", json!({ "statements": texts, "sources": sources }));
        return Ok(());
    }
    for (what, sql) in &texts {
        let sql = sql.trim_end();
        println!("-- {what}\n{sql}{}\n", if sql.ends_with(';') { "" } else { ";" });
    }
    println!(
        "{}",
        match sources {
            None => "-- then the built-in sources are published where they have changed".to_owned(),
            Some(sources) if sources.is_empty() => "-- nothing to do".to_owned(),
            Some(sources) => format!("-- the tables are up to date; to publish: {}", sources.join(", ")),
        }
    );
    Ok(())
}

/// Built-in sources that a run would publish.
async fn to_publish(global: &Global) -> Result<Vec<&'static str>, Failure> {
    let desk = Desk::connect(global.database(), |options| options.access = Access::Read).await?;
    Ok(outdated(&desk.store.versions(None).await?).iter().map(|entry| entry.source).collect())
}

async fn apply(global: &Global) -> Result<(), Failure> {
    let unfit = |error| unopened(global.database(), &error);
    let migrator = connect(global, place_of(global.database())?, Access::Write).await?;
    let applied = migrator.run().await.map_err(unfit)?;
    migrator.close().await;
    let desk = Desk::connect(global.database(), |_| {}).await?;
    let published = desk.apply_catalogue().await?;
    let (database, schema) = (shown(global.database()), desk.store.schema_version());
    desk.store.close().await;
    if global.json {
        let applied: Vec<Value> =
            applied.iter().map(|(version, name)| json!({ "version": version, "name": name })).collect();
        println!("{}", json!({ "database": database, "schema": schema, "applied": applied, "published": published }));
        return Ok(());
    }
    for (version, name) in &applied {
        println!("applied {version} ({name})");
    }
    if !published.is_empty() {
        println!("published {}", published.join(", "));
    }
    println!("{database} is up to date, schema {schema}");
    Ok(())
}
