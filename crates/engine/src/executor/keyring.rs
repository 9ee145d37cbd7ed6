//! Several credentials of a source: each request is signed with the one that has the most left.
//!
//! What a credential has left is what its budget holds and what the source told with its last answer; among equals it is
//! the turn of the one that was used least. One that is refused or used up is left out until its budget begins anew. Only
//! when none is left does the source wait, or fail, as it would with one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::budget::budgets;
use patra_core::page::{Page, PageAsk};
use patra_core::ports::RateKey;
use patra_core::spec::errors::{ErrorClass, FetchError, classify};
use patra_core::spec::snapshot::SpecSnapshot;
use patra_core::time::{Span, Timestamp};

use super::Outside;
use super::fetch::{Asker, NoPage};
use super::purse::{Paid, Purse};

/// Pools whose specs are kept apart by credential.
const POOLS_MAX: usize = 64;
/// What the fleet has left of a budget is asked for again after this.
const LOOK_AGAIN: Span = Span::from_seconds(30);
/// A refused credential without a budget is tried again after this.
const REFUSED_FOR: Span = Span::HOUR;

#[derive(Default)]
pub(crate) struct Keyring(Mutex<Known>);

#[derive(Default)]
struct Known {
    pools: Vec<Pool>,
    keys: HashMap<RateKey, Key>,
}

/// One spec for each credential of a spec that has several.
struct Pool {
    of: Arc<SpecSnapshot>,
    each: Vec<Arc<SpecSnapshot>>,
}

/// What is known of one credential; times are on the database clock.
#[derive(Clone, Copy, Debug)]
struct Key {
    left: u64,
    told: Option<u64>,
    looked_at: Timestamp,
    used: u64,
    out_until: Timestamp,
}

impl Default for Key {
    fn default() -> Key {
        let never = Timestamp::MIN;
        Key { left: u64::MAX, told: None, looked_at: never, used: 0, out_until: never }
    }
}

impl Key {
    /// Greater is better.
    fn rank(&self) -> (u64, std::cmp::Reverse<u64>) {
        (self.left.min(self.told.unwrap_or(u64::MAX)), std::cmp::Reverse(self.used))
    }

    fn spend(&mut self) {
        self.used += 1;
        self.left = if self.left == u64::MAX { u64::MAX } else { self.left.saturating_sub(1) };
        self.told = self.told.map(|told| told.saturating_sub(1));
    }
}

