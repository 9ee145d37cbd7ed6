//! Coverage and the watermark: what is proven, and how far the proof reaches without a gap.
//!
//! The cursor is a cache of its events. Each move inserts the event first and then the value, in the transaction
//! that finished the slice (INV-1, INV-2). A window that was cut by a second key counts only when all its parts
//! succeeded; its SPLIT parent then gets the `read_at` of the part read first.

use std::collections::HashSet;
use std::sync::Arc;

use patra_core::cursor::{Place, move_key};
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::plan::coverage::{Coverage, ReadSlice, Settling};
use patra_core::planted::{Defect, planted};
use patra_core::ports::{Lease, Namespace, PlanningView, Walk};
use patra_core::spec::snapshot::Operation;
use patra_core::states::{SliceState, TaskState};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;

use crate::db::Tx;
use crate::error::DbError;
use crate::history;
use crate::plan::LIVE_PLAN;
use crate::shared;
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

pub(crate) const COVERED: &str = "-- slice.covered
    SELECT id, plan_id, parent_slice_id, window_from, window_to, part, read_at FROM ing_plan_slice
     WHERE namespace_hash = :namespace AND status_code = :status AND window_to > :after AND read_at IS NOT NULL";
pub(crate) const PARTS_OF_PARENT: &str = "-- slice.parts
    SELECT id, status_code, read_at, part FROM ing_plan_slice WHERE parent_slice_id = :parent";
pub(crate) const PARTS_OF_WINDOW: &str = "-- slice.parts_of_window
    SELECT id, status_code, read_at, part FROM ing_plan_slice
     WHERE plan_id = :plan AND window_from = :window_from AND window_to = :window_to AND parent_slice_id IS NULL";
const PARENT_OF: &str = "-- slice.parent
    SELECT id, parent_slice_id, part FROM ing_plan_slice WHERE id = :slice";
const COVER_PARENT: &str = "-- slice.cover_parent
    UPDATE ing_plan_slice SET read_at = :read_at, updated_at = :now WHERE id = :slice AND status_code = :split";
pub(crate) const WAIVED: &str = "-- waiver.read
    SELECT id, window_from, window_to FROM ing_waiver WHERE namespace_hash = :namespace AND window_to > :after";
pub(crate) const READ_CURSOR: &str = "-- cursor.read
    SELECT id, normalized_instant, version, observed_max_value, finished_to FROM ing_cursor
     WHERE namespace_hash = :namespace";
pub(crate) const READ_CURSOR_MOVED: &str = "-- cursor.moved
    SELECT id, normalized_instant, updated_at FROM ing_cursor WHERE namespace_hash = :namespace";
/// As [`READ_CURSOR`], kept as it is until the commit.
const LOCK_CURSOR: &str = "-- cursor.lock
    SELECT id, normalized_instant, version, observed_max_value, finished_to FROM ing_cursor
     WHERE namespace_hash = :namespace {for_update}";
const INSERT_EVENT: &str = "-- cursor_event.insert
    INSERT INTO ing_cursor_event (id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
        namespace_key, namespace_hash, cursor_type_code, event_no, direction_code, cause_code, prev_value, new_value,
        prev_instant, new_instant, observed_max_value, window_from, window_to, idempotent_key, schedule_instance_id,
        plan_id, slice_id, task_id, run_id, batch_id, expr_hash, record_remarks, created_at)
    VALUES (:id, :provenance, :endpoint, :operation, :cursor_key, :scope, :namespace_key, :namespace, 'TIME', :event_no,
        :direction, :cause, :prev_text, :next_text, :prev, :next, :observed_max, :window_from, :window_to, :key, :instance, :plan,
        :slice, :task, :run, :batch, :expr_hash, :remarks, :now)";
const INSERT_CURSOR: &str = "-- cursor.insert
    INSERT INTO ing_cursor (id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
        namespace_key, namespace_hash, cursor_type_code, cursor_value, normalized_instant, observed_max_value, version,
        schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_id, expr_hash, created_at, updated_at)
    VALUES (:id, :provenance, :endpoint, :operation, :cursor_key, :scope, :namespace_key, :namespace, 'TIME',
        :next_text, :next, :observed_max, :version, :instance, :plan, :slice, :task, :run, :batch, :expr_hash, :now, :now)";
pub(crate) const MOVE_CURSOR: &str = "-- cursor.move
    UPDATE ing_cursor SET cursor_value = :next_text, normalized_instant = :next, observed_max_value = :observed_max,
        version = :version, schedule_instance_id = :instance, plan_id = :plan, slice_id = :slice, task_id = :task,
        run_id = :run, batch_id = :batch, expr_hash = :expr_hash, updated_at = :now
     WHERE namespace_hash = :namespace AND version = :seen";
