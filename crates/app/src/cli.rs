//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use patra_core::time::Timestamp;
use secrecy::SecretString;

pub use crate::orders::{
    CancelArgs, CursorCommand, PlanCommand, PriorityArgs, SliceCommand, StopArgs, TaskCommand, WaiveArgs,
};

#[derive(Debug, Parser)]
#[command(
    name = "patra",
    version,
    about = "Copies literature APIs into a database and proves that nothing is missing",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Where everything is kept: a path, `sqlite:PATH`, `postgres://…` or `mysql://…` [default: patra.db]
    #[arg(long, global = true, env = "PATRA_DATABASE", hide_env_values = true, value_name = "URL")]
    pub database: Option<String>,
    /// Where commands that only read look instead, e.g. a replica
    #[arg(long, global = true, env = "PATRA_READ_DATABASE", hide_env_values = true, value_name = "URL")]
    pub read_database: Option<String>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more on stderr (`-v` info, `-vv` debug)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// No progress, only the result
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Global {
    /// The database that was named, or the usual one.
    pub fn database(&self) -> &str {
        self.database.as_deref().unwrap_or("patra.db")
    }

    /// Where commands that only read look.
    pub fn read_side(&self) -> &str {
        self.read_database.as_deref().unwrap_or_else(|| self.database())
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a database with the built-in sources
    Init,
    /// Bring the tables and the built-in sources of a database up to this build
    Migrate(MigrateArgs),
    /// Harvest seven simulated providers and compare the copy with their truth
    Demo(DemoArgs),
    /// Copy everything new from a source
    Harvest(HarvestArgs),
    /// Read a past window again, beside the harvest and without touching its watermark
    Backfill(crate::commands::backfill::BackfillArgs),
    /// Prove what is complete and name what is not
    Certify(Box<crate::commands::certify::CertifyArgs>),
    /// The life of a record: every page that showed it, and what was decided there
    Why(crate::commands::why::WhyArgs),
    /// Read kept pages again, without a request, under the same or another mapping; writes nothing
    Replay(crate::commands::replay::ReplayArgs),
    /// The evidence of a run or a page, as one archive
    #[command(subcommand)]
    Blackbox(crate::commands::blackbox::BlackboxCommand),
    /// Derive stored records anew from kept pages, without a request, under another mapping
    Remap(crate::commands::remap::RemapArgs),
    /// Write records as JSON lines, CSV or Parquet
    Export(crate::commands::export::ExportArgs),
    /// Ask for known records again by their ids
    Update(Box<crate::commands::update::UpdateArgs>),
    /// Hints that records should be asked for again
    #[command(subcommand)]
    Signal(crate::commands::update::SignalCommand),
    /// Plan sources again and again, until stopped
    Planner(crate::role_args::PlannerArgs),
    /// Work on what is planned, until stopped; any number may run beside each other
    Executor(crate::role_args::ExecutorArgs),
    /// Tell changes to NATS, a webhook or a file, until stopped
    Relay(crate::commands::relay::RelayArgs),
    /// Plan, work and relay in one process, until stopped
    Serve(crate::role_args::ServeAllArgs),
    /// What is triggered by the clock
    #[command(subcommand)]
    Schedule(crate::commands::schedule::ScheduleCommand),
    /// The sources and their definitions
    #[command(subcommand)]
    Source(SourceCommand),
    /// What a source's definition is compiled into
    #[command(subcommand)]
    Spec(SpecCommand),
    /// Versions of source definitions
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// The query language
    #[command(subcommand)]
    Query(crate::commands::query::QueryCommand),
    /// Plans
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Slices of plans
    #[command(subcommand)]
    Slice(SliceCommand),
    /// Tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Runs of tasks
    #[command(subcommand)]
    Run(NounCommand),
    /// Pages
    #[command(subcommand)]
    Batch(NounCommand),
    /// Watermarks
    #[command(subcommand)]
    Cursor(CursorCommand),
    /// Records
    #[command(subcommand)]
    Record(NounCommand),
    /// Records that could not be read
    #[command(subcommand)]
    Quarantine(crate::commands::quarantine::QuarantineCommand),
    /// What a person should look at
    #[command(subcommand)]
    Alarm(NounCommand),
    /// Rate limits
    #[command(subcommand)]
    Gate(NounCommand),
    /// Changes on their way to the outside
    #[command(subcommand)]
    Outbox(crate::commands::outbox::OutboxCommand),
    /// What is stored, how far, and what is wrong
    Status,
    /// Check this installation
    Doctor(DoctorArgs),
    /// Simulated providers
    #[command(subcommand)]
    Sim(SimCommand),
    /// Shell completions
    Completions { shell: clap_complete::Shell },
    /// Write man pages into a folder
    Man {
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Failpoints that this binary passes
    #[cfg(feature = "failpoints")]
    #[command(hide = true)]
    Failpoints,
}

#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    /// Only list the migrations: applied or pending, and when
    #[arg(long, conflicts_with = "dry_run")]
    pub status: bool,
    /// Only print what would be run
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Records over all sources
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(7..=10_000_000))]
    pub records: u64,
    #[arg(long, value_enum, default_value_t = Faults::Mild)]
    pub faults: Faults,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Keep the database, the truth and the request log here
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Let so many executors, processes of their own, harvest in real time and under the real rate limits
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=32), conflicts_with = "keep")]
    pub executors: Option<u8>,
    /// Redis that keeps the rate limits of the executors; rows of the database by default
    #[arg(long, value_name = "URL", requires = "executors")]
    pub redis: Option<SecretString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Faults {
    None,
    Mild,
    Storm,
}

