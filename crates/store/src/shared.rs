//! The watermark that several endpoints share: the least of their prefixes (invariants, section 0).
//!
//! Each endpoint has its own coverage and cursor; the shared cursor follows them in the transaction that moves one. Its
//! row is locked before any of them is read, or two endpoints that move together would each see the other's old place.

use patra_core::ports::{Namespace, Walk};
use patra_core::time::Timestamp;

use crate::coverage::{Mover, READ_CURSOR, Step, advance, read_cursor};
use crate::db::Tx;
use crate::error::DbError;
use crate::store::Inner;
use crate::value::params;

pub(crate) const LOCK: &str = "-- cursor.hold
    SELECT id FROM ing_cursor WHERE namespace_hash = :namespace {for_update}";
/// One for each way in which the endpoint was ever asked.
pub(crate) const OF_ENDPOINT: &str = "-- cursor.of_endpoint
    SELECT id, normalized_instant FROM ing_cursor
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint AND operation_code = :operation
       AND cursor_key = :cursor_key AND namespace_scope_code = :scope";

pub(crate) async fn lock(tx: &mut Tx, walk: &Walk) -> Result<(), DbError> {
    if !walk.shares.is_empty() {
        tx.row("ing_cursor", LOCK, params! { namespace: walk.namespace.shared().hash() }).await?;
    }
    Ok(())
}

/// Moves the shared watermark up to the endpoint that is least far; it waits for those that have not begun.
pub(crate) async fn follow(tx: &mut Tx, store: &Inner, walk: &Walk) -> Result<(), DbError> {
    let mut least: Option<Timestamp> = None;
    for endpoint in &walk.shares {
        let Some(at) = place_of(tx, &walk.namespace, endpoint).await? else { return Ok(()) };
        least = Some(least.map_or(at, |least| least.min(at)));
    }
    let Some(next) = least else { return Ok(()) };
    let namespace = walk.namespace.shared();
    let cursor = read_cursor(tx, READ_CURSOR, namespace.hash()).await?;
    let prev = cursor.as_ref().map_or(walk.origin, |cursor| cursor.watermark);
    if next <= prev {
        return Ok(());
    }
    let (hash, cause) = (namespace.hash(), "SHARED".to_owned());
    let step = Step { namespace: &namespace, hash, cause, prev, next, cursor: cursor.as_ref() };
    advance(tx, store, &step, &Mover::default()).await
}

async fn place_of(tx: &mut Tx, own: &Namespace, endpoint: &str) -> Result<Option<Timestamp>, DbError> {
    if endpoint == own.endpoint {
        return Ok(read_cursor(tx, READ_CURSOR, own.hash()).await?.map(|cursor| cursor.watermark));
    }
    let asked = params! {
        provenance: &own.provenance,
        endpoint: endpoint,
        operation: own.operation.code(),
        cursor_key: &own.cursor_key,
        scope: own.scope.code(),
    };
    let mut youngest = None;
    for row in tx.rows("ing_cursor", OF_ENDPOINT, asked).await? {
        youngest = youngest.max(Some((row.id("id")?, row.time("normalized_instant")?)));
    }
    Ok(youngest.map(|(_, at)| at))
}
