//! `patra harvest`: plan what is owed, work it off, say whether it is complete.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::{Gate, Inspect, ListFilter, Noun, Only, Partition};
use patra_engine::notice::{Notice, Notices};
use patra_engine::planner::{Planned, Planner, Trigger};
use patra_engine::settings::Settings;
use patra_source::install_crypto;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Durability, Global, HarvestArgs};
use crate::commands::roles::thresholds;
use crate::failure::{Exit, Failure, stopped};
use crate::gate;
use crate::place::is_server;
use crate::progress::{Progress, group};
use crate::wiring::Desk;
use crate::working::{default_workers, executor, run_workers, settings, stop_on_signals};

pub async fn run(global: &Global, args: &HarvestArgs) -> Result<(), Failure> {
    let desk = open(global, args).await?;
    let source = desk.source_of(&args.source, &args.trigger.channel).await?;
    let trigger = desk.trigger(&source, &args.trigger).await?;
    carry_out(global, args, desk, Errand::of(trigger)).await
}

/// What is to be planned and worked off.
pub struct Errand {
    pub trigger: Trigger,
    /// UPDATE: the ids to ask for.
    pub refresh: Option<BTreeSet<String>>,
}

impl Errand {
    pub fn of(trigger: Trigger) -> Errand {
        Errand { trigger, refresh: None }
    }
}

pub async fn open(global: &Global, args: &HarvestArgs) -> Result<Desk, Failure> {
    install_crypto();
    Desk::open_to_harvest(global.database(), durability(args.durability), workers(args)).await
}

/// Plans what the trigger asks for, works it off with workers of this process and says what came of it.
pub async fn carry_out(global: &Global, args: &HarvestArgs, desk: Desk, errand: Errand) -> Result<(), Failure> {
    let source = errand.trigger.provenance.clone();
    let progress = Arc::new(Progress::new(global.quiet || global.json, desk.clock.clone()));
    let gate = gate_of(global, &desk, args)?;
    let planner =
        Planner { stock_max: thresholds(&args.thresholds)?.stock_max, gate: Some(gate.clone()), ..desk.planner() };
    let plan = plan(&planner, &progress, &errand).await?;
    let trigger = errand.trigger;
    let stop = stop_on_signals(global.quiet);
    if plan.is_some() {
        work(&desk, &progress, &trigger, args, gate, &stop).await?;
    }
    progress.finish();
    let report = report(&desk, &progress, &trigger, plan).await?;
    show(global, &report)?;
    let refused = refused(&desk, &source).await?;
    desk.store.close().await;
    if stop.is_cancelled() {
        return Err(Failure::new(Exit::Stopped, "stopped by a signal").hint("run the same command to go on"));
    }
    match (report["complete"].as_bool(), refused) {
        (Some(true), _) => Ok(()),
        (_, Some(reason)) => Err(stopped(&source, &reason)),
        _ => Err(Failure::new(Exit::Incomplete, format!("the copy of {source} is not complete"))
            .hint(format!("`patra slice list --source {source} --status FAILED` names the windows and why"))),
    }
}

/// Why the source stands still, if it does.
async fn refused(desk: &Desk, source: &str) -> Result<Option<String>, Failure> {
    let filter = ListFilter { provenance: Some(source.into()), limit: 100, ..ListFilter::default() };
    let rows = desk.store.list(Noun::SourceControl, &filter).await?;
    let stopped = rows.iter().find(|row| [&row["paused"], &row["fuse_blown"]].iter().any(|flag| **flag == 1));
    Ok(stopped.map(|row| row["reason"].as_str().unwrap_or("paused").to_owned()))
}

fn workers(args: &HarvestArgs) -> u16 {
    args.workers.unwrap_or_else(default_workers)
}

fn durability(durability: Durability) -> patra_store::Durability {
    match durability {
        Durability::Full => patra_store::Durability::Full,
        Durability::Normal => patra_store::Durability::Normal,
    }
}

/// The endpoint has no name where the definition chooses it.
fn asked_of(trigger: &Trigger) -> Partition {
    Partition {
        provenance: trigger.provenance.clone(),
        endpoint: trigger.endpoint.clone().unwrap_or_default(),
        operation: trigger.operation.code().to_owned(),
    }
}

