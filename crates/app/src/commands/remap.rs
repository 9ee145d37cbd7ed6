//! `patra remap`: stored records derived anew from kept pages, under another mapping, without one request. A run that was
//! cut goes on after the last page it committed.

use std::collections::HashMap;
use std::sync::Arc;

use clap::Args;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{Export, Ledger, Operate, Phase, Progress, Prove, Remap, RemapPage, Work};
use patra_core::proof::{Kept, KeptPage, Pages};
use patra_core::remap::{Derivation, Position, RemapCounts, keeps_order};
use patra_core::spec::hashes::mapping_hash;
use patra_core::spec::snapshot::SpecSnapshot;
use patra_source::program::Program;
use serde_json::json;

use crate::cli::Global;
use crate::commands::operator::act;
use crate::commands::other_spec::{decoded_with, spec_of};
use crate::counting::Counting;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

#[derive(Clone, Debug, Args)]
pub struct RemapArgs {
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// The mapping: a version (`patra registry history`), a definition file, or `current` for the one in force
    #[arg(long, value_name = "VERSION|FILE|current", default_value = "current")]
    pub spec: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "remap")]
    pub reason: String,
}

pub async fn run(global: &Global, args: &RemapArgs) -> Result<(), Failure> {
    let counts = Desk::act(global, async |desk| remapped(desk, global, args).await).await?;
    match global.json {
        true => println!("{}", json!(counts)),
        false => println!(
            "{} pages read again: {} records changed, {} new, {} as they were",
            counts.pages, counts.changed, counts.inserted, counts.same
        ),
    }
    match counts.not_kept + counts.broken {
        0 => Ok(()),
        pages => Err(Failure::new(
            Exit::Incomplete,
            format!("{pages} pages are not kept whole or cannot be read: what only they hold stays as it is"),
        )
        .hint("`patra replay --source` names them; `patra update --expr-changed` asks the source for their records")),
    }
}

async fn remapped(desk: &Desk, global: &Global, args: &RemapArgs) -> Result<RemapCounts, Failure> {
    let mut walk = Walk::begin(desk, args).await?;
    let detail = json!({ "spec": args.spec, "after": walk.position.after, "secondWalk": walk.position.second });
    desk.store.note("REMAP", &args.source, &act(&args.reason), detail).await?;
    let mut counting = Counting::new(global.quiet, desk.clock.clone());
    while !walk.position.done {
        walk.pages().await?;
        let Position { counts, second, .. } = &walk.position;
        counting.say(|| {
            let again = if *second { " once more" } else { "" };
            format!("{} pages read{again}: {} records changed, {} new", counts.pages, counts.changed, counts.inserted)
        });
    }
    counting.end();
    let detail = json!({ "spec": args.spec, "counts": walk.position.counts, "done": true });
    desk.store.note("REMAP", &args.source, &act(&args.reason), detail).await?;
    Ok(walk.position.counts)
}

/// One endpoint's pages of one plan: how they were read, and how they are read now.
struct Reading {
    spec: Arc<SpecSnapshot>,
    other: Arc<(SpecSnapshot, Program)>,
    derivation: Derivation,
    keeps_order: bool,
}

struct Walk<'a> {
    desk: &'a Desk,
    args: &'a RemapArgs,
    fingerprint: Hash32,
    step_no: i64,
    position: Position,
    plans: HashMap<Id, Arc<Reading>>,
    others: HashMap<String, Arc<(SpecSnapshot, Program)>>,
}

