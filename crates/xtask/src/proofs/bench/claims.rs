//! What a claim and a commit cost while many tasks wait and many executors ask (FM-22).
//!
//! Every executor has a store of its own, as a process would. Claims are measured twice in the same run, with a thousand
//! tasks and with all of them, so that the two share the machine and its mood.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use patra_core::failpoint::Failpoints;
use patra_core::id::Id;
use patra_core::ports::{Claim, Clock, Leased, Ledger};
use patra_core::time::Span;
use patra_engine::notice::Silent;
use patra_sim::Source;
use patra_store::{Options, Store};
use patra_testkit::lab::{Lab, LabPlan};
use serde_json::{Value, json};

use super::filling;
use super::ledger::page_after;
use crate::proofs::ClaimArgs;
use crate::servers::{self, Kind, Server, install_missing};

const FEW: u64 = 1_000;
/// Claims of each executor before those that count: the first ones prepare their statements.
const WARM_UP: u32 = 5;
/// A server that has just taken a million rows is busy with them for a while: old versions, statistics, pages to write.
const SETTLE: Duration = Duration::from_secs(40);
/// Claims and pages of each executor in one measurement.
const CLAIMS: u32 = 50;
const PAGES: u64 = 40;
/// Executors do not ask one after the other without end: a task takes seconds, a page the time of its request. Without
/// pauses the figures would say how many executors share a core.
const CLAIM_PAUSE: Duration = Duration::from_millis(100);
const PAGE_PAUSE: Duration = Duration::from_millis(400);
const CLAIM_MEAN_MS: f64 = 10.0;
const CLAIM_P95_MS: f64 = 30.0;
const COMMIT_MEAN_MS: f64 = 20.0;
const COMMIT_P95_MS: f64 = 80.0;
const GROWTH_MAX: f64 = 2.0;

pub fn run(args: &ClaimArgs) -> Result<bool> {
    let (folder, files) = (servers::folder()?, tempfile::tempdir()?);
    let server = match args.backend.server() {
        None => None,
        Some((kind, _)) => {
            install_missing(&[kind])?;
            Some(Server::start_with(kind, folder.path(), memory(kind))?)
        }
    };
    let url = server.as_ref().map(Server::url);
    let place = url.unwrap_or_else(|| files.path().join("claims.db").display().to_string());
    let clock = planned(&place)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measured(args, &place, clock))
}

/// What a server is given by whoever lets a million tasks wait in it; the defaults hold a tenth of them.
fn memory(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Mysql => &["--innodb-buffer-pool-size=1G"],
        Kind::Postgres => &["-c", "shared_buffers=1GB"],
        _ => &[],
    }
}

/// One real plan, whose rows the others are copies of; the clock on which its tasks are due.
fn planned(place: &str) -> Result<Arc<dyn Clock>> {
    let mut plan = LabPlan::new(1, 700, place);
    plan.sources = vec![Source::DataCite];
    let lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent)).map_err(|error| anyhow!(error))?;
    lab.plan_source(Source::DataCite)?;
    Ok(Arc::new(lab.time.clone()))
}

async fn measured(args: &ClaimArgs, place: &str, clock: Arc<dyn Clock>) -> Result<bool> {
    let stores = executors(args, place, &clock).await?;
    filling::controls(place).await?;
    filling::queue(place, 1, FEW).await?;
    let few = claims(&stores).await?;
    filling::queue(place, FEW + 1, args.tasks).await?;
    tokio::time::sleep(SETTLE).await;
    let many = claims(&stores).await?;
    ensure!(few.tasks.is_disjoint(&many.tasks), "a task was claimed twice");
    let commits = commits(&stores, many.leased, &clock).await?;
    let (few, many) = (Cost::of(few.spent), Cost::of(many.spent));
    let growth = many.p99 / few.p99;
    let ok = many.mean < CLAIM_MEAN_MS
        && many.p95 < CLAIM_P95_MS
        && growth <= GROWTH_MAX
        && commits.mean < COMMIT_MEAN_MS
        && commits.p95 < COMMIT_P95_MS;
    println!("{:?}, {} executors          mean ms     p95     p99", args.backend, args.executors);
    println!("claim, {:>9} tasks queued {}", FEW, few.line());
    println!("claim, {:>9} tasks queued {}   mean < {CLAIM_MEAN_MS}, p95 < {CLAIM_P95_MS}", args.tasks, many.line());
    println!("growth of the 99th percentile {growth:.2}, at most {GROWTH_MAX}");
    println!("commit of 100 records         {}   mean < {COMMIT_MEAN_MS}, p95 < {COMMIT_P95_MS}", commits.line());
    let figures = json!({ "few": few.json(), "many": many.json(), "growth": growth, "commit": commits.json() });
    println!(
        "{}",
        json!({ "ok": ok, "backend": format!("{:?}", args.backend), "tasks": args.tasks, "figures": figures })
    );
    Ok(ok)
}

