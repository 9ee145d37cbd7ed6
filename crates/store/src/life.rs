//! Looks for everything the ledger knows of one id: the windows that hold its times, the pages that rows name, and its short
//! hash on the pages of its source, newest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::id::Id;
use patra_core::pass::id_hash;
use patra_core::ports::{LedgerError, LifeAsk, Shown};
use patra_core::proof::{Life, Place, Sighting};
use patra_core::states::SliceState;
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::inspect::{records_named, shown_row};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

const RECORD: &str = "-- life.record
    SELECT * FROM ing_record WHERE id = :id";
pub(crate) const EVENTS: &str = "-- life.events
    SELECT id, record_id, version_no, change_code, updated_at, batch_id, status_code, created_at, sent_at
      FROM ing_outbox WHERE record_id = :record ORDER BY version_no";
const QUARANTINED: &str = "-- life.quarantined
    SELECT id, endpoint_name, provider_id, reason_code, path, message, batch_id, status_code, created_at
      FROM ing_quarantine WHERE provenance_code = :provenance AND provider_id = :id ORDER BY id";
const MISSING: &str = "-- life.missing
    SELECT id, endpoint_name, sightings, reason, batch_id, first_asked_at, last_asked_at, next_try_at, status_code
      FROM ing_missing_id WHERE provenance_code = :provenance AND provider_id = :id ORDER BY id";
const PLACES: &str = "-- life.places
    SELECT id, operation_code, endpoint_name, window_from, window_to, status_code, reason, read_at FROM ing_plan_slice
     WHERE provenance_code = :provenance AND status_code = :status AND window_from <= :at AND window_to > :at
     ORDER BY id";
const PAGES_OF_SLICE: &str = "-- life.pages
    SELECT b.id, b.run_id, b.task_id, b.slice_id, b.plan_id, b.operation_code, b.endpoint_name, b.phase, b.pass_no,
        b.seq_no, b.fetched_at, b.request_digest, b.page_ids, b.id_list, s.window_from, s.window_to
      FROM ing_plan_slice s JOIN ing_task t ON t.slice_id = s.id JOIN ing_task_run_batch b ON b.task_id = t.id
     WHERE s.id = :slice AND b.status_code = 'SUCCEEDED' ORDER BY b.id";
const SLICE_OF_PAGE: &str = "-- life.slice_of_page
    SELECT id, slice_id FROM ing_task_run_batch WHERE id = :id";
pub(crate) const PAGES_BEFORE: &str = "-- life.search
    SELECT id, slice_id, provenance_code, page_ids FROM ing_task_run_batch WHERE id < :before ORDER BY id DESC {limit:most}";
const PAGES_AT_ONCE: u32 = 500;

pub(crate) async fn read(store: Arc<Inner>, ask: Arc<LifeAsk>) -> Result<Life, DbError> {
    let mut tx = store.db.read().await?;
    let result = read_in(&mut tx, &ask).await;
    ended(tx, result).await
}

async fn read_in(tx: &mut Tx, ask: &LifeAsk) -> Result<Life, DbError> {
    let mut life = Life { source: ask.provenance.clone(), id: ask.id.clone(), ..Life::default() };
    read_records(tx, ask, &mut life).await?;
    let asked = || params! { provenance: &ask.provenance, id: &ask.id };
    life.quarantined = tx.rows("ing_quarantine", QUARANTINED, asked()).await?.iter().map(shown_row).collect();
    life.missing = tx.rows("ing_missing_id", MISSING, asked()).await?.iter().map(shown_row).collect();
    for at in times(ask, &life) {
        read_places(tx, ask, at, &mut life.places).await?;
    }
    let mut slices: BTreeSet<Id> = life.places.iter().map(|place| place.slice).collect();
    for page in pages_named(&life) {
        slices.extend(slice_of(tx, page).await?);
    }
    // Versions of the same content under another time, and pages that show more than their window, are named by no row.
    slices.extend(search(tx, ask, &mut life).await?);
    for slice in slices {
        read_sightings(tx, ask, slice, &mut life).await?;
    }
    life.sightings.sort_by_key(|sighting| sighting.batch);
    Ok(life)
}

async fn read_records(tx: &mut Tx, ask: &LifeAsk, life: &mut Life) -> Result<(), DbError> {
    for id in records_named(tx, &ask.id).await? {
        let rows = tx.rows("ing_record", RECORD, params! { id: id }).await?;
        let Some(row) = rows.first() else { continue };
        if row.text("provenance_code")? != ask.provenance {
            continue;
        }
        life.records.push(shown_row(row));
        let events = tx.rows("ing_outbox", EVENTS, params! { record: id }).await?;
        life.events.extend(events.iter().map(shown_row));
    }
    Ok(())
}

