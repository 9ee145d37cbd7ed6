//! One whole harvest under `strace`: the calls it made, in their order.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::trace::{CALLS, Reader, STRING_MAX, Trace};
use crate::proofs::rig::Harvest;
use crate::servers::tool;

pub fn recorded(harvest: &Harvest, folder: &Path) -> Result<Trace> {
    let words = folder.join("strace.txt");
    let program = harvest.command()?;
    let mut command = Command::new(tool("strace", "strace")?);
    command.args(["-f", "-ttt", "-y", "-xx", "-a", "1", "--seccomp-bpf", "-s", &STRING_MAX.to_string(), "-e"]);
    command.arg(format!("trace={CALLS}")).arg("-o").arg(&words).arg("--").arg(program.get_program());
    // What was committed is told by the lines of `-vv`.
    command.args(program.get_args()).arg("-vv").env_remove("RUST_LOG").env("NO_COLOR", "1");
    let said = File::create(folder.join("harvest.log"))?;
    let output = command.stdin(Stdio::null()).stderr(said).output()?;
    let told = || std::fs::read_to_string(folder.join("harvest.log")).unwrap_or_default();
    ensure!(output.status.success(), "the harvest ended with {}: {}", output.status, last_line(&told()));
    let report: Value = serde_json::from_slice(&output.stdout).context("the harvest said no report")?;
    ensure!(report["complete"] == true, "the harvest is not complete: {report}");
    read(&words, &harvest.database.display().to_string())
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

fn read(words: &Path, database: &str) -> Result<Trace> {
    let mut reader = Reader::new(database);
    for (number, line) in BufReader::new(File::open(words)?).lines().enumerate() {
        reader.read(&line?).with_context(|| format!("{} line {}", words.display(), number + 1))?;
    }
    Ok(reader.finish())
}
