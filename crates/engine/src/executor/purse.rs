//! What this process has drawn of budgets and not spent yet. A budget that is empty parks its key for the operation that
//! asked: no task of it is claimed before the reset, and those at work are given back and keep their attempts (INV-44).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patra_core::budget::{Budget, budgets, chunk};
use patra_core::ports::{BudgetDraw, BudgetDrawn, RateKey};
use patra_core::spec::snapshot::{Operation, SpecSnapshot};
use patra_core::time::{Span, Timestamp};

use super::Outside;
use super::fetch::NoPage;

/// A database that does not answer is asked again for a budget after this.
const ASK_AGAIN: Span = Span::SECOND;

#[derive(Default)]
pub(crate) struct Purse(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    chunks: HashMap<(RateKey, Operation), Chunk>,
    /// Until when nothing is to be had, on the database clock.
    parked: HashMap<(RateKey, Operation), Timestamp>,
}

struct Chunk {
    left: u64,
    budgets: Vec<Budget>,
}

/// What was paid for one request: counts until the first of its windows is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paid {
    until: Timestamp,
}

impl Paid {
    /// A request that is sent later belongs to the next window.
    pub fn counts(self, now: Timestamp) -> bool {
        now < self.until
    }
}

impl Chunk {
    fn paid(&self) -> Paid {
        Paid { until: self.budgets.iter().map(|budget| budget.reset_at).min().unwrap_or(Timestamp::MAX) }
    }

    /// What was drawn of a window that is over is not spent in the next one.
    fn holds(&self, cost: u64, now: Timestamp) -> bool {
        self.left >= cost && self.paid().counts(now)
    }
}

impl Purse {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing of this plan can be asked for before the reset.
    pub fn is_parked(&self, spec: &SpecSnapshot, now: Timestamp) -> bool {
        let place = (RateKey::of(spec), spec.operation);
        self.kept().parked.get(&place).is_some_and(|until| now < *until)
    }

    /// When its budget comes back.
    pub fn parked_until(&self, spec: &SpecSnapshot) -> Option<Timestamp> {
        self.kept().parked.get(&(RateKey::of(spec), spec.operation)).copied()
    }

    /// Takes what one request costs, and draws more when there is nothing left.
    pub async fn take(&self, outside: &Outside, spec: &SpecSnapshot) -> Result<Paid, NoPage> {
        let free = Paid { until: Timestamp::MAX };
        let Some(quota) = spec.rate.quota.as_ref() else { return Ok(free) };
        let (key, cost) = (RateKey::of(spec), u64::from(spec.rate.cost.max(1)));
        let (place, now) = ((key.clone(), spec.operation), outside.ledger.database_now());
        if let Some(paid) = self.spend(&place, cost, now) {
            return Ok(paid);
        }
        // The compiler has checked the zone; one that this machine does not know leaves no budget to keep.
        let Ok(budgets) = budgets(quota, now) else { return Ok(free) };
        let most = chunk(&budgets, cost);
        let draw = BudgetDraw { key, budgets: budgets.clone(), operation: spec.operation, least: cost, most };
        match outside.ledger.draw_budget(&draw).await {
            Ok(BudgetDrawn::Granted { requests }) => {
                Ok(self.add(&place, Chunk { left: requests - cost, budgets }, now))
            }
            Ok(BudgetDrawn::Empty { reset_at }) => {
                self.kept().parked.insert(place, reset_at);
                let reason = format!("the budget of {} is empty until {reset_at}", RateKey::of(spec).as_str());
                tracing::info!("{reason}");
                Err(later(outside, reset_at.since(now), reason))
            }
            Err(error) => Err(later(outside, ASK_AGAIN, format!("no budget can be drawn: {error}"))),
        }
    }

    fn spend(&self, place: &(RateKey, Operation), cost: u64, now: Timestamp) -> Option<Paid> {
        let mut kept = self.kept();
        let chunk = kept.chunks.get_mut(place).filter(|chunk| chunk.holds(cost, now))?;
        chunk.left -= cost;
        Some(chunk.paid())
    }

    /// Two workers may draw at once; both chunks count if they are of the same windows.
    fn add(&self, place: &(RateKey, Operation), mut new: Chunk, now: Timestamp) -> Paid {
        let mut kept = self.kept();
        kept.parked.remove(place);
        if let Some(old) = kept.chunks.get(place)
            && old.budgets == new.budgets
            && old.holds(0, now)
        {
            new.left += old.left;
        }
        let paid = new.paid();
        kept.chunks.insert(place.clone(), new);
        paid
    }

    /// The request was not sent. What was paid in a window that is over is worth nothing in the next one.
    pub fn put_back(&self, spec: &SpecSnapshot, paid: Paid) {
        let place = (RateKey::of(spec), spec.operation);
        if let Some(chunk) = self.kept().chunks.get_mut(&place)
            && chunk.paid() == paid
        {
            chunk.left += u64::from(spec.rate.cost.max(1));
        }
    }

    /// Before the process ends: what was not spent is for others.
    pub async fn hand_back(&self, outside: &Outside) {
        let chunks: Vec<_> = self.kept().chunks.drain().collect();
        for ((key, _), chunk) in chunks.into_iter().filter(|(_, chunk)| chunk.left > 0) {
            if let Err(error) = outside.ledger.return_budget(&key, &chunk.budgets, chunk.left).await {
                tracing::warn!("{} of the budget of {} are lost: {error}", chunk.left, key.as_str());
            }
        }
    }
}

fn later(outside: &Outside, wait: Span, reason: String) -> NoPage {
    NoPage::Later { at: outside.clock.now().plus(wait), reason }
}
