//! Replacing a slice by smaller ones that tile it, by time or by the second key.

use std::sync::Arc;

use patra_core::id::Id;
use patra_core::page::Part;
use patra_core::ports::{Lease, LedgerError, NewSlice, Split};
use patra_core::states::{RunEvent, SliceEvent, TaskEvent, TaskState};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use serde_json::json;

use crate::db::Tx;
use crate::error::DbError;
use crate::finish::{Ending, credit, end_slice, end_task, ended_by_us};
use crate::pass::read_task;
use crate::prefix;
use crate::rows::{Lineage, insert_slices};
use crate::step::ended;
use crate::store::Inner;
use crate::value::{Row, params};

const GROW_PLAN: &str = "-- plan.grow
    UPDATE ing_plan SET slice_count = slice_count + :children, open_slice_count = open_slice_count + :more,
        updated_at = :now
     WHERE id = :plan";
const NAMESPACE_OF: &str = "-- slice.namespace
    SELECT id, namespace_hash FROM ing_plan_slice WHERE id = :slice";

pub(crate) async fn split(store: Arc<Inner>, lease: Lease, split: Arc<Split>) -> Result<(), DbError> {
    store.fail.hit("split.begin")?;
    let mut tx = store.db.write().await?;
    let result = split_in(&mut tx, &store, &lease, &split).await;
    ended(tx, result).await
}

async fn split_in(tx: &mut Tx, store: &Inner, lease: &Lease, split: &Split) -> Result<(), DbError> {
    let now = tx.now();
    let remarks = json!({ "reason": split.reason, "children": split.children.len() });
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
    let proven = split.proven.as_ref();
    tiles(&parent.row, proven.map(|proven| &proven.slice), &split.children)?;
    store.fail.hit("split.children")?;
    let lineage = lineage_of(tx, lease).await?;
    if let Some(proven) = proven {
        prefix::insert_proven(tx, &lineage, lease.slice, proven, now).await?;
    }
    insert_slices(tx, &lineage, Some(lease.slice), &split.children, now).await?;
    let children = split.children.len();
    grow_plan(tx, lease.plan, children + usize::from(proven.is_some()), children as i64 - 1, now).await?;
    if let Some(proven) = proven {
        credit(tx, store, lease, &parent, (proven.slice.window, proven.source_behind)).await?;
    }
    store.fail.hit("split.commit")?;
    Ok(())
}

/// What the children repeat of their parent.
pub(crate) async fn lineage_of(tx: &mut Tx, lease: &Lease) -> Result<Lineage, DbError> {
    let task = read_task(tx, lease).await?;
    let slice = tx.row("ing_plan_slice", NAMESPACE_OF, params! { slice: lease.slice }).await?;
    let slice = slice.ok_or_else(|| LedgerError::Missing { what: format!("slice {}", lease.slice) })?;
    Ok(Lineage {
        instance: task.id("schedule_instance_id")?,
        plan: lease.plan,
        provenance: task.text("provenance_code")?.into(),
        endpoint: task.text("endpoint_name")?.into(),
        operation: task.text("operation_code")?.into(),
        namespace_hash: slice.hash("namespace_hash")?,
    })
}

/// The plan has so many slices more, and `open` more of them are open.
pub(crate) async fn grow_plan(
    tx: &mut Tx,
    plan: Id,
    children: usize,
    open: i64,
    now: Timestamp,
) -> Result<(), DbError> {
    tx.execute(GROW_PLAN, params! { children: children, more: open, now: now, plan: plan }).await?;
    Ok(())
}

/// Children tile their parent exactly, by time or by the second key (INV-6); after what is proven of it, if anything
/// is. A hole between them would be invisible to every later check.
pub(crate) fn tiles(parent: &Row, proven: Option<&NewSlice>, children: &[NewSlice]) -> Result<(), LedgerError> {
    let mut whole = parent.window()?;
    let part: Option<Part> = parent.opt_json("part")?;
    let wrong = |message: &str| Err(parent.corrupt("window_from", message));
    if let Some(proven) = proven {
        let plain = part.is_none() && proven.part.is_none() && proven.window.from() == whole.from();
        let Some(rest) = Window::new(proven.window.to(), whole.to()).filter(|_| plain) else {
            return wrong("what is proven is no beginning of its parent");
        };
        whole = rest;
    }
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
