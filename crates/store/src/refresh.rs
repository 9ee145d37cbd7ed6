//! Which records a refresh asks for: stale ones, those of an older mapping, those somebody signalled, and ids that a
//! source did not return and that are due again.
//!
//! Records are walked by their key, so the memory is that of a page and no index is needed beside the key's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::ports::{Intervention, NewSignal, RefreshBy, RefreshWanted};
use serde_json::json;

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const RECORDS_AT_ONCE: u32 = 5_000;

pub(crate) const STALE: &str = "-- record.stale
    SELECT id, provider_id, checked_at, mapping_hash, deleted FROM ing_record
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND provider_id > :after
     ORDER BY provider_id {limit:limit}";
pub(crate) const DUE_MISSING: &str = "-- missing.due
    SELECT id, provider_id FROM ing_missing_id
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN' AND next_try_at <= :now
     {limit:limit}";
pub(crate) const SIGNALS: &str = "-- signal.open
    SELECT id, provider_id, created_at FROM ing_signal
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN' ORDER BY id";
const CHECKED: &str = "-- record.checked
    SELECT id, checked_at FROM ing_record
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND provider_id = :name";
const ASKED_MISSING: &str = "-- missing.asked
    SELECT id, last_asked_at FROM ing_missing_id
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND provider_id = :name";
const CLOSE_SIGNAL: &str = "-- signal.close
    UPDATE ing_signal SET status_code = 'CLOSED', closed_at = :now WHERE id = :id AND status_code = 'OPEN'";
const SIGNALLED: &str = "-- signal.known
    SELECT id FROM ing_signal
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN' AND provider_id = :name";
const INSERT_SIGNAL: &str = "-- signal.insert
    INSERT INTO ing_signal (id, provenance_code, endpoint_name, provider_id, kind_code, reason, actor, status_code,
        created_at)
    VALUES (:id, :provenance, :entity, :name, :kind, :reason, :actor, 'OPEN', :now)";

pub(crate) async fn candidates(store: Arc<Inner>, wanted: Arc<RefreshWanted>) -> Result<BTreeSet<String>, DbError> {
    let mut tx = store.db.read().await?;
    let result = candidates_in(&mut tx, &wanted).await;
    ended(tx, result).await
}

async fn candidates_in(tx: &mut Tx, wanted: &RefreshWanted) -> Result<BTreeSet<String>, DbError> {
    let mut found = BTreeSet::new();
    let mut asked = params! { provenance: &wanted.provenance, entity: &wanted.entity };
    match &wanted.by {
        RefreshBy::Signals => {
            for row in tx.rows("ing_signal", SIGNALS, asked.clone()).await? {
                found.insert(row.string("provider_id")?);
            }
        }
        RefreshBy::StaleBefore(_) | RefreshBy::MappingOtherThan(_) => walk(tx, wanted, &mut found).await?,
    }
    asked.extend(params! { now: tx.now(), limit: wanted.limit });
    for row in tx.rows("ing_missing_id", DUE_MISSING, asked).await? {
        found.insert(row.string("provider_id")?);
    }
    while found.len() > wanted.limit as usize {
        found.pop_last();
    }
    Ok(found)
}

async fn walk(tx: &mut Tx, wanted: &RefreshWanted, found: &mut BTreeSet<String>) -> Result<(), DbError> {
    let mut after = String::new();
    loop {
        let asked = params! {
            provenance: &wanted.provenance,
            entity: &wanted.entity,
            after: &after,
            limit: RECORDS_AT_ONCE,
        };
        let rows = tx.rows("ing_record", STALE, asked).await?;
        for row in &rows {
            let meant = match &wanted.by {
                RefreshBy::StaleBefore(before) => row.time("checked_at")? < *before,
                RefreshBy::MappingOtherThan(hash) => row.hash("mapping_hash")? != *hash,
                RefreshBy::Signals => false,
            };
            if meant && row.int("deleted")? == 0 {
                found.insert(row.string("provider_id")?);
            }
        }
        match rows.last() {
            Some(last) if found.len() < wanted.limit as usize => after = last.string("provider_id")?,
            _ => return Ok(()),
        }
    }
}

/// Closes signals whose ids were asked for since; how many.
pub(crate) async fn close_answered(store: Arc<Inner>, wanted: Arc<RefreshWanted>) -> Result<u64, DbError> {
    let mut tx = store.db.write().await?;
    let result = close_in(&mut tx, &wanted).await;
    ended(tx, result).await
}

async fn close_in(tx: &mut Tx, wanted: &RefreshWanted) -> Result<u64, DbError> {
    let (now, mut closed) = (tx.now(), 0);
    let asked = params! { provenance: &wanted.provenance, entity: &wanted.entity };
    for signal in tx.rows("ing_signal", SIGNALS, asked.clone()).await? {
        let mut one = asked.clone();
        one.extend(params! { name: signal.string("provider_id")? });
        let checked =
            tx.row("ing_record", CHECKED, one.clone()).await?.map(|row| row.time("checked_at")).transpose()?;
        let missed = tx.row("ing_missing_id", ASKED_MISSING, one).await?;
        let missed = missed.map(|row| row.time("last_asked_at")).transpose()?;
        if checked.max(missed) > Some(signal.time("created_at")?) {
            closed += tx.execute(CLOSE_SIGNAL, params! { id: signal.id("id")?, now: now }).await?;
        }
    }
    Ok(closed)
}

pub(crate) async fn signal(store: Arc<Inner>, signal: Arc<NewSignal>, act: Arc<Intervention>) -> Result<u64, DbError> {
    let mut tx = store.db.write().await?;
    let result = signal_in(&mut tx, &store, &signal, &act).await;
    ended(tx, result).await
}

async fn signal_in(tx: &mut Tx, store: &Inner, signal: &NewSignal, act: &Intervention) -> Result<u64, DbError> {
    let mut added = 0;
    for name in &signal.ids {
        let own = params! { provenance: &signal.provenance, entity: &signal.entity, name: name };
        if tx.row("ing_signal", SIGNALLED, own.clone()).await?.is_some() {
            continue;
        }
        let mut row = own;
        row.extend(params! {
            id: store.ids.next(),
            kind: &signal.kind,
            reason: &act.reason,
            actor: &act.actor,
            now: tx.now(),
        });
        added += tx.execute(INSERT_SIGNAL, row).await?;
    }
    if added > 0 {
        let detail = json!({ "signals": added, "kind": signal.kind });
        audit(tx, store, "SIGNAL_ADD", &format!("source:{}", signal.provenance), act, detail).await?;
    }
    Ok(added)
}
