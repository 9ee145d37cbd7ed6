//! Kept pages read again, a few at a time and beside each other: is each what it was, and what would another mapping make
//! of it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::pass::id_hash;
use patra_core::ports::{Ledger, Phase, Prove, Rehearsal};
use patra_core::proof::{Differences, Kept, KeptPage, Pages, ReadRecord, Replayed};
use patra_core::refit::Policy;
use patra_core::remap::Derivation;
use patra_core::spec::snapshot::SpecSnapshot;
use patra_source::decode::Decoded;
use patra_source::program::Program;
use serde_json::{Value, json};

use crate::commands::other_spec::{decoded_with, spec_of};
use crate::commands::replay::ReplayArgs;
use crate::counting::Counting;
use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

/// How the pages of a plan are read, and how they would be read.
pub struct Reading {
    pub spec: Arc<SpecSnapshot>,
    own: Result<Program, String>,
    other: Option<Result<Program, String>>,
    derivation: Result<Derivation, String>,
    two_phase: bool,
}

impl Reading {
    pub async fn of(desk: &Desk, plan: Id, other: Option<&str>) -> Result<Reading, Failure> {
        let spec = desk.store.plan(plan).await?.spec;
        let other = match other {
            Some(other) => Some(spec_of(desk, &spec, other).await?),
            None => None,
        };
        let mapping = other.as_ref().unwrap_or(&spec);
        Ok(Reading {
            own: Program::compile(&spec),
            derivation: Derivation::of(&spec, mapping).map_err(|error| error.to_string()),
            two_phase: mapping.detail.is_some(),
            other: other.as_ref().map(Program::compile),
            spec,
        })
    }

    /// Under the spec of its plan.
    pub fn own(&self, phase: Phase, body: Bytes) -> Result<Decoded, String> {
        decoded_with(self.own.as_ref().map_err(Clone::clone)?, phase, body)
    }

    fn other(&self, phase: Phase, body: Bytes) -> Option<Result<Decoded, String>> {
        let other = self.other.as_ref()?;
        Some(other.as_ref().map_err(Clone::clone).and_then(|program| decoded_with(program, phase, body)))
    }
}

/// A page as both specs read it.
struct Read {
    page: KeptPage,
    reading: Arc<Reading>,
    own: Result<Decoded, String>,
    other: Option<Result<Decoded, String>>,
}

impl Read {
    /// Takes time, and nothing but the page.
    fn of(page: KeptPage, reading: Arc<Reading>) -> Read {
        let Kept::Whole(body) = &page.kept else {
            return Read { page, reading, own: Err(String::new()), other: None };
        };
        let own = reading.own(page.phase, body.clone());
        let other = own.is_ok().then(|| reading.other(page.phase, body.clone())).flatten();
        Read { own, other, page, reading }
    }
}

pub struct Rereading<'a> {
    desk: &'a Desk,
    args: &'a ReplayArgs,
    readings: HashMap<Id, Arc<Reading>>,
    told: Vec<Value>,
    sums: Replayed,
}

