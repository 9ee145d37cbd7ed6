//! `patra replay`: kept pages read again, without one request, under the spec of their plan or another one. It writes
//! nothing but a row of the audit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use clap::Args;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::pass::id_hash;
use patra_core::ports::{Ledger, Noun, Operate, Phase, Prove, Registry};
use patra_core::proof::{Differences, Kept, KeptPage, Pages, ReadRecord};
use patra_core::registry::{Definition, decode};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_source::decode::Decoded;
use patra_source::program::Program;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::commands::operator::{act, find};
use crate::failure::{Exit, Failure, mistaken};
use crate::table;
use crate::wiring::{Apply, Desk, looks_like_a_file, plain, read_definition};

/// Pages shown to a person; `--json` has all.
const SHOWN_MAX: usize = 50;

#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub struct ReplayArgs {
    /// A page (`patra batch list`), a run or a task, by its id or a unique beginning of it
    #[arg(value_name = "BATCH|RUN|TASK", group = "what")]
    pub id: Option<String>,
    /// Every kept page of a source
    #[arg(long, value_name = "SOURCE", group = "what")]
    pub source: Option<String>,
    /// What would change under another mapping: a version (`patra registry history`), a definition file, or `current` for
    /// the one in force
    #[arg(long, value_name = "VERSION|FILE|current")]
    pub spec: Option<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "replay")]
    pub reason: String,
}

pub async fn run(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let told = Desk::act(global, async |desk| {
        let pages = pages_asked(desk, args).await?;
        let detail = json!({ "pages": format!("{pages:?}"), "spec": args.spec });
        desk.store
            .note(
                "REPLAY",
                args.id.as_deref().or(args.source.as_deref()).unwrap_or_default(),
                &act(&args.reason),
                detail,
            )
            .await?;
        replayed(desk, &pages, args.spec.as_deref()).await
    })
    .await?;
    show(global, &told);
    let count = |outcome: &str| told.iter().filter(|one| one["outcome"] == outcome).count();
    match (told.len(), count("DIFFERENT") + count("BROKEN")) {
        (0, _) => Err(Failure::new(Exit::NotFound, "there is no committed page of that name")),
        (_, 0) => Ok(()),
        (_, _) if args.spec.is_some() && count("BROKEN") == 0 => Ok(()),
        (all, bad) => Err(Failure::new(Exit::Incomplete, format!("{bad} of {all} pages do not read as they did"))),
    }
}

/// A page, a run or a task, whichever has this id.
async fn pages_asked(desk: &Desk, args: &ReplayArgs) -> Result<Pages, Failure> {
    if let Some(source) = &args.source {
        return Ok(Pages::Source(source.clone()));
    }
    let text = args.id.as_deref().unwrap_or_default();
    for (noun, pages) in [
        (Noun::Batch, Pages::Batch as fn(Id) -> Pages),
        (Noun::Run, Pages::Run as fn(Id) -> Pages),
        (Noun::Task, Pages::Task as fn(Id) -> Pages),
    ] {
        if let Ok(id) = find(desk, noun, "row", text).await {
            return Ok(pages(id));
        }
    }
    Err(Failure::new(Exit::NotFound, format!("there is no page, run or task `{text}`"))
        .hint("`patra batch list`, `patra run list` and `patra task list` show their ids"))
}

async fn replayed(desk: &Desk, pages: &Pages, other: Option<&str>) -> Result<Vec<Value>, Failure> {
    let mut readings: HashMap<Id, Reading> = HashMap::new();
    let (mut told, mut after) = (Vec::new(), Id(0));
    loop {
        let some = desk.store.kept_pages(pages, after).await?;
        let Some(last) = some.last() else { return Ok(told) };
        after = last.batch;
        for page in &some {
            let reading = match readings.entry(page.plan) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(Reading::of(desk, page.plan, other).await?),
            };
            told.push(one(desk, page, reading).await?);
        }
    }
}

/// How the pages of a plan are read, and how they would be read.
struct Reading {
    spec: Arc<SpecSnapshot>,
    own: Result<Program, String>,
    other: Option<Result<Program, String>>,
}

impl Reading {
    async fn of(desk: &Desk, plan: Id, other: Option<&str>) -> Result<Reading, Failure> {
        let spec = desk.store.plan(plan).await?.spec;
        let other = match other {
            Some(other) => Some(Program::compile(&spec_of(desk, &spec, other).await?)),
            None => None,
        };
        Ok(Reading { own: Program::compile(&spec), spec, other })
    }
}

async fn one(desk: &Desk, page: &KeptPage, reading: &Reading) -> Result<Value, Failure> {
    let mut told = json!({ "batch": page.batch, "window": page.window.to_string(), "phase": page.phase.code() });
    let body = match &page.kept {
        Kept::Whole(body) => body.clone(),
        Kept::Sample(_) => return Ok(with(told, "SAMPLE_ONLY", "only the beginning of the answer was kept")),
        Kept::Nothing => return Ok(with(told, "NOT_KEPT", "no answer was kept, or it is past its time")),
    };
    let read = |program: &Result<Program, String>, body| {
        decoded_with(program.as_ref().map_err(Clone::clone)?, page.phase, body)
    };
    let decoded = match read(&reading.own, body.clone()) {
        Ok(decoded) => decoded,
        // Answers that a rule takes for an empty page are no pages.
        Err(_) if page.ids.is_empty() => return Ok(with(told, "SAME", "")),
        Err(message) => return Ok(with(told, "BROKEN", &message)),
    };
    told["records"] = decoded.items.len().into();
    let before = read_records(&decoded);
    let Some(other) = &reading.other else {
        return same(desk, page, &reading.spec, &decoded, &before, told).await;
    };
    match read(other, body) {
        Ok(again) => Ok(compared(told, &Differences::between(&before, &read_records(&again)))),
        Err(message) => Ok(with(told, "BROKEN", &message)),
    }
}

