//! Schedules and their firings. A schedule is moved on by an update that asks for the version that was seen, in the
//! transaction that opens the firing; a unique key holds (schedule, due time). So each due time fires once, whoever looks.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::ports::{Firing, FiringEnd, Intervention, LedgerError, ScheduleOrder};
use patra_core::schedule::{CatchUp, Overlap, Schedule, Turn};
use patra_core::time::{Span, Timestamp};
use serde_json::{Value as Json, json};

use crate::cancel::audit;
use crate::db::Tx;
use crate::error::DbError;
use crate::rows::operation_from;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

const BY_NAME: &str = "-- schedule.by_name
    SELECT id FROM ing_schedule WHERE name = :name";
const INSERT: &str = "-- schedule.insert
    INSERT INTO ing_schedule (id, name, cron_expr, zone, jitter_us, overlap_code, catch_up_code, provenance_code,
        endpoint_name, operation_code, channel, trigger_params, paused, next_due_at, version, actor, created_at,
        updated_at)
    VALUES (:id, :name, :cron, :zone, :jitter, :overlap, :catch_up, :provenance, :endpoint, :operation, :channel, :ask,
        :paused, :next_due, :version, :actor, :now, :now)";
const ALL: &str = "-- schedule.all
    SELECT id, name, cron_expr, zone, jitter_us, overlap_code, catch_up_code, provenance_code, endpoint_name,
        operation_code, channel, trigger_params, paused, next_due_at, version FROM ing_schedule ORDER BY name";
const PAUSE: &str = "-- schedule.pause
    UPDATE ing_schedule SET paused = 1, version = version + 1, updated_at = :now WHERE id = :id AND paused = 0";
const RESUME: &str = "-- schedule.resume
    UPDATE ing_schedule SET paused = 0, next_due_at = :next_due, version = version + 1, updated_at = :now
     WHERE id = :id AND paused = 1";
const REMOVE: &str = "-- schedule.remove
    DELETE FROM ing_schedule WHERE id = :id";
const MOVE_ON: &str = "-- schedule.move_on
    UPDATE ing_schedule SET next_due_at = :next_due, version = version + 1, updated_at = :now
     WHERE id = :id AND version = :version AND paused = 0";
const OPEN_FIRING: &str = "-- firing.insert
    INSERT INTO ing_schedule_firing (id, schedule_id, due_at, trigger_type_code, schedule_snapshot, status_code,
        leased_until, created_at, updated_at)
    VALUES (:id, :schedule, :due, :trigger_type, :snapshot, 'PENDING', :now, :now, :now)";
pub(crate) const PENDING: &str = "-- firing.pending
    SELECT f.id, f.due_at, f.trigger_type_code, f.schedule_snapshot, f.leased_until FROM ing_schedule_firing f
     WHERE f.status_code = 'PENDING' AND NOT EXISTS (SELECT 1 FROM ing_schedule_firing o
        WHERE o.status_code = 'PENDING' AND o.schedule_id = f.schedule_id AND o.id < f.id)
     ORDER BY f.id {limit:limit}";
const TAKE: &str = "-- firing.take
    UPDATE ing_schedule_firing SET lease_owner = :who, leased_until = :until, updated_at = :now
     WHERE id = :id AND status_code = 'PENDING' AND leased_until <= :now";
const END: &str = "-- firing.end
    UPDATE ing_schedule_firing SET status_code = :status, plan_id = :plan, record_remarks = :remarks, updated_at = :now
     WHERE id = :id AND status_code = 'PENDING' AND lease_owner = :who";
const LATER: &str = "-- firing.later
    UPDATE ing_schedule_firing SET leased_until = :until, record_remarks = :remarks, updated_at = :now
     WHERE id = :id AND status_code = 'PENDING' AND lease_owner = :who";
const NEWEST: &str = "-- firing.newest
    SELECT id, due_at, trigger_type_code, status_code, plan_id, record_remarks, created_at, updated_at
      FROM ing_schedule_firing WHERE schedule_id = :schedule ORDER BY due_at DESC {limit:limit}";

