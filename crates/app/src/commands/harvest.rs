//! `patra harvest`: plan what is owed, work it off, say whether it is complete.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::Gate;
use patra_core::time::Span;
use patra_engine::executor::{Executor, Outside};
use patra_engine::gate::LocalGate;
use patra_engine::notice::{Notice, Notices};
use patra_engine::planner::Planned;
use patra_engine::settings::Settings;
use patra_source::{EnvFileSecrets, HttpTransport, SourceReader, install_crypto};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Durability, Global, HarvestArgs};
use crate::failure::{Exit, Failure};
use crate::progress::{Progress, group};
use crate::wiring::Desk;

pub async fn run(global: &Global, args: &HarvestArgs) -> Result<(), Failure> {
    install_crypto();
    let desk = Desk::open(&global.database, durability(args.durability)).await?;
    let source = desk.source_of(&args.source, &args.trigger.channel).await?;
    let progress = Arc::new(Progress::new(global.quiet || global.json, desk.clock.clone()));
    let plan = plan(&desk, &progress, &source, args).await?;
    let stop = stop_on_signals();
    if plan.is_some() {
        work(&desk, &progress, &source, args, &stop).await?;
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

async fn work(
    desk: &Desk,
    progress: &Arc<Progress>,
    source: &str,
    args: &HarvestArgs,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let gate: Arc<dyn Gate> = Arc::new(LocalGate::new(desk.clock.clone(), desk.failpoints.clone()));
    let transport = Arc::new(HttpTransport::new());
    let reader = SourceReader::new(transport, Arc::new(EnvFileSecrets), gate.clone(), desk.clock.clone());
    let outside = Outside {
        ledger: desk.store.clone(),
        source: Arc::new(reader),
        gate,
        clock: desk.clock.clone(),
        random: desk.random.clone(),
        ids: desk.store.ids(),
        notices: progress.clone(),
        failpoints: desk.failpoints.clone(),
        settings: settings(args),
    };
    let executor = Arc::new(Executor::new(outside, Some(source.to_owned()), stop.clone()));
    let workers = usize::from(args.workers.unwrap_or_else(default_workers));
    let names = (0..workers).map(|number| format!("{}-{number}", std::process::id()));
    let mut running = tokio::task::JoinSet::new();
    for name in names {
        let executor = executor.clone();
        running.spawn(async move { executor.drain(&name).await });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Failure::new(Exit::Internal, panic))??;
    }
    Ok(())
}

fn settings(args: &HarvestArgs) -> Settings {
    let usual = Settings::default();
    Settings { lease_ttl: args.lease.map_or(usual.lease_ttl, |seconds| Span::from_seconds(seconds.into())), ..usual }
}

/// `C_total` of the design: twice the cores.
fn default_workers() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores * 2).unwrap_or(16)
}

/// SIGINT or SIGTERM ends the work after the page in hand; a second one ends the process.
fn stop_on_signals() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        wait_for_signal().await;
        eprintln!("stopping: the pages in hand are committed, leases are given back");
        token.cancel();
        wait_for_signal().await;
        std::process::exit(Exit::Stopped as i32);
    });
    stop
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
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
