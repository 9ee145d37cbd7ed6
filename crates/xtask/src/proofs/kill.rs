//! Kill -9: a harvest is killed at random moments, taken up again each time, and must end equal to the truth.
//!
//! Every source gets a database and a simulator of its own. After each kill the ledger is looked at for the tasks that
//! were RUNNING, because a kill may cost a few pages of each of them and no more.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use patra_checker::{ServedRow, read_jsonl};
use patra_core::spec::snapshot::PagingKind;
use serde_json::{Value, json};

use super::KillArgs;
use super::judge::{block_on, count, doubled, now_us, verdict};
use super::pages::{Kill, fetched_again};
use super::random::Random;
use super::rig::{Harvest, SOURCES, Sim};

/// Fast enough that at any moment pages are on their way, slow enough that a harvest lasts for several kills.
const RATE: &str = "{ per_second: 150, burst: 4, concurrency: 4, key: [source] }";
const LEASE_SECONDS: &str = "2";
/// A harvest lives this long before it is killed, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 100..1_600;
const POLL: Duration = Duration::from_millis(5);
/// A harvest that is done before it was killed often enough is begun anew, in another database, this often.
const ROUNDS_MAX: u32 = 40;

pub fn run(args: &KillArgs) -> Result<bool> {
    let (folder, _guard) = folder(args.keep.as_deref())?;
    let sources: Vec<&str> = match args.source.is_empty() {
        true => SOURCES.to_vec(),
        false => args.source.iter().map(String::as_str).collect(),
    };
    let mut random = Random::new(args.seed);
    let mut rows = Vec::new();
    let (mut left, mut round) = (args.kills, 0);
    while left > 0 {
        if round == ROUNDS_MAX {
            bail!("{left} kills could not be placed: the harvests are too short, ask for more --records");
        }
        for (place, source) in sources.iter().enumerate() {
            let share = left.div_ceil(u32::try_from(sources.len() - place)?).min(left);
            if share == 0 {
                continue;
            }
            let here = folder.join(format!("round-{round}"));
            let row = one_source(args, source, share, &here, &mut random)?;
            left -= u32::try_from(row["kills"].as_u64().unwrap_or(0))?;
            println!("{}", line(&row));
            rows.push(row);
        }
        round += 1;
    }
    let ok = rows.iter().all(|row| row["ok"] == true);
    let killed: u64 = rows.iter().filter_map(|row| row["kills"].as_u64()).sum();
    println!("{}", json!({ "ok": ok, "seed": args.seed, "kills": killed, "sources": rows }));
    Ok(ok)
}

pub fn folder(keep: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match keep {
        Some(folder) => Ok((folder.to_owned(), None)),
        None => {
            let guard = tempfile::tempdir()?;
            Ok((guard.path().to_owned(), Some(guard)))
        }
    }
}

