//! Budgets on rows: one for each rate key, kind and window, drawn by conditional updates, so that no fleet spends more
//! than a window holds.

use std::sync::Arc;

use async_trait::async_trait;
use patra_core::budget::Budget;
use patra_core::ports::{BudgetDraw, BudgetDrawn, Budgets, LedgerError, RateKey};
use patra_core::spec::snapshot::Operation;
use patra_core::time::Timestamp;

use crate::db::Tx;
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::params;

const OPEN: &str = "-- quota.open
    INSERT INTO ing_quota (id, rate_key, window_code, window_start, reset_at, limit_count, soft_count, used_count, updated_at)
    VALUES (:id, :key, :kind, :start, :reset, :limit, :soft, 0, :now)
    {upsert:rate_key, window_code, window_start;limit_count, soft_count, reset_at}";
pub(crate) const READ: &str = "-- quota.read
    SELECT id, used_count FROM ing_quota
     WHERE rate_key = :key AND window_code = :kind AND window_start = :start {for_update}";
pub(crate) const USED: &str = "-- quota.used
    SELECT id, used_count FROM ing_quota WHERE rate_key = :key AND window_code = :kind AND window_start = :start";
pub(crate) const DRAW: &str = "-- quota.draw
    UPDATE ing_quota SET used_count = used_count + :some, updated_at = :now
     WHERE rate_key = :key AND window_code = :kind AND window_start = :start AND used_count + :some <= :cap";
pub(crate) const RETURN: &str = "-- quota.return
    UPDATE ing_quota SET used_count = used_count - :some, updated_at = :now
     WHERE rate_key = :key AND window_code = :kind AND window_start = :start AND used_count >= :some";

#[async_trait]
impl Budgets for Store {
    async fn draw_budget(&self, draw: &BudgetDraw) -> Result<BudgetDrawn, LedgerError> {
        let draw = Arc::new(draw.clone());
        self.retried("draw_budget", move |store| drawn(store, draw.clone())).await
    }

    async fn budget_left(&self, key: &RateKey, budgets: &[Budget], operation: Operation) -> Result<u64, LedgerError> {
        let asked = Arc::new((key.clone(), budgets.to_vec()));
        self.retried("budget_left", move |store| left(store, asked.clone(), operation)).await
    }

    async fn return_budget(&self, key: &RateKey, budgets: &[Budget], unused: u64) -> Result<(), LedgerError> {
        let back = Arc::new((key.clone(), budgets.to_vec()));
        self.retried("return_budget", move |store| returned(store, back.clone(), unused)).await
    }
}

async fn drawn(store: Arc<Inner>, draw: Arc<BudgetDraw>) -> Result<BudgetDrawn, DbError> {
    let mut tx = store.db.write().await?;
    let result = drawn_in(&mut tx, &store, &draw).await;
    ended(tx, result).await
}

async fn drawn_in(tx: &mut Tx, store: &Inner, draw: &BudgetDraw) -> Result<BudgetDrawn, DbError> {
    let mut some = draw.most.max(draw.least);
    let mut empty: Option<Timestamp> = None;
    for budget in &draw.budgets {
        let used = used(tx, store, &draw.key, budget).await?;
        let left = budget.left(draw.operation, used);
        if left < draw.least {
            empty = empty.max(Some(budget.reset_at));
        }
        some = some.min(left);
    }
    if let Some(reset_at) = empty {
        return Ok(BudgetDrawn::Empty { reset_at });
    }
    for budget in &draw.budgets {
        let mut row = window(&draw.key, budget);
        row.extend(params! { some: some, cap: budget.cap(draw.operation), now: tx.now() });
        if tx.execute(DRAW, row).await? != 1 {
            return Err(LedgerError::Missing { what: format!("budget of {}", draw.key.as_str()) }.into());
        }
    }
    Ok(BudgetDrawn::Granted { requests: some })
}

/// Opens the window if need be and holds its row.
async fn used(tx: &mut Tx, store: &Inner, key: &RateKey, budget: &Budget) -> Result<u64, DbError> {
    let mut row = window(key, budget);
    row.extend(params! {
        id: store.ids.next(),
        reset: budget.reset_at,
        limit: budget.limit,
        soft: budget.soft,
        now: tx.now(),
    });
    tx.execute(OPEN, row).await?;
    let row = tx.row("ing_quota", READ, window(key, budget)).await?;
    let row = row.ok_or_else(|| LedgerError::Missing { what: format!("budget of {}", key.as_str()) })?;
    Ok(row.count("used_count")?)
}

async fn left(store: Arc<Inner>, asked: Arc<(RateKey, Vec<Budget>)>, operation: Operation) -> Result<u64, DbError> {
    let mut tx = store.db.read().await?;
    let used = used_of(&mut tx, &asked.0, &asked.1).await;
    let used = ended(tx, used).await?;
    let windows = asked.1.iter().zip(used);
    Ok(windows.map(|(budget, used)| budget.left(operation, used)).min().unwrap_or(u64::MAX))
}

/// What is spent of each window; nothing of one that nobody has opened.
pub(crate) async fn used_of(tx: &mut Tx, key: &RateKey, budgets: &[Budget]) -> Result<Vec<u64>, DbError> {
    let mut used = Vec::new();
    for budget in budgets {
        let row = tx.row("ing_quota", USED, window(key, budget)).await?;
        used.push(row.map_or(Ok(0), |row| row.count("used_count"))?);
    }
    Ok(used)
}

fn window(key: &RateKey, budget: &Budget) -> Vec<(&'static str, crate::value::Value)> {
    params! { key: key.as_str(), kind: budget.kind.code(), start: budget.from }
}

async fn returned(store: Arc<Inner>, back: Arc<(RateKey, Vec<Budget>)>, unused: u64) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let result = returned_in(&mut tx, &back.0, &back.1, unused).await;
    match ended(tx, result).await {
        // Handed back twice it would be spent beyond the limit; not handed back it is a few requests fewer.
        Err(DbError::CommitUnknown(_)) => Ok(()),
        known => known,
    }
}

async fn returned_in(tx: &mut Tx, key: &RateKey, budgets: &[Budget], unused: u64) -> Result<(), DbError> {
    for budget in budgets.iter().filter(|budget| budget.reset_at > tx.now()).copied().collect::<Vec<_>>() {
        let mut row = window(key, &budget);
        row.extend(params! { some: unused, now: tx.now() });
        tx.execute(RETURN, row).await?;
    }
    Ok(())
}
