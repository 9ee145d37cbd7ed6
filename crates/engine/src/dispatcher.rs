//! The dispatcher: goes on with plans of which some slices have no task yet, as the queue falls and budgets come back.
//!
//! It remembers nothing. What may be given out follows from the ledger each time, so any number of planners may dispatch
//! and each may die: a step gives its slices their tasks in one commit, or none.

use std::sync::Arc;

use patra_core::plan::portion::Portion;
use patra_core::ports::{Ledger, LedgerError, Only};

pub struct Dispatcher {
    pub ledger: Arc<dyn Ledger>,
    /// Most tasks of a partition that are queued at a time.
    pub stock_max: u32,
}

impl Dispatcher {
    /// Looks at every PARTIAL plan once, those first that cannot wait; how many tasks were given out.
    pub async fn go_on(&self, only: &Only) -> Result<u64, LedgerError> {
        let mut tasks = 0;
        for plan in self.ledger.partial_plans(only).await? {
            let spec = match self.ledger.plan(plan).await {
                Ok(view) => view.spec,
                // A newer release goes on with it.
                Err(LedgerError::TooNew { .. }) => continue,
                Err(error) => return Err(error),
            };
            let portion = Portion::of(&spec, self.stock_max, self.ledger.database_now());
            tasks += self.ledger.dispatch(plan, &portion).await?;
        }
        Ok(tasks)
    }
}