fn one_source(args: &KillArgs, source: &str, kills_max: u32, folder: &Path, random: &mut Random) -> Result<Value> {
    std::fs::create_dir_all(folder)?;
    let kept = folder.join(format!("{source}-world"));
    let world = [
        ("--records", (args.records * worlds(source)).to_string()),
        ("--seed", (args.seed ^ random.next()).to_string()),
        ("--source", source.to_owned()),
        ("--keep", kept.display().to_string()),
    ];
    let mut world: Vec<String> = world.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    world.push("--unlimited".into());
    let sim = Sim::start(&world)?;
    let mut harvest = Harvest::new(source, RATE, folder, &sim.address)?;
    harvest.set = settings(source);
    harvest.more = ["--lease", LEASE_SECONDS].map(str::to_owned).to_vec();
    let started = Instant::now();
    let kills = kill_often(&harvest, kills_max, random)?;
    let report = harvest.finish()?;
    let spec = harvest.spec()?;
    sim.stop()?;
    let served: Vec<ServedRow> = read_jsonl(&kept.join("served.jsonl"))?;
    let again = fetched_again(&served, &kills);
    let allowed = match spec.pagination.kind {
        PagingKind::Offset | PagingKind::Page => 3,
        _ => 2,
    };
    let over = kills.iter().zip(&again).filter(|(kill, again)| **again > kill.running * allowed).count();
    let verdict = verdict(&harvest, &spec, &kept, served)?;
    let doubled = doubled(&harvest.database)?;
    let replayable = spec.pagination.replayable;
    let ok = verdict.ok && doubled == 0 && (over == 0 || !replayable) && report["complete"] == true;
    for finding in verdict.findings.iter().filter(|finding| finding.severity == patra_checker::Severity::Error) {
        println!("{} {}: {}", finding.check, finding.source, finding.message);
    }
    let found = verdict.sources.first().context("the checker judged no source")?;
    Ok(json!({
        "source": source,
        "ok": ok,
        "kills": kills.len(),
        "expected": found.expected,
        "stored": found.stored,
        "missing": found.missing_count,
        "extra": found.extra_count,
        "outbox_duplicates": found.outbox_duplicates,
        "double_commits": doubled,
        "requests": found.requests,
        "running_at_kills": kills.iter().map(|kill| kill.running).sum::<u64>(),
        "fetched_again": again.iter().sum::<u64>(),
        "worst": again.iter().zip(&kills).map(|(again, kill)| again.div_ceil(kill.running.max(1))).max(),
        "allowed_per_task": if replayable { Some(allowed) } else { None },
        "kills_over": over,
        "errors": verdict.error_counts,
        "seconds": started.elapsed().as_secs(),
    }))
}

/// Small pages make many of them.
fn settings(source: &str) -> Vec<String> {
    let settings: &[&str] = match source {
        "pubmed" => &["pagination.size=50", "detail.id_batch_size=10"],
        "oai-pmh" => &[],
        _ => &["pagination.size=5"],
    };
    settings.iter().map(|setting| (*setting).to_owned()).collect()
}

/// An OAI-PMH server chooses the size of its pages itself; it gets more records instead.
fn worlds(source: &str) -> u64 {
    if source == "oai-pmh" { 10 } else { 1 }
}

/// Starts the harvest and kills it, again and again; ends early when a harvest is done before its kill.
fn kill_often(harvest: &Harvest, kills_max: u32, random: &mut Random) -> Result<Vec<Kill>> {
    let mut kills = Vec::new();
    while kills.len() < kills_max as usize {
        let mut child = harvest.command()?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let life = Duration::from_millis(LIFE_MS.start + random.next() % (LIFE_MS.end - LIFE_MS.start));
        let born = Instant::now();
        let done = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if born.elapsed() >= life {
                break None;
            }
            std::thread::sleep(POLL);
        };
        if let Some(status) = done {
            if !status.success() {
                bail!("the harvest of {} ended by itself with {status}", harvest.source);
            }
            break;
        }
        child.kill()?;
        let at_us = now_us();
        child.wait()?;
        kills.push(Kill { at_us, running: block_on(running(&harvest.database, child.id()))? });
    }
    Ok(kills)
}

/// Tasks that the dead process held; workers carry its number in their names. A kill may come before there is a table.
async fn running(database: &Path, process: u32) -> u64 {
    let text = "SELECT COUNT(*) FROM ing_task WHERE status_code = 'RUNNING' AND lease_owner LIKE ?";
    count(database, text, &[format!("{process}-%")]).await.unwrap_or(0)
}

fn line(row: &Value) -> String {
    let number = |key: &str| row[key].as_u64().unwrap_or(0);
    format!(
        "{:<9} {:>2} kills  stored {} of {}  missing {} extra {} doubled {}  fetched again {} of {} requests, at most {} per task (allowed {})  {} s  {}",
        row["source"].as_str().unwrap_or_default(),
        number("kills"),
        number("stored"),
        number("expected"),
        number("missing"),
        number("extra"),
        number("double_commits"),
        number("fetched_again"),
        number("requests"),
        number("worst"),
        row["allowed_per_task"].as_u64().map_or("any".into(), |allowed| allowed.to_string()),
        number("seconds"),
        if row["ok"] == true { "ok" } else { "FAILED" },
    )
}