async fn plan(planner: &Planner, progress: &Progress, errand: &Errand) -> Result<Option<Id>, Failure> {
    let source = errand.trigger.provenance.as_str();
    let planned = match &errand.refresh {
        Some(ids) => planner.refresh(&errand.trigger, ids).await?,
        None => planner.plan(&errand.trigger).await?,
    };
    Ok(match planned {
        Planned::Created { plan, window, slices, warnings } => {
            progress.say(&format!("{source}: {slices} slices over {window}"));
            progress.tell(&asked_of(&errand.trigger), Notice::PlanPublished { plan, window, slices, warnings });
            Some(plan)
        }
        Planned::Live { plan } | Planned::Before { plan } => {
            progress.say(&format!("{source}: going on with plan {plan}"));
            Some(plan)
        }
        Planned::NothingOwed => {
            progress.say(&format!("{source}: nothing new is owed yet"));
            None
        }
    })
}

/// A harvest into a file is alone with it, as a rule; on a server others may harvest too.
fn gate_of(global: &Global, desk: &Desk, args: &HarvestArgs) -> Result<Arc<dyn Gate>, Failure> {
    match is_server(global.database()) || args.redis.is_some() {
        true => gate::shared(desk, args.redis.as_ref()),
        false => Ok(gate::own(desk)),
    }
}

async fn work(
    desk: &Desk,
    progress: &Arc<Progress>,
    trigger: &Trigger,
    args: &HarvestArgs,
    gate: Arc<dyn Gate>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let thresholds = thresholds(&args.thresholds)?;
    let workers = workers(args);
    let settings = Settings { thresholds, ..settings(args.lease, workers.into()) };
    // A backfill that was stopped for the night is not gone on with by the harvest, nor the reverse.
    let only = Only { provenance: Some(trigger.provenance.clone()), operation: Some(trigger.operation) };
    let executor = executor(desk, progress.clone(), settings, only, stop, gate);
    run_workers(workers, |name| {
        let executor = executor.clone();
        async move { executor.drain(&name).await }
    })
    .await
}

async fn report(desk: &Desk, progress: &Progress, trigger: &Trigger, plan: Option<Id>) -> Result<Value, Failure> {
    let tally = progress.tally(&trigger.provenance);
    let outcome = match plan {
        Some(plan) => crate::commands::nouns::plan_outcome(&desk.store, plan).await?,
        None => json!({ "open": 0, "bad": 0 }),
    };
    let whole = outcome["open"] == 0 && outcome["bad"] == 0;
    Ok(json!({
        "source": trigger.provenance,
        "operation": trigger.operation,
        "complete": whole,
        "plan": plan,
        "slices": outcome,
        "watermark": outcome["watermark"],
        "fetched": tally.fetched,
        "inserted": tally.inserted,
        "updated": tally.updated,
        "unchanged": tally.unchanged,
        "quarantined": tally.quarantined,
        "filtered": tally.filtered,
        "pages": tally.pages,
        "requests": tally.requests,
        "throttled": tally.throttled,
        "retries": tally.retries,
        "splits": tally.splits,
    }))
}

fn show(global: &Global, report: &Value) -> Result<(), Failure> {
    if global.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let number = |key: &str| group(report[key].as_u64().unwrap_or(0));
    println!(
        "{}: {} fetched, {} new, {} changed, {} unchanged, {} quarantined, {} filtered; {} requests, {} throttled, {} retries, {} splits",
        report["source"].as_str().unwrap_or_default(),
        number("fetched"),
        number("inserted"),
        number("updated"),
        number("unchanged"),
        number("quarantined"),
        number("filtered"),
        number("requests"),
        number("throttled"),
        number("retries"),
        number("splits"),
    );
    if let Some(watermark) = report["watermark"].as_str() {
        match report["operation"] == "HARVEST" {
            true => println!("complete up to {watermark}"),
            false => println!("read without a gap up to {watermark}; the harvest's watermark is untouched"),
        }
    }
    Ok(())
}
