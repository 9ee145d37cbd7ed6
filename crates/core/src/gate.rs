//! The arithmetic of the rate gate: one limiter per key, pure, on given times.
//!
//! Two rules hold at once. In any sliding window of each declared length at most N requests are let through (INV-48),
//! so the burst is inside the limit; and requests beyond the burst are spaced evenly (GCRA). A new limiter starts
//! empty: it does not know what was spent just before, so it waits one window of up to [`WARM_UP_MAX`]. A source that
//! throttles us is asked half as often, and each good answer brings a little of the pace back (AIMD).
//!
//! A gate that is shared between processes hands out slots: times at which one request may be sent ([`slots`]). The
//! script in Redis does the arithmetic of [`Limiter::draw`] word for word; one suite of tests runs against both.

pub mod slots;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::planted::{Defect, planted};
use crate::spec::snapshot::RateSpec;
use crate::time::{Span, Timestamp};

/// Longest window a fresh limiter waits out. Longer budgets are accounted for elsewhere.
pub const WARM_UP_MAX: Span = Span::SECOND;
/// Longest window that a shared gate waits out when it begins with nothing known (INV-49).
pub const SHARED_WARM_UP_MAX: Span = Span::from_seconds(300);
/// The pace of a source that never throttled us, in thousandths.
pub const PACE_FULL: u32 = 1_000;
const PACE_LEAST: u32 = 100;
const PACE_STEP: u32 = 10;
/// When to ask again for a place among the concurrent requests: nobody knows when one ends.
pub const CONCURRENCY_POLL: Span = Span::from_millis(20);
/// A permit that was never handed back counts as free after this: no request may last longer than two minutes.
pub const PERMIT_LIFE: Span = Span::from_seconds(125);

/// State of one rate key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limiter {
    rate: RateSpec,
    /// Every window counts as this much longer: slots may be used a little late.
    widened: Span,
    pace: u32,
    /// Times of the requests let through, newest last, as many as the widest limit needs.
    #[serde(with = "micros")]
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
        let warm_up = warm_up(&rate, WARM_UP_MAX);
        Limiter::starting(rate, now.plus(warm_up), Span::ZERO)
    }

    /// Lets nothing through before `free_from`.
    pub fn starting(rate: RateSpec, free_from: Timestamp, widened: Span) -> Limiter {
        Limiter {
            rate,
            widened,
            pace: PACE_FULL,
            passed: VecDeque::new(),
            arrival: free_from,
            cooldown_until: free_from,
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
        let drawn = self.draw(now, 1, Span::ZERO);
        match drawn.slots.first() {
            Some(slot) => Turn::Go { permit: slot.permit },
            None => Turn::Wait { until: drawn.again_at },
        }
    }

    /// Up to `most` slots, none later than `horizon` from now.
    pub fn draw(&mut self, now: Timestamp, most: u32, horizon: Span) -> Drawn {
        self.running.retain(|(_, since)| now.since(*since) < PERMIT_LIFE);
        let mut drawn = Drawn { now, slots: Vec::new(), again_at: now };
        while drawn.slots.len() < most as usize {
            // Slots are given in the order of their times, also those that others drew ahead.
            let last = self.passed.back().copied().unwrap_or(now);
            let at = self.free_at(now).max(last);
            if at > now.plus(horizon) {
                drawn.again_at = at;
                break;
            }
            if self.running.len() >= self.rate.concurrency.max(1) as usize {
                // No time is known; the answer of a running request frees a place.
                drawn.again_at = now.plus(CONCURRENCY_POLL);
                break;
            }
            drawn.slots.push(Slot { at, permit: self.grant(at) });
        }
        self.forget(now);
        drawn
    }

    fn grant(&mut self, at: Timestamp) -> u64 {
        self.arrival = self.arrival.max(at.minus(self.tolerance())).plus(self.spacing());
        self.passed.push_back(at);
        let permit = self.next_permit;
        self.next_permit += 1;
        self.running.push((permit, at));
        permit
    }

    /// The earliest time at which the limits let one more request through.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        let windows = self.rate.windows.iter().filter_map(|window| {
            let most = window.requests.max(1) as usize;
            let oldest = self.passed.len().checked_sub(most)?;
            Some(self.passed[oldest].plus(window.per).plus(self.widened))
        });
        if planted(Defect::GateForgets) {
            return now;
        }
        windows.chain([self.arrival, self.cooldown_until]).fold(now, Timestamp::max)
    }

    pub fn done(&mut self, permit: u64) {
        self.running.retain(|(running, _)| *running != permit);
    }

    /// The source said that it is too much.
    pub fn slow_down(&mut self) {
        self.pace = (self.pace / 2).max(PACE_LEAST);
    }

    /// The source answered.
    pub fn speed_up(&mut self) {
        self.pace = (self.pace + PACE_STEP).min(PACE_FULL);
    }

    /// In thousandths of the declared rate.
    pub fn pace(&self) -> u32 {
        self.pace
    }

    /// The source asked for a pause; it is only ever lengthened.
    pub fn cool_down(&mut self, until: Timestamp) {
        self.cooldown_until = self.cooldown_until.max(until);
    }

    /// Time between two requests at the steady rate of the tightest window.
    fn spacing(&self) -> Span {
        let per_request = |window: &crate::spec::snapshot::RateWindow| {
            window.per.plus(self.widened).micros() / i64::from(window.requests.max(1))
        };
        let full = self.rate.windows.iter().map(per_request).max().unwrap_or(0);
        Span::from_micros(full * i64::from(PACE_FULL) / i64::from(self.pace.max(PACE_LEAST)))
    }

    /// How far ahead of the steady rate a burst may run.
    fn tolerance(&self) -> Span {
        self.spacing().times(i64::from(self.rate.burst.max(1)) - 1)
    }

    fn forget(&mut self, now: Timestamp) {
        let longest = self.rate.windows.iter().map(|window| window.per).max().unwrap_or(Span::ZERO).plus(self.widened);
        while self.passed.front().is_some_and(|first| now.since(*first) > longest) {
            self.passed.pop_front();
        }
    }
}