#[derive(Clone, Debug, Args)]
pub struct TriggerArgs {
    /// Endpoint of the source; its only or first search endpoint by default
    #[arg(long)]
    pub endpoint: Option<String>,
    /// What is wanted, in the query language (`patra query explain EXPR` shows what each source makes of it)
    #[arg(long, value_name = "EXPR")]
    pub query: Option<String>,
    /// What is wanted, in the source's own words, sent as it is
    #[arg(long, value_name = "TEXT", conflicts_with = "query")]
    pub native_query: Option<String>,
    /// Where harvesting begins the first time (`2026-01-01` or `2026-01-01T00:00:00Z`)
    #[arg(long, value_name = "TIME")]
    pub since: Option<Timestamp>,
    /// Read nothing dated at or after this
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
    /// Ask here instead of the definition's base URL
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Loopback or private address that may be asked, `host:port`; repeatable
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_host: Vec<String>,
    /// A setting of the spec (`pagination.size=500`) or a parameter of the definition; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Who asks, as sources want to know (e-mail)
    #[arg(long, env = "PATRA_CONTACT", value_name = "EMAIL")]
    pub contact: Option<String>,
    /// Release channel of the definition
    #[arg(long, default_value = "stable")]
    pub channel: String,
    /// 1 is highest, 9 lowest
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub priority: Option<u8>,
}

#[derive(Clone, Debug, Args)]
pub struct HarvestArgs {
    /// A source (`patra source list`) or a definition file
    #[arg(value_name = "SOURCE|FILE")]
    pub source: String,
    #[command(flatten)]
    pub trigger: TriggerArgs,
    /// Tasks worked on at once
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// `full` survives a power cut, `normal` only a crash of patra
    #[arg(long, value_enum, default_value_t = Durability::Full)]
    pub durability: Durability,
    /// Redis that keeps the rate limits of all processes; else the database, or with SQLite this process
    #[arg(long, env = "PATRA_REDIS", hide_env_values = true, value_name = "URL")]
    pub redis: Option<SecretString>,
    /// Life of a lease in seconds; short ones let a restarted harvest take over sooner
    #[arg(long, hide = true, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub lease: Option<u16>,
    /// A threshold of self-healing (`stock_max=500`), see docs/operations.md; repeatable
    #[arg(long = "threshold", value_name = "NAME=VALUE", value_parser = key_value)]
    pub thresholds: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    Full,
    Normal,
}

