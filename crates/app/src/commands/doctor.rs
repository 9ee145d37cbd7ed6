//! `patra doctor`: is this installation fit to work, and with which settings.

use patra_core::failpoint;
use patra_core::spec::{PAGE_SHARE_PERCENT, built_in_value};
use patra_engine::settings::Settings;
use patra_source::KEEP_ALIVE;
use patra_source::request::ACCEPT_ENCODING;
use patra_store::ROWS_PER_STATEMENT;
use serde_json::{Value, json};

use crate::cli::{DoctorArgs, Global};
use crate::commands::gate::spec_of;
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
    let checks = checks(global).await;
    let bad = checks.iter().filter(|check| check["ok"] == false && check["check"] != "contact").count();
    show(global, checks);
    match bad {
        0 => Ok(()),
        bad => Err(Failure::new(Exit::Database, format!("{bad} checks failed"))),
    }
}

async fn checks(global: &Global) -> Vec<Value> {
    // Whoever names a place to read and none to write has no other.
    let only_reads = global.read_database.is_some() && global.database.is_none();
    let (place, opened) = match only_reads {
        true => (global.read_side(), Desk::open_existing(global).await),
        false => (global.database(), Desk::open_role(global.database(), default_workers()).await),
    };
    let mut checks = vec![database("database", place, &opened)];
    if let (Some(place), false) = (&global.read_database, only_reads) {
        checks.push(database("read database", place, &Desk::open_existing(global).await));
    }
    let mut at_work = 0;
    if let Ok(desk) = &opened {
        sources(desk, &mut checks).await;
        at_work = desk.sources_at_work().await.unwrap_or_default();
        desk.store.close().await;
    }
    let contact = std::env::var("PATRA_CONTACT").is_ok();
    checks.push(check("contact", contact, "PATRA_CONTACT is the address sources can write to".into()));
    checks.push(check("settings", true, settings()));
    checks.extend(defaults(at_work).into_iter().map(|(name, detail)| check(name, true, detail)));
    checks
}

fn show(global: &Global, checks: Vec<Value>) {
    if global.json {
        println!("{}", Value::Array(checks));
        return;
    }
    for check in &checks {
        let mark = if check["ok"] == true { "ok  " } else { "look" };
        let text = |key: &str| check[key].as_str().unwrap_or_default();
        println!("{mark} {}: {}", text("check"), text("detail"));
    }
}

fn database(name: &str, place: &str, opened: &Result<Desk, Failure>) -> Value {
    match opened {
        Ok(desk) => check(name, true, format!("{}, schema {}", patra_store::shown(place), desk.store.schema_version())),
        Err(failure) => check(name, false, failure.to_string()),
    }
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
            Err(error) => match spec_of(desk, &version).await {
                Ok(_) => checks.push(check(&name, true, "compiles with a contact, or to refresh known records".into())),
                Err(_) => checks.push(check(&name, false, Failure::from(error).to_string())),
            },
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
