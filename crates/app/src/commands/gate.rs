//! `patra gate`: the rate limits that hold, per source and credential.

use serde_json::{Value, json};

use patra_core::ports::RateKey;

use crate::cli::{Global, NounCommand};
use crate::commands::source::in_force;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::{Desk, plain};

pub async fn run(global: &Global, command: &NounCommand) -> Result<(), Failure> {
    let desk = Desk::open_to_look(global).await?;
    let mut rows = Vec::new();
    for version in in_force(&desk).await? {
        let compiled = desk.planner().compile(&plain(&version.provenance, &version.channel)).await?;
        let rate = &compiled.spec.rate;
        let windows: Vec<String> =
            rate.windows.iter().map(|window| format!("{} per {}", window.requests, window.per)).collect();
        rows.push(json!({
            "key": RateKey::of(&compiled.spec).as_str(),
            "source": version.provenance,
            "channel": version.channel,
            "limit": windows.join(", "),
            "burst": rate.burst,
            "concurrency": rate.concurrency,
        }));
    }
    if let NounCommand::Show { id } = command {
        rows.retain(|row| row["key"].as_str().is_some_and(|key| key.starts_with(id.as_str())));
        if rows.is_empty() {
            return Err(Failure::new(Exit::NotFound, format!("there is no rate key `{id}`")));
        }
    }
    if global.json {
        println!("{}", Value::Array(rows));
    } else {
        println!("{}", table::of_rows(&rows, &["key", "source", "channel", "limit", "burst", "concurrency"]));
    }
    Ok(())
}
