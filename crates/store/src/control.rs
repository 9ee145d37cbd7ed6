//! Sources that stand still: paused by a person, or stopped by their fuse after an answer that only a person can mend.
//!
//! One row for each endpoint; an empty endpoint stands for all of them. The time of a row is that of the last look at the
//! source's clock, so stopping leaves it alone; when somebody stopped it is in the audit.

use std::sync::Arc;

use patra_core::ports::{Namespace, SourceOrder};
use serde_json::json;

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const PAUSED: &str = "-- control.paused
    SELECT id FROM ing_source_control WHERE provenance_code = :provenance AND endpoint_name = :endpoint AND paused = 1";
const PAUSE: &str = "-- control.pause
    INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, reason, actor, updated_at)
    VALUES (:id, :provenance, :endpoint, 1, 0, :reason, :actor, :now)
    {upsert:provenance_code, endpoint_name;paused, reason, actor}";
const RESUME: &str = "-- control.resume
    UPDATE ing_source_control SET paused = 0, fuse_blown = 0, reason = NULL, actor = :actor
     WHERE provenance_code = :provenance AND (:every = 1 OR endpoint_name = :endpoint)
       AND (paused = 1 OR fuse_blown = 1)";
const BLOW: &str = "-- control.blow
    INSERT INTO ing_source_control (id, provenance_code, endpoint_name, paused, fuse_blown, reason, updated_at)
    VALUES (:id, :provenance, :endpoint, 0, 1, :reason, :now)
    {upsert:provenance_code, endpoint_name;fuse_blown, reason}";

pub(crate) async fn order(store: Arc<Inner>, order: Arc<SourceOrder>) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = order_in(&mut tx, &store, &order).await;
    ended(tx, result).await
}

async fn order_in(tx: &mut Tx, store: &Inner, order: &SourceOrder) -> Result<bool, DbError> {
    let changed = if order.pause { pause(tx, store, order).await? } else { resume(tx, order).await? };
    if changed {
        let action = if order.pause { "SOURCE_PAUSE" } else { "SOURCE_RESUME" };
        let target = format!("source:{}", order.provenance);
        audit(tx, store, action, &target, &order.act, json!({ "endpoint": order.endpoint })).await?;
    }
    Ok(changed)
}

async fn pause(tx: &mut Tx, store: &Inner, order: &SourceOrder) -> Result<bool, DbError> {
    let endpoint = order.endpoint.as_deref().unwrap_or_default();
    let known = params! { provenance: &order.provenance, endpoint: endpoint };
    if tx.row("ing_source_control", PAUSED, known).await?.is_some() {
        return Ok(false);
    }
    let row = params! {
        id: store.ids.next(),
        provenance: &order.provenance,
        endpoint: endpoint,
        reason: &order.act.reason,
        actor: &order.act.actor,
        now: tx.now(),
    };
    tx.execute(PAUSE, row).await?;
    Ok(true)
}

async fn resume(tx: &mut Tx, order: &SourceOrder) -> Result<bool, DbError> {
    let row = params! {
        actor: &order.act.actor,
        provenance: &order.provenance,
        every: order.endpoint.is_none(),
        endpoint: order.endpoint.as_deref().unwrap_or_default(),
    };
    Ok(tx.execute(RESUME, row).await? > 0)
}

/// The source gave an answer that asking again does not change (L4).
pub(crate) async fn blow(tx: &mut Tx, store: &Inner, namespace: &Namespace, reason: &str) -> Result<(), DbError> {
    let row = params! {
        id: store.ids.next(),
        provenance: &namespace.provenance,
        endpoint: &namespace.endpoint,
        reason: reason,
        now: tx.now(),
    };
    tx.execute(BLOW, row).await?;
    Ok(())
}
