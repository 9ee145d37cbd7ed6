//! `patra quarantine list|show|retry|discard`.

use clap::{Args, Subcommand};
use patra_core::id::Id;
use patra_core::page::Item;
use patra_core::pointer::Pointers;
use patra_core::ports::{Mended, Noun, Phase, Quarantine, Quarantined};
use patra_core::record::NewRecord;
use patra_core::spec::hashes;
use patra_core::spec::snapshot::SpecSnapshot;
use patra_source::program::Program;
use serde_json::{Value, json};

use crate::cli::{Global, NounCommand};
use crate::commands::nouns;
use crate::commands::operator::{act, find};
use crate::failure::{Exit, Failure};
use crate::wiring::{Desk, plain};

#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    #[command(flatten)]
    Look(NounCommand),
    /// Read records again under the current definition, from the bytes that were kept, and store those that are good now
    Retry(SettleArgs),
    /// Give records up for good
    Discard(SettleArgs),
}

#[derive(Clone, Debug, Args)]
pub struct SettleArgs {
    /// Their ids or unique beginnings of them
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Release channel of the definition
    #[arg(long, default_value = "stable")]
    pub channel: String,
}

pub async fn run(global: &Global, command: &QuarantineCommand) -> Result<(), Failure> {
    match command {
        QuarantineCommand::Look(command) => nouns::run(global, Noun::Quarantine, command).await,
        QuarantineCommand::Retry(args) => Desk::act(global, async |desk| retry(desk, global, args).await).await,
        QuarantineCommand::Discard(args) => Desk::act(global, async |desk| discard(desk, global, args).await).await,
    }
}

async fn retry(desk: &Desk, global: &Global, args: &SettleArgs) -> Result<(), Failure> {
    let (mut told, mut bad) = (Vec::new(), 0);
    for id in &args.ids {
        let one = desk.store.quarantined(find(desk, Noun::Quarantine, "quarantined record", id).await?).await?;
        let outcome = mend(desk, &one, args).await?;
        bad += u64::from(outcome["outcome"] == "BAD");
        told.push(outcome);
    }
    say(global, &told);
    match bad {
        0 => Ok(()),
        bad => Err(Failure::new(Exit::Incomplete, format!("{bad} of {} records cannot be read yet", args.ids.len()))
            .hint("they stay in quarantine; mend the definition, or `patra quarantine discard`")),
    }
}

/// Reads the kept bytes under the definition in force now.
async fn mend(desk: &Desk, one: &Quarantined, args: &SettleArgs) -> Result<Value, Failure> {
    let Quarantined { id, provenance, .. } = one;
    if !one.open {
        return Ok(json!({ "id": id, "outcome": "SETTLED_BEFORE" }));
    }
    let mut trigger = plain(provenance, &args.channel);
    trigger.endpoint = Some(one.endpoint.clone());
    let spec = desk.planner().compile(&trigger).await?.spec;
    let item = match reread(&spec, one)? {
        Ok(item) => item,
        Err(message) => return Ok(json!({ "id": id, "outcome": "BAD", "message": message })),
    };
    let provider_id = item.id.clone();
    let pointers = Pointers::of(spec.record_response());
    let record = NewRecord::of(item, one.fetched_at, spec.registry_version, &pointers);
    let mended = Mended { id: *id, record, mapping_hash: hashes::mapping_hash(&spec), act: act(&args.reason) };
    let outcome = if desk.store.mend(mended).await? { "STORED" } else { "SETTLED_BEFORE" };
    Ok(json!({ "id": id, "outcome": outcome, "provider_id": provider_id }))
}

/// The record, or why it still is none.
fn reread(spec: &SpecSnapshot, one: &Quarantined) -> Result<Result<Item, String>, Failure> {
    let unusable = |message| Failure::new(Exit::Usage, message);
    let program = Program::compile(spec).map_err(unusable)?;
    let phase = match (one.phase, &program.detail) {
        (Phase::Search, _) => &program.search,
        (Phase::Detail, Some(detail)) => detail,
        (Phase::Detail, None) => return Err(unusable("the definition has no detail request any more".into())),
    };
    let read = phase.response.reread(one.raw.clone());
    Ok(read.map_err(|bad| format!("{} at `{}`", bad.message, bad.path)))
}

async fn discard(desk: &Desk, global: &Global, args: &SettleArgs) -> Result<(), Failure> {
    let mut told = Vec::new();
    for text in &args.ids {
        let id: Id = find(desk, Noun::Quarantine, "quarantined record", text).await?;
        let outcome = if desk.store.discard(id, &act(&args.reason)).await? { "DISCARDED" } else { "SETTLED_BEFORE" };
        told.push(json!({ "id": id, "outcome": outcome }));
    }
    say(global, &told);
    Ok(())
}

fn say(global: &Global, told: &[Value]) {
    if global.json {
        println!("{}", Value::Array(told.to_vec()));
        return;
    }
    for one in told {
        let more = one["message"].as_str().or(one["provider_id"].as_str()).unwrap_or_default();
        println!("{} {} {more}", one["id"].as_str().unwrap_or_default(), one["outcome"].as_str().unwrap_or_default());
    }
}
