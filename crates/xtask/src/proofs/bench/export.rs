//! `cargo xtask bench export`: how fast records are exported and derived anew, and that neither takes more memory for more
//! records.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::RATE;
use crate::proofs::ExportBenchArgs;
use crate::proofs::memory::{POLL, peak_of};
use crate::proofs::rig::{Harvest, Sim, patra};

/// The large run may peak at most this much above the small one.
const GROWTH_MAX: f64 = 1.15;
const FORMATS: [&str; 3] = ["jsonl", "csv", "parquet"];

pub fn run(args: &ExportBenchArgs) -> Result<bool> {
    let small = measured(args, args.records / 10)?;
    let large = measured(args, args.records)?;
    let mut ok = true;
    for (one, other) in small.iter().zip(&large) {
        let peak = |row: &Value| row["peak_mib"].as_f64().unwrap_or(f64::MAX);
        let growth = peak(other) / peak(one);
        ok &= growth <= GROWTH_MAX;
        println!(
            "{:<8} {:>9} records: {:>7} records/s, peak {:>6.1} MiB; {:>9} records: {:>7} records/s, peak {:>6.1} MiB; growth {growth:.2}",
            other["what"].as_str().unwrap_or_default(),
            one["records"],
            one["records_per_second"],
            peak(one),
            other["records"],
            other["records_per_second"],
            peak(other),
        );
    }
    println!("{}", json!({ "ok": ok, "growth_max": GROWTH_MAX, "small": small, "large": large }));
    Ok(ok)
}

/// A ledger of so many records, exported in every format and derived anew.
fn measured(args: &ExportBenchArgs, records: u64) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let world = ["--unlimited", "--source", &args.source, "--records", &records.to_string()].map(str::to_owned);
    let sim = Sim::start(&world)?;
    let harvest = Harvest::new(&args.source, RATE, folder.path(), &sim.address)?;
    let stored = harvest.finish()?["inserted"].as_u64().context("the report has no count")?;
    sim.stop()?;
    let place = harvest.database.display().to_string();
    let mut rows = Vec::new();
    for format in FORMATS {
        let path = folder.path().join(format!("out.{format}"));
        let export = ["export", "--database", &place, "--quiet", "-o", &path.display().to_string()].map(str::to_owned);
        rows.push(watched(format, &export, stored)?);
        std::fs::remove_file(&path)?;
    }
    let other = remapped(&harvest.definition)?;
    let remap = ["remap", &args.source, "--database", &place, "--quiet", "--spec", &other.display().to_string()]
        .map(str::to_owned);
    rows.push(watched("remap", &remap, stored)?);
    rows.push(watched("again", &remap, stored)?);
    Ok(rows)
}

/// The definition with one field under another name.
fn remapped(definition: &Path) -> Result<std::path::PathBuf> {
    let text = std::fs::read_to_string(definition)?;
    let other = text.replace("venue.publisher:", "extra.publisher:");
    ensure!(other != text, "{} maps no publisher", definition.display());
    let path = definition.with_file_name("other.yaml");
    std::fs::write(&path, other)?;
    Ok(path)
}

fn watched(what: &str, args: &[String], records: u64) -> Result<Value> {
    let started = Instant::now();
    let mut child = Command::new(patra()?).args(args).stdout(Stdio::null()).spawn()?;
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
    ensure!(status.success(), "`patra {}` ended with {status}", args.join(" "));
    Ok(json!({
        "what": what,
        "records": records,
        "seconds": (seconds * 10.0).round() / 10.0,
        "records_per_second": (records as f64 / seconds).round(),
        "peak_mib": (peak_kib as f64 / 102.4).round() / 10.0,
    }))
}
