//! Waivers: a hole in the coverage that somebody answers for (INV-11).

use std::sync::Arc;

use patra_core::ports::NewWaiver;
use patra_core::time::Timestamp;
use serde_json::json;

use crate::cancel::audit;
use crate::coverage::{Mover, walk};
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const KNOWN: &str = "-- waiver.known
    SELECT id FROM ing_waiver WHERE id = :id";
const INSERT: &str = "-- waiver.insert
    INSERT INTO ing_waiver (id, namespace_hash, window_from, window_to, actor, reason, created_at)
    VALUES (:id, :namespace, :window_from, :window_to, :actor, :reason, :now)";

/// Waiver, audit row, cursor event and cursor in one commit. When a gap lies before the window the watermark moves
/// later, with the slice that closes it, and that event then says WAIVED.
pub(crate) async fn waive(
    store: Arc<Inner>,
    waiver: Arc<NewWaiver>,
) -> Result<Option<(Timestamp, Timestamp)>, DbError> {
    let mut tx = store.db.write().await?;
    let result = waive_in(&mut tx, &store, &waiver).await;
    ended(tx, result).await
}

async fn waive_in(tx: &mut Tx, store: &Inner, waiver: &NewWaiver) -> Result<Option<(Timestamp, Timestamp)>, DbError> {
    if tx.row("ing_waiver", KNOWN, params! { id: waiver.id }).await?.is_none() {
        let row = params! {
            id: waiver.id,
            namespace: waiver.walk.namespace.hash(),
            window_from: waiver.window.from(),
            window_to: waiver.window.to(),
            actor: &waiver.act.actor,
            reason: &waiver.act.reason,
            now: tx.now(),
        };
        tx.execute(INSERT, row).await?;
        let target = format!("cursor:{}", waiver.walk.namespace.hash());
        let detail = json!({ "waiver": waiver.id, "from": waiver.window.from(), "to": waiver.window.to() });
        audit(tx, store, "CURSOR_WAIVE", &target, &waiver.act, detail).await?;
    }
    let mover = Mover { window: Some(waiver.window), ..Mover::default() };
    walk(tx, store, &waiver.walk, &mover).await
}
