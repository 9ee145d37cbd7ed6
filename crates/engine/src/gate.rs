//! The rate gate of one process. The arithmetic is `patra_core::gate`; this keeps one limiter per key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use patra_core::failpoint::Failpoints;
use patra_core::gate::{Limiter, Turn};
use patra_core::ports::{Clock, Decision, Gate, Permit, RateKey, RejectReason, Signal};
use patra_core::spec::snapshot::RateSpec;
use patra_core::time::{Span, Timestamp};

/// How long a source that says 429 without a time is left alone.
const BLIND_COOLDOWN: Span = Span::SECOND;

/// State of a key, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    pub key: String,
    pub running: usize,
    pub cooldown_until: Timestamp,
    pub passed: u64,
    pub throttled: u64,
}

struct Lane {
    limiter: Limiter,
    passed: u64,
    throttled: u64,
}

pub struct LocalGate {
    clock: Arc<dyn Clock>,
    failpoints: Failpoints,
    lanes: Mutex<HashMap<RateKey, Lane>>,
}

impl LocalGate {
    pub fn new(clock: Arc<dyn Clock>, failpoints: Failpoints) -> LocalGate {
        LocalGate { clock, failpoints, lanes: Mutex::new(HashMap::new()) }
    }

    pub fn view(&self) -> Vec<GateView> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut view: Vec<GateView> = lanes
            .iter()
            .map(|(key, lane)| GateView {
                key: key.as_str().to_owned(),
                running: lane.limiter.running(),
                cooldown_until: lane.limiter.cooldown_until(),
                passed: lane.passed,
                throttled: lane.throttled,
            })
            .collect();
        view.sort_by(|left, right| left.key.cmp(&right.key));
        view
    }
}

#[async_trait]
impl Gate for LocalGate {
    async fn acquire(&self, key: &RateKey, rate: &RateSpec, deadline: Timestamp) -> Decision {
        let now = self.clock.now();
        if self.failpoints.hit("rate.take").is_err() {
            return Decision::WaitUntil(now.plus(BLIND_COOLDOWN));
        }
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Lane { limiter: Limiter::new(rate.clone(), now), passed: 0, throttled: 0 };
        let lane = lanes.entry(key.clone()).or_insert_with(fresh);
        lane.limiter.set_rate(rate);
        match lane.limiter.ask(now) {
            Turn::Go { permit } => {
                lane.passed += 1;
                Decision::Allow(Permit { key: key.clone(), id: permit, granted_at: now })
            }
            Turn::Wait { until } if until > deadline => Decision::Reject(RejectReason::OverDeadline { free_at: until }),
            Turn::Wait { until } => Decision::WaitUntil(until),
        }
    }

    async fn feedback(&self, permit: Permit, signal: Signal) {
        let now = self.clock.now();
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lane) = lanes.get_mut(&permit.key) else { return };
        lane.limiter.done(permit.id);
        match signal {
            Signal::Throttled { retry_after } => {
                lane.throttled += 1;
                lane.limiter.slow_down();
                lane.limiter.cool_down(retry_after.unwrap_or(now.plus(BLIND_COOLDOWN)));
            }
            Signal::Remaining { remaining: 0, reset_at: Some(reset) } => lane.limiter.cool_down(reset),
            Signal::Ok | Signal::Remaining { .. } => lane.limiter.speed_up(),
            Signal::Transient => {}
        }
    }
}
