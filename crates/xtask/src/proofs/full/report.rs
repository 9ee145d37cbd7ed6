//! What the times without space have shown: a table for people, one line of JSON, and whether it is good enough.

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Result;
use patra_checker::{SourceVerdict, Verdict};
use serde_json::{Value, json};

use super::Cycle;
use crate::proofs::Backend;
use crate::proofs::torture::fleet::Fallen;
use crate::proofs::torture::report::{Line, all_good, falls, other_findings, page, rate_windows_above, told, zero};

/// How often the processes found that nothing can be written; it is in no table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    pub claims: u64,
    pub tasks: u64,
    pub heartbeats: u64,
}

impl Waits {
    pub fn read(folder: &Path) -> Result<Waits> {
        let mut waits = Waits::default();
        for entry in std::fs::read_dir(folder)? {
            for line in BufReader::new(std::fs::File::open(entry?.path())?).split(b'\n') {
                waits.note(&String::from_utf8_lossy(&line?));
            }
        }
        Ok(waits)
    }

    fn note(&mut self, line: &str) {
        // A claim that is tried again at once is one more.
        let again = line.contains("the database did not take acquire_tasks: ");
        self.claims += u64::from(again || line.contains("claiming failed, waiting"));
        self.tasks += u64::from(line.contains(" stopped: the database refused"));
        self.heartbeats += u64::from(line.contains("heartbeat failed"));
    }
}

pub struct Report {
    pub backend: Backend,
    pub seed: u64,
    pub cycles: Vec<Cycle>,
    pub server_restarts: u64,
    pub fallen: Vec<Fallen>,
    pub starts: u64,
    pub waits: Waits,
    pub workers: u64,
    pub panics: usize,
    pub harvests: u32,
    pub complete: bool,
    pub complaints: String,
    pub double_commits: u64,
    pub verdict: Verdict,
    pub twice_the_rate: usize,
    pub seconds: f64,
}

/// A worker that waits a second between two claims makes no more than this.
const CLAIMS_PER_SECOND_MAX: f64 = 1.1;

impl Report {
    pub fn ok(&self) -> bool {
        all_good(&self.lines())
    }

    fn sum(&self, of: fn(&SourceVerdict) -> u64) -> u64 {
        self.verdict.sources.iter().map(of).sum()
    }

    fn full_s(&self) -> f64 {
        self.cycles.iter().map(|cycle| cycle.full_s).sum()
    }

    /// Claims that a worker tried in a second without space. The first of each time is tried at once.
    fn claims_per_second(&self) -> f64 {
        let seconds = self.full_s() + self.away_s() + self.cycles.len() as f64;
        self.waits.claims as f64 / seconds / self.workers as f64
    }

    /// Until the first commit a worker may still find nothing but errors.
    fn away_s(&self) -> f64 {
        self.cycles.iter().filter_map(|cycle| cycle.resumed_s).sum()
    }

    fn slowest(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = self.cycles.iter().map(|cycle| cycle.resumed_s).collect();
        all.map(|all| all.into_iter().fold(0.0, f64::max))
    }

    fn at_work(&self) -> u64 {
        self.fallen.iter().filter(|fallen| fallen.at_work).count() as u64
    }

    fn lines(&self) -> Vec<Line> {
        let Waits { claims, tasks, heartbeats } = self.waits;
        let slowest =
            self.slowest().map_or("one did not in 60 s".to_owned(), |slowest| format!("at most {slowest:.1} s"));
        let rate = self.claims_per_second();
        let (stored, expected) = (self.sum(|source| source.stored), self.sum(|source| source.expected));
        let complaints = if self.complaints.is_empty() { "none".to_owned() } else { self.complaints.clone() };
        vec![
            told("times without space", format!("{}, together {:.0} s", self.cycles.len(), self.full_s())),
            ("work resumed after", slowest, Some(self.slowest().is_some())),
            told("server started again", self.server_restarts.to_string()),
            told("processes", format!("{} started, {} fell by themselves", self.starts, self.fallen.len())),
            zero("  at their work", self.at_work()),
            told("refused", format!("{claims} claims, {tasks} tasks, {heartbeats} heartbeats")),
            ("claims per worker", format!("{rate:.2} in a second without space"), Some(rate <= CLAIMS_PER_SECOND_MAX)),
            ("complaints of database", complaints, Some(self.complaints.is_empty())),
            told("records", format!("{stored} stored, {expected} expected, {} harvests for the rest", self.harvests)),
            zero("missing", self.sum(|source| source.missing_count)),
            zero("extra", self.sum(|source| source.extra_count)),
            zero("double commits", self.double_commits),
            zero("other findings", other_findings(&self.verdict)),
            told("windows above the rate", rate_windows_above(&self.verdict).to_string()),
            zero("  twice the rate", self.twice_the_rate as u64),
            ("all that was owed", if self.complete { "read" } else { "not read" }.to_owned(), Some(self.complete)),
            zero("panics", self.panics as u64),
        ]
    }

    pub fn table(&self) -> String {
        let title = format!("{} without space, seed {}", self.backend.name(), self.seed);
        page(&title, &self.lines(), &falls(&self.fallen), self.seconds)
    }

    pub fn json(&self) -> Value {
        json!({
            "ok": self.ok(),
            "backend": self.backend.name(),
            "seed": self.seed,
            "cycles": self.cycles.len(),
            "full_s": self.full_s(),
            "resumed_s": self.cycles.iter().map(|cycle| cycle.resumed_s).collect::<Vec<_>>(),
            "resumed_max_s": self.slowest(),
            "server_restarts": self.server_restarts,
            "starts": self.starts,
            "fallen": self.fallen.len(),
            "fallen_at_work": self.at_work(),
            "claims_refused": self.waits.claims,
            "claims_per_second": self.claims_per_second(),
            "complaints": self.complaints,
            "stored": self.sum(|source| source.stored),
            "expected": self.sum(|source| source.expected),
            "missing": self.sum(|source| source.missing_count),
            "extra": self.sum(|source| source.extra_count),
            "double_commits": self.double_commits,
            "errors": self.verdict.error_counts,
            "rate_windows_twice": self.twice_the_rate,
            "complete": self.complete,
            "panics": self.panics,
            "seconds": self.seconds,
        })
    }
}

/// One cycle as people read it while it runs.
pub fn shown(cycle: &Cycle) -> String {
    let resumed =
        cycle.resumed_s.map_or("not resumed in time".to_owned(), |after| format!("resumed after {after:.1} s"));
    format!("last commit {:.1} s after the ballast, {:.1} s without space, {resumed}", cycle.full_after_s, cycle.full_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_claims_are_counted_with_those_tried_again_at_once() {
        let mut waits = Waits::default();
        for line in [
            "WARN the database did not take acquire_tasks: full step=\"acquire_tasks\" tries=1",
            "WARN claiming failed, waiting: the database refused acquire_tasks: full",
            "WARN task 7 stopped: the database refused commit_batch: full task.id=7",
            "WARN heartbeat failed, trying again: the database refused renew: full",
            "INFO nothing of this",
        ] {
            waits.note(line);
        }
        assert_eq!((waits.claims, waits.tasks, waits.heartbeats), (2, 1, 1));
    }
}
