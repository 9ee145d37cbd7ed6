//! The request of a page that is in the ledger, made again from its rows and the spec of its plan.

use patra_core::page::{PageAsk, PageStep};
use patra_core::pass::{DetailPlace, Place};
use patra_core::ports::{Inspect, Ledger, ListFilter, Noun, PlanView, Shown};
use patra_core::spec::snapshot::Operation;
use patra_core::window::Window;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::wiring::Desk;

/// Pages of one task that are looked through at a time.
const PAGES_AT_ONCE: u32 = 1_000;

/// What was asked for, or why it cannot be told.
pub async fn asked(desk: &Desk, plan: &PlanView, batch: &Shown, slice: &Shown) -> Result<PageAsk, Failure> {
    let unknown = |what: &str| Failure::new(Exit::Incomplete, format!("the request cannot be made again: {what}"));
    let text = |row: &Shown, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let place = Place::from_token(&text(batch, "before_token")).map_err(|error| unknown(&error.to_string()))?;
    if plan.spec.operation == Operation::Update && matches!(place, Place::Search(_)) {
        return Err(unknown("the page is a list of known ids, nothing was asked"));
    }
    let step = match place {
        Place::Search(position) => PageStep::Search { position, size: page_size(plan, batch) },
        Place::Detail(detail) => PageStep::Detail { ids: detail_ids(desk, &detail, batch).await? },
    };
    let time = |name| text(slice, name).parse().map_err(|_| unknown("its window cannot be read"));
    let window = Window::new(time("window_from")?, time("window_to")?);
    let part = match &slice["part"] {
        Value::Null => None,
        part => Some(serde_json::from_value(part.clone())?),
    };
    Ok(PageAsk {
        spec: plan.spec.clone(),
        window: window.ok_or_else(|| unknown("its window is empty"))?,
        part,
        as_of: plan.window.to(),
        step,
        received: received(desk, batch).await?,
        correlation: format!("ing-{}-{}", text(batch, "run_id"), batch["batch_no"]),
    })
}

/// Healing may have lowered it.
fn page_size(plan: &PlanView, batch: &Shown) -> u32 {
    let size = plan.spec.pagination.size;
    let percent = batch["stats"]["healing"]["pagePercent"].as_u64().unwrap_or(100).min(100);
    u32::try_from(u64::from(size) * percent / 100).unwrap_or(size).max(1)
}

/// The ids of a detail request: up to where the next one begins.
async fn detail_ids(desk: &Desk, place: &DetailPlace, batch: &Shown) -> Result<Vec<String>, Failure> {
    let ids = desk.store.id_list(place.batch).await?;
    let from = (place.offset as usize).min(ids.len());
    let next = batch["after_token"].as_str().and_then(|token| Place::from_token(token).ok());
    let to = match next {
        Some(Place::Detail(next)) if next.batch == place.batch => (next.offset as usize).clamp(from, ids.len()),
        _ => ids.len(),
    };
    Ok(ids[from..to].to_vec())
}

/// Items that the pass had brought before the page.
async fn received(desk: &Desk, batch: &Shown) -> Result<u64, Failure> {
    let task = batch["task_id"].as_str().and_then(|id| id.parse().ok());
    let mut filter = ListFilter { task, limit: PAGES_AT_ONCE, ..ListFilter::default() };
    let mut sum = 0;
    loop {
        let pages = desk.store.list(Noun::Batch, &filter).await?;
        let before = |page: &&Shown| {
            page["pass_no"] == batch["pass_no"]
                && page["phase"] == "search"
                && page["status_code"] == "SUCCEEDED"
                && page["seq_no"].as_i64() < batch["seq_no"].as_i64()
        };
        sum += pages.iter().filter(before).filter_map(|page| page["record_count"].as_u64()).sum::<u64>();
        filter.before_id = pages.last().and_then(|page| page["id"].as_str()?.parse().ok());
        if pages.len() < PAGES_AT_ONCE as usize {
            return Ok(sum);
        }
    }
}
