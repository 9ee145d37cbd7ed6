//! The rate gate of one process. The arithmetic is `patra_core::gate`; this keeps one limiter per key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use patra_core::failpoint::Failpoints;
use patra_core::gate::pace::FULL;
use patra_core::gate::{Estimate, Limiter, Turn, estimate};
use patra_core::ports::{Clock, Decision, Gate, Permit, PermitAsk, RateKey, RejectReason, Signal};
use patra_core::spec::snapshot::RateSpec;
use patra_core::time::Span;

/// How long a source that says 429 without a time is left alone.
const BLIND_COOLDOWN: Span = Span::SECOND;

pub struct LocalGate {
    clock: Arc<dyn Clock>,
    failpoints: Failpoints,
    limiters: Mutex<HashMap<RateKey, Limiter>>,
}

impl LocalGate {
    pub fn new(clock: Arc<dyn Clock>, failpoints: Failpoints) -> LocalGate {
        LocalGate { clock, failpoints, limiters: Mutex::default() }
    }
}

#[async_trait]
impl Gate for LocalGate {
    async fn acquire(&self, ask: PermitAsk<'_>) -> Decision {
        let PermitAsk { key, rate, deadline, background } = ask;
        if self.failpoints.hit("rate.take").is_err() {
            return Decision::WaitUntil(self.clock.now().plus(BLIND_COOLDOWN));
        }
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let limiter = limiters.entry(key.clone()).or_insert_with(|| Limiter::new(rate.clone(), now));
        limiter.set_rate(rate);
        match limiter.ask(now, background) {
            Turn::Go { permit } => {
                Decision::Allow(Permit { key: key.clone(), id: permit, granted_at: now, pace: limiter.pace(now) })
            }
            Turn::Wait { until } if until > deadline => Decision::Reject(RejectReason::OverDeadline { free_at: until }),
            Turn::Wait { until } => Decision::WaitUntil(until),
        }
    }

    async fn feedback(&self, permit: Permit, signal: Signal) {
        let now = self.clock.now();
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(limiter) = limiters.get_mut(&permit.key) else { return };
        match signal {
            Signal::Throttled { retry_after } => {
                limiter.refused(permit.id, now, retry_after.unwrap_or(now.plus(BLIND_COOLDOWN)));
            }
            Signal::Remaining { remaining: 0, reset_at: Some(reset) } => limiter.cool_down(reset),
            Signal::Ok | Signal::Remaining { .. } | Signal::Transient => {}
        }
        limiter.done(permit.id);
    }

    async fn estimate(&self, key: &RateKey, rate: &RateSpec, horizon: Span) -> Estimate {
        let now = self.clock.now();
        let limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        match limiters.get(key) {
            Some(limiter) => estimate(rate, now, limiter.pace(now), limiter.free_at(now), horizon),
            None => estimate(rate, now, FULL, now, horizon),
        }
    }
}
