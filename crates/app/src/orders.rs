//! The command line of operators: what a person may order about plans, slices, tasks and cursors.

use clap::{Args, Subcommand};
use patra_core::time::Timestamp;

use crate::cli::NounCommand;

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    #[command(flatten)]
    Look(NounCommand),
    /// Stop every open task of a plan; what they would have read is owed to the next one
    Cancel(CancelArgs),
    /// Plan again what the plan could not read, and nothing else
    Retry(CancelArgs),
    /// Let its open tasks be taken sooner or later
    Priority(PriorityArgs),
}

#[derive(Debug, Subcommand)]
pub enum SliceCommand {
    #[command(flatten)]
    Look(NounCommand),
    /// Stop what is open of a slice, also of those that it was split into
    Cancel(CancelArgs),
}

#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    #[command(flatten)]
    Look(NounCommand),
    /// Stop a task for good; what it would have read is owed to the next plan
    Cancel(CancelArgs),
    /// Let it be taken sooner or later
    Priority(PriorityArgs),
}

#[derive(Debug, Subcommand)]
pub enum CursorCommand {
    #[command(flatten)]
    Look(NounCommand),
    /// Let the watermark pass a window that cannot be read; it stays in the list of known holes
    Waive(WaiveArgs),
    #[command(flatten)]
    Tend(crate::commands::cursor::TendCommand),
}

#[derive(Clone, Debug, Args)]
pub struct CancelArgs {
    /// Its id or a unique beginning of it
    pub id: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, Args)]
pub struct PriorityArgs {
    #[command(flatten)]
    pub of: CancelArgs,
    /// 1 is highest, 9 lowest
    #[arg(long = "to", value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub priority: u8,
}

#[derive(Clone, Debug, Args)]
pub struct StopArgs {
    pub source: String,
    /// Only this endpoint; all by default
    #[arg(long, value_name = "NAME")]
    pub endpoint: Option<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, Args)]
pub struct WaiveArgs {
    pub source: String,
    /// First moment of the window
    #[arg(long, value_name = "TIME")]
    pub from: Timestamp,
    /// First moment after it
    #[arg(long, value_name = "TIME")]
    pub to: Timestamp,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// A plan of the cursor that is meant, where the source has several; the newest harvest by default
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
}