#[derive(Debug, Subcommand)]
pub enum SourceCommand {
    /// All sources
    List,
    /// One source
    Show { source: String },
    /// Stop a source: nothing of it is planned or taken up until it is resumed
    Pause(StopArgs),
    /// Let a source go on that was paused, or that stopped by itself because it refused us
    Resume(StopArgs),
    /// Look for mistakes in definition files
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Ask for a few pages and show what comes out of them; writes nothing
    Test(crate::commands::source_test::SourceTestArgs),
    /// JSON Schema of definitions, for editors
    Schema,
    /// Every key of a definition, as Markdown
    Keys,
}

#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// The compiled spec of a source
    Show {
        #[arg(value_name = "SOURCE|FILE")]
        source: String,
        /// Also where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        trigger: TriggerArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum RegistryCommand {
    /// Publish a definition as a new version
    Apply {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// In force from then on; now by default
        #[arg(long, value_name = "TIME")]
        effective_from: Option<Timestamp>,
        #[arg(long, default_value = "stable")]
        channel: String,
        /// Why
        #[arg(long, default_value = "")]
        remark: String,
    },
    /// What a file would change
    Diff {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[arg(long, default_value = "stable")]
        channel: String,
    },
    /// All versions of a source
    History { source: String },
    /// Publish an earlier version again
    Rollback {
        source: String,
        /// The version to go back to; the one before the current by default
        #[arg(long)]
        to: Option<i64>,
        #[arg(long, default_value = "stable")]
        channel: String,
    },
    /// The definition as it was applied
    Export {
        source: String,
        #[arg(long)]
        version: Option<i64>,
    },
}

#[derive(Debug, Subcommand)]
pub enum NounCommand {
    /// The newest ones
    List(ListArgs),
    /// One of them, by its id or a unique beginning of it
    Show { id: String },
}

#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    #[arg(long)]
    pub source: Option<String>,
    #[arg(long)]
    pub status: Option<String>,
    #[arg(long)]
    pub plan: Option<String>,
    #[arg(long)]
    pub slice: Option<String>,
    #[arg(long)]
    pub task: Option<String>,
    #[arg(long)]
    pub run: Option<String>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Older than this id
    #[arg(long, value_name = "ID")]
    pub before: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// List the failpoints of this build
    #[arg(long, hide = true)]
    pub failpoints: bool,
    /// Print the table of exit codes, which is docs/exit-codes.md
    #[arg(long, hide = true)]
    pub exit_codes: bool,
}

#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Serve the simulated providers on a port
    Serve(ServeArgs),
    /// The nasty situations that can be switched on
    Scenarios,
}

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "HOST:PORT")]
    pub listen: String,
    #[arg(long, default_value_t = 5_000)]
    pub records: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[arg(long, value_enum, default_value_t = Faults::None)]
    pub faults: Faults,
    /// Only these sources; all by default
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// Switch a situation on (`patra sim scenarios`); repeatable
    #[arg(long, value_name = "ID")]
    pub scenario: Vec<String>,
    /// Days of history
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub days: u32,
    /// Answer as fast as possible: no rate limits, no delays
    #[arg(long)]
    pub unlimited: bool,
    /// Take so many requests in any second and refuse the rest
    #[arg(long, value_name = "N", conflicts_with = "unlimited", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Another limit, so many seconds after the first request; repeatable, in order
    #[arg(long, value_name = "SECONDS=N", requires = "limit", value_parser = limit_step)]
    pub limit_after: Vec<(f64, u32)>,
    /// Let every answer take so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(..=600_000))]
    pub latency: Option<u32>,
    /// Write the truth and the request log here on exit
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

fn limit_step(text: &str) -> Result<(f64, u32), String> {
    let read = text.split_once('=').and_then(|(after, limit)| Some((after.parse().ok()?, limit.parse().ok()?)));
    read.filter(|(after, limit): &(f64, u32)| *after >= 0.0 && *limit > 0).ok_or_else(|| "expected SECONDS=N".into())
}

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".into()),
    }
}