const CONTROL: &str = "-- control.read
    SELECT id, endpoint_name, paused, fuse_blown, reason, source_behind_us, updated_at, held_until, held_reason,
        lag_raised_us
      FROM ing_source_control
     WHERE provenance_code = :provenance AND endpoint_name IN ('', :endpoint)";
pub(crate) const QUEUED_COUNT: &str = "-- task.queued_count
    SELECT COUNT(*) AS queued FROM ing_task
     WHERE provenance_code = :provenance AND endpoint_name = :endpoint AND operation_code = :operation
       AND status_code = :queued";

/// How long a measurement of the source's clock holds plans back.
const BEHIND_LIFE: Span = Span::DAY;

/// The cursor as stored.
pub(crate) struct Cursor {
    pub watermark: Timestamp,
    version: i64,
    observed_max: Option<Timestamp>,
    finished_to: Option<Timestamp>,
}

/// Who moved the watermark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mover {
    pub instance: Option<Id>,
    pub lease: Option<Lease>,
    pub batch: Option<Id>,
    pub window: Option<Window>,
    pub expr_hash: Option<String>,
    pub observed_max: Option<Timestamp>,
}

/// Walks the coverage from the watermark and moves it to the first gap, and the watermark shared with others as far as
/// all of them are; before and after of its own when it moved.
pub(crate) async fn walk(
    tx: &mut Tx,
    store: &Inner,
    walk: &Walk,
    mover: &Mover,
) -> Result<Option<(Timestamp, Timestamp)>, DbError> {
    shared::lock(tx, walk).await?;
    let moved = walk_own(tx, store, walk, mover).await?;
    shared::follow(tx, store, walk).await?;
    Ok(moved)
}

async fn walk_own(
    tx: &mut Tx,
    store: &Inner,
    walk: &Walk,
    mover: &Mover,
) -> Result<Option<(Timestamp, Timestamp)>, DbError> {
    let namespace = &walk.namespace;
    let hash = namespace.hash();
    // Locked before the slices are read: of two slices that finish together the second sees the first.
    let cursor = read_cursor(tx, LOCK_CURSOR, hash).await?;
    let from = cursor.as_ref().map_or(walk.origin, |cursor| cursor.watermark);
    // By itself a slice elsewhere cannot lengthen the prefix; the one that closes the gap finds it in the table.
    let elsewhere = mover.window.is_some_and(|window| from < window.from() || window.to() <= from);
    if elsewhere && !planted(Defect::WatermarkMaxEnd) && !planted(Defect::BackfillMovesHarvest) {
        return Ok(None);
    }
    let slices = covered(tx, hash, from).await?;
    let waived = waived(tx, hash, from).await?;
    let settling = Settling { lag: walk.settling_lag, lookback: Span::ZERO };
    let proven = Coverage::read(&slices, &[], settling).prefix_end(from);
    let next = planted_watermark(&slices, mover)
        .unwrap_or_else(|| Coverage::read(&slices, &waived, settling).prefix_end(from));
    if next <= from {
        return Ok(None);
    }
    let cause = match (next > proven, mover.lease.is_some()) {
        (true, _) => "WAIVED".to_owned(),
        (false, true) => format!("{}_SLICE", namespace.operation.code()),
        (false, false) => "RECONCILED".to_owned(),
    };
    let step = Step { namespace, hash, cause, prev: from, next, cursor: cursor.as_ref() };
    advance(tx, store, &step, mover).await?;
    Ok(Some((from, next)))
}

/// What a planted defect takes for the watermark.
fn planted_watermark(slices: &[ReadSlice], mover: &Mover) -> Option<Timestamp> {
    if planted(Defect::WatermarkMaxEnd) {
        return slices.iter().map(|slice| slice.window.to()).max();
    }
    if planted(Defect::BackfillMovesHarvest) {
        return mover.window.map(|window| window.to());
    }
    mover.observed_max.filter(|_| planted(Defect::WatermarkFromRecords))
}

/// One move of the watermark.
pub(crate) struct Step<'a> {
    pub namespace: &'a Namespace,
    pub hash: Hash32,
    pub cause: String,
    pub prev: Timestamp,
    pub next: Timestamp,
    pub cursor: Option<&'a Cursor>,
}

