//! How far lasting works have come. A step follows the one that was read, or nothing is written: of two who go on at once
//! under one name, one does.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::{LedgerError, Progress, Work};

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

pub(crate) const READ: &str = "-- progress.read
    SELECT id, fingerprint, position, step_no FROM ing_progress WHERE kind_code = :kind AND name = :name {for_update}";
pub(crate) const LOOK: &str = "-- progress.look
    SELECT id, fingerprint, position, step_no FROM ing_progress WHERE kind_code = :kind AND name = :name";
const BEGIN: &str = "-- progress.begin
    INSERT INTO ing_progress (id, kind_code, name, fingerprint, position, step_no, created_at, updated_at)
    VALUES (:id, :kind, :name, :fingerprint, :position, :step_no, :now, :now)";
pub(crate) const GO_ON: &str = "-- progress.go_on
    UPDATE ing_progress SET fingerprint = :fingerprint, position = :position, step_no = :step_no, updated_at = :now
     WHERE id = :id";

pub(crate) async fn read(store: Arc<Inner>, work: Work, name: Arc<str>) -> Result<Option<Progress>, DbError> {
    let mut tx = store.db.read().await?;
    let row = tx.row("ing_progress", LOOK, params! { kind: work.code(), name: name }).await;
    let found = row.and_then(|row| Ok(row.as_ref().map(progress_of).transpose()?));
    ended(tx, found).await
}

fn progress_of(row: &Row) -> Result<Progress, LedgerError> {
    Ok(Progress {
        fingerprint: row.hash("fingerprint")?,
        position: row.string("position")?,
        step_no: row.int("step_no")?,
    })
}

pub(crate) async fn note(
    store: Arc<Inner>,
    work: Work,
    name: Arc<str>,
    next: Arc<Progress>,
    id: Id,
) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let noted = note_in(&mut tx, work, &name, &next, id).await;
    ended(tx, noted).await
}

/// Within a step that writes more than this. A step that was noted before, by a try of which nobody knew, is noted.
pub(crate) async fn note_in(tx: &mut Tx, work: Work, name: &str, next: &Progress, id: Id) -> Result<bool, DbError> {
    let now = tx.now();
    let row = tx.row("ing_progress", READ, params! { kind: work.code(), name: name }).await?;
    let known = row.as_ref().map(progress_of).transpose()?;
    let Some((row, known)) = row.as_ref().zip(known) else {
        if next.step_no != 1 {
            return Ok(false);
        }
        let begun = params! {
            id: id, kind: work.code(), name: name, fingerprint: next.fingerprint, position: &next.position,
            step_no: next.step_no, now: now,
        };
        tx.execute(BEGIN, begun).await?;
        return Ok(true);
    };
    if known == *next {
        return Ok(true);
    }
    if known.step_no + 1 != next.step_no {
        return Ok(false);
    }
    let gone_on = params! {
        fingerprint: next.fingerprint, position: &next.position, step_no: next.step_no, now: now, id: row.id("id")?,
    };
    Ok(tx.execute(GO_ON, gone_on).await? == 1)
}