/// Every time at which a version of the record was dated, and the one that was given.
fn times(ask: &LifeAsk, life: &Life) -> BTreeSet<Timestamp> {
    let dated = |row: &Shown| row.get("updated_at").and_then(|time| time.as_str()).and_then(|time| time.parse().ok());
    life.records.iter().chain(&life.events).filter_map(dated).chain(ask.dated).collect()
}

/// Pages that wrote something about it.
fn pages_named(life: &Life) -> BTreeSet<Id> {
    let rows = [&life.records, &life.events, &life.quarantined, &life.missing].into_iter().flatten();
    rows.filter_map(|row| row.get("batch_id")?.as_str()?.parse().ok()).collect()
}

async fn slice_of(tx: &mut Tx, page: Id) -> Result<Option<Id>, DbError> {
    let row = tx.row("ing_task_run_batch", SLICE_OF_PAGE, params! { id: page }).await?;
    Ok(row.map(|row| row.id("slice_id")).transpose()?)
}

async fn read_places(tx: &mut Tx, ask: &LifeAsk, at: Timestamp, places: &mut Vec<Place>) -> Result<(), DbError> {
    for state in SliceState::ALL.iter().filter(|state| **state != SliceState::Split) {
        let asked = params! { provenance: &ask.provenance, status: state.code(), at: at };
        for row in tx.rows("ing_plan_slice", PLACES, asked).await? {
            let place = place_of(&row)?;
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Ok(())
}

fn place_of(row: &Row) -> Result<Place, LedgerError> {
    Ok(Place {
        slice: row.id("id")?,
        operation: row.string("operation_code")?,
        endpoint: row.string("endpoint_name")?,
        window: row.window()?,
        status: row.string("status_code")?,
        reason: row.opt_text("reason")?.map(str::to_owned),
        read_at: row.opt_time("read_at")?,
    })
}

/// Slices with a page that shows the id, among the newest pages of the source.
async fn search(tx: &mut Tx, ask: &LifeAsk, life: &mut Life) -> Result<BTreeSet<Id>, DbError> {
    let wanted = id_hash(&ask.id).to_be_bytes();
    let (mut before, mut found) = (Id(i64::MAX), BTreeSet::new());
    loop {
        let asked = params! { before: before, most: PAGES_AT_ONCE };
        let pages = tx.rows("ing_task_run_batch", PAGES_BEFORE, asked).await?;
        let Some(last) = pages.last() else { return Ok(found) };
        before = last.id("id")?;
        for page in &pages {
            if page.text("provenance_code")? == ask.provenance {
                life.pages_searched += 1;
                if shows(page, &wanted)? {
                    found.insert(page.id("slice_id")?);
                }
            }
        }
        if life.pages_searched >= ask.search_max {
            life.search_cut = true;
            return Ok(found);
        }
    }
}

fn shows(page: &Row, wanted: &[u8; 8]) -> Result<bool, LedgerError> {
    use crate::value::Value;
    match page.get("page_ids")? {
        Value::Bytes(ids) => Ok(ids.chunks_exact(8).any(|id| id == wanted)),
        _ => Ok(false),
    }
}

async fn read_sightings(tx: &mut Tx, ask: &LifeAsk, slice: Id, life: &mut Life) -> Result<(), DbError> {
    let wanted = id_hash(&ask.id).to_be_bytes();
    for row in tx.rows("ing_task_run_batch", PAGES_OF_SLICE, params! { slice: slice }).await? {
        let batch = row.id("id")?;
        if shows(&row, &wanted)? || pages_named(life).contains(&batch) {
            let sighting = sighting_of(&row, life)?;
            life.sightings.push(sighting);
        }
    }
    Ok(())
}

fn sighting_of(row: &Row, life: &Life) -> Result<Sighting, LedgerError> {
    let (batch, phase) = (row.id("id")?, row.string("phase")?);
    let is_listed = row.opt_text("id_list")?.is_some();
    Ok(Sighting {
        batch,
        run: row.id("run_id")?,
        task: row.id("task_id")?,
        slice: row.id("slice_id")?,
        plan: row.id("plan_id")?,
        operation: row.string("operation_code")?,
        endpoint: row.string("endpoint_name")?,
        window: row.window()?,
        decision: life.decision(batch, &phase, is_listed),
        phase,
        pass_no: row.count("pass_no")?,
        seq_no: row.count("seq_no")?,
        fetched_at: row.opt_time("fetched_at")?,
        request: row.opt_json("request_digest")?.unwrap_or_default(),
    })
}
