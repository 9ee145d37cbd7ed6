//! After a cut the harvest is taken up again where the disk has left it, and must end equal to the truth.

use std::path::Path;

use anyhow::{Context, Result};
use patra_checker::{ServedRow, Severity, read_jsonl};

use super::Left;
use crate::proofs::judge::{doubled, now_us, verdict};
use crate::proofs::rig::{Harvest, Sim};

#[derive(Clone, Debug, Default)]
pub struct Resumed {
    pub harvests: usize,
    pub complete: usize,
    pub stored: u64,
    pub expected: u64,
    pub missing: u64,
    pub extra: u64,
    pub double_commits: u64,
    pub findings: u64,
}

/// A harvest that was taken up again, and when.
struct Ended {
    harvest: Harvest,
    cut_us: i64,
    from_us: i64,
    to_us: i64,
}

/// The simulators live until the last harvest has ended, because they write their truth then.
pub fn resume(harvest: &Harvest, sim: Sim, kept: &Path, left: Vec<Left>) -> Result<Resumed> {
    let (mut resumed, mut ended) = (Resumed::default(), Vec::new());
    for Left { database, cut_us } in left {
        let harvest = Harvest { database, ..harvest.clone() };
        let from_us = now_us();
        resumed.complete += usize::from(harvest.until_complete()?);
        resumed.harvests += 1;
        ended.push(Ended { harvest, cut_us, from_us, to_us: now_us() });
    }
    let spec = harvest.spec()?;
    sim.stop()?;
    let served: Vec<ServedRow> = read_jsonl(&kept.join("served.jsonl"))?;
    for ended in &ended {
        let verdict = verdict(&ended.harvest, &spec, kept, ended.seen(&served))?;
        for finding in verdict.findings.iter().filter(|finding| finding.severity == Severity::Error) {
            println!("{} {}: {}", finding.check, finding.source, finding.message);
        }
        let found = verdict.sources.first().context("the checker judged no source")?;
        resumed.stored += found.stored;
        resumed.expected += found.expected;
        resumed.missing += found.missing_count;
        resumed.extra += found.extra_count;
        resumed.double_commits += doubled(&ended.harvest.database)?;
        resumed.findings += verdict.error_counts.values().sum::<u64>();
    }
    Ok(resumed)
}

impl Ended {
    /// Requests of its own past and of its own end; all others belong to other cuts.
    fn seen(&self, served: &[ServedRow]) -> Vec<ServedRow> {
        let ours = |row: &&ServedRow| row.at_us <= self.cut_us || (self.from_us..=self.to_us).contains(&row.at_us);
        served.iter().filter(ours).cloned().collect()
    }
}
