//! The figures of `docs/performance.md`: end to end, bare upsert, and the cost of a page on a large ledger.

mod bare;
pub mod claims;
pub mod export;
mod filling;
mod ledger;
pub mod rate;
pub mod scale;

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::SpineArgs;
use super::rig::{Harvest, Sim};

const RATE: &str = "{ per_second: 10000, burst: 1000, concurrency: 64, key: [source] }";
/// What is aimed at: the share of a bare upsert, and the growth of a page's cost.
const SHARE_MIN: f64 = 0.6;
const GROWTH_MAX: f64 = 1.10;

pub fn run(args: &SpineArgs) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end_to_end = end_to_end(args, folder.path())?;
    let database = folder.path().join(format!("{}.db", args.source));
    let bare = runtime.block_on(bare::upsert(&database, &folder.path().join("bare.db")))?;
    let share = rate(&end_to_end) / rate(&bare);
    let (small, large) = ledger::compare(folder.path(), args.small, args.large)?;
    let growth = large.median_us / small.median_us;
    let ok = share >= SHARE_MIN && growth <= GROWTH_MAX;
    println!("end to end    {:>9.0} records/s", rate(&end_to_end));
    println!("bare upsert   {:>9.0} rows/s", rate(&bare));
    println!("share         {share:>9.2}   aim {SHARE_MIN}");
    println!("page on {:>9} ledger rows {:>7.0} us", args.small, small.median_us);
    println!("page on {:>9} ledger rows {:>7.0} us", args.large, large.median_us);
    println!("growth        {growth:>9.3}   at most {GROWTH_MAX}");
    let pages = json!({ "small": small.json(), "large": large.json(), "growth": growth });
    println!("{}", json!({ "ok": ok, "end_to_end": end_to_end, "bare": bare, "share": share, "pages": pages }));
    Ok(ok)
}

fn rate(row: &Value) -> f64 {
    row["per_second"].as_f64().unwrap_or(0.0)
}

/// `patra harvest` from `patra sim serve`, as a person would run it, start of the process included.
fn end_to_end(args: &SpineArgs, folder: &std::path::Path) -> Result<Value> {
    let world = ["--unlimited", "--source", &args.source, "--records", &args.records.to_string()].map(str::to_owned);
    let sim = Sim::start(&world)?;
    let harvest = Harvest::new(&args.source, RATE, folder, &sim.address)?;
    let started = Instant::now();
    let report = harvest.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    sim.stop()?;
    let stored = report["inserted"].as_f64().context("the report has no count")?;
    Ok(json!({
        "source": args.source,
        "records": stored,
        "pages": report["pages"],
        "seconds": seconds,
        "per_second": (stored / seconds).round(),
    }))
}
