//! The facts that alarms follow from, in one snapshot and without reading what grows with the ledger.

use std::collections::HashMap;
use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::healing::{CircuitState, Facts, HarvestPlan, Site, Stock};
use patra_core::id::Id;
use patra_core::time::{Span, Timestamp};

use crate::circuit;
use crate::coverage::READ_CURSOR_MOVED;
use crate::db::Tx;
use crate::error::DbError;
use crate::queue::{NEXT_QUEUED, read_groups};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

/// Plans older than this count only while they are live.
const PLANS_SINCE: Span = Span::DAY;
/// Plans looked at; a namespace has at most a few in an hour.
const PLANS_MAX: u32 = 10_000;

const CONTROLS: &str = "-- watch.controls
    SELECT id, provenance_code, endpoint_name, paused, fuse_blown, reason, circuit_code, circuit_until, circuit_epoch,
        held_until, held_reason
      FROM ing_source_control";
pub(crate) const RECENT: &str = "-- watch.recent_plans
    SELECT id, provenance_code, endpoint_name, namespace_hash, window_to, created_at, live_key FROM ing_plan
     WHERE id >= :since AND operation_code = 'HARVEST' ORDER BY id {limit:limit}";
const LIVE: &str = "-- watch.live_plans
    SELECT id, provenance_code, endpoint_name, namespace_hash, window_to, created_at, live_key FROM ing_plan
     WHERE live_key IS NOT NULL AND id < :since AND operation_code = 'HARVEST' {limit:limit}";
const QUEUED: &str = "-- watch.queued
    SELECT COUNT(*) AS found FROM (SELECT id FROM ing_task
     WHERE status_code = :queued AND provenance_code = :provenance AND endpoint_name = :endpoint
       AND operation_code = :operation AND priority = :priority {limit:limit}) some_of_them";
const BUDGETS: &str = "-- watch.budgets
    SELECT id, rate_key, reset_at FROM ing_quota WHERE reset_at > :now AND used_count >= limit_count";

pub(crate) async fn facts(store: Arc<Inner>, queued_max: u32) -> Result<Facts, DbError> {
    let mut tx = store.db.read().await?;
    let facts = facts_in(&mut tx, queued_max).await;
    ended(tx, facts).await
}

async fn facts_in(tx: &mut Tx, queued_max: u32) -> Result<Facts, DbError> {
    let mut facts = Facts { now: tx.now(), ..Facts::default() };
    controls(tx, &mut facts).await?;
    facts.harvests = harvests(tx).await?;
    facts.stock = stock(tx, queued_max).await?;
    for row in tx.rows("ing_quota", BUDGETS, params! { now: facts.now }).await? {
        facts.empty_budgets.push((row.string("rate_key")?, row.time("reset_at")?));
    }
    Ok(facts)
}

async fn controls(tx: &mut Tx, facts: &mut Facts) -> Result<(), DbError> {
    for row in tx.rows("ing_source_control", CONTROLS, params! {}).await? {
        let site = site(&row)?;
        if row.int("paused")? != 0 {
            facts.paused.push(site.clone());
        }
        if row.int("fuse_blown")? != 0 {
            facts.blown.push((site.clone(), row.opt_text("reason")?.unwrap_or("stopped").to_owned()));
        }
        if let Some(until) = row.opt_time("held_until")? {
            facts.held.push((site.clone(), until, row.opt_text("held_reason")?.unwrap_or_default().to_owned()));
        }
        let circuit = circuit::of_row(&row)?;
        if circuit.state != CircuitState::Closed {
            facts.circuits.push((site, circuit));
        }
    }
    Ok(())
}

async fn harvests(tx: &mut Tx) -> Result<Vec<HarvestPlan>, DbError> {
    let since = Id::floor(tx.now().minus(PLANS_SINCE));
    let mut rows = tx.rows("ing_plan", LIVE, params! { since: since, limit: PLANS_MAX }).await?;
    rows.extend(tx.rows("ing_plan", RECENT, params! { since: since, limit: PLANS_MAX }).await?);
    let mut cursors: HashMap<Hash32, (Option<Timestamp>, Option<Timestamp>)> = HashMap::new();
    let mut plans = Vec::new();
    for row in rows {
        let namespace = row.hash("namespace_hash")?;
        if let std::collections::hash_map::Entry::Vacant(unknown) = cursors.entry(namespace) {
            let cursor = tx.row("ing_cursor", READ_CURSOR_MOVED, params! { namespace: namespace }).await?;
            let moved = cursor.as_ref().map(|row| row.time("updated_at")).transpose()?;
            unknown.insert((cursor.map(|row| row.time("normalized_instant")).transpose()?, moved));
        }
        let (watermark, moved_at) = cursors.get(&namespace).copied().unwrap_or_default();
        plans.push(HarvestPlan {
            site: site(&row)?,
            made_at: row.time("created_at")?,
            to: row.time("window_to")?,
            live: !matches!(row.get("live_key")?, crate::value::Value::Null),
            watermark,
            moved_at,
        });
    }
    Ok(plans)
}

async fn stock(tx: &mut Tx, queued_max: u32) -> Result<Vec<Stock>, DbError> {
    let mut stock: Vec<Stock> = Vec::new();
    for group in read_groups(tx).await? {
        let mut asked = group.params();
        let due_at = match tx.row("ing_task", NEXT_QUEUED, asked.clone()).await? {
            Some(row) => row.opt_time("due_at")?,
            None => None,
        };
        asked.extend(params! { limit: queued_max.saturating_add(1) });
        let row = tx.row("ing_task", QUEUED, asked).await?;
        let queued: u64 = row.map_or(Ok(0), |row| row.count("found"))?;
        match stock.iter_mut().find(|known| known.partition == group.partition) {
            Some(known) => {
                known.queued += queued;
                known.due_at = [known.due_at, due_at].into_iter().flatten().min();
            }
            None => stock.push(Stock { partition: group.partition.clone(), queued, due_at }),
        }
    }
    Ok(stock)
}

fn site(row: &Row) -> Result<Site, DbError> {
    Ok(Site { provenance: row.string("provenance_code")?, endpoint: row.string("endpoint_name")? })
}
