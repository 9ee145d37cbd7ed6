//! `patra gate`: the rate limits that hold, per source and credential, and what is left of budgets.

use serde_json::{Value, json};

use patra_core::ports::{Inspect, ListFilter, Noun, RateKey, Shown, StoredVersion};
use patra_core::spec::snapshot::{Operation, SpecSnapshot};

use crate::cli::{Global, NounCommand};
use crate::commands::source::in_force;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::{Desk, plain};

/// The newest windows; a key has at most two that are not over.
const BUDGETS_LOOKED_AT: u32 = 1_000;

pub async fn run(global: &Global, command: &NounCommand) -> Result<(), Failure> {
    let desk = Desk::open_to_look(global).await?;
    let open = open_budgets(&desk).await?;
    let mut rows = Vec::new();
    for version in in_force(&desk).await? {
        let spec = spec_of(&desk, &version).await?;
        let rate = &spec.rate;
        let windows: Vec<String> =
            rate.windows.iter().map(|window| format!("{} per {}", window.requests, window.per)).collect();
        rows.push(json!({
            "key": RateKey::of(&spec).as_str(),
            "source": version.provenance,
            "channel": version.channel,
            "limit": windows.join(", "),
            "burst": rate.burst,
            "concurrency": rate.concurrency,
            "budget": budget_of(&open, RateKey::of(&spec).as_str()),
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
        println!("{}", table::of_rows(&rows, &["key", "source", "channel", "limit", "burst", "concurrency", "budget"]));
    }
    Ok(())
}

/// Windows of budgets that are not over.
pub async fn open_budgets(desk: &Desk) -> Result<Vec<Shown>, Failure> {
    let filter = ListFilter { limit: BUDGETS_LOOKED_AT, ..ListFilter::default() };
    let mut rows = desk.store.list(Noun::Budget, &filter).await?;
    let now = desk.clock.now().to_string();
    rows.retain(|row| row["reset_at"].as_str().is_some_and(|reset| reset > now.as_str()));
    Ok(rows)
}

/// `DAY 120 of 450 until ...`, for every window of a key.
fn budget_of(open: &[Shown], key: &str) -> String {
    let own = open.iter().filter(|row| row["rate_key"] == key);
    own.map(budget_line).collect::<Vec<_>>().join(", ")
}

pub fn budget_line(row: &Shown) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} of {} until {}", text("window_code"), row["used_count"], row["limit_count"], text("reset_at"))
}

/// Some sources have no windows to harvest by and are only refreshed; who asks makes no difference to limits.
pub async fn spec_of(desk: &Desk, version: &StoredVersion) -> Result<SpecSnapshot, Failure> {
    let mut trigger = plain(&version.provenance, &version.channel);
    trigger.overrides.contact = Some("contact@example.org".into());
    let planner = desk.planner();
    let harvest = planner.compile(&trigger).await;
    trigger.operation = Operation::Update;
    match harvest {
        Ok(compiled) => Ok(compiled.spec),
        Err(mistakes) => match planner.compile(&trigger).await {
            Ok(compiled) => Ok(compiled.spec),
            Err(_) => Err(mistakes.into()),
        },
    }
}
