//! What one page decided of the ids it shows, told by the rows that it left: events, records and quarantine.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use patra_core::id::Id;
use patra_core::proof::blackbox::Decisions;

use crate::db::Tx;
use crate::error::DbError;
use crate::kept::StoredAsk;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Value, params};

pub(crate) const RECORDS: &str = "-- decided.records
    SELECT id, provider_id, batch_id FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}";
pub(crate) const EVENTS: &str = "-- decided.events
    SELECT record_id, change_code FROM ing_outbox WHERE record_id IN ({list}) AND batch_id = :batch";
pub(crate) const QUARANTINED: &str = "-- decided.quarantined
    SELECT id, provider_id FROM ing_quarantine WHERE batch_id = :batch ORDER BY id";

pub(crate) async fn read(store: Arc<Inner>, ask: Arc<StoredAsk>) -> Result<Decisions, DbError> {
    let mut tx = store.db.read().await?;
    let result = read_in(&mut tx, &ask).await;
    ended(tx, result).await
}

async fn read_in(tx: &mut Tx, ask: &StoredAsk) -> Result<Decisions, DbError> {
    let mut decisions = Decisions::default();
    let mut bad: BTreeSet<String> = BTreeSet::new();
    for row in tx.rows("ing_quarantine", QUARANTINED, params! { batch: ask.batch }).await? {
        let id = row.opt_text("provider_id")?.unwrap_or_default();
        decisions.add("QUARANTINED", id);
        bad.insert(id.to_owned());
    }
    let stored = stored(tx, ask).await?;
    let told = told(tx, ask.batch, stored.values().map(|(record, _)| *record)).await?;
    let ids: BTreeSet<&String> = ask.ids.iter().filter(|id| !bad.contains(*id)).collect();
    for id in ids {
        let decision = match stored.get(id) {
            None => "NOT_KEPT",
            Some((record, batch)) => match told.get(record) {
                Some(change) => change.as_str(),
                None if *batch == ask.batch => "STORED",
                None => "NOT_NEWER",
            },
        };
        decisions.add(decision, id);
    }
    Ok(decisions)
}

/// Row and last page of each record that is there.
async fn stored(tx: &mut Tx, ask: &StoredAsk) -> Result<HashMap<String, (Id, Id)>, DbError> {
    let asked = params! { provenance: &ask.provenance, entity: &ask.entity };
    let keys: Vec<Value> = ask.ids.iter().map(Value::from).collect();
    let rows = tx.rows_listed("ing_record", RECORDS, asked, &keys).await?;
    rows.iter().map(|row| Ok((row.string("provider_id")?, (row.id("id")?, row.id("batch_id")?)))).collect()
}

/// The change that the page told of each record.
async fn told(tx: &mut Tx, batch: Id, records: impl Iterator<Item = Id>) -> Result<HashMap<Id, String>, DbError> {
    let records: Vec<Value> = records.map(Value::from).collect();
    let rows = tx.rows_listed("ing_outbox", EVENTS, params! { batch: batch }, &records).await?;
    rows.iter().map(|row| Ok((row.id("record_id")?, row.string("change_code")?))).collect()
}
