//! `patra cursor events|verify|rebuild|thin`: the moves of watermarks, and whether the watermarks follow from them.

use clap::{Args, Subcommand};
use patra_core::hash::Hash32;
use patra_core::ports::{CursorReport, CursorWork, Inspect, Intervention, ListFilter, Noun, Operate};
use patra_core::time::Span;
use serde_json::{Value, json};

use crate::cli::{Global, ListArgs};
use crate::commands::nouns::{columns, filter};
use crate::commands::operator::act;
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

#[derive(Debug, Subcommand)]
pub enum TendCommand {
    /// Every move of a watermark, newest first
    Events(EventsArgs),
    /// Compare cursors with their events; names every gap and exits 1 when there is one
    Verify(OfSource),
    /// Make cursors again from their events
    Rebuild(MendArgs),
    /// Replace old events by summaries, from which a cursor can still be rebuilt
    Thin(ThinArgs),
}

#[derive(Clone, Debug, Args)]
pub struct EventsArgs {
    /// A cursor, by its id or a unique beginning of it; all by default
    pub cursor: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Clone, Debug, Args)]
pub struct OfSource {
    /// Only cursors of this source
    #[arg(long)]
    pub source: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct MendArgs {
    #[command(flatten)]
    pub of: OfSource,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Clone, Debug, Args)]
pub struct ThinArgs {
    #[command(flatten)]
    pub mend: MendArgs,
    /// Events younger than this are kept
    #[arg(long, value_name = "SPAN", default_value = "P90D")]
    pub keep: Span,
}

/// A finish that is repeated after an unknown commit looks for its event; it never waits this long.
const KEEP_LEAST: Span = Span::DAY;

pub async fn run(global: &Global, command: &TendCommand) -> Result<(), Failure> {
    match command {
        TendCommand::Events(args) => events(global, args).await,
        TendCommand::Verify(of) => verify(global, of).await,
        TendCommand::Rebuild(args) => {
            let reports = Desk::act(global, async |desk| tend(desk, args, CursorWork::Rebuild).await).await?;
            tell(global, &reports, "cursors rebuilt")
        }
        TendCommand::Thin(args) => {
            if args.keep < KEEP_LEAST {
                return Err(Failure::new(Exit::Usage, format!("`--keep {}` is too short", args.keep))
                    .hint("events of the last day are needed: keep at least P1D"));
            }
            let thin = async |desk: &Desk| {
                let before = desk.clock.now().minus(args.keep);
                tend(desk, &args.mend, CursorWork::Thin { before }).await
            };
            tell(global, &Desk::act(global, thin).await?, "events replaced by summaries")
        }
    }
}

async fn events(global: &Global, args: &EventsArgs) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let mut wanted = filter(&args.list)?;
    if let Some(name) = &args.cursor {
        wanted.namespace = Some(namespace_of(&desk, name).await?);
    }
    let wanted = ListFilter { status: None, ..wanted };
    let rows = desk.store.list(Noun::CursorEvent, &wanted).await?;
    let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
    match global.json {
        true => println!("{}", Value::Array(rows)),
        false => println!("{}", table::of_rows(&rows, &columns(Noun::CursorEvent))),
    }
    Ok(())
}

async fn namespace_of(desk: &Desk, name: &str) -> Result<Hash32, Failure> {
    let missing = || Failure::new(Exit::NotFound, format!("there is no cursor `{name}`"));
    let row = desk.store.show(Noun::Cursor, name).await?.ok_or_else(missing)?;
    row["namespace_hash"].as_str().and_then(|hash| hash.parse().ok()).ok_or_else(missing)
}

async fn verify(global: &Global, of: &OfSource) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let nobody = Intervention { actor: String::new(), reason: String::new() };
    let reports = desk.store.tend_cursors(of.source.as_deref(), CursorWork::Verify, &nobody).await?;
    tell(global, &reports, "")
}

async fn tend(desk: &Desk, args: &MendArgs, work: CursorWork) -> Result<Vec<CursorReport>, Failure> {
    Ok(desk.store.tend_cursors(args.of.source.as_deref(), work, &act(&args.reason)).await?)
}

fn tell(global: &Global, reports: &[CursorReport], what: &str) -> Result<(), Failure> {
    let changed: u64 = reports.iter().map(|report| report.changed).sum();
    let broken: Vec<&CursorReport> = reports.iter().filter(|report| !report.faults.is_empty()).collect();
    if global.json {
        println!("{}", json!({ "cursors": reports, "changed": changed, "ok": broken.is_empty() }));
    } else {
        let events: u64 = reports.iter().map(|report| report.events).sum();
        match (what, broken.is_empty()) {
            ("", true) => println!("{} cursors follow from their {events} events", reports.len()),
            ("", false) => println!("{} of {} cursors do not follow from their events", broken.len(), reports.len()),
            _ => println!("{} cursors, {events} events; {changed} {what}", reports.len()),
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = broken.iter().flat_map(|report| lines(report)).collect();
    Err(Failure::new(Exit::Incomplete, told.join("\n")).hint(
        "a cursor alone is mended by `patra cursor rebuild`; lost events come back only from a copy of the database",
    ))
}

fn lines(report: &CursorReport) -> Vec<String> {
    let hash = report.namespace.to_string();
    let name = format!("{} {} {} ({})", report.provenance, report.endpoint, report.operation, &hash[..12]);
    report.faults.iter().map(|fault| format!("{name}: {fault}")).collect()
}
