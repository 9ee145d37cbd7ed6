//! The port of proof: slices with their accounts, waivers, and what is still lacking of them. Each look is one short
//! snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{DigestAsk, LedgerError, LifeAsk, Namespace, Prove, Rehearsal, Rehearsed};
use patra_core::proof::blackbox::Decisions;
use patra_core::proof::{Columns, Digests, Evidence, KeptPage, Leaf, Life, Pages, ReadRecord, Waiver};
use patra_core::states::SliceState;
use patra_core::time::Timestamp;
use patra_core::window::Window;
use serde_json::{Map, Value as Json};

use crate::coverage::{READ_CURSOR, read_cursor};
use crate::db::Tx;
use crate::decided;
use crate::digest;
use crate::error::DbError;
use crate::kept;
use crate::life;
use crate::prefix::ORDERED;
use crate::rehearse;
use crate::stats::counts_of;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, params};

const PLANNED: &str = "-- prove.planned
    SELECT MIN(window_from) AS first, MAX(window_to) AS last FROM ing_plan_slice WHERE namespace_hash = :namespace";
pub(crate) const LEAVES: &str = "-- prove.leaves
    SELECT id, plan_id, parent_slice_id, window_from, window_to, part, status_code, reason, read_at, stats, record_remarks
      FROM ing_plan_slice
     WHERE namespace_hash = :namespace AND status_code = :status AND window_to > :begin AND window_from < :end";
const WAIVERS: &str = "-- prove.waivers
    SELECT id, window_from, window_to, actor, reason FROM ing_waiver
     WHERE namespace_hash = :namespace AND window_to > :begin AND window_from < :end ORDER BY id";
const UNSETTLED: &str = "-- prove.unsettled
    SELECT slice_id, COUNT(*) AS found FROM ing_quarantine
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN' GROUP BY slice_id";
const MISSING: &str = "-- prove.missing
    SELECT b.slice_id, b.operation_code, s.window_from, s.window_to, COUNT(*) AS found
      FROM ing_missing_id m JOIN ing_task_run_batch b ON b.id = m.batch_id JOIN ing_plan_slice s ON s.id = b.slice_id
     WHERE m.provenance_code = :provenance AND m.endpoint_name = :entity AND m.status_code = 'OPEN'
     GROUP BY b.slice_id, b.operation_code, s.window_from, s.window_to";

#[async_trait]
impl Prove for Store {
    async fn planned_window(&self, namespace: &Namespace) -> Result<Option<Window>, LedgerError> {
        let hash = namespace.hash();
        self.retried("planned_window", move |store| planned(store, hash)).await
    }

    async fn evidence(&self, namespace: &Namespace, entity: &str, window: Window) -> Result<Evidence, LedgerError> {
        let asked = Arc::new((namespace.clone(), entity.to_owned(), window));
        self.retried("evidence", move |store| evidence(store, asked.clone())).await
    }

    async fn basis_columns(&self) -> Result<Columns, LedgerError> {
        self.retried("basis_columns", digest::columns).await
    }

    async fn digests(&self, ask: &DigestAsk) -> Result<Digests, LedgerError> {
        let ask = Arc::new(ask.clone());
        self.retried("digests", move |store| digest::read(store, ask.clone())).await
    }

    async fn watermark(&self, namespace: Hash32) -> Result<Option<Timestamp>, LedgerError> {
        self.retried("watermark", move |store| watermark(store, namespace)).await
    }

    async fn life(&self, ask: &LifeAsk) -> Result<Life, LedgerError> {
        let ask = Arc::new(ask.clone());
        self.retried("life", move |store| life::read(store, ask.clone())).await
    }

    async fn kept_pages(&self, pages: &Pages, after: Id) -> Result<Vec<KeptPage>, LedgerError> {
        let asked = Arc::new((pages.clone(), after));
        self.retried("kept_pages", move |store| kept::pages(store, asked.clone())).await
    }

    async fn stored_by(
        &self,
        provenance: &str,
        entity: &str,
        batch: Id,
        ids: Vec<String>,
    ) -> Result<Vec<ReadRecord>, LedgerError> {
        let (provenance, entity) = (provenance.to_owned(), entity.to_owned());
        let ask = Arc::new(kept::StoredAsk { provenance, entity, batch, ids });
        self.retried("stored_by", move |store| kept::stored(store, ask.clone())).await
    }

    async fn decisions(
        &self,
        provenance: &str,
        entity: &str,
        batch: Id,
        ids: Vec<String>,
    ) -> Result<Decisions, LedgerError> {
        let (provenance, entity) = (provenance.to_owned(), entity.to_owned());
        let ask = Arc::new(kept::StoredAsk { provenance, entity, batch, ids });
        self.retried("decisions", move |store| decided::read(store, ask.clone())).await
    }

    async fn rehearse(&self, page: Rehearsal) -> Result<Rehearsed, LedgerError> {
        let page = Arc::new(page);
        self.retried("rehearse", move |store| rehearse::rehearse(store, page.clone())).await
    }
}

async fn planned(store: Arc<Inner>, namespace: Hash32) -> Result<Option<Window>, DbError> {
    let mut tx = store.db.read().await?;
    let row = tx.row("ing_plan_slice", PLANNED, params! { namespace: namespace }).await;
    let window = row.and_then(|row| {
        let Some(row) = row else { return Ok(None) };
        let ends = row.opt_time("first")?.zip(row.opt_time("last")?);
        Ok(ends.and_then(|(first, last)| Window::new(first, last)))
    });
    ended(tx, window).await
}