/// How long a limiter that knows nothing waits.
pub fn warm_up(rate: &RateSpec, longest: Span) -> Span {
    rate.windows.iter().map(|window| window.per.min(longest)).max().unwrap_or(Span::ZERO)
}

/// A time at which one request may be sent, and its place among the concurrent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub at: Timestamp,
    pub permit: u64,
}

/// Slots on the clock of whoever gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub now: Timestamp,
    pub slots: Vec<Slot>,
    /// Worth asking again then, when there are fewer slots than were asked for.
    pub again_at: Timestamp,
}

/// Times as numbers: a row of the gate holds many of them.
mod micros {
    use std::collections::VecDeque;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::time::Timestamp;

    pub fn serialize<S: Serializer>(times: &VecDeque<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(times.iter().map(|time| time.micros()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VecDeque<Timestamp>, D::Error> {
        let times = Vec::<i64>::deserialize(deserializer)?;
        Ok(times.into_iter().map(Timestamp::from_micros).collect())
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

    #[test]
    fn a_source_that_throttles_is_asked_half_as_often_and_trusted_again_slowly() {
        let begin = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 2), begin);
        let second = |limiter: &mut Limiter, from: i64| {
            run(limiter, begin.plus(Span::from_seconds(from)), begin.plus(Span::from_seconds(from + 10))).len()
        };
        assert!(second(&mut limiter, 2) >= 98);
        limiter.slow_down();
        assert!((48..=52).contains(&second(&mut limiter, 20)));
        (0..50).for_each(|_| limiter.speed_up());
        assert!(second(&mut limiter, 40) >= 98);
        (0..20).for_each(|_| limiter.slow_down());
        assert_eq!(limiter.pace(), PACE_LEAST, "never to a standstill");
    }

    #[test]
    fn a_limiter_reads_back_from_its_row() {
        let begin = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::starting(rate(5, Span::SECOND, 5, 9), begin, Span::from_millis(30));
        limiter.draw(begin, 3, Span::SECOND);
        let text = serde_json::to_string(&limiter).unwrap();
        let mut read: Limiter = serde_json::from_str(&text).unwrap();
        assert_eq!(read.draw(begin, 9, Span::SECOND), limiter.draw(begin, 9, Span::SECOND));
    }

    proptest! {
        #[test]
        fn slots_drawn_ahead_keep_every_window_however_they_are_drawn(
            requests in 1u32..20, burst in 1u32..30, asks in proptest::collection::vec((0i64..600_000, 1u32..9), 1..60),
        ) {
            let mut now = Timestamp::from_seconds(1_000);
            let mut limiter = Limiter::starting(rate(requests, Span::SECOND, burst.min(requests), 10_000), now, Span::from_millis(30));
            let mut slots: Vec<Timestamp> = Vec::new();
            for (pause, most) in asks {
                now = now.plus(Span::from_micros(pause));
                let drawn = limiter.draw(now, most, Span::SECOND);
                prop_assert!(drawn.slots.iter().all(|slot| slot.at >= now && slot.at <= now.plus(Span::SECOND)));
                slots.extend(drawn.slots.iter().map(|slot| slot.at));
            }
            for (at, first) in slots.iter().enumerate() {
                let inside = slots[at..].iter().take_while(|later| later.since(*first) < Span::from_millis(1_030)).count();
                prop_assert!(inside <= requests as usize, "{inside} slots in one window of {requests}");
            }
        }

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
