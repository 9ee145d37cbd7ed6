//! The crash sweep with real processes (FM-1): every failpoint the binary lists, in every mode, each seen to fire; then
//! the harvest is taken up again without it and must end equal to the truth.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use patra_checker::{ServedRow, Severity, read_jsonl};
use serde_json::{Value, json};

use super::SweepArgs;
use super::judge::{block_on, count, doubled, verdict};
use super::kill::folder;
use super::rig::{Harvest, Sim, strikable, terminate};
use super::scene::{Scene, scene_of};

const MODES: [&str; 3] = ["abort", "error", "stall"];
const LEASE_SECONDS: &str = "2";
/// Two leases, and less than a writer waits for another before it gives up.
const STALL_MS: u64 = 4_000;
/// A process that is struck and does not end by itself stands still.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// One cell of the sweep.
struct Cell<'a> {
    name: &'a str,
    mode: &'a str,
    hit: u32,
}

pub fn run(args: &SweepArgs) -> Result<bool> {
    let (folder, _guard) = folder(args.keep.as_deref())?;
    let listed = listed()?;
    let names: Vec<&str> =
        listed.iter().map(String::as_str).filter(|name| args.only.as_ref().is_none_or(|only| only == name)).collect();
    ensure!(!names.is_empty(), "the binary lists no such failpoint; it lists {}", listed.join(", "));
    ensure!(product_is_deaf(args, &folder)?, "a product build can be struck");
    println!("a product build does not listen to PATRA_FAILPOINT");
    println!("{}", line(&json!(null)));
    let mut rows = Vec::new();
    for name in names {
        for mode in MODES {
            for hit in 1..=args.hits {
                let cell = Cell { name, mode, hit };
                let here = folder.join(format!("{name}-{mode}-{hit}"));
                let row = swept(args, &cell, &here).with_context(|| format!("{name} {mode} hit {hit}"))?;
                println!("{}", line(&row));
                rows.push(row);
            }
        }
    }
    let bad = rows.iter().filter(|row| row["ok"] != true).count();
    let fired = rows.iter().filter(|row| row["fired"] == true).count();
    println!("{} cells, {fired} fired, {bad} not clean or not fired", rows.len());
    println!("{}", json!({ "ok": bad == 0, "seed": args.seed, "cells": rows.len(), "fired": fired, "bad": bad }));
    Ok(bad == 0)
}