/// Schedules looked at in one go; of each the oldest firing, also when it waits.
const PENDING_MAX: u32 = 500;

pub(crate) async fn add(store: Arc<Inner>, schedule: Arc<Schedule>, act: Arc<Intervention>) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = add_in(&mut tx, &store, &schedule, &act).await;
    ended(tx, result).await
}

async fn add_in(tx: &mut Tx, store: &Inner, schedule: &Schedule, act: &Intervention) -> Result<bool, DbError> {
    if let Some(row) = tx.row("ing_schedule", BY_NAME, params! { name: &schedule.name }).await? {
        return Ok(row.id("id")? == schedule.id);
    }
    let row = params! {
        id: schedule.id,
        name: &schedule.name,
        cron: &schedule.cron,
        zone: &schedule.zone,
        jitter: schedule.jitter.micros(),
        overlap: schedule.overlap.code(),
        catch_up: schedule.catch_up.code(),
        provenance: &schedule.provenance,
        endpoint: schedule.endpoint.as_deref().unwrap_or_default(),
        operation: schedule.operation.code(),
        channel: &schedule.channel,
        ask: json!(schedule.ask),
        paused: schedule.paused,
        next_due: schedule.next_due,
        version: schedule.version,
        actor: &act.actor,
        now: tx.now(),
    };
    tx.execute(INSERT, row).await?;
    audit(tx, store, "SCHEDULE_ADD", &format!("schedule:{}", schedule.name), act, json!({ "cron": schedule.cron }))
        .await?;
    Ok(true)
}

pub(crate) async fn all(store: Arc<Inner>) -> Result<Vec<Schedule>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = tx.rows("ing_schedule", ALL, params! {}).await;
    let result = rows.and_then(|rows| rows.iter().map(|row| Ok(schedule_of(row)?)).collect());
    ended(tx, result).await
}

fn schedule_of(row: &Row) -> Result<Schedule, LedgerError> {
    let endpoint = row.string("endpoint_name")?;
    Ok(Schedule {
        id: row.id("id")?,
        name: row.string("name")?,
        cron: row.string("cron_expr")?,
        zone: row.string("zone")?,
        jitter: Span::from_micros(row.int("jitter_us")?),
        overlap: row.code("overlap_code", Overlap::from_code)?,
        catch_up: row.code("catch_up_code", CatchUp::from_code)?,
        provenance: row.string("provenance_code")?,
        endpoint: (!endpoint.is_empty()).then_some(endpoint),
        operation: row.code("operation_code", operation_from)?,
        channel: row.string("channel")?,
        ask: row.json("trigger_params")?,
        paused: row.int("paused")? != 0,
        next_due: row.time("next_due_at")?,
        version: row.int("version")?,
    })
}

pub(crate) async fn order(
    store: Arc<Inner>,
    id: Id,
    order: ScheduleOrder,
    act: Arc<Intervention>,
) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = order_in(&mut tx, &store, id, order, &act).await;
    ended(tx, result).await
}

async fn order_in(
    tx: &mut Tx,
    store: &Inner,
    id: Id,
    order: ScheduleOrder,
    act: &Intervention,
) -> Result<bool, DbError> {
    let now = tx.now();
    let (changed, action) = match order {
        ScheduleOrder::Pause => (tx.execute(PAUSE, params! { id: id, now: now }).await?, "SCHEDULE_PAUSE"),
        ScheduleOrder::Resume { next_due } => {
            (tx.execute(RESUME, params! { id: id, now: now, next_due: next_due }).await?, "SCHEDULE_RESUME")
        }
        ScheduleOrder::Remove => (tx.execute(REMOVE, params! { id: id }).await?, "SCHEDULE_REMOVE"),
    };
    if changed > 0 {
        audit(tx, store, action, &format!("schedule:{id}"), act, json!({})).await?;
    }
    Ok(changed > 0)
}

pub(crate) async fn fire(
    store: Arc<Inner>,
    schedule: Arc<Schedule>,
    turn: Arc<Turn>,
    firing: Id,
) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let result = fire_in(&mut tx, &schedule, &turn, firing).await;
    ended(tx, result).await
}

