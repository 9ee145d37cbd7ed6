//! `patra backfill`: a past window, or the holes of the harvest, under a cursor of its own.

use clap::Args;
use patra_core::plan::build::namespace_of;
use patra_core::plan::campaign::{Campaign, HOLES};
use patra_core::ports::{Hole, Operate};
use patra_core::spec::snapshot::Operation;
use patra_core::window::Window;
use patra_engine::planner::Trigger;
use serde_json::{Value, json};

use crate::cli::{Global, HarvestArgs};
use crate::commands::harvest::{Errand, carry_out, open};
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", from), mut_arg("until", to))]
pub struct BackfillArgs {
    #[command(flatten)]
    pub work: HarvestArgs,
    /// Name of the undertaking; the same name goes on where it was stopped [default: the window itself]
    #[arg(long, value_name = "NAME", conflicts_with = "holes")]
    pub activity: Option<String>,
    /// Read the windows that the harvest was waived or could not read
    #[arg(long)]
    pub holes: bool,
    /// Only list the holes
    #[arg(long, requires = "holes")]
    pub dry_run: bool,
}

fn from(arg: clap::Arg) -> clap::Arg {
    arg.long("from").help("First moment of the window (`2020-01-01`)").required_unless_present("holes")
}

fn to(arg: clap::Arg) -> clap::Arg {
    arg.long("to").help("First moment after it").required_unless_present("holes")
}

pub async fn run(global: &Global, args: &BackfillArgs) -> Result<(), Failure> {
    let desk = open(global, &args.work).await?;
    let asked = &args.work.trigger;
    if let (Some(from), Some(to)) = (asked.since, asked.until)
        && Window::new(from, to).is_none()
    {
        return Err(Failure::new(Exit::Usage, format!("the window from {from} to {to} is empty"))
            .hint("`--from` comes before `--to`"));
    }
    let source = desk.source_of(&args.work.source, &asked.channel).await?;
    let campaign = Campaign { activity: args.activity.clone(), only: None };
    let trigger = desk.trigger(&source, asked).await?;
    let trigger = Trigger { operation: Operation::Backfill, campaign, ..trigger };
    if !args.holes {
        return carry_out(global, &args.work, desk, Errand::of(trigger)).await;
    }
    let holes = holes_of(&desk, &trigger).await?;
    if args.dry_run || holes.is_empty() {
        desk.store.close().await;
        return list(global, &source, &holes);
    }
    carry_out(global, &args.work, desk, Errand::of(filling(trigger, &holes))).await
}

/// Holes of the harvest with the same query, inside the window if one was given.
async fn holes_of(desk: &Desk, trigger: &Trigger) -> Result<Vec<Hole>, Failure> {
    let harvest = Trigger { operation: Operation::Harvest, since: None, ..trigger.clone() };
    let spec = desk.planner().compile(&harvest).await?.spec;
    let mut holes = desk.store.holes(&namespace_of(&spec), spec.window.safety_lag).await?;
    let from = trigger.since.unwrap_or(patra_core::time::Timestamp::MIN);
    let to = trigger.until.unwrap_or(patra_core::time::Timestamp::MAX);
    holes.retain(|hole| from < hole.window.to() && hole.window.from() < to);
    Ok(holes)
}

fn filling(trigger: Trigger, holes: &[Hole]) -> Trigger {
    let windows: Vec<Window> = holes.iter().map(|hole| hole.window).collect();
    let since = windows.iter().map(Window::from).min();
    let campaign = Campaign { activity: Some(HOLES.into()), only: Some(windows) };
    Trigger { since, until: None, campaign, ..trigger }
}

fn list(global: &Global, source: &str, holes: &[Hole]) -> Result<(), Failure> {
    let shown = |hole: &Hole| json!({ "window_from": hole.window.from(), "window_to": hole.window.to(), "cause": hole.cause, "reason": hole.reason });
    let rows: Vec<Value> = holes.iter().map(shown).collect();
    match (global.json, rows.is_empty()) {
        (true, _) => println!("{}", Value::Array(rows)),
        (false, true) => println!("{source}: the harvest has no holes"),
        (false, false) => println!("{}", table::of_rows(&rows, &["window_from", "window_to", "cause", "reason"])),
    }
    Ok(())
}