impl<'a> Walk<'a> {
    /// Goes on where a run of the same mapping was cut; else from the first page.
    async fn begin(desk: &'a Desk, args: &'a RemapArgs) -> Result<Walk<'a>, Failure> {
        let known = desk.store.progress(Work::Remap, &args.source).await?;
        let mut walk = Walk {
            desk,
            args,
            fingerprint: Hash32::default(),
            step_no: known.as_ref().map_or(0, |known| known.step_no),
            position: Position::default(),
            plans: HashMap::new(),
            others: HashMap::new(),
        };
        walk.fingerprint = walk.mapping().await?;
        if let Some(known) = known.filter(|known| known.fingerprint == walk.fingerprint) {
            let position: Position = serde_json::from_str(&known.position)?;
            if !position.done {
                walk.position = position;
            }
        }
        Ok(walk)
    }

    /// What the remap is known by: the mapping that the first page is read with.
    async fn mapping(&mut self) -> Result<Hash32, Failure> {
        let first = self.desk.store.kept_pages(&Pages::Source(self.args.source.clone()), Id(0)).await?;
        let Some(page) = first.first() else {
            return Err(Failure::new(Exit::NotFound, format!("`{}` has no committed page", self.args.source)));
        };
        let reading = self.reading(page.plan).await?;
        let mapping = mapping_hash(&reading.other.0);
        Ok(Hash32::of_parts(&[self.args.source.as_bytes(), mapping.bytes()]))
    }

    /// The next few pages, each in a commit of its own; after the last one the walk turns.
    async fn pages(&mut self) -> Result<(), Failure> {
        let pages = self.desk.store.kept_pages(&Pages::Source(self.args.source.clone()), self.position.after).await?;
        if pages.is_empty() {
            return self.turn().await;
        }
        for page in pages {
            let (reading, batch) = (self.reading(page.plan).await?, page.batch);
            self.position.again |= !reading.keeps_order;
            let (records, counts) = read(&reading, page);
            self.step_no += 1;
            let step = RemapPage {
                source: self.args.source.clone(),
                fingerprint: self.fingerprint,
                step_no: self.step_no,
                position: self.position.clone(),
                batch,
                entity: reading.spec.entity.clone(),
                mapping_hash: reading.derivation.mapping_hash,
                records,
                counts,
            };
            self.position = self.desk.store.remap_page(step).await?.ok_or_else(|| meanwhile(&self.args.source))?;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), Failure> {
        self.position = std::mem::take(&mut self.position).turned();
        self.step_no += 1;
        let next = Progress {
            fingerprint: self.fingerprint,
            position: json!(self.position).to_string(),
            step_no: self.step_no,
        };
        match self.desk.store.note_progress(Work::Remap, &self.args.source, &next).await? {
            true => Ok(()),
            false => Err(meanwhile(&self.args.source)),
        }
    }

    async fn reading(&mut self, plan: Id) -> Result<Arc<Reading>, Failure> {
        if let Some(known) = self.plans.get(&plan) {
            return Ok(known.clone());
        }
        let spec = self.desk.store.plan(plan).await?.spec;
        let other = match self.others.get(&spec.endpoint) {
            Some(other) => other.clone(),
            None => {
                let other = spec_of(self.desk, &spec, &self.args.spec).await?;
                let program = Program::compile(&other).map_err(|error| Failure::new(Exit::Definition, error))?;
                let other = Arc::new((other, program));
                self.others.insert(spec.endpoint.clone(), other.clone());
                other
            }
        };
        let derivation = Derivation::of(&spec, &other.0).map_err(|error| Failure::new(Exit::Definition, error))?;
        let keeps_order = keeps_order(&spec, &other.0);
        let reading = Arc::new(Reading { spec, other, derivation, keeps_order });
        self.plans.insert(plan, reading.clone());
        Ok(reading)
    }
}

fn meanwhile(source: &str) -> Failure {
    Failure::new(Exit::Incomplete, format!("somebody else remaps `{source}` at the same time"))
        .hint("theirs goes on; run it again when it is over")
}

/// The records of a page, and what is counted before they are compared.
fn read(reading: &Reading, page: KeptPage) -> (Vec<patra_core::record::NewRecord>, RemapCounts) {
    let mut counts = RemapCounts { pages: 1, ..RemapCounts::default() };
    // A list of ids is no page of records.
    if page.ids.is_empty() || (page.phase == Phase::Search && reading.other.0.detail.is_some()) {
        return (Vec::new(), counts);
    }
    let (Kept::Whole(body), Some(fetched_at)) = (page.kept, page.fetched_at) else {
        counts.not_kept = 1;
        return (Vec::new(), counts);
    };
    match decoded_with(&reading.other.1, page.phase, body) {
        Ok(decoded) => {
            counts.bad = decoded.bad.len() as u64;
            (reading.derivation.records(decoded.items, page.window, fetched_at), counts)
        }
        Err(_) => {
            counts.broken = 1;
            (Vec::new(), counts)
        }
    }
}
