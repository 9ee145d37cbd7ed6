//! The other ways a run can go: a new pass, giving the task back, replacing the slice by smaller ones.

use std::sync::Arc;

use patra_core::page::Part;
use patra_core::ports::{Lease, LedgerError, NewPass, NewSlice, Release, Split};
use patra_core::states::{BatchEvent, BatchState, RunEvent, SliceEvent, TaskEvent, TaskState};
use patra_core::time::Timestamp;

use crate::claim::READ_TASK;
use crate::db::Tx;
use crate::error::DbError;
use crate::finish::{Ending, end_slice, end_task, ended_by_us, split_remark};
use crate::rows::{BatchOwner, Lineage, RunEnd, end_run, insert_slices, open_batch, skip_open_batches};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

pub(crate) const NEW_PASS: &str = "-- task.new_pass
    UPDATE ing_task SET last_pass = :pass_no, last_seq = -1, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running
       AND last_pass IN (:pass_no, :pass_before)";
const BATCH_STATE: &str = "-- batch.state
    SELECT id, status_code FROM ing_task_run_batch WHERE id = :batch";
const SKIP_BATCH: &str = "-- batch.skip_one
    UPDATE ing_task_run_batch SET status_code = :skipped, error = :reason
     WHERE id = :batch AND task_id = :task AND status_code = :running";
pub(crate) const RELEASE: &str = "-- task.release
    UPDATE ing_task SET status_code = :queued, scheduled_at = :due_at, leased_until = NULL, lease_owner = NULL,
        failure_count = failure_count + :failed, error = :error, updated_at = :now
     WHERE id = :task AND lease_epoch = :epoch AND run_uuid = :run_uuid AND status_code = :running";
const GROW_PLAN: &str = "-- plan.grow
    UPDATE ing_plan SET slice_count = slice_count + :children, open_slice_count = open_slice_count + :more,
        updated_at = :now
     WHERE id = :plan";
const NAMESPACE_OF: &str = "-- slice.namespace
    SELECT id, namespace_hash FROM ing_plan_slice WHERE id = :slice";

pub(crate) async fn begin_pass(store: Arc<Inner>, lease: Lease, pass: Arc<NewPass>) -> Result<(), DbError> {
    store.fail.hit("pass.begin")?;
    let mut tx = store.db.write().await?;
    let result = begin_pass_in(&mut tx, &store, &lease, &pass).await;
    ended(tx, result).await
}