/// The page reads as it did: the same ids in the same order, the same total, and the records it stored.
async fn same(
    desk: &Desk,
    page: &KeptPage,
    spec: &SpecSnapshot,
    decoded: &Decoded,
    records: &[ReadRecord],
    told: Value,
) -> Result<Value, Failure> {
    if ids_of(decoded) != page.ids {
        return Ok(with(told, "DIFFERENT", "it gives other ids"));
    }
    if decoded.total != page.total {
        return Ok(with(told, "DIFFERENT", &format!("it counts {:?}, and counted {:?}", decoded.total, page.total)));
    }
    let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
    let stored = desk.store.stored_by(&spec.provenance, &spec.entity, page.batch, ids).await?;
    let read: Vec<ReadRecord> =
        records.iter().filter(|record| stored.iter().any(|one| one.id == record.id)).cloned().collect();
    Ok(compared(told, &Differences::between(&stored, &read)))
}

fn compared(mut told: Value, differences: &Differences) -> Value {
    if differences.is_empty() {
        return with(told, "SAME", "");
    }
    let Differences { added, lost, changed } = differences;
    let text = format!("{} added, {} lost, {} changed", added.len(), lost.len(), changed.len());
    told["differences"] = json!(differences);
    with(told, "DIFFERENT", &text)
}

fn with(mut told: Value, outcome: &str, message: &str) -> Value {
    told["outcome"] = outcome.into();
    told["message"] = message.into();
    told
}

/// A kept answer as a program reads it.
pub fn decoded_with(program: &Program, phase: Phase, body: bytes::Bytes) -> Result<Decoded, String> {
    let response = match (phase, &program.detail) {
        (Phase::Search, _) => &program.search.response,
        (Phase::Detail, Some(detail)) => &detail.response,
        (Phase::Detail, None) => return Err("the definition has no detail request".into()),
    };
    response.decode(body, None).map_err(|error| error.to_string())
}

fn ids_of(decoded: &Decoded) -> Vec<u64> {
    let good = decoded.items.iter().map(|item| id_hash(&item.id));
    let bad = decoded.bad.iter().map(|bad| bad.id.as_deref().map_or_else(|| Hash32::of(&bad.raw).short(), id_hash));
    good.chain(bad).collect()
}

fn read_records(decoded: &Decoded) -> Vec<ReadRecord> {
    let record = |item: &patra_core::page::Item| ReadRecord {
        id: item.id.clone(),
        content_hash: item.content_hash,
        fields: item.fields.clone(),
    };
    decoded.items.iter().map(record).collect()
}

/// The other spec for the same endpoint: of a version or a file, which is published nowhere, or the one in force.
pub async fn spec_of(desk: &Desk, spec: &SpecSnapshot, other: &str) -> Result<SpecSnapshot, Failure> {
    let mut trigger = plain(&spec.provenance, "stable");
    trigger.endpoint = Some(spec.endpoint.clone());
    if other == "current" {
        return Ok(desk.planner().compile(&trigger).await?.spec);
    }
    let (definition, text) = definition_named(desk, &spec.provenance, other).await?;
    let aside = Desk::open(":memory:").await?;
    let apply = Apply { channel: "stable", from: None, actor: "replay", remark: other };
    aside.apply(&definition, &text, apply).await?;
    trigger.provenance = definition.source().to_owned();
    let compiled = aside.planner().compile(&trigger).await;
    aside.store.close().await;
    Ok(compiled?.spec)
}

/// A definition by the number of its version, or by its file.
async fn definition_named(desk: &Desk, source: &str, other: &str) -> Result<(Definition, String), Failure> {
    if looks_like_a_file(other) {
        return read_definition(std::path::Path::new(other));
    }
    let Ok(number) = other.parse::<i64>() else {
        let message = format!("`{other}` is neither a version, nor a definition file, nor `current`");
        return Err(Failure::new(Exit::Usage, message));
    };
    let missing = || {
        Failure::new(Exit::NotFound, format!("`{source}` has no version {number}"))
            .hint(format!("`patra registry history {source}` lists them"))
    };
    let text = desk.store.version(source, number).await?.ok_or_else(missing)?.definition;
    let definition = decode(&format!("{source} version {number}"), &text).map_err(|mistakes| mistaken(&mistakes))?;
    Ok((definition, text))
}

fn show(global: &Global, told: &[Value]) {
    if global.json {
        println!("{}", json!(told));
        return;
    }
    let noted: Vec<Value> = told.iter().filter(|one| one["outcome"] != "SAME").cloned().collect();
    if !noted.is_empty() {
        let columns = ["batch", "window", "phase", "records", "outcome", "message"];
        println!("{}", table::of_rows(&noted[..noted.len().min(SHOWN_MAX)], &columns));
    }
    if noted.len() > SHOWN_MAX {
        println!("and {} more (`--json` has all)", noted.len() - SHOWN_MAX);
    }
    let same = told.len() - noted.len();
    println!("{} pages read again: {same} the same, {} not", told.len(), noted.len());
}
