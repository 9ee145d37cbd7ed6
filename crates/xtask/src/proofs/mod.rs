//! The long proofs. They drive the real binary in release, as processes of their own, and judge what it leaves behind.

#[cfg(feature = "proofs")]
mod bench;
#[cfg(feature = "proofs")]
mod full;
#[cfg(feature = "proofs")]
mod judge;
#[cfg(feature = "proofs")]
mod kill;
#[cfg(feature = "proofs")]
mod memory;
mod orders;
#[cfg(feature = "proofs")]
mod pages;
#[cfg(feature = "proofs")]
mod power;
#[cfg(feature = "proofs")]
mod random;
#[cfg(feature = "proofs")]
mod readers;
#[cfg(feature = "proofs")]
mod rig;
#[cfg(feature = "proofs")]
mod scene;
#[cfg(feature = "proofs")]
mod sweep;
#[cfg(feature = "proofs")]
mod torture;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub spine: SpineArgs,
}

#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// What a claim and a commit cost while many tasks wait and many executors ask
    Claims(ClaimArgs),
    /// How throughput grows with 1, 2, 4 executors on a source that only its latency limits
    Scale(ScaleArgs),
    /// How much of a limit a fleet uses, how often it is refused, and how soon it finds a limit that has changed
    Rate(RateArgs),
    /// How fast a million records are exported and derived anew, and in how much memory
    Export(ExportBenchArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ExportBenchArgs {
    /// Records of the large ledger; the small one has a tenth
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    #[arg(long, default_value = "datacite")]
    pub source: String,
}

#[derive(Clone, Debug, Args)]
pub struct RateArgs {
    #[arg(long, value_enum, default_value_t = Backend::Postgres)]
    pub backend: Backend,
    /// How long the limit stands still before it drops and returns
    #[arg(long, default_value_t = 5.0)]
    pub minutes: f64,
    /// Keep the truth, the request log and all logs here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct ScaleArgs {
    #[arg(long, value_enum, default_value_t = Backend::Postgres)]
    pub backend: Backend,
    /// How long each answer takes
    #[arg(long, default_value_t = 400, value_name = "MS")]
    pub latency: u32,
    /// How long each size of the fleet is measured
    #[arg(long, default_value_t = 20)]
    pub seconds: u32,
}

#[derive(Clone, Debug, Args)]
pub struct ClaimArgs {
    #[arg(long, value_enum)]
    pub backend: Backend,
    /// Tasks that wait
    #[arg(long, default_value_t = 1_000_000)]
    pub tasks: u64,
    #[arg(long, default_value_t = 16)]
    pub executors: u32,
}

#[derive(Clone, Debug, Args)]
pub struct SpineArgs {
    /// Records harvested end to end
    #[arg(long, default_value_t = 200_000)]
    pub records: u64,
    /// The source that is simulated
    #[arg(long, default_value = "datacite")]
    pub source: String,
    /// Rows of the small ledger
    #[arg(long, default_value_t = 10_000)]
    pub small: u64,
    /// Rows of the large ledger
    #[arg(long, default_value_t = 2_000_000)]
    pub large: u64,
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TortureArgs {
    #[command(subcommand)]
    pub command: Option<TortureCommand>,
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// The database of a tortured fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Sqlite,
    Postgres,
    Mariadb,
}

/// A whole fleet under kills, zombies, server restarts and a broken network.
#[derive(Clone, Debug, Args)]
pub struct FleetArgs {
    /// The database of the fleet
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// Length of the storm
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A `patra` of the release before: every second process of the fleet is of it
    #[arg(long, value_name = "FILE")]
    pub previous: Option<std::path::PathBuf>,
    /// Keep the ledger, the truth, the request log and all logs here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum TortureCommand {
    /// Kill -9 a harvest at random moments, let it finish, compare with the truth
    Kill(KillArgs),
    /// Peak memory of a harvest of a million records against that of a tenth
    Memory(MemoryArgs),
    /// Kill, stop and empty the Redis of a fleet that works at 50 requests in a second; no window may hold more
    Redis(FleetArgs),
    /// Break a harvest at every failpoint in every mode, let it finish, compare with the truth
    Sweep(SweepArgs),
    /// Cut the power of a harvest on SQLite at many moments; what was acknowledged must be there
    Power(PowerArgs),
    /// Fill the disk of a database again and again while a fleet works on it
    Full(FullArgs),
    /// Cancel tasks, slices and plans while workers commit, die and stall; no page commits after a cancel has returned
    Cancel(OrdersArgs),
    /// Eight planners, one schedule, planners dying at every step; every due time fires once
    Schedule(OrdersArgs),
}

#[derive(Clone, Debug, Args)]
pub struct OrdersArgs {
    #[arg(long, value_enum)]
    pub backend: Backend,
    /// Cancels, or firings [default: 1000 cancels, 500 firings]
    #[arg(long, value_parser = count_from_one)]
    pub count: Option<usize>,
}

#[derive(Clone, Debug, Args)]
pub struct KillArgs {
    /// Kills over all sources
    #[arg(long, default_value_t = 30)]
    pub kills: u32,
    /// Records of each source
    #[arg(long, default_value_t = 4_000)]
    pub records: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Only these sources; all by default
    #[arg(long)]
    pub source: Vec<String>,
    /// Keep databases, truth and request logs here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Strike at the first so many passages of a failpoint, one after the other
    #[arg(long, default_value_t = 1)]
    pub hits: u32,
    /// Only this failpoint
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Keep databases, truth and request logs here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct PowerArgs {
    #[arg(long, default_value_t = 1_000, value_parser = count_from_one)]
    pub cuts: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show that losses are found
    #[arg(long, value_enum)]
    pub planted: Option<Planted>,
    /// Keep the recorded calls, the truth and the ledgers that were taken up again here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

/// What must make the proof of power cuts fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Planted {
    /// The disk forgets every sync
    NoSync,
    /// The harvest runs with `--durability normal`, which does not sync its commits
    Normal,
}

#[derive(Clone, Debug, Args)]
pub struct FullArgs {
    /// The database of the fleet
    #[arg(long, value_enum)]
    pub backend: Backend,
    /// Times without space
    #[arg(long, default_value_t = 20, value_parser = count_from_one)]
    pub cycles: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Keep a copy of the ledger, the truth, the request log and all logs here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct MemoryArgs {
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    #[arg(long, default_value = "datacite")]
    pub source: String,
}

fn count_from_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a number from 1 on is needed".to_owned())
}

#[cfg(feature = "proofs")]
pub fn bench(args: &BenchArgs) -> Result<bool> {
    match &args.command {
        Some(BenchCommand::Claims(args)) => bench::claims::run(args),
        Some(BenchCommand::Scale(args)) => bench::scale::run(args),
        Some(BenchCommand::Rate(args)) => bench::rate::run(args),
        Some(BenchCommand::Export(args)) => bench::export::run(args),
        None => bench::run(&args.spine),
    }
}

#[cfg(feature = "proofs")]
pub fn torture(args: &TortureArgs) -> Result<bool> {
    match &args.command {
        Some(TortureCommand::Kill(args)) => kill::run(args),
        Some(TortureCommand::Memory(args)) => memory::run(args),
        Some(TortureCommand::Redis(args)) => torture::run_redis(args, backend(args)?),
        Some(TortureCommand::Sweep(args)) => sweep::run(args),
        Some(TortureCommand::Power(args)) => power::run(args),
        Some(TortureCommand::Full(args)) => full::run(args),
        Some(TortureCommand::Cancel(args)) => orders::cancel(args),
        Some(TortureCommand::Schedule(args)) => orders::schedule(args),
        None => torture::run(&args.fleet, backend(&args.fleet)?),
    }
}

fn backend(args: &FleetArgs) -> Result<Backend> {
    args.backend.context("no database to torture; name one with `--backend sqlite`, `postgres` or `mariadb`")
}

#[cfg(feature = "proofs")]
pub fn readers() -> Result<bool> {
    readers::run()
}

#[cfg(not(feature = "proofs"))]
pub fn readers() -> Result<bool> {
    again(Build::Plain)
}

#[cfg(not(feature = "proofs"))]
pub fn bench(_: &BenchArgs) -> Result<bool> {
    again(Build::Release)
}

#[cfg(not(feature = "proofs"))]
pub fn torture(args: &TortureArgs) -> Result<bool> {
    match &args.command {
        Some(TortureCommand::Sweep(_)) => again(Build::Strikable),
        Some(TortureCommand::Redis(args)) => backend(args).and_then(|_| again(Build::Release)),
        Some(TortureCommand::Kill(_) | TortureCommand::Memory(_)) => again(Build::Release),
        Some(TortureCommand::Power(_) | TortureCommand::Full(_)) => again(Build::Plain),
        Some(TortureCommand::Cancel(args)) => orders::cancel(args),
        Some(TortureCommand::Schedule(args)) => orders::schedule(args),
        None => backend(&args.fleet).and_then(|_| again(Build::Plain)),
    }
}

/// How the binaries of a proof are built.
#[cfg(not(feature = "proofs"))]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Release,
    /// As the tests are built: assertions are on.
    Plain,
    /// Plain builds with and without failpoints.
    Strikable,
}

/// Builds `patra` and this program with everything the proofs need, and hands the command over.
#[cfg(not(feature = "proofs"))]
fn again(build: Build) -> Result<bool> {
    use crate::shell::{cargo, passed};
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).context("this program is not in a target folder")?;
    let folder = target.join(if build == Build::Release { "release" } else { "debug" });
    let both = ["build", "-p", "patra", "-p", "xtask", "--features"];
    if build == Build::Strikable {
        if !passed(cargo().args(both).arg("xtask/proofs,patra/failpoints"))? {
            return Ok(false);
        }
        std::fs::copy(folder.join("patra"), folder.join("patra-strikable"))?;
    }
    let release = (build == Build::Release).then_some("--release");
    if !passed(cargo().args(both).arg("xtask/proofs").args(release))? {
        return Ok(false);
    }
    // In a debug build cargo has just replaced the file this very process was started from.
    passed(std::process::Command::new(folder.join("xtask")).args(std::env::args_os().skip(1)))
}
