//! Who has to wait at the gate. A process that waits for a permit already does not take more tasks that would only wait
//! with a lease in their hand, while another process may have nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use patra_core::ports::{Clock, Decision, Gate, Permit, RateKey, RejectReason, Signal};
use patra_core::spec::snapshot::RateSpec;
use patra_core::time::{Span, Timestamp};

/// Every permit is dated, so a short wait is the usual pace. From this on a key is crowded.
const LONG_WAIT: Span = Span::SECOND;
/// Nobody has asked for this long after it was worth asking again: nobody waits any more.
const FORGET_AFTER: Span = Span::from_seconds(2);

/// Keys without a permit for us.
#[derive(Default)]
struct Waits(HashMap<RateKey, Wait>);

#[derive(Clone, Copy)]
struct Wait {
    since: Timestamp,
    until: Timestamp,
}

impl Wait {
    /// Also when the clock was set back before its beginning: nobody knows then how long it has lasted (INV-24).
    fn is_over(self, now: Timestamp) -> bool {
        now < self.since || now.since(self.until) > FORGET_AFTER
    }
}

impl Waits {
    fn note(&mut self, key: &RateKey, decision: &Decision, now: Timestamp) {
        let until = match decision {
            Decision::Allow(_) => {
                self.0.remove(key);
                return;
            }
            Decision::WaitUntil(until) | Decision::Reject(RejectReason::OverDeadline { free_at: until }) => *until,
            Decision::Reject(RejectReason::QuotaEmpty { reset_at }) => *reset_at,
        };
        let before = self.0.get(key).filter(|wait| !wait.is_over(now));
        let since = before.map_or(now, |wait| wait.since);
        self.0.insert(key.clone(), Wait { since, until });
    }

    fn is_long(&self, key: &RateKey, now: Timestamp) -> bool {
        let Some(wait) = self.0.get(key).filter(|wait| !wait.is_over(now)) else { return false };
        now.since(wait.since) >= LONG_WAIT || wait.until.since(now) >= LONG_WAIT
    }
}

/// A gate that remembers for which keys this process waits.
pub(crate) struct Crowd {
    gate: Arc<dyn Gate>,
    clock: Arc<dyn Clock>,
    waits: Mutex<Waits>,
}

impl Crowd {
    pub fn at(gate: Arc<dyn Gate>, clock: Arc<dyn Clock>) -> Crowd {
        Crowd { gate, clock, waits: Mutex::default() }
    }

    /// A request of this key would have to wait behind others of this process.
    pub fn is_crowded(&self, key: &RateKey) -> bool {
        self.waits().is_long(key, self.clock.now())
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Gate for Crowd {
    async fn acquire(&self, key: &RateKey, rate: &RateSpec, deadline: Timestamp) -> Decision {
        let decision = self.gate.acquire(key, rate, deadline).await;
        self.waits().note(key, &decision, self.clock.now());
        decision
    }

    async fn feedback(&self, permit: Permit, signal: Signal) {
        self.gate.feedback(permit, signal).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_seconds(1_000_000).plus(Span::from_millis(millis))
    }

    #[test]
    fn only_a_long_wait_without_a_permit_is_a_crowd() {
        let (key, other) = (RateKey::new("a"), RateKey::new("b"));
        let mut waits = Waits::default();
        waits.note(&key, &Decision::WaitUntil(at(100)), at(0));
        assert!(!waits.is_long(&key, at(100)), "the usual pace");
        waits.note(&key, &Decision::WaitUntil(at(1_100)), at(900));
        assert!(waits.is_long(&key, at(1_000)), "one of ours has waited for a second");
        assert!(!waits.is_long(&other, at(1_000)));
        let permit = Permit { key: key.clone(), id: 1, granted_at: at(1_100) };
        waits.note(&key, &Decision::Allow(permit), at(1_100));
        assert!(!waits.is_long(&key, at(1_100)));
    }

    #[test]
    fn a_wait_that_nobody_takes_up_again_is_forgotten() {
        let key = RateKey::new("a");
        let mut waits = Waits::default();
        waits.note(&key, &Decision::Reject(RejectReason::QuotaEmpty { reset_at: at(60_000) }), at(0));
        assert!(waits.is_long(&key, at(59_000)), "the budget is empty");
        assert!(!waits.is_long(&key, at(62_001)));
        waits.note(&key, &Decision::WaitUntil(at(63_100)), at(63_000));
        assert!(!waits.is_long(&key, at(63_000)), "a new wait begins anew");
        waits.note(&key, &Decision::WaitUntil(at(90_000)), at(63_000));
        assert!(waits.is_long(&key, at(64_000)));
        assert!(!waits.is_long(&key, at(10_000)), "the clock was set back");
    }
}
