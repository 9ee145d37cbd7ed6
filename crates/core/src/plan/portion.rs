//! How many slices of a plan get a task now: as many as the queue has room for and as the budget is expected to pay for.
//!
//! The rest stays PENDING: it is owed, it is no coverage, and the plan is PARTIAL until all of it has tasks. What is
//! reserved follows from the tasks that are open, so nothing has to be handed back when a process dies. Who cannot wait
//! is not held up by those who can: a HARVEST looks at the reservations of harvests alone, a BACKFILL at all.

use crate::budget::{Budget, budgets};
use crate::ports::RateKey;
use crate::spec::snapshot::{Operation, RateKeyPart, SpecSnapshot};
use crate::time::Timestamp;

/// What may be given out of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Most tasks of a partition that are queued at a time.
    pub stock_max: u64,
    /// What its requests are paid from.
    pub budget: Option<PlanBudget>,
}

/// The budgets that the requests of a plan are drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanBudget {
    /// One for each credential that is counted by itself.
    pub keys: Vec<RateKey>,
    pub budgets: Vec<Budget>,
    pub operation: Operation,
    /// Each endpoint has a budget of its own.
    pub by_endpoint: bool,
}

impl Portion {
    /// Everything at once.
    pub const ALL: Portion = Portion { stock_max: u64::MAX, budget: None };

    /// What holds for a spec at `now`, on the database clock.
    pub fn of(spec: &SpecSnapshot, stock_max: u32, now: Timestamp) -> Portion {
        // The compiler has checked the zone; one that this machine does not know leaves no budget to keep.
        let windows = spec.rate.quota.as_ref().and_then(|quota| budgets(quota, now).ok());
        let budget = windows.filter(|windows| !windows.is_empty()).map(|budgets| PlanBudget {
            keys: RateKey::each(spec),
            budgets,
            operation: spec.operation,
            by_endpoint: spec.rate.shared.is_none() && spec.rate.key.contains(&RateKeyPart::Endpoint),
        });
        Portion { stock_max: u64::from(stock_max.max(1)), budget }
    }
}

impl PlanBudget {
    /// Operations whose open tasks are paid before ours.
    pub fn ahead(&self) -> &'static [Operation] {
        match self.operation {
            Operation::Harvest => &[Operation::Harvest],
            Operation::Update => &[Operation::Harvest, Operation::Update],
            Operation::Backfill => &[Operation::Harvest, Operation::Update, Operation::Backfill],
        }
    }

    /// What is left of one key's windows when so much of each is used; the tightest counts.
    pub fn left(&self, used: &[u64]) -> u64 {
        let windows = self.budgets.iter().zip(used);
        windows.map(|(budget, used)| budget.left(self.operation, *used)).min().unwrap_or(u64::MAX)
    }
}

/// What the ledger holds of a partition and its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stocked {
    /// Tasks QUEUED for the partition.
    pub queued: u64,
    /// What the open tasks ahead of us are expected to cost.
    pub reserved: u64,
    /// What is left of the budget; without one it never ends.
    pub left: u64,
}

/// How many of the slices, whose tasks are expected to cost so much each, get a task now. Where nothing is reserved one
/// does, whatever it costs, as long as anything is left: a slice that costs more than a day is begun on one.
pub fn tasks_now(stock_max: u64, found: &Stocked, expected: impl IntoIterator<Item = u64>) -> usize {
    let room = stock_max.saturating_sub(found.queued);
    let (mut tasks, mut reserved) = (0, found.reserved);
    for cost in expected {
        let after = reserved.saturating_add(cost);
        let begins = reserved == 0 && found.left > 0;
        if tasks as u64 >= room || (after > found.left && !begins) {
            break;
        }
        (tasks, reserved) = (tasks + 1, after);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::rate::QuotaSpec;
    use crate::spec::sample;
    use proptest::prelude::*;

    #[test]
    fn a_portion_ends_at_the_stock_or_at_the_budget_and_one_slice_is_always_begun() {
        let rich = u64::MAX;
        for (case, stock_max, (queued, reserved, left), expected, want) in [
            ("all of it", 10, (0, 0, rich), vec![1; 4], 4),
            ("the queue is full", 3, (3, 0, rich), vec![1; 4], 0),
            ("some room", 3, (1, 0, rich), vec![1; 4], 2),
            ("the budget pays for two", 10, (0, 0, 5), vec![2; 4], 2),
            ("others have reserved", 10, (0, 3, 5), vec![2; 4], 1),
            ("a slice dearer than a day", 10, (0, 0, 5), vec![9, 1], 1),
            ("it is begun alone", 10, (0, 9, 5), vec![1], 0),
            ("nothing is left", 10, (0, 0, 0), vec![1], 0),
        ] {
            let found = Stocked { queued, reserved, left };
            assert_eq!(tasks_now(stock_max, &found, expected), want, "{case}");
        }
    }

    #[test]
    fn a_harvest_does_not_look_at_the_reservations_of_a_backfill() {
        let mut spec = sample::snapshot();
        assert_eq!(Portion::of(&spec, 7, spec.window.origin), Portion { stock_max: 7, budget: None });
        spec.rate.quota = Some(QuotaSpec { per_day: Some(1_000), ..QuotaSpec::default() });
        for (operation, ahead) in [(Operation::Harvest, 1), (Operation::Update, 2), (Operation::Backfill, 3)] {
            spec.operation = operation;
            let budget = Portion::of(&spec, 7, spec.window.origin).budget.unwrap();
            assert_eq!((budget.ahead().len(), budget.left(&[0])), (ahead, budget.budgets[0].cap(operation)));
        }
    }

    proptest! {
        #[test]
        fn what_is_given_out_fits_and_something_is_given_when_nothing_is_open(
            stock_max in 1u64..50, queued in 0u64..60, reserved in 0u64..100, left in 0u64..200,
            expected in proptest::collection::vec(1u64..40, 0..60),
        ) {
            let tasks = tasks_now(stock_max, &Stocked { queued, reserved, left }, expected.iter().copied());
            let cost: u64 = expected[..tasks].iter().sum();
            prop_assert!(tasks == 0 || queued + tasks as u64 <= stock_max);
            prop_assert!(tasks <= 1 || reserved + cost <= left.max(expected[0]));
            prop_assert!(queued > 0 || reserved > 0 || left == 0 || expected.is_empty() || tasks > 0);
        }
    }
}
