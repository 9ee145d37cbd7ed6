//! Signals that a page itself gives, in its own transaction: records to be asked for again because they are in quarantine,
//! because a notice points to them, or because another record was merged into them. A refresh closes what it asks for.

use std::collections::{BTreeMap, HashSet};

use patra_core::ports::BatchCommit;
use patra_core::record::NewRecord;
use patra_core::spec::snapshot::Operation;

use crate::db::Tx;
use crate::error::DbError;
use crate::records::PageOwner;
use crate::store::Inner;
use crate::value::{Value, params};

/// Who gives these signals.
const ACTOR: &str = "patra";

const INSERT: &str = "-- signal.insert_page
    INSERT INTO ing_signal (id, provenance_code, endpoint_name, provider_id, kind_code, reason, actor, status_code,
        created_at)
    VALUES {rows:9}";
pub(crate) const OPEN_OF: &str = "-- signal.open_of
    SELECT id, provider_id FROM ing_signal
     WHERE {one_of:ing_signal;provider_id;provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN'}";
pub(crate) const STORED_OF: &str = "-- record.stored_of
    SELECT id, provider_id FROM ing_record
     WHERE {one_of:ing_record;provider_id;provenance_code = :provenance AND endpoint_name = :entity}";
pub(crate) const CLOSE_ASKED: &str = "-- signal.close_asked
    UPDATE ing_signal SET status_code = 'CLOSED', closed_at = :now
     WHERE {one_of:ing_signal;provider_id;provenance_code = :provenance AND endpoint_name = :entity AND status_code = 'OPEN'}
       AND created_at <= :asked";

/// Writes the signals of a page. `changed` are its records that were stored as new versions.
pub(crate) async fn write(
    tx: &mut Tx,
    store: &Inner,
    at: &PageOwner<'_>,
    batch: &BatchCommit,
    changed: &[&NewRecord],
) -> Result<(), DbError> {
    if at.operation == Operation::Update {
        close_asked(tx, at, batch).await?;
    }
    let mut wanted: BTreeMap<&str, (String, String)> = BTreeMap::new();
    // A refresh that gets the same bad record again would only signal itself.
    let bad = batch.bad.iter().filter(|_| at.operation != Operation::Update);
    for id in bad.filter_map(|bad| bad.id.as_deref()) {
        wanted.insert(id, ("QUARANTINE".into(), format!("in quarantine since batch {}", at.batch)));
    }
    for record in changed {
        if let Some(survivor) = &record.merged_into {
            wanted.insert(survivor, ("MERGE".into(), format!("`{}` was merged into it", record.provider_id)));
        }
    }
    for record in &batch.records {
        wanted.remove(record.provider_id.as_str());
    }
    for (id, hint) in notices(tx, at, changed).await? {
        wanted.entry(id).or_insert(hint);
    }
    insert(tx, store, at, wanted).await
}

/// What notices point to, as far as it is stored: what is not yet will be read as it is by then.
async fn notices<'a>(
    tx: &mut Tx,
    at: &PageOwner<'_>,
    changed: &[&'a NewRecord],
) -> Result<Vec<(&'a str, (String, String))>, DbError> {
    let pointers = changed.iter().flat_map(|record| record.notices.iter().map(move |pointer| (*record, pointer)));
    let pointers: Vec<_> = pointers.collect();
    if pointers.is_empty() {
        return Ok(Vec::new());
    }
    let stored =
        named(tx, at, STORED_OF, "ing_record", pointers.iter().map(|(_, pointer)| pointer.id.as_str())).await?;
    let known = pointers.into_iter().filter(|(_, pointer)| stored.contains(&pointer.id));
    Ok(known
        .map(|(record, pointer)| {
            (pointer.id.as_str(), (pointer.kind.clone(), format!("`{}` is a notice about it", record.provider_id)))
        })
        .collect())
}

async fn insert(
    tx: &mut Tx,
    store: &Inner,
    at: &PageOwner<'_>,
    wanted: BTreeMap<&str, (String, String)>,
) -> Result<(), DbError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let open = named(tx, at, OPEN_OF, "ing_signal", wanted.keys().copied()).await?;
    let mut rows: Vec<Value> = Vec::new();
    for (id, (kind, reason)) in wanted.into_iter().filter(|(id, _)| !open.contains(*id)) {
        rows.extend([
            store.ids.next().into(),
            at.provenance.clone().into(),
            at.entity.clone().into(),
            id.into(),
            kind.into(),
            reason.into(),
            ACTOR.into(),
            "OPEN".into(),
            at.now.into(),
        ]);
    }
    tx.execute_rows(INSERT, 9, rows).await?;
    Ok(())
}

async fn close_asked(tx: &mut Tx, at: &PageOwner<'_>, batch: &BatchCommit) -> Result<(), DbError> {
    let records = batch.records.iter().map(|record| record.provider_id.as_str());
    let missing = batch.missing.iter().map(|(id, _)| id.as_str());
    let bad = batch.bad.iter().filter_map(|bad| bad.id.as_deref());
    let ids: Vec<Value> = records.chain(missing).chain(bad).map(Into::into).collect();
    let asked = params! {
        provenance: at.provenance.clone(),
        entity: at.entity.clone(),
        now: at.now,
        asked: batch.asked_at,
    };
    tx.execute_list(CLOSE_ASKED, asked, &ids).await?;
    Ok(())
}

async fn named(
    tx: &mut Tx,
    at: &PageOwner<'_>,
    text: &'static str,
    table: &'static str,
    names: impl Iterator<Item = &str>,
) -> Result<HashSet<String>, DbError> {
    let keys: Vec<Value> = names.map(Into::into).collect();
    let asked = params! { provenance: at.provenance.clone(), entity: at.entity.clone() };
    let rows = tx.rows_listed(table, text, asked, &keys).await?;
    rows.iter().map(|row| Ok(row.string("provider_id")?)).collect()
}
