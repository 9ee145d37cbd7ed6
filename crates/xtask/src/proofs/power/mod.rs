//! Power cuts (FM-11, INV-37): what SQLite has acknowledged under `--durability full` outlives the loss of everything
//! that was not synced.
//!
//! ```text
//! harvest under strace --> calls and what was told --> { disk without power --> ledger looked at }* --> some finished
//! ```
//! One harvest runs to its end and every call on its database is recorded. Then the power is cut at many moments of
//! that record: the files are rebuilt as a disk could have kept them, opened, and everything that the harvest had told
//! by then must be there. From some of the cuts a harvest goes on and must end equal to the truth.

mod cuts;
mod disk;
mod record;
mod report;
mod resume;
mod told;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};

use self::cuts::{Cut, cuts, syncs};
use self::disk::{Disk, Image};
use self::record::recorded;
use self::report::Report;
use self::resume::{Resumed, resume};
use self::told::{Found, Told, look, told};
use self::trace::{Call, Trace};
use super::judge::block_on;
use super::kill::folder;
use super::random::Random;
use super::rig::{Harvest, Sim};
use super::{Planted, PowerArgs};
use crate::servers;

const SOURCE: &str = "datacite";
const RATE: &str = "{ per_second: 150, burst: 4, concurrency: 4, key: [source] }";
const LEASE_SECONDS: &str = "2";
/// Small pages: many commits, and enough of them that the log is folded into the database several times.
const PAGE: &str = "pagination.size=10";

/// How much is done.
struct Size {
    records: u64,
    cuts: usize,
    /// Cuts from which a harvest goes on to its end.
    resumed: usize,
}

pub fn run(args: &PowerArgs) -> Result<bool> {
    let (folder, _guard) = folder(args.keep.as_deref())?;
    let size = Size { records: 4_000, cuts: args.cuts, resumed: 20.min(args.cuts) };
    let report = proven(&size, args.seed, args.planted, &folder)?;
    println!("{}", report.table());
    println!("{}", report.json());
    Ok(report.ok())
}

