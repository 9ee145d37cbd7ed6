//! `patra doctor`: is this installation fit to work, and with which settings.

use patra_core::failpoint;
use patra_engine::settings::Settings;
use serde_json::{Value, json};

use crate::cli::{DoctorArgs, Global};
use crate::commands::source::in_force;
use crate::failure::{Exit, Failure, exit_table};
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
    let opened = Desk::open_role(global.database(), default_workers()).await;
    match &opened {
        Ok(desk) => checks.push(check(
            "database",
            true,
            format!("{}, schema {}", patra_store::shown(global.database()), desk.store.schema_version()),
        )),
        Err(failure) => checks.push(check("database", false, failure.to_string())),
    }
    if let Some(database) = &global.read_database {
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
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} workers, lease {}, heartbeat stops after {} without a page, {} failures end a task",
        cores * 2,
        settings.lease_ttl,
        settings.progress_limit,
        settings.failures_max
    )
}
