//! `patra doctor`: is this installation fit to work, and with which settings.

use patra_core::failpoint;
use patra_core::spec::{PAGE_SHARE_PERCENT, built_in_value};
use patra_engine::settings::Settings;
use patra_source::KEEP_ALIVE;
use patra_source::request::ACCEPT_ENCODING;
use patra_store::ROWS_PER_STATEMENT;
use serde_json::{Value, json};

use crate::cli::{DoctorArgs, Global};
use crate::commands::source::in_force;
use crate::failure::{Exit, Failure, exit_table};
use crate::table::text_of;
use crate::wiring::{Desk, plain};
use crate::working::default_workers;

pub async fn run(global: &Global, args: &DoctorArgs) -> Result<(), Failure> {
    if args.failpoints {
        failpoint::ALL.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    if args.exit_codes {
        print!("{}", exit_table());
        return Ok(());
    }
    let mut checks = Vec::new();
    // Whoever names a place to read and none to write has no other.
    let only_reads = global.read_database.is_some() && global.database.is_none();
    let (place, opened) = match only_reads {
        true => (global.read_side(), Desk::open_existing(global).await),
        false => (global.database(), Desk::open_role(global.database(), default_workers()).await),
    };
    match &opened {
        Ok(desk) => checks.push(check(
            "database",
            true,
            format!("{}, schema {}", patra_store::shown(place), desk.store.schema_version()),
        )),
        Err(failure) => checks.push(check("database", false, failure.to_string())),
    }
    if let (Some(database), false) = (&global.read_database, only_reads) {
        checks.push(read_side(global, database).await);
    }
    if let Ok(desk) = &opened {
        sources(desk, &mut checks).await;
    }
    checks.push(check(
        "contact",
        std::env::var("PATRA_CONTACT").is_ok(),
        "PATRA_CONTACT is the address sources can write to".into(),
    ));
    checks.push(check("settings", true, settings()));
    let at_work = match &opened {
        Ok(desk) => desk.sources_at_work().await.unwrap_or_default(),
        Err(_) => 0,
    };
    checks.extend(defaults(at_work).into_iter().map(|(name, detail)| check(name, true, detail)));
    let bad = checks.iter().filter(|check| check["ok"] == false && check["check"] != "contact").count();
    if global.json {
        println!("{}", Value::Array(checks));
    } else {
        for check in &checks {
            let mark = if check["ok"] == true { "ok  " } else { "look" };
            println!(
                "{mark} {}: {}",
                check["check"].as_str().unwrap_or_default(),
                check["detail"].as_str().unwrap_or_default()
            );
        }
    }
    match bad {
        0 => Ok(()),
        bad => Err(Failure::new(Exit::Database, format!("{bad} checks failed"))),
    }
}

async fn read_side(global: &Global, database: &str) -> Value {
    let (ok, detail) = match Desk::open_existing(global).await {
        Ok(desk) => (true, format!("{}, schema {}", patra_store::shown(database), desk.store.schema_version())),
        Err(failure) => (false, failure.to_string()),
    };
    check("read database", ok, detail)
}

fn check(name: &str, ok: bool, detail: String) -> Value {
    json!({ "check": name, "ok": ok, "detail": detail })
}

async fn sources(desk: &Desk, checks: &mut Vec<Value>) {
    let versions = match in_force(desk).await {
        Ok(versions) => versions,
        Err(failure) => return checks.push(check("registry", false, failure.to_string())),
    };
    for version in versions {
        let trigger = plain(&version.provenance, &version.channel);
        let name = format!("source {}", version.provenance);
        match desk.planner().compile(&trigger).await {
            Ok(compiled) => {
                let warnings = compiled.spec.warnings.join("; ");
                let detail = if warnings.is_empty() { "compiles".into() } else { format!("compiles; {warnings}") };
                checks.push(check(&name, true, detail));
            }
            Err(error) => checks.push(check(&name, false, Failure::from(error).to_string())),
        }
    }
}

fn settings() -> String {
    let settings = Settings::default();
    format!(
        "{} workers, lease {}, heartbeat stops after {} without a page, {} failures end a task",
        default_workers(),
        settings.lease_ttl,
        settings.progress_limit,
        settings.failures_max
    )
}

/// What holds where nobody says otherwise, taken from where it is used.
fn defaults(sources: usize) -> Vec<(&'static str, String)> {
    let settings = Settings::default();
    let workers = default_workers();
    let http = |key: &str| built_in_value(&format!("http.{key}")).map(|value| text_of(&value)).unwrap_or_default();
    vec![
        (
            "concurrency",
            format!(
                "{workers} tasks at once ({} per core), {} of one source, endpoint and operation (at most {}, shared by \
                 {sources} planned sources), {} connections to the database",
                settings.workers_per_core,
                settings.partition_share(workers, sources),
                settings.partition_max,
                settings.connections(workers),
            ),
        ),
        (
            "pages",
            format!("{PAGE_SHARE_PERCENT} % of the largest a source serves, {ROWS_PER_STATEMENT} rows in a statement"),
        ),
        (
            "http",
            format!(
                "connect {}, read {}, at most {}; connections kept {} s; {ACCEPT_ENCODING}",
                http("connect_timeout"),
                http("read_timeout"),
                http("total_timeout"),
                KEEP_ALIVE.as_secs(),
            ),
        ),
        ("registry", format!("planners read it again after {}", settings.registry_life)),
    ]
}
