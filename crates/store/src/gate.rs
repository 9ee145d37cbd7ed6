//! The shared gate on database rows, and the row that says where limits are kept.
//!
//! One row per rate key holds the limiter of the core; it is locked, asked and written back in one short transaction on
//! the database's clock. A key of which this epoch knows nothing waits out one window from the change of place on.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::gate::{Drawn, Limiter, WARM_UP_MAX, warm_up};
use patra_core::ports::{GateAsk, GateLost, GateMode, GateModes, GatePlace, LedgerError, SharedGate, Told};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, params};

pub(crate) const READ_MODE: &str = "-- gate.mode
    SELECT id, place_code, epoch, since_at FROM ing_gate_mode WHERE id = 1";
pub(crate) const CHANGE_MODE: &str = "-- gate.change
    UPDATE ing_gate_mode SET place_code = :place, since_at = :since, epoch = epoch + 1 WHERE id = 1 AND epoch = :epoch";
pub(crate) const ANY_RATE: &str = "-- rate.any
    SELECT rate_key FROM ing_rate LIMIT 1";
pub(crate) const READ_RATE: &str = "-- rate.read
    SELECT epoch, state FROM ing_rate WHERE rate_key = :key {for_update}";
const NEW_RATE: &str = "-- rate.new
    INSERT INTO ing_rate (rate_key, epoch, state, updated_at) VALUES (:key, -1, :nothing, :now) {insert_new:rate_key}";
pub(crate) const WRITE_RATE: &str = "-- rate.write
    UPDATE ing_rate SET epoch = :epoch, state = :state, updated_at = :now WHERE rate_key = :key";

fn lost(error: LedgerError) -> GateLost {
    GateLost::Unreachable { message: error.to_string() }
}

#[async_trait]
impl GateModes for Store {
    async fn mode(&self) -> Result<GateMode, GateLost> {
        let read = |store: Arc<Inner>| async move {
            let mut tx = store.db.read().await?;
            let mode = read_mode(&mut tx).await;
            tx.rollback().await;
            mode
        };
        self.retried("gate_mode", read).await.map_err(lost)
    }

    async fn change(&self, seen: GateMode, place: GatePlace) -> Result<GateMode, GateLost> {
        let change = move |store: Arc<Inner>| async move {
            let mut tx = store.db.write().await?;
            let mode = change_in(&mut tx, seen, place).await;
            ended(tx, mode).await
        };
        self.retried("gate_change", change).await.map_err(lost)
    }
}

/// A fleet that has not begun yet, as when it is first started with Redis, begins where it is moved to.
async fn change_in(tx: &mut Tx, seen: GateMode, place: GatePlace) -> Result<GateMode, DbError> {
    let begun = !seen.is_first() || seen.epoch > 0 || tx.row("ing_rate", ANY_RATE, params! {}).await?.is_some();
    let since = if begun { tx.now() } else { seen.since };
    tx.execute(CHANGE_MODE, params! { place: place.code(), since: since, epoch: seen.epoch }).await?;
    read_mode(tx).await
}

async fn read_mode(tx: &mut Tx) -> Result<GateMode, DbError> {
    let row = tx.row("ing_gate_mode", READ_MODE, params! {}).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: "place of the gate".into() })?;
    let place = row.code("place_code", GatePlace::from_code)?;
    Ok(GateMode { place, epoch: row.int("epoch")?, since: row.time("since_at")? })
}

#[async_trait]
impl SharedGate for Store {
    async fn ask(&self, ask: &GateAsk) -> Result<Drawn, GateLost> {
        let ask = Arc::new(ask.clone());
        let drawn = self.retried("gate_ask", move |store| asked(store, ask.clone())).await.map_err(lost)?;
        drawn.ok_or(GateLost::Emptied)
    }

    async fn prepare(&self, _epoch: i64) -> Result<(), GateLost> {
        Ok(())
    }
}

/// `None` when limits are kept elsewhere by now.
async fn asked(store: Arc<Inner>, ask: Arc<GateAsk>) -> Result<Option<Drawn>, DbError> {
    let mut tx = store.db.write().await?;
    let drawn = asked_in(&mut tx, &ask).await;
    ended(tx, drawn).await
}

async fn asked_in(tx: &mut Tx, ask: &GateAsk) -> Result<Option<Drawn>, DbError> {
    let now = tx.now();
    let mode = read_mode(tx).await?;
    if (mode.place, mode.epoch) != (GatePlace::Database, ask.mode.epoch) {
        return Ok(None);
    }
    let key = ask.key.as_str();
    let row = match tx.row("ing_rate", READ_RATE, params! { key: key }).await? {
        Some(row) => row,
        None => {
            tx.execute(NEW_RATE, params! { key: key, nothing: "{}", now: now }).await?;
            let row = tx.row("ing_rate", READ_RATE, params! { key: key }).await?;
            row.ok_or_else(|| LedgerError::Missing { what: format!("rate key {key}") })?
        }
    };
    let mut limiter = limiter_of(&row, ask, mode.since, now)?;
    let drawn = counted(&mut limiter, ask, now);
    let state = serde_json::to_string(&limiter).map_err(|error| DbError::Data(error.to_string()))?;
    tx.execute(WRITE_RATE, params! { epoch: mode.epoch, state: state, now: now, key: key }).await?;
    Ok(Some(drawn))
}

fn limiter_of(row: &Row, ask: &GateAsk, since: Timestamp, now: Timestamp) -> Result<Limiter, LedgerError> {
    if row.int("epoch")? == ask.mode.epoch {
        return row.json("state");
    }
    // Whatever asked this source before we did, perhaps a process with a gate of its own, is a window ago by then.
    let free_from = since.plus(ask.fresh_wait).max(now.plus(warm_up(&ask.rate, WARM_UP_MAX)));
    Ok(Limiter::starting(ask.rate.clone(), free_from, ask.late_max))
}

fn counted(limiter: &mut Limiter, ask: &GateAsk, now: Timestamp) -> Drawn {
    limiter.set_rate(&ask.rate);
    limiter.set_widened(ask.late_max);
    for told in &ask.told {
        match told {
            Told::Pause { pause } => limiter.cool_down(now.plus(*pause)),
            Told::Throttled { slot, pause } => limiter.refused(*slot, now, now.plus(*pause)),
        }
    }
    ask.done.iter().for_each(|permit| limiter.done(*permit));
    limiter.draw(now, ask.want)
}
