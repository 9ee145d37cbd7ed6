//! Known holes: what was waived, and what ended without proof and was not read since (INV-11).

use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::plan::coverage::{Coverage, Settling};
use patra_core::ports::Hole;
use patra_core::states::SliceState;
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;

use crate::coverage::covered;
use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::Inner;
use crate::value::params;

const WAIVERS: &str = "-- waiver.holes
    SELECT id, window_from, window_to, reason FROM ing_waiver WHERE namespace_hash = :namespace ORDER BY id";
pub(crate) const UNPROVEN: &str = "-- slice.unproven
    SELECT id, window_from, window_to, reason FROM ing_plan_slice
     WHERE namespace_hash = :namespace AND status_code = :status ORDER BY window_to";
pub(crate) const UNPROVEN_OF_PLAN: &str = "-- slice.unproven_of_plan
    SELECT id, window_from, window_to FROM ing_plan_slice WHERE plan_id = :plan AND status_code = :status";

pub(crate) async fn read(store: Arc<Inner>, namespace: Hash32, lag: Span) -> Result<Vec<Hole>, DbError> {
    let mut tx = store.db.read().await?;
    let result = read_in(&mut tx, namespace, lag).await;
    ended(tx, result).await
}

async fn read_in(tx: &mut Tx, namespace: Hash32, lag: Span) -> Result<Vec<Hole>, DbError> {
    let slices = covered(tx, namespace, Timestamp::MIN).await?;
    let proven = Coverage::read(&slices, &[], Settling { lag, lookback: Span::ZERO });
    let mut known = Known { told: proven.windows().to_vec(), holes: Vec::new() };
    for row in tx.rows("ing_waiver", WAIVERS, params! { namespace: namespace }).await? {
        known.add(row.window()?, "WAIVED", row.string("reason")?);
    }
    for state in [SliceState::Failed, SliceState::Partial, SliceState::Cancelled] {
        let asked = params! { namespace: namespace, status: state.code() };
        for row in tx.rows("ing_plan_slice", UNPROVEN, asked).await? {
            known.add(row.window()?, state.code(), row.opt_text("reason")?.unwrap_or_default().to_owned());
        }
    }
    known.holes.sort_by_key(|hole| hole.window);
    Ok(known.holes)
}

/// Windows of one plan that ended without proof.
pub(crate) async fn of_plan(store: Arc<Inner>, plan: Id) -> Result<Vec<Window>, DbError> {
    let mut tx = store.db.read().await?;
    let result = of_plan_in(&mut tx, plan).await;
    ended(tx, result).await
}

async fn of_plan_in(tx: &mut Tx, plan: Id) -> Result<Vec<Window>, DbError> {
    let mut windows = Vec::new();
    for state in [SliceState::Failed, SliceState::Partial, SliceState::Cancelled] {
        for row in tx.rows("ing_plan_slice", UNPROVEN_OF_PLAN, params! { plan: plan, status: state.code() }).await? {
            windows.push(row.window()?);
        }
    }
    Ok(Coverage::of(windows).windows().to_vec())
}

/// Windows that are proven or told already, and the holes so far.
struct Known {
    told: Vec<Window>,
    holes: Vec<Hole>,
}

impl Known {
    fn add(&mut self, window: Window, cause: &str, reason: String) {
        let left = Coverage::of(self.told.iter().copied()).gaps(window);
        self.told.extend(&left);
        self.holes.extend(left.into_iter().map(|window| Hole { window, cause: cause.into(), reason: reason.clone() }));
    }
}