async fn fire_in(tx: &mut Tx, schedule: &Schedule, turn: &Turn, firing: Id) -> Result<bool, DbError> {
    let now = tx.now();
    let moved = params! { id: schedule.id, version: schedule.version, next_due: turn.next_due, now: now };
    if tx.execute(MOVE_ON, moved).await? != 1 {
        return Ok(false);
    }
    if let Some(due) = turn.fire {
        open(tx, schedule, due, firing, "CRON").await?;
    }
    Ok(true)
}

async fn open(tx: &mut Tx, schedule: &Schedule, due: Timestamp, firing: Id, kind: &str) -> Result<(), DbError> {
    let row = params! {
        id: firing,
        schedule: schedule.id,
        due: due,
        trigger_type: kind,
        snapshot: json!(schedule),
        now: tx.now(),
    };
    tx.execute(OPEN_FIRING, row).await?;
    Ok(())
}

pub(crate) async fn fire_now(
    store: Arc<Inner>,
    schedule: Arc<Schedule>,
    due: Timestamp,
    firing: Id,
    act: Arc<Intervention>,
) -> Result<Id, DbError> {
    let mut tx = store.db.write().await?;
    let result = fire_now_in(&mut tx, &store, &schedule, due, firing, &act).await;
    ended(tx, result).await
}

async fn fire_now_in(
    tx: &mut Tx,
    store: &Inner,
    schedule: &Schedule,
    due: Timestamp,
    firing: Id,
    act: &Intervention,
) -> Result<Id, DbError> {
    open(tx, schedule, due, firing, "MANUAL").await?;
    let detail = json!({ "firing": firing });
    audit(tx, store, "SCHEDULE_RUN", &format!("schedule:{}", schedule.name), act, detail).await?;
    Ok(firing)
}

pub(crate) async fn take(store: Arc<Inner>, who: Arc<str>, ttl: Span, limit: u32) -> Result<Vec<Firing>, DbError> {
    let mut tx = store.db.write().await?;
    let result = take_in(&mut tx, &who, ttl, limit).await;
    ended(tx, result).await
}

async fn take_in(tx: &mut Tx, who: &str, ttl: Span, limit: u32) -> Result<Vec<Firing>, DbError> {
    let now = tx.now();
    let mut taken = Vec::new();
    for row in tx.rows("ing_schedule_firing", PENDING, params! { limit: PENDING_MAX }).await? {
        if taken.len() >= limit as usize {
            break;
        }
        let id = row.id("id")?;
        let lease = params! { id: id, who: who, until: now.plus(ttl), now: now };
        if row.time("leased_until")? <= now && tx.execute(TAKE, lease).await? == 1 {
            taken.push(Firing {
                id,
                schedule: row.json("schedule_snapshot")?,
                due: row.time("due_at")?,
                trigger_type: row.string("trigger_type_code")?,
            });
        }
    }
    Ok(taken)
}

pub(crate) async fn end(store: Arc<Inner>, id: Id, who: Arc<str>, end: Arc<FiringEnd>) -> Result<bool, DbError> {
    let mut tx = store.db.write().await?;
    let now = tx.now();
    let (text, row) = match &*end {
        FiringEnd::Done { status, plan, remarks } => {
            (END, params! { id: id, who: &*who, status: *status, plan: *plan, remarks: remarks, now: now })
        }
        FiringEnd::Later { until, remarks } => {
            (LATER, params! { id: id, who: &*who, until: *until, remarks: remarks, now: now })
        }
    };
    let result = tx.execute(text, row).await.map(|changed| changed == 1);
    ended(tx, result).await
}

pub(crate) async fn newest(store: Arc<Inner>, schedule: Id, limit: u32) -> Result<Vec<Json>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = tx.rows("ing_schedule_firing", NEWEST, params! { schedule: schedule, limit: limit }).await;
    let result = rows.map(|rows| rows.iter().map(|row| Json::Object(crate::inspect::shown_row(row))).collect());
    ended(tx, result).await
}