/// What the strikable binary says it passes.
fn listed() -> Result<Vec<String>> {
    let output = Command::new(strikable()?).arg("failpoints").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// The positive control: the same variable does nothing to a product build.
fn product_is_deaf(args: &SweepArgs, folder: &Path) -> Result<bool> {
    let here = folder.join("product");
    let scene = scene_of("claim.select");
    let (sim, harvest) = stage(args, &scene, &here)?;
    let mut command = harvest.command()?;
    let output = command.env("PATRA_FAILPOINT", "claim.select:abort:1").output()?;
    sim.stop()?;
    Ok(output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("struck"))
}

fn stage(args: &SweepArgs, scene: &Scene, folder: &Path) -> Result<(Sim, Harvest)> {
    std::fs::create_dir_all(folder)?;
    let mut world: Vec<String> = ["--unlimited", "--source", scene.source].map(str::to_owned).to_vec();
    world.extend(["--records".to_owned(), scene.records.to_string(), "--seed".into(), args.seed.to_string()]);
    world.extend(["--keep".to_owned(), folder.join("world").display().to_string()]);
    world.extend(scene.situation.iter().flat_map(|id| ["--scenario".to_owned(), (*id).to_owned()]));
    let sim = Sim::start(&world)?;
    let mut harvest = Harvest::new(scene.source, scene.rate, folder, &sim.address)?;
    harvest.set = scene.set.iter().map(|set| (*set).to_owned()).collect();
    harvest.more = ["--lease", LEASE_SECONDS].map(str::to_owned).to_vec();
    harvest.more.extend(scene.more.iter().map(|arg| (*arg).to_owned()));
    Ok((sim, harvest))
}

fn swept(args: &SweepArgs, cell: &Cell<'_>, folder: &Path) -> Result<Value> {
    let started = Instant::now();
    let scene = scene_of(cell.name);
    let (sim, harvest) = stage(args, &scene, folder)?;
    let fired = strike(&harvest, cell, &scene)?;
    let complete = harvest.until_complete()?;
    let spec = harvest.spec()?;
    sim.stop()?;
    let kept: PathBuf = folder.join("world");
    let served: Vec<ServedRow> = read_jsonl(&kept.join("served.jsonl"))?;
    let verdict = verdict(&harvest, &spec, &kept, served)?;
    let doubled = doubled(&harvest.database)?;
    for finding in verdict.findings.iter().filter(|finding| finding.severity == Severity::Error) {
        println!("{} {}: {}", finding.check, finding.source, finding.message);
    }
    let found = verdict.sources.first().context("the checker judged no source")?;
    let ok = fired && complete && verdict.ok && doubled == 0 && found.missing_count == 0 && found.extra_count == 0;
    Ok(json!({
        "failpoint": cell.name,
        "mode": cell.mode,
        "hit": cell.hit,
        "fired": fired,
        "complete": complete,
        "stored": found.stored,
        "missing": found.missing_count,
        "extra": found.extra_count,
        "double_commits": doubled,
        "errors": verdict.error_counts,
        "seconds": started.elapsed().as_secs_f64(),
        "ok": ok,
    }))
}

/// Runs the harvest with the failpoint armed until it ends; true when the failpoint was seen to fire. While a struck
/// process stands still another one takes its tasks over, as it would in a fleet.
fn strike(harvest: &Harvest, cell: &Cell<'_>, scene: &Scene) -> Result<bool> {
    let (mut command, terminate_after) = match scene.operator {
        true => (cancel(harvest, scene)?, None),
        false => (harvest.command_of(&strikable()?)?, scene.terminate_after),
    };
    command.env("PATRA_FAILPOINT", format!("{}:{}:{}:{STALL_MS}", cell.name, cell.mode, cell.hit));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let struck = watch(&mut child, cell.name)?;
    let (begun, mut fired, mut other, mut told) = (Instant::now(), false, None, false);
    while child.try_wait()?.is_none() {
        if !fired && struck.try_recv().is_ok() {
            fired = true;
            if cell.mode == "stall" {
                other = Some(harvest.command()?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
            }
        }
        if !told && terminate_after.is_some_and(|after| begun.elapsed() >= after) {
            told = true;
            terminate(&child)?;
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            bail!("the process stands still");
        }
        std::thread::sleep(POLL);
    }
    if let Some(mut other) = other {
        other.wait()?;
    }
    // The last words of a process that died at once.
    Ok(fired || struck.recv_timeout(Duration::from_secs(1)).is_ok())
}

/// A harvest is stopped in the middle; then an operator cancels a task that it has left.
fn cancel(harvest: &Harvest, scene: &Scene) -> Result<Command> {
    let mut stopped = harvest.command()?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(scene.terminate_after.unwrap_or_default());
    terminate(&stopped)?;
    stopped.wait()?;
    let newest = "SELECT COALESCE(MAX(id), 0) FROM ing_task WHERE status_code = 'QUEUED'";
    let task = block_on(count(&harvest.database, newest, &[]))??;
    ensure!(task > 0, "the harvest has left no task to cancel");
    let mut command = Command::new(strikable()?);
    command.args(["task", "cancel", &task.to_string(), "--reason", "sweep", "--database"]).arg(&harvest.database);
    Ok(command)
}

/// Reads what the process says, so that its pipe never fills, and passes on that the failpoint fired.
fn watch(child: &mut Child, name: &str) -> Result<Receiver<()>> {
    let said = child.stderr.take().context("the process has no stderr")?;
    let wanted = format!("failpoint {name} struck");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(std::io::Result::ok) {
            if line == wanted {
                // Nobody listens any more when the cell has been given up.
                tell.send(()).ok();
            }
        }
    });
    Ok(told)
}

/// One line of the table; the heading for no row.
fn line(row: &Value) -> String {
    if row.is_null() {
        return format!(
            "{:<20} {:<5} {:>3} {:>5} {:>6} {:>7} {:>5} {:>7} {:>7}",
            "failpoint", "mode", "hit", "fired", "stored", "missing", "extra", "doubled", "seconds"
        );
    }
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| row[key].as_u64().unwrap_or(0);
    format!(
        "{:<20} {:<5} {:>3} {:>5} {:>6} {:>7} {:>5} {:>7} {:>7.1}  {}",
        text("failpoint"),
        text("mode"),
        number("hit"),
        if row["fired"] == true { "yes" } else { "NO" },
        number("stored"),
        number("missing"),
        number("extra"),
        number("double_commits"),
        row["seconds"].as_f64().unwrap_or(0.0),
        if row["ok"] == true { "ok" } else { "FAILED" },
    )
}
