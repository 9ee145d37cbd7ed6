//! Ids that were asked for and did not come, in the transaction of the answer that lacked them.
//!
//! What the next absence means is decided by `patra_core::absence`; an id that the source has no more becomes a mark on its
//! record in the same transaction.

use std::collections::HashMap;

use patra_core::absence::{Lack, Missing, MissingState};
use patra_core::ports::BatchCommit;

use crate::db::Tx;
use crate::error::DbError;
use crate::mark::{Mark, Marking, mark};
use crate::records::PageOwner;
use crate::store::Inner;
use crate::value::{Row, Value, params};

const INSERT: &str = "-- missing.insert
    INSERT INTO ing_missing_id (id, provenance_code, endpoint_name, provider_id, sightings, reason, batch_id,
        first_asked_at, last_asked_at, next_try_at, status_code)
    VALUES {rows:11}";
pub(crate) const KNOWN: &str = "-- missing.known
    SELECT id, provider_id, sightings, first_asked_at, last_asked_at, next_try_at, status_code FROM ing_missing_id
     WHERE {one_of:ing_missing_id;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
     {for_update}";
pub(crate) const SEEN: &str = "-- missing.seen
    UPDATE ing_missing_id SET sightings = :sightings, reason = :reason, batch_id = :batch, first_asked_at = :first,
        last_asked_at = :last, next_try_at = :next_try, status_code = :status
     WHERE id = :id";
pub(crate) const ANY: &str = "-- missing.any
    SELECT id FROM ing_missing_id
     WHERE provenance_code = :provenance AND endpoint_name = :entity AND status_code IN ('OPEN', 'TOMBSTONE') LIMIT 1";
/// A page that was fetched before the id was missed does not show that it is there.
pub(crate) const FOUND: &str = "-- missing.found
    UPDATE ing_missing_id SET status_code = 'FOUND'
     WHERE {one_of:ing_missing_id;provider_id;provenance_code = :provenance AND endpoint_name = :entity}
       AND status_code <> 'FOUND' AND last_asked_at <= :fetched_at";

/// Notes what the page lacked and what it brought after all; how many records are gone with it.
pub(crate) async fn write(tx: &mut Tx, store: &Inner, at: &PageOwner<'_>, batch: &BatchCommit) -> Result<u64, DbError> {
    let source = || params! { provenance: at.provenance.clone(), entity: at.entity.clone() };
    if !batch.records.is_empty() && tx.row("ing_missing_id", ANY, source()).await?.is_some() {
        let found: Vec<Value> = batch.records.iter().map(|record| record.provider_id.as_str().into()).collect();
        let mut shown = source();
        shown.extend(params! { fetched_at: batch.fetched_at });
        tx.execute_list(FOUND, shown, &found).await?;
    }
    if batch.missing.is_empty() {
        return Ok(0);
    }
    let names: Vec<Value> = batch.missing.iter().map(|(id, _)| id.as_str().into()).collect();
    let mut known: HashMap<String, Row> = HashMap::new();
    for row in tx.rows_listed("ing_missing_id", KNOWN, source(), &names).await? {
        known.insert(row.string("provider_id")?, row);
    }
    let (mut rows, mut gone): (Vec<Value>, Vec<Mark<'_>>) = (Vec::new(), Vec::new());
    for (id, lack) in &batch.missing {
        let row = known.get(id);
        let before = row.map(known_of).transpose()?;
        let after = Missing::after(before, lack, at.now);
        match row {
            Some(row) => seen(tx, at, row, lack, &after).await?,
            None => rows.extend(new_row(store, at, id, lack, &after)),
        }
        if after.state == MissingState::Tombstone {
            let into = if let Lack::Merged { into } = lack { Some(into.as_str()) } else { None };
            gone.push(Mark { provider_id: id, what: Marking::Gone { at: batch.fetched_at, into } });
        }
    }
    tx.execute_rows(INSERT, 11, rows).await?;
    mark(tx, store, at, &gone).await
}

fn known_of(row: &Row) -> Result<Missing, DbError> {
    Ok(Missing {
        sightings: row.int("sightings")?,
        first_asked_at: row.time("first_asked_at")?,
        last_asked_at: row.time("last_asked_at")?,
        next_try_at: row.time("next_try_at")?,
        state: row.code("status_code", MissingState::from_code)?,
    })
}

async fn seen(tx: &mut Tx, at: &PageOwner<'_>, row: &Row, lack: &Lack, after: &Missing) -> Result<(), DbError> {
    let changed = params! {
        id: row.id("id")?,
        sightings: after.sightings,
        reason: lack.reason(),
        batch: at.batch,
        first: after.first_asked_at,
        last: after.last_asked_at,
        next_try: after.next_try_at,
        status: after.state.code(),
    };
    tx.execute(SEEN, changed).await?;
    Ok(())
}

fn new_row(store: &Inner, at: &PageOwner<'_>, id: &str, lack: &Lack, after: &Missing) -> [Value; 11] {
    [
        store.ids.next().into(),
        at.provenance.clone().into(),
        at.entity.clone().into(),
        id.into(),
        after.sightings.into(),
        lack.reason().into(),
        at.batch.into(),
        after.first_asked_at.into(),
        after.last_asked_at.into(),
        after.next_try_at.into(),
        after.state.code().into(),
    ]
}
