//! Budgets of the fleet: one row for each window of a rate key.

use async_trait::async_trait;

use crate::budget::Budget;
use crate::ports::{LedgerError, RateKey};
use crate::spec::snapshot::Operation;
use crate::time::Timestamp;

/// What an executor wants of the windows that hold now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetDraw {
    pub key: RateKey,
    pub budgets: Vec<Budget>,
    pub operation: Operation,
    /// What one request costs, and how much is wanted at most.
    pub least: u64,
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetDrawn {
    /// Spent from now on, unless it is handed back.
    Granted { requests: u64 },
    /// Not even one request is left before this.
    Empty { reset_at: Timestamp },
}

#[async_trait]
pub trait Budgets: Send + Sync {
    /// Takes from all windows or from none, and never more than they hold.
    async fn draw_budget(&self, draw: &BudgetDraw) -> Result<BudgetDrawn, LedgerError>;

    /// What an operation may still draw of a key; spends nothing.
    async fn budget_left(&self, key: &RateKey, budgets: &[Budget], operation: Operation) -> Result<u64, LedgerError>;

    /// Hands back what was drawn and not spent; a window that is over is left as it is.
    async fn return_budget(&self, key: &RateKey, budgets: &[Budget], unused: u64) -> Result<(), LedgerError>;
}
