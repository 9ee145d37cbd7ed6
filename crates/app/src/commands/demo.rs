//! `patra demo`: seven simulated providers, three rounds on a virtual clock, and the checker's verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use patra_checker::{SourceVerdict, Verdict};
use patra_core::failpoint::Failpoints;
use patra_core::time::{Span, Timestamp};
use patra_sim::{FaultLevel, Source};
use patra_testkit::lab::{Lab, LabPlan};
use serde_json::{Value, json};

use crate::cli::{DemoArgs, Faults, Global};
use crate::clock::SystemClock;
use crate::commands::demo_fleet;
use crate::failure::{Exit, Failure};
use crate::place::is_server;
use crate::progress::{Progress, group};
use crate::table;

/// Harvests, then lets this much virtual time pass, so that the next round has something to read again.
const ROUNDS: [Span; 3] = [Span::HOUR.times(12), Span::DAY.times(6), Span::ZERO];

pub fn run(global: &Global, args: &DemoArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let (folder, _guard) = folder(args)?;
    if let Some(executors) = args.executors {
        let place = place(global, &folder)?.display().to_string();
        return demo_fleet::run(global, args, &place, executors);
    }
    let progress = Arc::new(Progress::new(global.quiet || global.json, Arc::new(SystemClock::start())));
    let mut plan = LabPlan::new(args.seed, args.records, place(global, &folder)?);
    plan.faults = level(args.faults);
    // A cap that small worlds reach too, so that windows are seen to be split.
    plan.caps = vec![(Source::PubMed, 100)];
    let capped = ["pagination.size", "pagination.result_cap", "pagination.max_per_slice"];
    plan.set_for = capped.map(|key| (Source::PubMed, key, "100")).to_vec();
    let mut lab = Lab::open(plan, Failpoints::none(), progress.clone()).map_err(internal)?;
    if lab.has_plans().map_err(internal)? {
        let used = Failure::new(Exit::Usage, "the database holds plans already; a demo needs one of its own");
        return Err(used.hint("name an empty database"));
    }
    for (round, pause) in ROUNDS.into_iter().enumerate() {
        progress.say(&format!("round {} of {}, virtual time {}", round + 1, ROUNDS.len(), lab.now()));
        lab.round().map_err(internal)?;
        lab.time.jump(pause);
    }
    progress.finish();
    let verdict = lab.verdict().map_err(internal)?;
    if args.keep.is_some() {
        lab.keep(&folder).map_err(internal)?;
    }
    let rows: Vec<Value> = verdict.sources.iter().map(|source| row(source, &lab, &progress)).collect();
    conclude(global, args, &rows, &verdict, started)
}

/// Shows what was found and judges it.
pub fn conclude(
    global: &Global,
    args: &DemoArgs,
    rows: &[Value],
    verdict: &Verdict,
    started: Instant,
) -> Result<(), Failure> {
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let ok = verdict.ok && rows.iter().all(is_clean);
    if global.json {
        println!("{}", json!({ "ok": ok, "seed": args.seed, "elapsed_ms": elapsed_ms, "sources": rows }));
    } else {
        show(rows, verdict, args, elapsed_ms, ok);
    }
    match ok {
        true => Ok(()),
        false if !rows.iter().all(is_clean) => Err(Failure::new(Exit::Incomplete, "the copy differs from the truth")
            .hint(format!("repeat it with `patra demo --seed {} --keep DIR` and look into DIR", args.seed))),
        false => Err(Failure::new(Exit::Incomplete, "the copy is complete, but a rule was broken on the way")),
    }
}

/// The database asked for, which must be new, or one in the folder.
fn place(global: &Global, folder: &Path) -> Result<PathBuf, Failure> {
    let Some(place) = global.database.as_deref() else { return Ok(folder.join("demo.db")) };
    if !is_server(place) && Path::new(place).exists() {
        return Err(Failure::new(Exit::Usage, format!("`{place}` is there already")).hint("name a new file"));
    }
    Ok(place.into())
}

pub fn internal(message: String) -> Failure {
    Failure::new(Exit::Internal, message)
}

pub fn level(faults: Faults) -> FaultLevel {
    match faults {
        Faults::None => FaultLevel::None,
        Faults::Mild => FaultLevel::Mild,
        Faults::Storm => FaultLevel::Storm,
    }
}

/// The folder asked for, or one that goes away with the guard.
fn folder(args: &DemoArgs) -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
    match &args.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            if folder.join("demo.db").exists() {
                let taken = Failure::new(Exit::Usage, format!("`{}` already holds a demo", folder.display()));
                return Err(taken.hint("name an empty folder"));
            }
            Ok((folder.clone(), None))
        }
        None => {
            let guard = tempfile::tempdir()?;
            Ok((guard.path().to_owned(), Some(guard)))
        }
    }
}

fn row(source: &SourceVerdict, lab: &Lab, progress: &Progress) -> Value {
    let tally = progress.tally(&source.source);
    let seen = Source::by_name(&source.source).map(|source| lab.counters(source));
    let mut row = judged(source);
    row["requests"] = seen.as_ref().map_or(tally.requests, |seen| seen.requests).into();
    row["throttled"] = tally.throttled.into();
    row["retries"] = tally.retries.into();
    row["splits"] = tally.splits.into();
    row["pages"] = tally.pages.into();
    row["quarantined"] = source.quarantined.into();
    row
}

/// What the checker says of a source.
pub fn judged(source: &SourceVerdict) -> Value {
    let time = |micros: Option<i64>| micros.map(Timestamp::from_micros);
    json!({
        "source": source.source,
        "expected": source.expected,
        "stored": source.stored,
        "missing": source.missing_count,
        "extra": source.extra_count,
        "outbox_duplicates": source.outbox_duplicates,
        "watermark": time(source.watermark),
        "watermark_truth": time(source.watermark_truth),
    })
}

fn is_clean(row: &Value) -> bool {
    let zero = |key: &str| row[key] == 0;
    zero("missing") && zero("extra") && zero("outbox_duplicates") && row["watermark"] == row["watermark_truth"]
}

fn show(rows: &[Value], verdict: &Verdict, args: &DemoArgs, elapsed_ms: u64, ok: bool) {
    let columns = [
        "source",
        "expected",
        "stored",
        "missing",
        "extra",
        "outbox_duplicates",
        "watermark",
        "watermark_truth",
        "requests",
        "throttled",
        "above_rate",
        "retries",
        "splits",
        "pages",
        "quarantined",
    ];
    let known: Vec<&str> = columns.into_iter().filter(|column| rows.iter().any(|row| !row[column].is_null())).collect();
    println!("{}", table::of_rows(rows, &known));
    for finding in verdict.findings.iter().filter(|finding| finding.severity == patra_checker::Severity::Error).take(20)
    {
        println!("{} {}: {}", finding.check, finding.source, finding.message);
    }
    let stored: u64 = rows.iter().filter_map(|row| row["stored"].as_u64()).sum();
    let word = match (ok, rows.iter().all(is_clean)) {
        (true, _) => "nothing is missing",
        (false, true) => "nothing is missing, but A RULE WAS BROKEN",
        (false, false) => "THE COPY IS NOT COMPLETE",
    };
    println!("{} records stored in {:.1} s, seed {}: {word}", group(stored), elapsed_ms as f64 / 1000.0, args.seed);
}
