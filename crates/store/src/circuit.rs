//! The circuit of an endpoint: columns of its control row, changed only by who has seen the last change.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::healing::{Circuit, CircuitEvent, CircuitState, Site};
use patra_core::ports::{Healing, Hold, LedgerError, Namespace};
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, params};

const READ: &str = "-- circuit.read
    SELECT id, circuit_code, circuit_until, circuit_epoch FROM ing_source_control
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint";
const NEW: &str = "-- circuit.new
    INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, updated_at)
    VALUES (:id, :provenance, :endpoint, 0, 0, :now) {insert_new:provenance_code, endpoint_name}";
const MOVE: &str = "-- circuit.move
    UPDATE ing_source_control SET circuit_code = :code, circuit_until = :until, circuit_epoch = :epoch
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint AND circuit_epoch = :seen";
const LOWER_LAG: &str = "-- control.lower_lag
    UPDATE ing_source_control SET lag_raised_us = 0
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint AND lag_raised_us > 0";
const HOLD: &str = "-- control.hold
    UPDATE ing_source_control SET held_until = :until, held_reason = :reason, lag_raised_us = :lag
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint";

#[async_trait]
impl Healing for Store {
    async fn circuit(&self, site: &Site) -> Result<Circuit, LedgerError> {
        let site = Arc::new(site.clone());
        self.retried("circuit", move |store| read(store, site.clone())).await
    }

    async fn move_circuit(&self, site: &Site, seen: Circuit, next: Circuit) -> Result<bool, LedgerError> {
        let site = Arc::new(site.clone());
        self.retried("move_circuit", move |store| write(store, site.clone(), seen, next)).await
    }

    async fn hold_planning(&self, site: &Site, hold: &Hold) -> Result<(), LedgerError> {
        let (site, hold) = (Arc::new(site.clone()), Arc::new(hold.clone()));
        self.retried("hold_planning", move |store| held(store, site.clone(), hold.clone())).await
    }
}

async fn read(store: Arc<Inner>, site: Arc<Site>) -> Result<Circuit, DbError> {
    let mut tx = store.db.read().await?;
    let asked = params! { provenance: &site.provenance, endpoint: &site.endpoint };
    let circuit = match tx.row("ing_source_control", READ, asked).await {
        Ok(row) => row.as_ref().map_or(Ok(Circuit::default()), of_row).map_err(DbError::from),
        Err(error) => Err(error),
    };
    ended(tx, circuit).await
}

async fn write(store: Arc<Inner>, site: Arc<Site>, seen: Circuit, next: Circuit) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let moved = write_in(&mut tx, &store, &site, seen, next).await;
    ended(tx, moved).await
}

async fn write_in(tx: &mut Tx, store: &Inner, site: &Site, seen: Circuit, next: Circuit) -> Result<bool, DbError> {
    if seen.epoch == 0 {
        begin(tx, store, site).await?;
    }
    set(tx, site, seen, next).await
}

async fn begin(tx: &mut Tx, store: &Inner, site: &Site) -> Result<(), DbError> {
    let row = params! {
        id: store.ids.next(),
        provenance: &site.provenance,
        endpoint: &site.endpoint,
        // The time of a row is that of the last look at the source's clock, and there was none.
        now: Timestamp::from_seconds(0),
    };
    tx.execute(NEW, row).await?;
    Ok(())
}

async fn held(store: Arc<Inner>, site: Arc<Site>, hold: Arc<Hold>) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let result = held_in(&mut tx, &store, &site, &hold).await;
    ended(tx, result).await
}

async fn held_in(tx: &mut Tx, store: &Inner, site: &Site, hold: &Hold) -> Result<(), DbError> {
    begin(tx, store, site).await?;
    let row = params! {
        until: hold.until,
        reason: &hold.reason,
        lag: hold.lag.micros(),
        provenance: &site.provenance,
        endpoint: &site.endpoint,
    };
    tx.execute(HOLD, row).await?;
    Ok(())
}

async fn set(tx: &mut Tx, site: &Site, seen: Circuit, next: Circuit) -> Result<bool, DbError> {
    let row = params! {
        code: next.state.code(),
        until: next.until,
        epoch: next.epoch,
        provenance: &site.provenance,
        endpoint: &site.endpoint,
        seen: seen.epoch,
    };
    Ok(tx.execute(MOVE, row).await? == 1)
}

/// A raised lag is for one plan only.
pub(crate) async fn lower_lag(tx: &mut Tx, namespace: &Namespace) -> Result<(), DbError> {
    let row = params! { provenance: &namespace.provenance, endpoint: &namespace.endpoint };
    tx.execute(LOWER_LAG, row).await?;
    Ok(())
}

/// Takes the probe for a task that is being claimed; `None` when someone else has it.
pub(crate) async fn take_probe(tx: &mut Tx, site: &Site, seen: Circuit) -> Result<Option<Circuit>, DbError> {
    let until = tx.now().plus(Circuit::PROBE_LIFE);
    let Some(next) = seen.on(CircuitEvent::ProbeTaken { until }) else { return Ok(None) };
    Ok(set(tx, site, seen, next).await?.then_some(next))
}

pub(crate) fn of_row(row: &Row) -> Result<Circuit, LedgerError> {
    Ok(Circuit {
        state: row.code("circuit_code", CircuitState::from_code)?,
        until: row.opt_time("circuit_until")?.unwrap_or_default(),
        epoch: row.int("circuit_epoch")?,
    })
}