impl<'a> Rereading<'a> {
    pub fn new(desk: &'a Desk, args: &'a ReplayArgs) -> Rereading<'a> {
        Rereading { desk, args, readings: HashMap::new(), told: Vec::new(), sums: Replayed::default() }
    }

    /// What is said of every page, and of all of them. The pages of one look are decoded beside each other; no more are
    /// held at a time.
    pub async fn replayed(mut self, pages: &Pages, quiet: bool) -> Result<(Vec<Value>, Replayed), Failure> {
        let mut counting = Counting::new(quiet, self.desk.clock.clone());
        let mut after = Id(0);
        loop {
            let some = self.desk.store.kept_pages(pages, after).await?;
            let Some(last) = some.last() else { break };
            after = last.batch;
            let mut at_work = Vec::with_capacity(some.len());
            for page in some {
                let reading = self.reading(page.plan).await?;
                at_work.push(tokio::task::spawn_blocking(move || Read::of(page, reading)));
            }
            for read in at_work {
                let read = read.await.map_err(|error| Failure::new(Exit::Internal, error))?;
                let told = self.one(&read).await?;
                self.told.push(told);
            }
            counting.say(|| format!("{} pages read again", self.told.len()));
        }
        counting.end();
        Ok((self.told, self.sums))
    }

    async fn reading(&mut self, plan: Id) -> Result<Arc<Reading>, Failure> {
        if let Some(known) = self.readings.get(&plan) {
            return Ok(known.clone());
        }
        let reading = Arc::new(Reading::of(self.desk, plan, self.args.spec.as_deref()).await?);
        self.readings.insert(plan, reading.clone());
        Ok(reading)
    }

    async fn one(&mut self, read: &Read) -> Result<Value, Failure> {
        let page = &read.page;
        let mut told = json!({ "batch": page.batch, "window": page.window.to_string(), "phase": page.phase.code() });
        let (mut outcome, mut message) = match (&page.kept, &read.own) {
            (Kept::Sample(_), _) => ("SAMPLE_ONLY", "only the beginning of the answer was kept".to_owned()),
            (Kept::Nothing, _) => ("NOT_KEPT", "no answer was kept, or it is past its time".to_owned()),
            // Answers that a rule takes for an empty page are no pages.
            (_, Err(_)) if page.ids.is_empty() => ("SAME", String::new()),
            (_, Err(message)) => ("BROKEN", message.clone()),
            (_, Ok(own)) => self.compared(read, own, &mut told).await?,
        };
        if let Some(refused) = self.rehearsed(read, &mut told).await? {
            (outcome, message) = ("REFUSED", refused);
        }
        self.sums.count(outcome);
        told["outcome"] = outcome.into();
        told["message"] = message.into();
        Ok(told)
    }

    async fn compared(
        &mut self,
        read: &Read,
        own: &Decoded,
        told: &mut Value,
    ) -> Result<(&'static str, String), Failure> {
        told["records"] = own.items.len().into();
        self.sums.records += own.items.len() as u64;
        let before = read_records(own);
        let differences = match &read.other {
            Some(Err(message)) => return Ok(("BROKEN", message.clone())),
            Some(Ok(other)) => Differences::between(&before, &read_records(other)),
            None => match self.unlike_stored(read, own, before).await? {
                Ok(differences) => differences,
                Err(message) => return Ok(("DIFFERENT", message)),
            },
        };
        if differences.is_empty() {
            return Ok(("SAME", String::new()));
        }
        self.sums.add(&differences);
        told["differences"] = json!(differences);
        Ok(("DIFFERENT", differences.told()))
    }

    /// Commits the records of a page and takes that back; why they would be refused.
    async fn rehearsed(&mut self, read: &Read, told: &mut Value) -> Result<Option<String>, Failure> {
        let (page, reading) = (&read.page, &read.reading);
        let decoded = read.other.as_ref().unwrap_or(&read.own);
        // A list of ids is no page of records.
        let listed = page.phase == Phase::Search && reading.two_phase;
        let (Ok(decoded), Some(fetched_at), true) = (decoded, page.fetched_at, self.args.full_chain && !listed) else {
            return Ok(None);
        };
        let derivation = reading.derivation.as_ref().map_err(|error| Failure::new(Exit::Definition, error))?;
        let rehearsed = self.desk.store.rehearse(Rehearsal {
            batch: page.batch,
            entity: reading.spec.entity.clone(),
            operation: reading.spec.operation,
            policy: Policy::of(&reading.spec),
            mapping_hash: derivation.mapping_hash,
            records: derivation.records(decoded.items.clone(), page.window, fetched_at),
            bad: decoded.bad.clone(),
        });
        let rehearsed = rehearsed.await?;
        told["would"] = json!(rehearsed.counts);
        self.sums.would.get_or_insert_default().add(&rehearsed.counts);
        Ok(rehearsed.refused)
    }

    /// The page reads as it did: the same ids in the same order, the same total, and the records it stored.
    async fn unlike_stored(
        &self,
        read: &Read,
        own: &Decoded,
        records: Vec<ReadRecord>,
    ) -> Result<Result<Differences, String>, Failure> {
        let (page, spec) = (&read.page, &read.reading.spec);
        if ids_of(own) != page.ids {
            return Ok(Err("it gives other ids".into()));
        }
        if own.total != page.total {
            return Ok(Err(format!("it counts {:?}, and counted {:?}", own.total, page.total)));
        }
        let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        let stored = self.desk.store.stored_by(&spec.provenance, &spec.entity, page.batch, ids).await?;
        let known = |record: &ReadRecord| stored.iter().any(|one| one.id == record.id);
        let read: Vec<ReadRecord> = records.into_iter().filter(known).collect();
        Ok(Ok(Differences::between(&stored, &read)))
    }
}

fn ids_of(decoded: &Decoded) -> Vec<u64> {
    let good = decoded.items.iter().map(|item| id_hash(&item.id));
    let bad = decoded.bad.iter().map(|bad| bad.id.as_deref().map_or_else(|| Hash32::of(&bad.raw).short(), id_hash));
    good.chain(bad).collect()
}

pub fn read_records(decoded: &Decoded) -> Vec<ReadRecord> {
    decoded.items.iter().map(ReadRecord::of).collect()
}
