//! Peak memory: it must not grow with what is harvested.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::MemoryArgs;
use super::rig::{Harvest, Sim};

const PEAK_MIB_MAX: f64 = 200.0;
/// The large harvest may peak at most this much above the small one.
const GROWTH_MAX: f64 = 1.10;
const RATE: &str = "{ per_second: 10000, burst: 1000, concurrency: 64, key: [source] }";
/// A peak is the worst meeting of pages in flight, and ten times the pages meet ten times as often: the small harvest
/// is run this often and its highest peak counts.
const SMALL_RUNS: usize = 5;
pub const POLL: Duration = Duration::from_millis(20);

pub fn run(args: &MemoryArgs) -> Result<bool> {
    let peak = |row: &Value| row["peak_mib"].as_f64().unwrap_or(f64::MAX);
    let mut runs = Vec::new();
    for _ in 0..SMALL_RUNS {
        runs.push(measure(&args.source, args.records / 10)?);
    }
    let peaks: Vec<f64> = runs.iter().map(peak).collect();
    let highest = runs.into_iter().max_by(|one, other| peak(one).total_cmp(&peak(other)));
    let small = highest.context("no small harvest was run")?;
    let large = measure(&args.source, args.records)?;
    let growth = peak(&large) / peak(&small);
    let ok = peak(&large) < PEAK_MIB_MAX && growth <= GROWTH_MAX;
    for row in [&small, &large] {
        println!("{} records: peak {:.1} MiB, {} s", row["records"], peak(row), row["seconds"]);
    }
    println!(
        "growth {growth:.3}, at most {GROWTH_MAX}; peak at most {PEAK_MIB_MAX} MiB: {}",
        if ok { "ok" } else { "FAILED" }
    );
    println!(
        "{}",
        json!({ "ok": ok, "source": args.source, "growth": growth, "small": small, "small_peaks": peaks, "large": large })
    );
    Ok(ok)
}

fn measure(source: &str, records: u64) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let world = ["--unlimited", "--source", source, "--records", &records.to_string()].map(str::to_owned);
    let sim = Sim::start(&world)?;
    let harvest = Harvest::new(source, RATE, folder.path(), &sim.address)?;
    let started = Instant::now();
    let mut child = harvest.command()?.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let mut peak_kib = 0;
    let status = loop {
        // The kernel keeps the peak itself; it is only read until the process is gone.
        peak_kib = peak_kib.max(peak_of(child.id()).unwrap_or(0));
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(POLL),
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    ensure!(status.success(), "the harvest ended with {status}");
    let report: Value = match child.stdout.take() {
        Some(out) => serde_json::from_reader(out)?,
        None => Value::Null,
    };
    sim.stop()?;
    let bytes = std::fs::metadata(&harvest.database)?.len();
    Ok(json!({
        "records": records,
        "stored": report["inserted"],
        "peak_mib": (peak_kib as f64 / 102.4).round() / 10.0,
        "seconds": (seconds * 10.0).round() / 10.0,
        "records_per_second": (records as f64 / seconds).round(),
        "database_mib": bytes >> 20,
    }))
}

/// `VmHWM` of a living process, in KiB.
pub fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