impl Keyring {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request as it is to be sent, paid for. Without a choice it is the one that was asked for.
    pub async fn paid<'a>(&self, asker: Asker<'_>, ask: &'a PageAsk) -> Result<(Cow<'a, PageAsk>, Paid), NoPage> {
        let Asker { outside, purse, .. } = asker;
        if ask.spec.spare_auth.is_empty() {
            return Ok((Cow::Borrowed(ask), purse.take(outside, &ask.spec).await?));
        }
        loop {
            let spec = self.choose(outside, purse, &ask.spec).await;
            match purse.take(outside, &spec).await {
                Ok(paid) => {
                    self.known().keys.entry(RateKey::of(&spec)).or_default().spend();
                    return Ok((Cow::Owned(PageAsk { spec, ..ask.clone() }), paid));
                }
                // It was found to be empty: the next best one, as long as there is one. Whatever else went wrong would go
                // wrong with it again.
                Err(_)
                    if purse.is_parked(&spec, outside.ledger.database_now())
                        && self.usable(&ask.spec, purse, outside).next().is_some() => {}
                Err(later) => return Err(later),
            }
        }
    }

    /// The usable one with the most left; where none is, the one whose budget comes back first.
    async fn choose(&self, outside: &Outside, purse: &Purse, spec: &Arc<SpecSnapshot>) -> Arc<SpecSnapshot> {
        let usable: Vec<_> = self.usable(spec, purse, outside).collect();
        for one in &usable {
            self.look(outside, one).await;
        }
        let known = self.known();
        let rank = |one: &&Arc<SpecSnapshot>| known.keys.get(&RateKey::of(one)).copied().unwrap_or_default().rank();
        // Of equals the first that is declared.
        if let Some(best) = usable.iter().rev().max_by_key(rank) {
            return best.clone();
        }
        drop(known);
        let now = outside.ledger.database_now();
        let each = self.each(spec);
        let parked = each.iter().filter(|one| purse.is_parked(one, now));
        parked.min_by_key(|one| purse.parked_until(one)).or(each.first()).unwrap_or(spec).clone()
    }

    /// Those that are neither refused nor empty.
    fn usable(
        &self,
        spec: &Arc<SpecSnapshot>,
        purse: &Purse,
        outside: &Outside,
    ) -> impl Iterator<Item = Arc<SpecSnapshot>> {
        let now = outside.ledger.database_now();
        let mut each = self.each(spec);
        let known = self.known();
        let out = |one: &SpecSnapshot| known.keys.get(&RateKey::of(one)).is_some_and(|key| now < key.out_until);
        each.retain(|one| !out(one) && !purse.is_parked(one, now));
        each.into_iter()
    }

    fn each(&self, spec: &Arc<SpecSnapshot>) -> Vec<Arc<SpecSnapshot>> {
        let mut known = self.known();
        if let Some(pool) = known.pools.iter().find(|pool| Arc::ptr_eq(&pool.of, spec)) {
            return pool.each.clone();
        }
        if known.pools.len() >= POOLS_MAX {
            known.pools.remove(0);
        }
        let each: Vec<_> = spec.each_credential().into_iter().map(Arc::new).collect();
        known.pools.push(Pool { of: spec.clone(), each: each.clone() });
        each
    }

    /// Asks now and then what the whole fleet has left.
    async fn look(&self, outside: &Outside, spec: &SpecSnapshot) {
        let (now, key) = (outside.ledger.database_now(), RateKey::of(spec));
        let looked = self.known().keys.get(&key).map_or(Timestamp::MIN, |key| key.looked_at);
        let windows = spec.rate.quota.as_ref().and_then(|quota| budgets(quota, now).ok());
        let Some(windows) = windows.filter(|_| now >= looked.plus(LOOK_AGAIN)) else { return };
        if let Ok(left) = outside.ledger.budget_left(&key, &windows, spec.operation).await {
            let mut known = self.known();
            let kept = known.keys.entry(key).or_default();
            (kept.left, kept.looked_at) = (left, now);
        }
    }

    /// What an answer says of the credential it was asked with; true when it is left out from now on and another is not.
    pub fn hear(&self, asker: Asker<'_>, spec: &Arc<SpecSnapshot>, result: &Result<Page, FetchError>) -> bool {
        let Some(of) = self.pool_of(spec) else { return false };
        let (outside, now) = (asker.outside, asker.outside.ledger.database_now());
        let until = match result {
            Ok(page) => {
                self.known().keys.entry(RateKey::of(spec)).or_default().told = page.rate.remaining;
                return false;
            }
            Err(error) => match classify(error, &spec.retry.statuses) {
                // By the executor's clock so far.
                ErrorClass::Quota { until: Some(until) } => now.plus(until.since(outside.clock.now())),
                ErrorClass::Quota { until: None } => self.reset(spec, now),
                _ if is_refusal(error, spec) => self.reset(spec, now),
                _ => return false,
            },
        };
        let key = RateKey::of(spec);
        tracing::warn!("{} is not used before {until}", key.as_str());
        self.known().keys.entry(key).or_default().out_until = until;
        self.usable(&of, asker.purse, outside).next().is_some()
    }

    /// When the budget of a credential begins anew.
    fn reset(&self, spec: &SpecSnapshot, now: Timestamp) -> Timestamp {
        let windows = spec.rate.quota.as_ref().and_then(|quota| budgets(quota, now).ok()).unwrap_or_default();
        windows.iter().map(|budget| budget.reset_at).max().unwrap_or(now.plus(REFUSED_FOR))
    }

    /// The spec with several credentials that this one came of.
    fn pool_of(&self, spec: &Arc<SpecSnapshot>) -> Option<Arc<SpecSnapshot>> {
        let known = self.known();
        let of = |pool: &&Pool| pool.each.iter().any(|one| Arc::ptr_eq(one, spec));
        known.pools.iter().find(of).map(|pool| pool.of.clone())
    }

    /// Nothing of this plan can be asked for before a reset: every credential is empty.
    pub fn is_parked(&self, spec: &Arc<SpecSnapshot>, purse: &Purse, now: Timestamp) -> bool {
        match spec.spare_auth.is_empty() {
            true => purse.is_parked(spec, now),
            false => self.each(spec).iter().all(|one| purse.is_parked(one, now)),
        }
    }
}

/// The answer refuses who asks, and not what was asked for.
fn is_refusal(error: &FetchError, spec: &SpecSnapshot) -> bool {
    match error {
        FetchError::Status { status: 403, .. } => true,
        error => classify(error, &spec.retry.statuses) == ErrorClass::Fatal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_left_goes_first_and_of_equals_the_least_used() {
        let key = |left, told, used| Key { left, told, used, ..Key::default() };
        for (better, worse) in [
            (key(10, None, 9), key(9, None, 0)),
            (key(10, None, 0), key(10, None, 1)),
            (key(10, Some(5), 0), key(10, Some(4), 0)),
            (key(6, None, 0), key(10, Some(5), 0)),
            (Key::default(), key(u64::MAX, None, 1)),
        ] {
            assert!(better.rank() > worse.rank(), "{better:?} {worse:?}");
        }
    }
}