/// The event, then the value.
pub(crate) async fn advance(tx: &mut Tx, store: &Inner, step: &Step<'_>, mover: &Mover) -> Result<(), DbError> {
    let seen = step.cursor.map_or(0, |cursor| cursor.version);
    let version = seen + 1;
    let now = tx.now();
    let observed_max = mover.observed_max.max(step.cursor.and_then(|cursor| cursor.observed_max));
    let lease = mover.lease.as_ref();
    let common = params! {
        namespace: step.hash,
        next: step.next,
        next_text: step.next.to_string(),
        observed_max: observed_max,
        instance: mover.instance,
        plan: lease.map(|lease| lease.plan),
        slice: lease.map(|lease| lease.slice),
        task: lease.map(|lease| lease.task),
        run: lease.map(|lease| lease.run),
        batch: mover.batch,
        expr_hash: mover.expr_hash.as_deref(),
        now: now,
    };
    let named = params! {
        id: store.ids.next(),
        provenance: &step.namespace.provenance,
        endpoint: &step.namespace.endpoint,
        operation: step.namespace.operation.code(),
        cursor_key: &step.namespace.cursor_key,
        scope: step.namespace.scope.code(),
        namespace_key: &step.namespace.key,
    };
    store.fail.hit("t2.event")?;
    let mut event = [common.clone(), named.clone()].concat();
    event.extend(params! {
        event_no: version,
        direction: if step.namespace.operation == Operation::Backfill { "BACKFILL" } else { "FORWARD" },
        cause: step.cause.as_str(),
        prev: step.prev,
        prev_text: step.prev.to_string(),
        window_from: mover.window.map(|window| window.from()),
        window_to: mover.window.map(|window| window.to()),
        key: move_key(step.hash, version, &Place::at(step.prev), &Place::at(step.next)),
        remarks: serde_json::json!({ "reason": step.cause }),
    });
    if !planted(Defect::CursorWithoutEvent) {
        tx.execute(INSERT_EVENT, event).await?;
    }
    store.fail.hit("t2.cursor")?;
    if step.cursor.is_none() {
        let row = [common, named, params! { version: version }].concat();
        tx.execute(INSERT_CURSOR, row).await?;
        return Ok(());
    }
    let row = [common, params! { version: version, seen: seen }].concat();
    match tx.execute(MOVE_CURSOR, row).await? {
        1 => Ok(()),
        _ => Err(DbError::Busy("the cursor was moved by someone else".into())),
    }
}

/// A part succeeded: marks every SPLIT ancestor whose parts are now all read.
pub(crate) async fn cover_parents(tx: &mut Tx, slice: Id, now: Timestamp) -> Result<(), DbError> {
    let mut child = slice;
    loop {
        let row = tx.row("ing_plan_slice", PARENT_OF, params! { slice: child }).await?;
        let Some(row) = row else { return Ok(()) };
        let (Some(parent), Some(_)) = (row.opt_int("parent_slice_id")?, row.opt_text("part")?) else {
            return Ok(());
        };
        let parts = tx.rows("ing_plan_slice", PARTS_OF_PARENT, params! { parent: parent }).await?;
        let Some(read_at) = all_read(&parts)? else { return Ok(()) };
        let split = SliceState::Split.code();
        tx.execute(COVER_PARENT, params! { slice: parent, read_at: read_at, split: split, now: now }).await?;
        child = Id(parent);
    }
}

/// When the part read first was read; `None` while one is not proven.
fn all_read(parts: &[Row]) -> Result<Option<Timestamp>, DbError> {
    let mut first = None;
    for part in parts {
        let state = part.code("status_code", SliceState::from_code)?;
        let read_at = part.opt_time("read_at")?;
        let (SliceState::Succeeded | SliceState::Split, Some(read_at)) = (state, read_at) else { return Ok(None) };
        first = Some(first.map_or(read_at, |first: Timestamp| first.min(read_at)));
    }
    Ok(first)
}

/// Every proven window that reaches past `after`.
pub(crate) async fn covered(tx: &mut Tx, namespace: Hash32, after: Timestamp) -> Result<Vec<ReadSlice>, DbError> {
    let mut slices = Vec::new();
    let mut looked_at = HashSet::new();
    for state in [SliceState::Succeeded, SliceState::Split] {
        let asked = params! { namespace: namespace, status: state.code(), after: after };
        for row in tx.rows("ing_plan_slice", COVERED, asked).await? {
            let window = row.window()?;
            let read_at = row.time("read_at")?;
            if row.opt_text("part")?.is_none() {
                slices.push(ReadSlice { window, read_at });
                continue;
            }
            // Parts below a SPLIT parent count through it; parts of the plan itself count together.
            let plan = row.id("plan_id")?;
            if row.opt_int("parent_slice_id")?.is_none() && looked_at.insert((plan, window)) {
                slices.extend(parts_of_window(tx, plan, window).await?);
            }
        }
    }
    Ok(slices)
}

