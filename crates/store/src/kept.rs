//! Committed pages with the answers that were kept of them, and the records that they stored and that nobody has changed
//! since.

use std::sync::Arc;

use bytes::Bytes;
use patra_core::id::Id;
use patra_core::ports::LedgerError;
use patra_core::proof::{Kept, KeptPage, Pages, ReadRecord};

use crate::db::Tx;
use crate::error::DbError;
use crate::rows::phase_from;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, Value, params};

/// Pages read in one look; each may be megabytes.
const PAGES_AT_ONCE: u32 = 8;
/// No answer is larger; more says that the row is broken.
const BODY_MAX: i64 = 1 << 30;
const STORED: &str = "-- replay.stored
    SELECT id, provider_id, content_hash, fields, batch_id FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}";

pub(crate) async fn pages(store: Arc<Inner>, asked: Arc<(Pages, Id)>) -> Result<Vec<KeptPage>, DbError> {
    let mut tx = store.db.read().await?;
    let result = pages_in(&mut tx, &asked.0, asked.1).await;
    ended(tx, result).await
}

async fn pages_in(tx: &mut Tx, pages: &Pages, after: Id) -> Result<Vec<KeptPage>, DbError> {
    let (condition, mut values) = match pages {
        Pages::Batch(id) => ("b.id = ?", vec![Value::from(*id)]),
        Pages::Run(id) => ("b.run_id = ?", vec![Value::from(*id)]),
        Pages::Task(id) => ("b.task_id = ?", vec![Value::from(*id)]),
        Pages::Source(name) => ("b.provenance_code = ?", vec![Value::from(name)]),
        Pages::Range(name, window) => (
            "b.provenance_code = ? AND s.window_to > ? AND s.window_from < ?",
            vec![Value::from(name), window.from().into(), window.to().into()],
        ),
    };
    let text = format!(
        "SELECT b.id, b.plan_id, b.phase, b.page_ids, b.total_hint, b.fetched_at, s.window_from, s.window_to, k.whole, k.bytes_raw, k.body_zstd
           FROM ing_task_run_batch b JOIN ing_plan_slice s ON s.id = b.slice_id
           LEFT JOIN ing_page_body k ON k.hash = b.body_hash
          WHERE {condition} AND b.id > ? AND b.status_code = 'SUCCEEDED' ORDER BY b.id LIMIT ?"
    );
    values.extend([after.into(), PAGES_AT_ONCE.into()]);
    let rows = tx.rows_composed("ing_task_run_batch", &text, values).await?;
    rows.iter().map(|row| Ok(page_of(row)?)).collect()
}

fn page_of(row: &Row) -> Result<KeptPage, LedgerError> {
    let ids = match row.get("page_ids")? {
        Value::Bytes(bytes) => {
            let eight = |part: &[u8]| part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            bytes.chunks_exact(8).map(eight).collect()
        }
        _ => Vec::new(),
    };
    Ok(KeptPage {
        batch: row.id("id")?,
        plan: row.id("plan_id")?,
        window: row.window()?,
        phase: row.code("phase", phase_from)?,
        ids,
        total: row.opt_int("total_hint")?.and_then(|total| u64::try_from(total).ok()),
        fetched_at: row.opt_time("fetched_at")?,
        kept: kept_of(row)?,
    })
}

fn kept_of(row: &Row) -> Result<Kept, LedgerError> {
    let Some(whole) = row.opt_int("whole")? else { return Ok(Kept::Nothing) };
    let size = row.int("bytes_raw")?.clamp(0, BODY_MAX);
    let body = zstd::bulk::decompress(row.bytes("body_zstd")?, usize::try_from(size).unwrap_or_default());
    let body = Bytes::from(body.map_err(|error| row.corrupt("body_zstd", &error.to_string()))?);
    Ok(if whole == 0 { Kept::Sample(body) } else { Kept::Whole(body) })
}

/// Which stored records a page is asked about.
pub(crate) struct StoredAsk {
    pub provenance: String,
    pub entity: String,
    pub batch: Id,
    pub ids: Vec<String>,
}

pub(crate) async fn stored(store: Arc<Inner>, ask: Arc<StoredAsk>) -> Result<Vec<ReadRecord>, DbError> {
    let mut tx = store.db.read().await?;
    let result = stored_in(&mut tx, &ask).await;
    ended(tx, result).await
}

async fn stored_in(tx: &mut Tx, ask: &StoredAsk) -> Result<Vec<ReadRecord>, DbError> {
    let asked = params! { provenance: &ask.provenance, entity: &ask.entity };
    let keys: Vec<Value> = ask.ids.iter().map(Value::from).collect();
    let mut found = Vec::new();
    for row in tx.rows_listed("ing_record", STORED, asked, &keys).await? {
        if row.id("batch_id")? == ask.batch {
            let (id, fields) = (row.string("provider_id")?, row.string("fields")?);
            found.push(ReadRecord { id, content_hash: row.hash("content_hash")?, fields });
        }
    }
    Ok(found)
}
