//! What the slices read lately held, for the slices of the next plan.

use patra_core::hash::Hash32;
use patra_core::plan::estimate::Counted;
use patra_core::states::SliceState;
use serde::Deserialize;

use crate::db::Tx;
use crate::error::DbError;
use crate::value::params;

pub(crate) const COUNTED: &str = "-- slice.counted
    SELECT id, plan_id, window_from, window_to, record_remarks FROM ing_plan_slice
     WHERE namespace_hash = :namespace AND status_code = :status
     ORDER BY window_to DESC {limit:limit}";

/// Slices that are looked back on.
const SLICES: i64 = 200;

/// What is needed of the remarks of a slice that succeeded.
#[derive(Deserialize)]
struct Remarks {
    #[serde(default)]
    distinct: Option<u64>,
}

/// The latest windows of a namespace that were read; those that tell no number are left out.
pub(crate) async fn counted(tx: &mut Tx, namespace: Hash32) -> Result<Vec<Counted>, DbError> {
    let asked = params! { namespace: namespace, status: SliceState::Succeeded.code(), limit: SLICES };
    let mut history = Vec::new();
    for row in tx.rows("ing_plan_slice", COUNTED, asked).await? {
        let remarks: Option<Remarks> = row.opt_json("record_remarks")?;
        if let Some(records) = remarks.and_then(|remarks| remarks.distinct) {
            history.push(Counted { plan: row.id("plan_id")?, window: row.window()?, records });
        }
    }
    Ok(history)
}