async fn executors(args: &ClaimArgs, place: &str, clock: &Arc<dyn Clock>) -> Result<Vec<Arc<Store>>> {
    let mut stores = Vec::new();
    for number in 0..args.executors {
        let mut options = Options::new(clock.clone(), u64::from(number) + 100);
        options.connections = 2;
        stores.push(Store::open(place, options).await?);
    }
    Ok(stores)
}

#[derive(Default)]
struct Claimed {
    spent: Vec<f64>,
    tasks: HashSet<Id>,
    /// One for each executor, to commit pages with.
    leased: Vec<Leased>,
}

/// Every executor claims, all at once; no task may be given out twice.
async fn claims(stores: &[Arc<Store>]) -> Result<Claimed> {
    let each = stores.iter().enumerate().map(|(number, store)| tokio::spawn(claims_of(store.clone(), number)));
    let mut all = Claimed::default();
    for claimed in futures::future::join_all(each).await {
        let (spent, leased) = claimed??;
        all.spent.extend(spent);
        for lease in &leased {
            ensure!(all.tasks.insert(lease.lease.task), "task {} was claimed twice", lease.lease.task);
        }
        all.leased.extend(leased.into_iter().next_back());
    }
    Ok(all)
}

async fn claims_of(store: Arc<Store>, number: usize) -> Result<(Vec<f64>, Vec<Leased>)> {
    let (mut spent, mut leased) = (Vec::new(), Vec::new());
    tokio::time::sleep(CLAIM_PAUSE * number as u32 / 16).await;
    for claim in 0..WARM_UP + CLAIMS {
        tokio::time::sleep(CLAIM_PAUSE).await;
        let started = Instant::now();
        let taken = store.acquire_tasks(&Claim::new(&format!("bench-{number}"), 1, Span::DAY)).await?;
        if claim >= WARM_UP {
            spent.push(started.elapsed().as_secs_f64() * 1e3);
        }
        leased.extend(taken);
    }
    let asked = WARM_UP + CLAIMS;
    ensure!(leased.len() == asked as usize, "only {} of {asked} claims got a task", leased.len());
    Ok((spent, leased))
}

async fn commits(stores: &[Arc<Store>], leased: Vec<Leased>, clock: &Arc<dyn Clock>) -> Result<Cost> {
    let pairs = stores.iter().zip(leased).enumerate();
    let each = pairs.map(|(number, (store, leased))| {
        let (store, clock) = (store.clone(), clock.clone());
        tokio::spawn(async move { commits_of(&store, &leased, number as u64, &*clock).await })
    });
    let mut spent = Vec::new();
    for committed in futures::future::join_all(each).await {
        spent.extend(committed??);
    }
    Ok(Cost::of(spent))
}

async fn commits_of(store: &Store, leased: &Leased, number: u64, clock: &dyn Clock) -> Result<Vec<f64>> {
    let (mut open, mut spent) = (leased.batch.clone(), Vec::new());
    tokio::time::sleep(PAGE_PAUSE * number as u32 / 16).await;
    for page in 0..PAGES {
        tokio::time::sleep(PAGE_PAUSE).await;
        let commit = page_after(&open, store.ids().next(), number * PAGES + page, clock.now());
        let next = commit.next.clone().context("every page has a next one")?;
        let started = Instant::now();
        store.commit_batch(&leased.lease, commit).await?;
        spent.push(started.elapsed().as_secs_f64() * 1e3);
        open = next;
    }
    Ok(spent)
}

/// In milliseconds.
struct Cost {
    mean: f64,
    p95: f64,
    p99: f64,
}

impl Cost {
    fn of(mut spent: Vec<f64>) -> Cost {
        spent.sort_by(f64::total_cmp);
        let at = |share: f64| spent.get((spent.len() as f64 * share) as usize).copied().unwrap_or(0.0);
        Cost { mean: spent.iter().sum::<f64>() / spent.len().max(1) as f64, p95: at(0.95), p99: at(0.99) }
    }

    fn line(&self) -> String {
        format!("{:>7.1} {:>7.1} {:>7.1}", self.mean, self.p95, self.p99)
    }

    fn json(&self) -> Value {
        json!({ "mean_ms": self.mean, "p95_ms": self.p95, "p99_ms": self.p99 })
    }
}
