//! The processes of a proof: `patra sim serve` on a free port of the loopback, and `patra harvest` against it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::servers::bound;
use crate::shell::root;

/// Days of history in every simulated world.
pub const DAYS: u32 = 10;
/// The seven simulated sources; together they page in every way there is.
pub const SOURCES: [&str; 7] = ["crossref", "pubmed", "oai-pmh", "doaj", "datacite", "openfda", "timefeed"];

/// A harvest may leave windows to the next one, which owes them.
const HARVESTS_MAX: u32 = 5;

/// The `patra` that was built beside this program; tests lie one folder deeper.
pub fn patra() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folders = here.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("patra")).find(|path| path.is_file());
    found.context("patra is not built")
}

/// The same program with failpoints that can be struck.
pub fn strikable() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("patra-strikable");
    ensure!(path.exists(), "{} is not built", path.display());
    Ok(path)
}

/// A running `patra sim serve`.
pub struct Sim {
    child: Child,
    pub address: String,
}

impl Sim {
    /// Starts it and waits until it says where it listens.
    pub fn start(args: &[String]) -> Result<Sim> {
        Sim::start_days(args, DAYS)
    }

    /// With another length of history.
    pub fn start_days(args: &[String], days: u32) -> Result<Sim> {
        let mut command = bound(&patra()?, None);
        command.args(["sim", "serve", "--json", "--listen", "127.0.0.1:0", "--days", &days.to_string()]).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().context("the simulators have no output")?;
        BufReader::new(out).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).with_context(|| format!("the simulators said {line:?}"))?;
        let address = said["listen"].as_str().context("the simulators did not say where they listen")?.to_owned();
        Ok(Sim { child, address })
    }

    /// Asks it to end, so that it writes its truth and its log.
    pub fn stop(mut self) -> Result<()> {
        terminate(&self.child)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the simulators ended with {status}");
        Ok(())
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Already ended after `stop`; then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub fn terminate(child: &Child) -> Result<()> {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
    ensure!(status.success(), "SIGTERM could not be sent");
    Ok(())
}

/// A harvest of one source of a running simulator.
#[derive(Clone, Debug)]
pub struct Harvest {
    pub source: String,
    pub definition: PathBuf,
    pub database: PathBuf,
    pub address: String,
    pub days: u32,
    pub set: Vec<String>,
    pub more: Vec<String>,
}

impl Harvest {
    /// The source's definition with another rate, in `folder`.
    pub fn new(source: &str, rate: &str, folder: &Path, address: &str) -> Result<Harvest> {
        let shipped = root().join("sources").join(format!("{source}.yaml"));
        let text = std::fs::read_to_string(&shipped).with_context(|| shipped.display().to_string())?;
        let definition = folder.join(format!("{source}.yaml"));
        std::fs::write(&definition, with_rate(&text, rate))?;
        let database = folder.join(format!("{source}.db"));
        Ok(Harvest {
            source: source.to_owned(),
            definition,
            database,
            address: address.to_owned(),
            days: DAYS,
            set: Vec::new(),
            more: Vec::new(),
        })
    }

    pub fn command(&self) -> Result<Command> {
        self.command_of(&patra()?)
    }

    /// The same with another build of the program.
    pub fn command_of(&self, binary: &Path) -> Result<Command> {
        let mut command = Command::new(binary);
        command.arg("harvest").args(self.trigger()).args(&self.more).args(["--json", "--quiet"]);
        Ok(command)
    }

    fn trigger(&self) -> Vec<String> {
        let mut args = vec![
            self.definition.display().to_string(),
            "--database".into(),
            self.database.display().to_string(),
            "--base-url".into(),
            format!("http://{}/{}", self.address, self.source),
            "--allow-host".into(),
            self.address.clone(),
            "--contact".into(),
            "xtask@example.org".into(),
            "--since".into(),
            since_days(self.days),
        ];
        args.extend(self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        args
    }

    /// The spec the harvest runs with.
    pub fn spec(&self) -> Result<patra_core::spec::snapshot::SpecSnapshot> {
        let output = Command::new(patra()?).args(["spec", "show"]).args(self.trigger()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Runs to the end and returns its report.
    pub fn finish(&self) -> Result<Value> {
        let output = self.command()?.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("the harvest of {} ended with {}: {said}", self.source, output.status);
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("the harvest of {} said no report", self.source))
    }

    /// Harvests again and again until nothing is owed; false when that never came.
    pub fn until_complete(&self) -> Result<bool> {
        for _ in 0..HARVESTS_MAX {
            let output = self.command()?.output()?;
            let said = || format!("no report: {}", String::from_utf8_lossy(&output.stderr));
            let report: Value = serde_json::from_slice(&output.stdout).with_context(said)?;
            if report["complete"] == true {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Before the first record of any world, and the same all day: a harvest that is taken up again must ask the same.
pub fn since_days(days: u32) -> String {
    #[expect(clippy::disallowed_methods, reason = "the simulators date their history back from the machine's clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let first = i64::try_from(now.as_secs() / 86_400).unwrap_or(0) - i64::from(days) - 2;
    patra_core::time::Timestamp::from_seconds(first * 86_400).to_string()
}

/// The definition with its `rate` block replaced.
pub fn with_rate(text: &str, rate: &str) -> String {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let indented = line.starts_with(' ') || line.is_empty();
        inside = (inside && indented) || line.starts_with("rate:");
        if line.starts_with("rate:") {
            lines.push(format!("rate: {rate}"));
        }
        if !inside || line.is_empty() {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rate_of_a_definition_is_replaced() {
        let flat = "a: 1\nrate: { per_second: 2 }\n\nb:\n  c: 2\n";
        let block = "a: 1\nrate:\n  per_second: 2\n  windows: [1]\n\nb:\n  c: 2\n";
        for text in [flat, block] {
            assert_eq!(with_rate(text, "{ per_second: 9 }"), "a: 1\nrate: { per_second: 9 }\n\nb:\n  c: 2\n");
        }
    }
}
