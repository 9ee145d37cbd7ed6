//! The arithmetic of the rate gate: one limiter per key, pure, on given times.
//!
//! Two rules hold at once. In any sliding window of each declared length at most N requests are let through (INV-48),
//! so the burst is inside the limit; and requests beyond the burst are spaced evenly (GCRA). A new limiter starts
//! empty: it does not know what was spent just before, so it waits one window of up to [`WARM_UP_MAX`].

use std::collections::VecDeque;

use crate::planted::{Defect, planted};
use crate::spec::snapshot::RateSpec;
use crate::time::{Span, Timestamp};

/// Longest window a fresh limiter waits out. Longer budgets are accounted for elsewhere.
pub const WARM_UP_MAX: Span = Span::SECOND;
/// A permit that was never handed back counts as free after this.
pub const PERMIT_LIFE: Span = Span::from_seconds(300);

/// State of one rate key.
#[derive(Clone, Debug)]
pub struct Limiter {
    rate: RateSpec,
    /// Times of the requests let through, newest last, as many as the widest limit needs.
    passed: VecDeque<Timestamp>,
    /// GCRA: theoretical arrival time of the next request.
    arrival: Timestamp,
    cooldown_until: Timestamp,
    running: Vec<(u64, Timestamp)>,
    next_permit: u64,
}

/// Answer of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Go { permit: u64 },
    Wait { until: Timestamp },
}

impl Limiter {
    pub fn new(rate: RateSpec, now: Timestamp) -> Limiter {
        let warm_up = rate.windows.iter().map(|window| window.per.min(WARM_UP_MAX)).max().unwrap_or(Span::ZERO);
        Limiter {
            rate,
            passed: VecDeque::new(),
            arrival: now,
            cooldown_until: now.plus(warm_up),
            running: Vec::new(),
            next_permit: 1,
        }
    }

    /// Rates are live by design: the newest spec counts.
    pub fn set_rate(&mut self, rate: &RateSpec) {
        if self.rate != *rate {
            self.rate = rate.clone();
        }
    }

    pub fn rate(&self) -> &RateSpec {
        &self.rate
    }

    pub fn cooldown_until(&self) -> Timestamp {
        self.cooldown_until
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Lets a request through, or says when to ask again.
    pub fn ask(&mut self, now: Timestamp) -> Turn {
        self.running.retain(|(_, since)| now.since(*since) < PERMIT_LIFE);
        let free_at = self.free_at(now);
        if free_at > now {
            return Turn::Wait { until: free_at };
        }
        if self.running.len() >= self.rate.concurrency.max(1) as usize {
            // No time is known; the answer of a running request frees a place.
            return Turn::Wait { until: now.plus(Span::from_millis(20)) };
        }
        self.arrival = self.arrival.max(now.minus(self.tolerance())).plus(self.spacing());
        self.passed.push_back(now);
        self.forget(now);
        let permit = self.next_permit;
        self.next_permit += 1;
        self.running.push((permit, now));
        Turn::Go { permit }
    }

    /// The earliest time at which the limits let one more request through.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        let windows = self.rate.windows.iter().filter_map(|window| {
            let most = window.requests.max(1) as usize;
            let oldest = self.passed.len().checked_sub(most)?;
            Some(self.passed[oldest].plus(window.per))
        });
        if planted(Defect::GateForgets) {
            return now;
        }
        windows.chain([self.arrival, self.cooldown_until]).fold(now, Timestamp::max)
    }

    pub fn done(&mut self, permit: u64) {
        self.running.retain(|(running, _)| *running != permit);
    }

    /// The source asked for a pause; it is only ever lengthened.
    pub fn cool_down(&mut self, until: Timestamp) {
        self.cooldown_until = self.cooldown_until.max(until);
    }

    /// Time between two requests at the steady rate of the tightest window.
    fn spacing(&self) -> Span {
        let per_request =
            |window: &crate::spec::snapshot::RateWindow| window.per.micros() / i64::from(window.requests.max(1));
        Span::from_micros(self.rate.windows.iter().map(per_request).max().unwrap_or(0))
    }

    /// How far ahead of the steady rate a burst may run.
    fn tolerance(&self) -> Span {
        self.spacing().times(i64::from(self.rate.burst.max(1)) - 1)
    }

    fn forget(&mut self, now: Timestamp) {
        let longest = self.rate.windows.iter().map(|window| window.per).max().unwrap_or(Span::ZERO);
        while self.passed.front().is_some_and(|first| now.since(*first) > longest) {
            self.passed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;
    use crate::spec::snapshot::RateWindow;
    use proptest::prelude::*;

    fn rate(requests: u32, per: Span, burst: u32, concurrency: u32) -> RateSpec {
        RateSpec { windows: vec![RateWindow { requests, per }], burst, concurrency, ..sample::snapshot().rate }
    }

    fn run(limiter: &mut Limiter, begin: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let (mut now, mut passed) = (begin, Vec::new());
        while now < end {
            match limiter.ask(now) {
                Turn::Go { permit } => {
                    passed.push(now);
                    limiter.done(permit);
                }
                Turn::Wait { until } => now = until.max(now.plus(Span::from_micros(1))),
            }
        }
        passed
    }

    #[test]
    fn a_fresh_limiter_waits_one_window_and_then_uses_the_whole_rate() {
        let begin = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 2), begin);
        let passed = run(&mut limiter, begin, begin.plus(Span::from_seconds(11)));
        assert_eq!(passed[0], begin.plus(Span::SECOND));
        assert!(passed.len() >= 99, "{}", passed.len());
    }

    #[test]
    fn concurrency_holds_a_request_back_until_another_is_answered() {
        let begin = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::new(rate(10, Span::SECOND, 10, 1), begin);
        let now = begin.plus(Span::from_seconds(2));
        let Turn::Go { permit } = limiter.ask(now) else { panic!("the first request goes through") };
        assert!(matches!(limiter.ask(now), Turn::Wait { .. }));
        limiter.done(permit);
        assert!(matches!(limiter.ask(now), Turn::Go { .. }));
    }

    #[test]
    fn a_cool_down_is_kept_and_never_shortened() {
        let begin = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 1), begin);
        limiter.cool_down(begin.plus(Span::MINUTE));
        limiter.cool_down(begin.plus(Span::SECOND));
        assert_eq!(limiter.ask(begin), Turn::Wait { until: begin.plus(Span::MINUTE) });
    }

    proptest! {
        #[test]
        fn no_sliding_window_ever_holds_more_than_the_limit(
            requests in 1u32..20, burst in 1u32..30, per in 1i64..5, pauses in proptest::collection::vec(0i64..3_000_000, 1..60),
        ) {
            let mut now = Timestamp::from_seconds(1_000);
            let per = Span::from_seconds(per);
            let mut limiter = Limiter::new(rate(requests, per, burst.min(requests), 100), now);
            let mut passed = Vec::new();
            for pause in pauses {
                now = now.plus(Span::from_micros(pause));
                for _ in 0..8 {
                    match limiter.ask(now) {
                        Turn::Go { .. } => passed.push(now),
                        Turn::Wait { until } => now = until,
                    }
                }
            }
            for (at, first) in passed.iter().enumerate() {
                let inside = passed[at..].iter().take_while(|later| later.since(*first) < per).count();
                prop_assert!(inside <= requests as usize, "{inside} requests in one window of {requests}");
            }
        }
    }
}