async fn parts_of_window(tx: &mut Tx, plan: Id, window: Window) -> Result<Option<ReadSlice>, DbError> {
    let asked = params! { plan: plan, window_from: window.from(), window_to: window.to() };
    let parts = tx.rows("ing_plan_slice", PARTS_OF_WINDOW, asked).await?;
    Ok(all_read(&parts)?.map(|read_at| ReadSlice { window, read_at }))
}

async fn waived(tx: &mut Tx, namespace: Hash32, after: Timestamp) -> Result<Vec<Window>, DbError> {
    let rows = tx.rows("ing_waiver", WAIVED, params! { namespace: namespace, after: after }).await?;
    rows.iter().map(|row| Ok(row.window()?)).collect()
}

pub(crate) async fn read_cursor(tx: &mut Tx, text: &'static str, namespace: Hash32) -> Result<Option<Cursor>, DbError> {
    let Some(row) = tx.row("ing_cursor", text, params! { namespace: namespace }).await? else {
        return Ok(None);
    };
    Ok(Some(Cursor {
        watermark: row.time("normalized_instant")?,
        version: row.int("version")?,
        observed_max: row.opt_time("observed_max_value")?,
        finished_to: row.opt_time("finished_to")?,
    }))
}

pub(crate) async fn reconcile(store: Arc<Inner>, again: Arc<Walk>) -> Result<bool, DbError> {
    store.fail.hit("reconcile.begin")?;
    let mut tx = store.db.write().await?;
    let mut result = walk(&mut tx, &store, &again, &Mover::default()).await;
    if let Err(struck) = store.fail.hit("reconcile.commit") {
        result = Err(struck.into());
    }
    Ok(ended(tx, result).await?.is_some())
}

pub(crate) async fn planning_view(store: Arc<Inner>, namespace: Namespace) -> Result<PlanningView, DbError> {
    let mut tx = store.db.read().await?;
    let now = tx.now();
    let result = view_in(&mut tx, &namespace, now).await;
    ended(tx, result).await
}

async fn view_in(tx: &mut Tx, namespace: &Namespace, now: Timestamp) -> Result<PlanningView, DbError> {
    let hash = namespace.hash();
    let cursor = read_cursor(tx, READ_CURSOR, hash).await?;
    let finished_to = cursor.as_ref().and_then(|cursor| cursor.finished_to);
    let after = finished_to.unwrap_or(Timestamp::MIN);
    let live = tx.row("ing_plan", LIVE_PLAN, params! { live_key: hash }).await?;
    let asked = params! {
        provenance: &namespace.provenance,
        endpoint: &namespace.endpoint,
        operation: namespace.operation.code(),
        queued: TaskState::Queued.code(),
    };
    let queued = tx.row("ing_task", QUEUED_COUNT, asked).await?;
    let mut view = PlanningView {
        live_plan: live.as_ref().map(|row| row.id("id")).transpose()?,
        live_instance: live.as_ref().map(|row| row.id("schedule_instance_id")).transpose()?,
        watermark: cursor.map(|cursor| cursor.watermark),
        slices: covered(tx, hash, after).await?,
        waived: waived(tx, hash, after).await?,
        history: history::counted(tx, hash).await?,
        finished_to,
        queued: queued.map_or(Ok(0), |row| row.count("queued"))?,
        ..PlanningView::default()
    };
    let asked = params! { provenance: &namespace.provenance, endpoint: &namespace.endpoint };
    for row in tx.rows("ing_source_control", CONTROL, asked).await? {
        if row.int("paused")? != 0 || row.int("fuse_blown")? != 0 {
            view.paused = Some(row.opt_text("reason")?.unwrap_or("paused").to_owned());
        }
        if let Some(until) = row.opt_time("held_until")?.filter(|until| *until > now) {
            view.held = Some((until, row.opt_text("held_reason")?.unwrap_or_default().to_owned()));
        }
        view.lag_raised = view.lag_raised.max(Span::from_micros(row.int("lag_raised_us")?));
        // An old or future one says more about our clock than about the source's, and what it holds back is not asked
        // for, so nobody would ever measure again.
        let age = now.since(row.time("updated_at")?);
        if Span::ZERO <= age && age <= BEHIND_LIFE {
            view.source_behind = view.source_behind.max(Span::from_micros(row.int("source_behind_us")?));
        }
    }
    Ok(view)
}