fn proven(size: &Size, seed: u64, planted: Option<Planted>, folder: &Path) -> Result<Report> {
    let begun = Instant::now();
    std::fs::create_dir_all(folder)?;
    // The calls name the files by their true path.
    let folder = folder.canonicalize()?;
    let kept = folder.join("world");
    let sim = Sim::start(&world(size, seed, &kept))?;
    let harvest = harvest(planted, &folder, &sim)?;
    let trace = recorded(&harvest, &folder)?;
    let told = told(&trace);
    ensure!(!told.is_empty(), "the harvest has told no commit");
    println!("{} calls, {} syncs, {} commits told; cutting", trace.calls.len(), syncs(&trace).len(), told.len());
    let power = Power { trace: &trace, told: &told, harvest: &harvest, planted };
    let (looked, left) = power.cut_all(size, seed, &folder)?;
    println!("{} cuts looked at; going on from {}", looked.cuts, left.len());
    let resumed = resume(&harvest, sim, &kept, left)?;
    Ok(Report {
        planted,
        seed,
        writes: trace.calls.iter().filter(|call| matches!(call, Call::Write { .. })).count(),
        syncs: syncs(&trace).len(),
        told: told.len(),
        looked,
        resumed,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn world(size: &Size, seed: u64, kept: &Path) -> Vec<String> {
    let world = [
        ("--records", size.records.to_string()),
        ("--seed", seed.to_string()),
        ("--source", SOURCE.to_owned()),
        ("--keep", kept.display().to_string()),
    ];
    let named = world.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    named.chain(["--unlimited".to_owned()]).collect()
}

fn harvest(planted: Option<Planted>, folder: &Path, sim: &Sim) -> Result<Harvest> {
    let mut harvest = Harvest::new(SOURCE, RATE, folder, &sim.address)?;
    let durability = if planted == Some(Planted::Normal) { "normal" } else { "full" };
    harvest.set = vec![PAGE.to_owned()];
    harvest.more = ["--lease", LEASE_SECONDS, "--durability", durability].map(str::to_owned).to_vec();
    Ok(harvest)
}

/// What all cuts have shown.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    pub cuts: usize,
    pub at_sync: usize,
    /// Commits that were looked for, over all cuts.
    pub sought: usize,
    pub lost: usize,
    pub cuts_with_loss: usize,
    pub unsound: Vec<String>,
}

/// A ledger as a cut has left it.
pub struct Left {
    pub database: PathBuf,
    /// When the power was cut, on the clock of the request log.
    pub cut_us: i64,
}

struct Power<'a> {
    trace: &'a Trace,
    told: &'a [(usize, Told)],
    harvest: &'a Harvest,
    planted: Option<Planted>,
}

impl Power<'_> {
    /// Goes through the record once; the disk is only changed between two cuts, never rebuilt.
    fn cut_all(&self, size: &Size, seed: u64, folder: &Path) -> Result<(Looked, Vec<Left>)> {
        let mut random = Random::new(seed);
        let cuts = cuts(self.trace, size.cuts, &mut random);
        let parent = folder.display().to_string();
        let mut disk = Disk::new(&self.trace.calls, &parent, self.planted == Some(Planted::NoSync));
        let (memory, mut passed) = (servers::folder()?, 0);
        let (mut looked, mut left) = (Looked::default(), Vec::new());
        for (number, cut) in cuts.iter().enumerate() {
            self.trace.moments[passed..cut.before].iter().for_each(|moment| disk.pass(moment.edge));
            passed = cut.before;
            let image = disk.cut(&mut random);
            let (here, found) = self.looked_at(&image, cut, memory.path())?;
            looked.note(cut, self.told_before(cut).len(), &found);
            let bad = found.unsound.is_some() || !found.lost.is_empty();
            let resumed = self.planted != Some(Planted::NoSync) && is_resumed(number, size);
            if resumed || (bad && looked.cuts_with_loss <= 1) {
                // Looking has recovered the files; a harvest must find them as the cut has left them.
                let kept = folder.join(format!("cut-{number}"));
                lay(&image, &kept)?;
                let database = kept.join(here.file_name().unwrap_or_default());
                left.extend(resumed.then(|| Left { database, cut_us: self.time_of(cut) }));
            }
        }
        Ok((looked, left))
    }

    fn looked_at(&self, image: &Image, cut: &Cut, folder: &Path) -> Result<(PathBuf, Found)> {
        lay(image, folder)?;
        let database = folder.join(self.harvest.database.file_name().unwrap_or_default());
        let told: Vec<Told> = self.told_before(cut).iter().map(|(_, told)| *told).collect();
        let found = block_on(look(&database, &told))??;
        Ok((database, found))
    }

    fn told_before(&self, cut: &Cut) -> &[(usize, Told)] {
        &self.told[..self.told.partition_point(|(place, _)| *place < cut.before)]
    }

    fn time_of(&self, cut: &Cut) -> i64 {
        let last = self.trace.moments[..cut.before].last().or(self.trace.moments.first());
        last.map_or(0, |moment| moment.at_us)
    }
}

impl Looked {
    fn note(&mut self, cut: &Cut, sought: usize, found: &Found) {
        self.cuts += 1;
        self.at_sync += usize::from(cut.at_sync);
        self.sought += sought;
        self.lost += found.lost.len();
        self.cuts_with_loss += usize::from(!found.lost.is_empty());
        self.unsound.extend(found.unsound.clone());
    }
}

/// Spread evenly over all cuts.
fn is_resumed(number: usize, size: &Size) -> bool {
    number * size.resumed / size.cuts != (number + 1) * size.resumed / size.cuts
}

/// Lays the files of an image into an empty folder.
fn lay(image: &Image, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for entry in std::fs::read_dir(folder)? {
        std::fs::remove_file(entry?.path())?;
    }
    for (name, bytes) in image {
        let name = Path::new(name).file_name().unwrap_or_default();
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(planted: Option<Planted>) -> Option<Report> {
        if crate::servers::installed("strace").is_none() {
            println!("skipped: strace is not installed here");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let size = Size { records: 200, cuts: 60, resumed: 1 };
        Some(proven(&size, 1, planted, folder.path()).unwrap())
    }

    #[test]
    fn a_harvest_outlives_a_few_power_cuts() {
        let Some(report) = short(None) else { return };
        assert!(report.ok() && report.looked.sought > 0, "{}", report.json());
    }

    #[test]
    fn a_disk_that_forgets_its_syncs_is_found() {
        let Some(report) = short(Some(Planted::NoSync)) else { return };
        assert!(report.looked.lost > 0 && !report.ok(), "{}", report.json());
    }
}
