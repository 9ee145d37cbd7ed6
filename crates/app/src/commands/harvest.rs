//! `patra harvest`: plan what is owed, work it off, say whether it is complete.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::Gate;
use patra_engine::notice::{Notice, Notices};
use patra_engine::planner::Planned;
use patra_source::install_crypto;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Durability, Global, HarvestArgs};
use crate::failure::{Exit, Failure};
use crate::gate;
use crate::place::is_server;
use crate::progress::{Progress, group};
use crate::wiring::Desk;
use crate::working::{default_workers, executor, run_workers, settings, stop_on_signals};

pub async fn run(global: &Global, args: &HarvestArgs) -> Result<(), Failure> {
    install_crypto();
    let desk = Desk::open_to_harvest(global.database(), durability(args.durability), workers(args)).await?;
    let source = desk.source_of(&args.source, &args.trigger.channel).await?;
    let progress = Arc::new(Progress::new(global.quiet || global.json, desk.clock.clone()));
    let plan = plan(&desk, &progress, &source, args).await?;
    let stop = stop_on_signals(global.quiet);
    if plan.is_some() {
        let gate = gate_of(global, &desk, args)?;
        work(&desk, &progress, &source, args, gate, &stop).await?;
    }
    progress.finish();
    let report = report(&desk, &progress, &source, plan).await?;
    show(global, &report)?;
    desk.store.close().await;
    if stop.is_cancelled() {
        return Err(Failure::new(Exit::Stopped, "stopped by a signal").hint("run the same command to go on"));
    }
    match report["complete"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(Failure::new(Exit::Incomplete, format!("the copy of {source} is not complete"))
            .hint(format!("`patra slice list --source {source} --status FAILED` names the windows and why"))),
    }
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

async fn plan(desk: &Desk, progress: &Progress, source: &str, args: &HarvestArgs) -> Result<Option<Id>, Failure> {
    let planned = desk.planner().plan(&desk.trigger(source, &args.trigger).await?).await?;
    Ok(match planned {
        Planned::Created { plan, window, slices, warnings } => {
            progress.say(&format!("{source}: {slices} slices over {window}"));
            progress.tell(Notice::PlanPublished { provenance: source.to_owned(), plan, window, slices, warnings });
            Some(plan)
        }
        Planned::Live { plan } => {
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
    source: &str,
    args: &HarvestArgs,
    gate: Arc<dyn Gate>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let workers = workers(args);
    let settings = settings(args.lease, workers.into());
    let executor = executor(desk, progress.clone(), settings, Some(source.to_owned()), stop, gate);
    run_workers(workers, |name| {
        let executor = executor.clone();
        async move { executor.drain(&name).await }
    })
    .await
}

async fn report(desk: &Desk, progress: &Progress, source: &str, plan: Option<Id>) -> Result<Value, Failure> {
    let tally = progress.tally(source);
    let outcome = match plan {
        Some(plan) => crate::commands::nouns::plan_outcome(&desk.store, plan).await?,
        None => json!({ "open": 0, "bad": 0 }),
    };
    let whole = outcome["open"] == 0 && outcome["bad"] == 0;
    Ok(json!({
        "source": source,
        "complete": whole,
        "plan": plan,
        "slices": outcome,
        "watermark": outcome["watermark"],
        "fetched": tally.fetched,
        "inserted": tally.inserted,
        "updated": tally.updated,
        "unchanged": tally.unchanged,
        "quarantined": tally.quarantined,
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
        "{}: {} fetched, {} new, {} changed, {} unchanged, {} quarantined; {} requests, {} throttled, {} retries, {} splits",
        report["source"].as_str().unwrap_or_default(),
        number("fetched"),
        number("inserted"),
        number("updated"),
        number("unchanged"),
        number("quarantined"),
        number("requests"),
        number("throttled"),
        number("retries"),
        number("splits"),
    );
    if let Some(watermark) = report["watermark"].as_str() {
        println!("complete up to {watermark}");
    }
    Ok(())
}
