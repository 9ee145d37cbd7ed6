//! `patra update`: records that are known, asked for again by their ids; `patra signal`: which of them, and why.

use std::collections::BTreeSet;
use std::io::Read;

use clap::{ArgGroup, Args, Subcommand};
use patra_core::hash::Hash32;
use patra_core::plan::campaign::Campaign;
use patra_core::plan::refresh::{RECORDS_MAX, Refresh};
use patra_core::ports::{Inspect, ListFilter, NewSignal, Noun, Operate};
use patra_core::spec::snapshot::{Operation, SpecSnapshot};
use patra_core::time::Span;
use patra_engine::planner::Trigger;
use serde_json::{Value, json};

use crate::cli::{Global, HarvestArgs, ListArgs};
use crate::commands::harvest::{Errand, carry_out, open};
use crate::commands::nouns::{columns, filter};
use crate::commands::operator::{act, told};
use crate::failure::{Exit, Failure};
use crate::table;
use crate::wiring::Desk;

#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("which").required(true)), mut_arg("since", unused), mut_arg("until", unused))]
pub struct UpdateArgs {
    #[command(flatten)]
    pub work: HarvestArgs,
    /// Records that were not looked at for so long (`P30D`)
    #[arg(long, value_name = "SPAN", group = "which")]
    pub stale_for: Option<Span>,
    /// Records that were written under another mapping than the current one
    #[arg(long, group = "which")]
    pub expr_changed: bool,
    /// These ids, one on each line of a file; `-` reads them from stdin
    #[arg(long, value_name = "FILE", group = "which")]
    pub ids: Option<String>,
    /// Records that were signalled: by `patra signal add`, by notices, by quarantine
    #[arg(long, group = "which")]
    pub signals: bool,
    /// At most so many records; the rest is left for the next time
    #[arg(long, default_value_t = RECORDS_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(RECORDS_MAX)))]
    pub limit: u32,
}

/// A refresh has no window of records.
fn unused(arg: clap::Arg) -> clap::Arg {
    arg.hide(true)
}

#[derive(Debug, Subcommand)]
pub enum SignalCommand {
    /// Ask for records again with the next `patra update --signals`
    Add(SignalArgs),
    /// Signals, newest first
    List(ListArgs),
}

#[derive(Clone, Debug, Args)]
pub struct SignalArgs {
    pub source: String,
    /// Ids as the provider has them
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// What kind of hint it is
    #[arg(long, default_value = "manual", value_parser = ["manual", "retraction", "merge", "missing-field"])]
    pub kind: String,
    /// Endpoint of the source; its only search endpoint by default
    #[arg(long)]
    pub endpoint: Option<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

pub async fn run(global: &Global, args: &UpdateArgs) -> Result<(), Failure> {
    let asked = &args.work.trigger;
    if asked.since.is_some() || asked.until.is_some() {
        return Err(Failure::new(Exit::Usage, "a refresh has no window").hint("leave `--since` and `--until` out"));
    }
    let given = args.ids.as_deref().map(read_ids).transpose()?;
    let desk = open(global, &args.work).await?;
    let source = desk.source_of(&args.work.source, &asked.channel).await?;
    let trigger = Trigger { operation: Operation::Update, ..desk.trigger(&source, asked).await? };
    let spec = desk.planner().compile(&trigger).await?.spec;
    let (activity, ids) = wanted(&desk, args, &spec, given).await?;
    let trigger = Trigger { campaign: Campaign { activity: Some(activity), only: None }, ..trigger };
    carry_out(global, &args.work, desk, Errand { trigger, refresh: Some(ids) }).await
}

/// The undertaking and its ids.
async fn wanted(
    desk: &Desk,
    args: &UpdateArgs,
    spec: &SpecSnapshot,
    given: Option<BTreeSet<String>>,
) -> Result<(String, BTreeSet<String>), Failure> {
    if let Some(ids) = given {
        let all: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
        return Ok((format!("ids {}", Hash32::of_parts(&all)), ids));
    }
    let refresh = match args.stale_for {
        Some(span) => Refresh::StaleFor(span),
        None if args.expr_changed => Refresh::ExprChanged,
        None => Refresh::Signals,
    };
    let ids = desk.planner().choose(&*desk.store, spec, refresh, args.limit).await?;
    Ok((refresh.activity().to_owned(), ids))
}

fn read_ids(place: &str) -> Result<BTreeSet<String>, Failure> {
    let mut text = String::new();
    let read = match place {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        file => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| Failure::new(Exit::NotFound, format!("cannot read `{place}`: {error}")))?;
    let ids: BTreeSet<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match ids.is_empty() {
        true => Err(Failure::new(Exit::Usage, format!("`{place}` holds no id")).hint("one id on each line")),
        false => Ok(ids),
    }
}

pub async fn signal(global: &Global, command: &SignalCommand) -> Result<(), Failure> {
    match command {
        SignalCommand::Add(args) => Desk::act(global, async |desk| add(desk, global, args).await).await,
        SignalCommand::List(args) => list(global, args).await,
    }
}

async fn add(desk: &Desk, global: &Global, args: &SignalArgs) -> Result<(), Failure> {
    let trigger = Trigger {
        operation: Operation::Update,
        endpoint: args.endpoint.clone(),
        ..crate::wiring::plain(&args.source, "stable")
    };
    let spec = desk.planner().compile(&trigger).await?.spec;
    let signal = NewSignal {
        provenance: spec.provenance,
        entity: spec.entity,
        ids: args.ids.clone(),
        kind: args.kind.to_ascii_uppercase().replace('-', "_"),
    };
    let added = desk.store.add_signals(&signal, &act(&args.reason)).await?;
    let text = format!("{added} signals added; `patra update {} --signals` asks for them", args.source);
    told(global, json!({ "added": added, "source": args.source }), &text)
}

async fn list(global: &Global, args: &ListArgs) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let wanted: ListFilter = filter(args)?;
    let rows: Vec<Value> = desk.store.list(Noun::Signal, &wanted).await?.into_iter().map(Value::Object).collect();
    match global.json {
        true => println!("{}", Value::Array(rows)),
        false => println!("{}", table::of_rows(&rows, &columns(Noun::Signal))),
    }
    Ok(())
}