async fn begin_pass_in(tx: &mut Tx, store: &Inner, lease: &Lease, pass: &NewPass) -> Result<(), DbError> {
    let now = tx.now();
    let first = &pass.first;
    let fenced = params! {
        pass_no: first.pass_no,
        pass_before: first.pass_no.saturating_sub(1),
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    if tx.execute(NEW_PASS, fenced).await? != 1 {
        return Err(LedgerError::LeaseLost { task: lease.task }.into());
    }
    if tx.row("ing_task_run_batch", BATCH_STATE, params! { batch: first.id }).await?.is_some() {
        // An earlier try of the same step had committed.
        return Ok(());
    }
    let skipped = params! {
        skipped: BatchState::Running.on(BatchEvent::Skipped)?.code(),
        reason: &pass.reason,
        batch: pass.abandoned,
        task: lease.task,
        running: BatchState::Running.code(),
    };
    tx.execute(SKIP_BATCH, skipped).await?;
    let owner = BatchOwner::read(&read_task(tx, lease).await?)?;
    open_batch(tx, lease, &owner, first, now).await?;
    store.fail.hit("pass.commit")?;
    Ok(())
}

pub(crate) async fn release(store: Arc<Inner>, lease: Lease, release: Arc<Release>) -> Result<(), DbError> {
    store.fail.hit("release.begin")?;
    let mut tx = store.db.write().await?;
    let result = release_in(&mut tx, &store, &lease, &release).await;
    ended(tx, result).await
}

async fn release_in(tx: &mut Tx, store: &Inner, lease: &Lease, release: &Release) -> Result<(), DbError> {
    let now = tx.now();
    let queued = TaskState::Running.on(TaskEvent::Released)?;
    let error = release.failed.then_some(release.reason.as_str());
    let row = params! {
        queued: queued.code(),
        due_at: release.due_at,
        failed: release.failed,
        error: error,
        now: now,
        task: lease.task,
        epoch: lease.epoch,
        run_uuid: lease.run_uuid,
        running: TaskState::Running.code(),
    };
    if tx.execute(RELEASE, row).await? != 1 {
        let again = ended_by_us(tx, lease, queued).await?;
        return if again { Ok(()) } else { Err(LedgerError::LeaseLost { task: lease.task }.into()) };
    }
    skip_open_batches(tx, lease.task, &release.reason).await?;
    let event = if release.failed { RunEvent::Failed } else { RunEvent::Gave };
    let end = RunEnd { reason: Some(&release.reason), error };
    end_run(tx, lease.run, event, end, now).await?;
    store.fail.hit("release.commit")?;
    Ok(())
}

pub(crate) async fn split(store: Arc<Inner>, lease: Lease, split: Arc<Split>) -> Result<(), DbError> {
    store.fail.hit("split.begin")?;
    let mut tx = store.db.write().await?;
    let result = split_in(&mut tx, &store, &lease, &split).await;
    ended(tx, result).await
}

async fn split_in(tx: &mut Tx, store: &Inner, lease: &Lease, split: &Split) -> Result<(), DbError> {
    let now = tx.now();
    let remarks = split_remark(&split.reason, split.children.len());
    let ending = Ending {
        task: TaskEvent::Gave,
        slice: SliceEvent::Split,
        run: RunEvent::Gave,
        reason: Some("SPLIT"),
        error: None,
        read_at: None,
        remarks: Some(&remarks),
        raises_epoch: true,
    };
    if !end_task(tx, lease, &ending, now).await? {
        let again = ended_by_us(tx, lease, TaskState::Partial).await?;
        return if again { Ok(()) } else { Err(LedgerError::LeaseLost { task: lease.task }.into()) };
    }
    store.fail.hit("split.parent")?;
    let parent = end_slice(tx, lease, &ending, now).await?;
    tiles(&parent.row, &split.children)?;
    store.fail.hit("split.children")?;
    insert_children(tx, lease, split, now).await?;
    store.fail.hit("split.commit")?;
    Ok(())
}

async fn insert_children(tx: &mut Tx, lease: &Lease, split: &Split, now: Timestamp) -> Result<(), DbError> {
    let task = read_task(tx, lease).await?;
    let slice = tx.row("ing_plan_slice", NAMESPACE_OF, params! { slice: lease.slice }).await?;
    let slice = slice.ok_or_else(|| LedgerError::Missing { what: format!("slice {}", lease.slice) })?;
    let lineage = Lineage {
        instance: task.id("schedule_instance_id")?,
        plan: lease.plan,
        provenance: task.text("provenance_code")?.into(),
        endpoint: task.text("endpoint_name")?.into(),
        operation: task.text("operation_code")?.into(),
        namespace_hash: slice.hash("namespace_hash")?,
    };
    insert_slices(tx, &lineage, Some(lease.slice), &split.children, now).await?;
    let children = split.children.len() as i64;
    let grown = params! { children: children, more: children - 1, now: now, plan: lease.plan };
    tx.execute(GROW_PLAN, grown).await?;
    Ok(())
}

async fn read_task(tx: &mut Tx, lease: &Lease) -> Result<Row, DbError> {
    let row = tx.row("ing_task", READ_TASK, params! { task: lease.task }).await?;
    Ok(row.ok_or_else(|| LedgerError::Missing { what: format!("task {}", lease.task) })?)
}

/// Children tile their parent exactly, by time or by the second key (INV-6). A hole between them would be invisible
/// to every later check.
fn tiles(parent: &Row, children: &[NewSlice]) -> Result<(), LedgerError> {
    let whole = parent.window()?;
    let part: Option<Part> = parent.opt_json("part")?;
    let wrong = |message: &str| Err(parent.corrupt("window_from", message));
    let (Some(first), Some(last)) = (children.first(), children.last()) else {
        return wrong("a split has no children");
    };
    if children.iter().all(|child| child.part == part) {
        let edges = first.window.from() == whole.from() && last.window.to() == whole.to();
        let joined = children.windows(2).all(|pair| pair[0].window.to() == pair[1].window.from());
        return if edges && joined { Ok(()) } else { wrong("the children do not tile their parent in time") };
    }
    let same_window = children.iter().all(|child| child.window == whole);
    let parts: Vec<&Part> = children.iter().filter_map(|child| child.part.as_ref()).collect();
    if same_window && parts.len() == children.len() && parts_tile(part.as_ref(), &parts) {
        return Ok(());
    }
    wrong("the parts do not tile their parent")
}

fn parts_tile(whole: Option<&Part>, parts: &[&Part]) -> bool {
    let ranges: Option<Vec<(u64, u64)>> = parts.iter().map(|part| id_range(part)).collect();
    if let Some(mut ranges) = ranges {
        ranges.sort_unstable();
        let joined = ranges.windows(2).all(|pair| pair[0].1.checked_add(1) == Some(pair[1].0));
        let ordered = ranges.iter().all(|(from, to)| from <= to);
        let ends = match (ranges.first(), ranges.last()) {
            (Some(first), Some(last)) => (first.0, last.1),
            _ => return false,
        };
        return joined && ordered && whole.is_none_or(|whole| id_range(whole) == Some(ends));
    }
    buckets_tile(whole, parts)
}

/// Buckets of one modulus: all of them, or all that fall into the parent's bucket.
fn buckets_tile(whole: Option<&Part>, parts: &[&Part]) -> bool {
    let of = |part: &Part| match part {
        Part::HashBucket { bucket, buckets } => Some((*bucket, *buckets)),
        Part::IdRange { .. } => None,
    };
    let Some(mut found) = parts.iter().map(|part| of(part)).collect::<Option<Vec<(u32, u32)>>>() else { return false };
    found.sort_unstable();
    let Some((_, modulus)) = found.first().copied() else { return false };
    let (residue, step) = match whole.map(of) {
        None => (0, 1),
        Some(Some((bucket, buckets))) if buckets > 0 && modulus % buckets == 0 => (bucket, buckets),
        Some(_) => return false,
    };
    let want = (0..modulus).filter(|bucket| bucket % step == residue).map(|bucket| (bucket, modulus));
    want.eq(found)
}

fn id_range(part: &Part) -> Option<(u64, u64)> {
    match part {
        Part::IdRange { from, to } => Some((*from, *to)),
        Part::HashBucket { .. } => None,
    }
}