async fn watermark(store: Arc<Inner>, namespace: Hash32) -> Result<Option<Timestamp>, DbError> {
    let mut tx = store.db.read().await?;
    let cursor = read_cursor(&mut tx, READ_CURSOR, namespace).await;
    Ok(ended(tx, cursor).await?.map(|cursor| cursor.watermark))
}

async fn evidence(store: Arc<Inner>, asked: Arc<(Namespace, String, Window)>) -> Result<Evidence, DbError> {
    let mut tx = store.db.read().await?;
    let (namespace, entity, window) = &*asked;
    let result = evidence_in(&mut tx, namespace, entity, *window).await;
    ended(tx, result).await
}

async fn evidence_in(tx: &mut Tx, namespace: &Namespace, entity: &str, window: Window) -> Result<Evidence, DbError> {
    let lacking = Lacking::read(tx, &namespace.provenance, entity).await?;
    let mut found = Evidence::default();
    for state in SliceState::ALL {
        let asked = params! {
            namespace: namespace.hash(), status: state.code(), begin: window.from(), end: window.to(),
        };
        for row in tx.rows("ing_plan_slice", LEAVES, asked).await? {
            let leaf = leaf_of(&row, &lacking)?;
            // What was replaced by windows of its own says nothing; what was replaced by parts counts once all are read.
            if leaf.state != SliceState::Split || leaf.read_at.is_some() {
                found.leaves.push(leaf);
            }
        }
    }
    found.leaves.sort_by_key(|leaf| (leaf.window, leaf.slice));
    found.asked_again = lacking.asked_again + lacking.elsewhere(&found.leaves, window);
    let asked = params! { namespace: namespace.hash(), begin: window.from(), end: window.to() };
    for row in tx.rows("ing_waiver", WAIVERS, asked).await? {
        let (actor, reason) = (row.string("actor")?, row.string("reason")?);
        found.waivers.push(Waiver { id: row.id("id")?, window: row.window()?, actor, reason });
    }
    Ok(found)
}

fn leaf_of(row: &Row, lacking: &Lacking) -> Result<Leaf, LedgerError> {
    let stats: Map<String, Json> = row.opt_json("stats")?.unwrap_or_default();
    let remarks: Json = row.opt_json("record_remarks")?.unwrap_or_default();
    let (slice, parent) = (row.id("id")?, row.opt_int("parent_slice_id")?.map(Id));
    // What was proven by its order was read by the slice that it was cut from, whose pages set records aside.
    let read_by =
        parent.filter(|_| row.opt_text("reason").is_ok_and(|reason| reason == Some(ORDERED))).unwrap_or(slice);
    Ok(Leaf {
        slice,
        plan: row.id("plan_id")?,
        parent,
        window: row.window()?,
        part: row.opt_text("part")?.map(str::to_owned),
        state: row.code("status_code", SliceState::from_code)?,
        reason: row.opt_text("reason")?.map(str::to_owned),
        read_at: row.opt_time("read_at")?,
        total: remarks["total"].as_u64(),
        distinct: remarks["distinct"].as_u64(),
        passes: remarks["passes"].as_u64().unwrap_or_default(),
        counts: counts_of(&stats),
        missing: lacking.missing.get(&slice).map_or(0, |(_, count)| *count),
        unsettled: lacking.unsettled.get(&read_by).copied().unwrap_or_default(),
        recount: None,
    })
}

/// What nobody has settled yet, by slice.
#[derive(Default)]
struct Lacking {
    unsettled: HashMap<Id, u64>,
    missing: HashMap<Id, (Window, u64)>,
    asked_again: u64,
}

impl Lacking {
    async fn read(tx: &mut Tx, provenance: &str, entity: &str) -> Result<Lacking, DbError> {
        let mut lacking = Lacking::default();
        let asked = || params! { provenance: provenance, entity: entity };
        for row in tx.rows("ing_quarantine", UNSETTLED, asked()).await? {
            lacking.unsettled.insert(row.id("slice_id")?, row.count("found")?);
        }
        for row in tx.rows("ing_missing_id", MISSING, asked()).await? {
            // An update that asks again takes the id over from the page that listed it.
            if row.text("operation_code")? == "UPDATE" {
                lacking.asked_again += row.count::<u64>("found")?;
            } else {
                lacking.missing.insert(row.id("slice_id")?, (row.window()?, row.count("found")?));
            }
        }
        Ok(lacking)
    }

    /// Ids that some slice over the window missed last which is no proof of it: a second reading that failed, a backfill, another
    /// query. An id belongs to the page that missed it last, so a proof that listed it first would not show it any more.
    fn elsewhere(&self, leaves: &[Leaf], window: Window) -> u64 {
        let proves = |leaf: &Leaf| leaf.state == SliceState::Succeeded || leaf.read_at.is_some();
        let counted: HashSet<Id> = leaves.iter().filter(|leaf| proves(leaf)).map(|leaf| leaf.slice).collect();
        let others = self.missing.iter().filter(|(slice, _)| !counted.contains(slice));
        others
            .filter(|(_, (over, _))| over.to() > window.from() && over.from() < window.to())
            .map(|(_, (_, n))| n)
            .sum()
    }
}
