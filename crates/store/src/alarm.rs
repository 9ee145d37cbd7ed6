//! Alarms of the fleet: what they follow from, which are on, and which of them were told.
//!
//! `open_key` is the alarm's key while it is on and NULL afterwards, so one cause is one row however many watch.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::healing::{Alarm, AlarmKind, Facts};
use patra_core::id::Id;
use patra_core::ports::{Alarms, KeptAlarm, LedgerError, Settled};
use patra_core::time::{Span, Timestamp};

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, params};
use crate::watched;

/// Alarms told in one go.
const TOLD_AT_ONCE: u32 = 100;

const OPEN: &str = "-- alarm.open
    SELECT id, open_key, kind_code, provenance_code, what, message, raised_at, cleared_at FROM ing_alarm
     WHERE open_key IS NOT NULL ORDER BY id";
const RAISE: &str = "-- alarm.raise
    INSERT INTO ing_alarm (id, open_key, kind_code, provenance_code, what, message, status_code, told_code, raised_at)
    VALUES (:id, :key, :kind, :provenance, :what, :message, 'OPEN', 'NOTHING', :now) {insert_new:open_key}";
const RAISED: &str = "-- alarm.raised
    SELECT id FROM ing_alarm WHERE open_key = :key";
const CLEAR: &str = "-- alarm.clear
    UPDATE ing_alarm SET open_key = NULL, status_code = 'CLEARED', cleared_at = :now
     WHERE id = :id AND open_key IS NOT NULL";
const UNTOLD: &str = "-- alarm.untold
    SELECT id, open_key, kind_code, provenance_code, what, message, raised_at, cleared_at FROM ing_alarm
     WHERE ((status_code = 'OPEN' AND told_code = 'NOTHING') OR (status_code = 'CLEARED' AND told_code = 'RAISED'))
       AND (telling_until IS NULL OR telling_until < :now)
     ORDER BY id {limit:limit}";
const TAKE: &str = "-- alarm.take
    UPDATE ing_alarm SET telling_until = :until WHERE id = :id AND (telling_until IS NULL OR telling_until < :now)";
const TOLD: &str = "-- alarm.told
    UPDATE ing_alarm SET told_code = :told, telling_until = NULL WHERE id = :id AND told_code = :before";

#[async_trait]
impl Alarms for Store {
    async fn alarm_facts(&self, queued_max: u32) -> Result<Facts, LedgerError> {
        self.retried("alarm_facts", move |store| watched::facts(store, queued_max)).await
    }

    async fn settle_alarms(&self, wanted: Vec<Alarm>) -> Result<Settled, LedgerError> {
        let wanted = Arc::new(wanted);
        self.retried("settle_alarms", move |store| settle(store, wanted.clone())).await
    }

    async fn take_untold(&self, ttl: Span) -> Result<Vec<KeptAlarm>, LedgerError> {
        self.retried("take_untold", move |store| take(store, ttl)).await
    }

    async fn mark_told(&self, alarm: &KeptAlarm) -> Result<(), LedgerError> {
        let (id, cleared) = (alarm.id, alarm.cleared_at.is_some());
        self.retried("mark_told", move |store| told(store, id, cleared)).await
    }
}

async fn settle(store: Arc<Inner>, wanted: Arc<Vec<Alarm>>) -> Result<Settled, DbError> {
    let mut tx = store.db.write().await?;
    let settled = settle_in(&mut tx, &store, &wanted).await;
    ended(tx, settled).await
}

async fn settle_in(tx: &mut Tx, store: &Inner, wanted: &[Alarm]) -> Result<Settled, DbError> {
    let now = tx.now();
    let mut open = Vec::new();
    for row in tx.rows("ing_alarm", OPEN, params! {}).await? {
        open.push((row.string("open_key")?, kept(&row)?));
    }
    let mut settled = Settled::default();
    for alarm in wanted {
        let key = alarm.key();
        if !open.iter().any(|(known, _)| *known == key) && raise(tx, store.ids.next(), &key, alarm, now).await? {
            settled.raised.push(alarm.clone());
        }
    }
    for (key, known) in open {
        let gone = !wanted.iter().any(|alarm| alarm.key() == key);
        if gone && tx.execute(CLEAR, params! { now: now, id: known.id }).await? == 1 {
            settled.cleared.push(known.alarm);
        }
    }
    Ok(settled)
}

/// False when another process has raised it meanwhile.
async fn raise(tx: &mut Tx, id: Id, key: &str, alarm: &Alarm, now: Timestamp) -> Result<bool, DbError> {
    let row = params! {
        id: id,
        key: key,
        kind: alarm.kind.code(),
        provenance: &alarm.provenance,
        what: &alarm.what,
        message: &alarm.message,
        now: now,
    };
    tx.execute(RAISE, row).await?;
    let row = tx.row("ing_alarm", RAISED, params! { key: key }).await?;
    Ok(row.map(|row| row.id("id")).transpose()? == Some(id))
}

async fn take(store: Arc<Inner>, ttl: Span) -> Result<Vec<KeptAlarm>, DbError> {
    let mut tx = store.db.write().await?;
    let taken = take_in(&mut tx, ttl).await;
    ended(tx, taken).await
}

async fn take_in(tx: &mut Tx, ttl: Span) -> Result<Vec<KeptAlarm>, DbError> {
    let now = tx.now();
    let mut taken = Vec::new();
    for row in tx.rows("ing_alarm", UNTOLD, params! { now: now, limit: TOLD_AT_ONCE }).await? {
        let alarm = kept(&row)?;
        if tx.execute(TAKE, params! { until: now.plus(ttl), id: alarm.id, now: now }).await? == 1 {
            taken.push(alarm);
        }
    }
    Ok(taken)
}

async fn told(store: Arc<Inner>, id: Id, cleared: bool) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let (before, told) = if cleared { ("RAISED", "CLEARED") } else { ("NOTHING", "RAISED") };
    let result = tx.execute(TOLD, params! { told: told, id: id, before: before }).await.map(drop);
    ended(tx, result).await
}

fn kept(row: &Row) -> Result<KeptAlarm, LedgerError> {
    let alarm = Alarm {
        kind: row.code("kind_code", AlarmKind::from_code)?,
        provenance: row.string("provenance_code")?,
        what: row.string("what")?,
        message: row.string("message")?,
    };
    Ok(KeptAlarm {
        id: row.id("id")?,
        alarm,
        raised_at: row.time("raised_at")?,
        cleared_at: row.opt_time("cleared_at")?,
    })
}
