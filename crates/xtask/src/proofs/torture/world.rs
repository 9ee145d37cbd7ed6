//! The simulated providers of a torture, and their definitions pointed at them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use patra_checker::SourceRules;

use super::size::Size;
use crate::proofs::rig::{Harvest, Sim, patra, since_days, with_rate};
use crate::shell::root;

pub struct World {
    sim: Sim,
    /// Holds the truth and the request log once the simulators have ended.
    pub kept: PathBuf,
    folder: PathBuf,
    days: u32,
    pub sources: &'static [&'static str],
    settings: [String; 2],
}

impl World {
    /// Starts the simulators and writes the definitions.
    pub fn start(size: &Size, seed: u64, folder: &Path) -> Result<World> {
        let kept = folder.join("world");
        let mut args: Vec<String> = vec!["--records".into(), size.records.to_string()];
        args.extend(limits(size));
        args.extend(["--seed".into(), seed.to_string(), "--keep".into(), kept.display().to_string()]);
        args.extend(size.latency_ms.iter().flat_map(|ms| ["--latency".to_owned(), ms.to_string()]));
        args.extend(size.sources.iter().flat_map(|source| ["--source".to_owned(), (*source).to_owned()]));
        let sim = Sim::start_days(&args, size.days)?;
        // An hour is one slice, which is a few pages: a task that is lost finds a free worker soon.
        let settings = [format!("pagination.size={}", size.page), "window.slice=PT1H".to_owned()];
        let world = World { sim, kept, folder: folder.to_owned(), days: size.days, sources: size.sources, settings };
        for source in size.sources {
            std::fs::write(world.definition(source), world.pointed(source, &size.rate())?)?;
        }
        Ok(world)
    }

    fn definition(&self, source: &str) -> PathBuf {
        self.folder.join(format!("{source}.yaml"))
    }

    /// The shipped definition with another rate and the simulator's address.
    fn pointed(&self, source: &str, rate: &str) -> Result<String> {
        let text = std::fs::read_to_string(root().join("sources").join(format!("{source}.yaml")))?;
        let base = format!("base_url: http://{}/{source}", self.sim.address);
        let manners = format!("http: {{ allow_http: true, allow_hosts: [\"{}\"] }}", self.sim.address);
        let lines = text.lines().map(|line| match line.starts_with("base_url:") {
            true => format!("{base}\n{manners}"),
            false => line.to_owned(),
        });
        Ok(with_rate(&lines.collect::<Vec<_>>().join("\n"), rate))
    }

    /// Publishes the definitions.
    pub fn apply(&self, database: &str) -> Result<()> {
        let files = self.sources.iter().map(|source| self.definition(source));
        let output = Command::new(patra()?).args(["registry", "apply", "--database", database]).args(files).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// What a planner is asked for.
    pub fn trigger(&self) -> Vec<String> {
        let mut args: Vec<String> =
            self.sources.iter().flat_map(|source| ["--source", source]).map(str::to_owned).collect();
        args.extend(["--since".to_owned(), since_days(self.days), "--contact".into(), "xtask@example.org".into()]);
        args.extend(self.settings.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        args
    }

    /// A harvest that goes on where the fleet has stopped.
    pub fn harvest(&self, source: &str, database: &str) -> Harvest {
        Harvest {
            source: source.to_owned(),
            definition: self.definition(source),
            database: database.into(),
            address: self.sim.address.clone(),
            days: self.days,
            set: self.settings.to_vec(),
            more: Vec::new(),
        }
    }

    pub fn rules(&self, database: &str) -> Result<Vec<SourceRules>> {
        let rules = |source: &&str| Ok(patra_testkit::lab::rules_of(source, &self.harvest(source, database).spec()?));
        self.sources.iter().map(rules).collect()
    }

    /// Ends the simulators, so that they write what they know; where it is.
    pub fn end(self) -> Result<PathBuf> {
        self.sim.stop()?;
        Ok(self.kept)
    }
}

/// What the simulators refuse.
fn limits(size: &Size) -> Vec<String> {
    if size.limits.is_empty() {
        return vec!["--unlimited".into()];
    }
    let later = size.limits.iter().map(|(after, limit)| format!("--limit-after={}={limit}", after.as_secs_f64()));
    [format!("--limit={}", size.per_second)].into_iter().chain(later).collect()
}
