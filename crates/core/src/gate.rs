//! The arithmetic of the rate gate: one limiter per key, pure, on given times.
//!
//! Two rules hold at once. In any sliding window of each declared length at most N permits are let through (INV-48),
//! so the burst is inside the limit; and requests beyond the burst are spaced evenly (GCRA). A new limiter starts
//! empty: it does not know what was spent just before, so it waits one window of up to [`WARM_UP_MAX`]. A source that
//! refuses us is asked less often for a while ([`pace`]). BACKFILL takes a share while others wait.
//!
//! A gate that is shared between processes hands out slots: times at which one request may be sent ([`slots`]). The
//! script in Redis does the arithmetic of [`Limiter::draw`] word for word (but for [`Limiter::follow`], since nobody can set
//! its clock in a test); one suite of tests runs against both. What a source says of its limits in headers is [`headers`];
//! who of a process goes first is [`turns`]; what a key is good for before long is an [`Estimate`].

pub mod estimate;
pub mod headers;
pub mod pace;
pub mod slots;
pub mod turns;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use self::estimate::{Estimate, estimate};
use self::pace::{FULL, Pace};
use crate::planted::{Defect, planted};
use crate::spec::snapshot::{RateSpec, RateWindow};
use crate::time::{Span, Timestamp};

/// Longest window a fresh limiter waits out. Longer budgets are accounted for elsewhere.
pub const WARM_UP_MAX: Span = Span::SECOND;
/// Longest window that a shared gate waits out when it begins with nothing known (INV-49).
pub const SHARED_WARM_UP_MAX: Span = Span::from_seconds(300);
/// When to ask again for a place among the concurrent requests: nobody knows when one ends.
pub const CONCURRENCY_POLL: Span = Span::from_millis(20);
/// A permit that was never handed back counts as free after this: no request may last longer than two minutes.
pub const PERMIT_LIFE: Span = Span::from_seconds(125);
/// HARVEST or UPDATE counts as waiting for this long after it had to wait.
pub const CONTESTED_FOR: Span = Span::SECOND;
/// A request is refused at once or not at all; of one that was refused later nobody knows what went before it.
const REFUSED_WITHIN: Span = Span::from_seconds(2);
/// How much is added to a wait that a source asked for, so that not all come back at the same moment.
const JITTER_LEAST: f64 = 0.05;
const JITTER_MOST: f64 = 0.15;

/// Times that reach a limiter in another order than they were read are no clock that was set back.
const OUT_OF_ORDER_MAX: Span = Span::from_seconds(5);

/// State of one rate key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limiter {
    rate: RateSpec,
    /// Every window counts as this much longer: slots may be used a little late.
    widened: Span,
    /// In thousandths, for processes of a release that knows no more.
    pace: u32,
    #[serde(default)]
    course: Pace,
    /// Times of the permits let through, newest last, as many as the widest limit needs.
    #[serde(with = "micros")]
    passed: VecDeque<Timestamp>,
    /// GCRA: theoretical arrival time of the next request.
    arrival: Timestamp,
    cooldown_until: Timestamp,
    /// Until then BACKFILL keeps to its share, and when its next turn is.
    #[serde(default)]
    contested_until: Timestamp,
    #[serde(default)]
    backfill_at: Timestamp,
    running: Vec<(u64, Timestamp)>,
    next_permit: u64,
    /// The latest time it was asked at.
    #[serde(default)]
    seen: Timestamp,
}

/// Answer of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Go { permit: u64 },
    Wait { until: Timestamp },
}

/// How many slots are wanted, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub most: u32,
    /// No slot later than this from now.
    pub horizon: Span,
    pub background: bool,
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
            pace: 1_000,
            course: Pace::born(free_from),
            passed: VecDeque::new(),
            arrival: free_from,
            cooldown_until: free_from,
            contested_until: Timestamp::default(),
            backfill_at: Timestamp::default(),
            running: Vec::new(),
            next_permit: 1,
            seen: Timestamp::default(),
        }
    }

    /// Rates are live by design: the newest spec counts.
    pub fn set_rate(&mut self, rate: &RateSpec) {
        if self.rate != *rate {
            self.rate = rate.clone();
        }
    }

    /// Slots are used up to this much late.
    pub fn set_widened(&mut self, widened: Span) {
        self.widened = widened;
    }

    pub fn rate(&self) -> &RateSpec {
        &self.rate
    }

    /// Lets a request through, or says when to ask again.
    pub fn ask(&mut self, now: Timestamp, background: bool) -> Turn {
        let drawn = self.draw(now, Want { most: 1, horizon: Span::ZERO, background });
        match drawn.slots.first() {
            Some(slot) => Turn::Go { permit: slot.permit },
            None => Turn::Wait { until: drawn.again_at },
        }
    }

    /// Up to so many slots, in the order of their times.
    pub fn draw(&mut self, now: Timestamp, want: Want) -> Drawn {
        self.follow(now);
        self.running.retain(|(_, since)| now.since(*since) < PERMIT_LIFE);
        let mut drawn = Drawn { now, slots: Vec::new(), again_at: now, pace: 0, resumes_at: now };
        while drawn.slots.len() < want.most as usize {
            match self.next(now, want) {
                Ok(slot) => drawn.slots.push(slot),
                Err(again_at) => {
                    drawn.again_at = again_at;
                    break;
                }
            }
        }
        let waits = drawn.slots.len() < want.most as usize || drawn.slots.iter().any(|slot| slot.at > now);
        if want.most > 0 && waits && !want.background {
            self.contested_until = self.contested_until.max(now.plus(CONTESTED_FOR));
        }
        self.forget(now);
        self.pace = u32::try_from(self.pace(now) / 1_000).unwrap_or(1).max(1);
        Drawn { pace: self.pace(now), resumes_at: self.cooldown_until, ..drawn }
    }

    /// One slot, or when to ask again.
    fn next(&mut self, now: Timestamp, want: Want) -> Result<Slot, Timestamp> {
        if want.background && now < self.contested_until && self.backfill_at > now {
            // Not drawn ahead: slots are given in the order of their times, and others would wait behind it.
            return Err(self.backfill_at);
        }
        let last = self.passed.back().copied().unwrap_or(now);
        let at = self.free_at(now).max(last);
        if at > now.plus(want.horizon) {
            return Err(at);
        }
        if self.running.len() >= self.rate.concurrency.max(1) as usize {
            // No time is known; the answer of a running request frees a place.
            return Err(now.plus(CONCURRENCY_POLL));
        }
        Ok(Slot { at, permit: self.grant(now, at, want.background) })
    }

    /// Where the clock was set back everything known moves with it, as if no time had passed: nothing goes through too
    /// early, and nobody waits until the old time comes again (INV-24).
    fn follow(&mut self, now: Timestamp) {
        let back = self.seen.since(now);
        if back <= OUT_OF_ORDER_MAX {
            self.seen = self.seen.max(now);
            return;
        }
        self.seen = now;
        self.course.set_back(back);
        let times = self.passed.iter_mut().chain(self.running.iter_mut().map(|(_, since)| since));
        let single = [&mut self.arrival, &mut self.cooldown_until, &mut self.contested_until, &mut self.backfill_at];
        times.chain(single).for_each(|time| *time = time.minus(back));
    }

    fn grant(&mut self, now: Timestamp, at: Timestamp, background: bool) -> u64 {
        let permits = self.rate.permits();
        let spacing = self.spacing(now).times(i64::from(permits));
        self.arrival = self.arrival.max(at.minus(self.tolerance(now))).plus(spacing);
        if background {
            let share = self.rate.adapt.backfill_thousandths();
            self.backfill_at = at.plus(Span::from_micros(spacing.micros() * 1_000 / share));
        }
        (0..permits).for_each(|_| self.passed.push_back(at));
        let permit = self.next_permit;
        self.next_permit += 1;
        self.running.push((permit, at));
        permit
    }

    /// The earliest time at which the limits let one more request through.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        let permits = self.rate.permits() as usize;
        let windows = self.rate.windows.iter().filter_map(|window| {
            let most = window.requests.max(1) as usize;
            let oldest = (self.passed.len() + permits).checked_sub(most + 1)?;
            Some(self.passed.get(oldest)?.plus(window.per).plus(self.widened))
        });
        if planted(Defect::GateForgets) {
            return now;
        }
        windows.chain([self.arrival, self.cooldown_until]).fold(now, Timestamp::max)
    }

    pub fn done(&mut self, permit: u64) {
        self.running.retain(|(running, _)| *running != permit);
    }

    /// The source said to the request of this permit that it is too much, and nobody asks before `until`.
    pub fn refused(&mut self, permit: u64, now: Timestamp, until: Timestamp) {
        let granted = self.running.iter().find(|(running, _)| *running == permit).map(|(_, at)| *at);
        let seen = granted.and_then(|at| self.let_through_before(at, now));
        self.done(permit);
        self.cool_down(until);
        self.course.refused(&self.rate, seen, now, until);
    }

    /// How much was let through in the tightest window that ended with a request; `None` when it is forgotten.
    fn let_through_before(&self, at: Timestamp, now: Timestamp) -> Option<i64> {
        let from = at.minus(self.rate.tightest().per);
        if from < now.minus(self.remembered()) {
            return None;
        }
        let inside = self.passed.iter().filter(|passed| **passed > from && **passed <= at).count();
        Some(i64::try_from(inside).unwrap_or(i64::MAX) - i64::from(self.rate.permits()))
    }

    /// How long a permit is remembered: as long as a window counts it, and until a refusal of it is told.
    fn remembered(&self) -> Span {
        let longest = self.rate.windows.iter().map(|window| window.per).max().unwrap_or(Span::ZERO);
        longest.plus(self.widened).plus(REFUSED_WITHIN)
    }

    /// In millionths of the declared rate.
    pub fn pace(&self, now: Timestamp) -> i64 {
        self.course.at(&self.rate.adapt, now)
    }

    /// The source asked for a pause; it is only ever lengthened.
    pub fn cool_down(&mut self, until: Timestamp) {
        self.cooldown_until = self.cooldown_until.max(until);
    }

    /// Time between two permits at the steady rate of the tightest window.
    fn spacing(&self, now: Timestamp) -> Span {
        let per_permit =
            |window: &RateWindow| window.per.plus(self.widened).micros() / i64::from(window.requests.max(1));
        let full = self.rate.windows.iter().map(per_permit).max().unwrap_or(0);
        Span::from_micros(full.saturating_mul(FULL) / self.pace(now))
    }

    /// How far ahead of the steady rate a burst may run.
    fn tolerance(&self, now: Timestamp) -> Span {
        self.spacing(now).times(i64::from(self.rate.burst.max(1)) - 1)
    }

    fn forget(&mut self, now: Timestamp) {
        let remembered = self.remembered();
        while self.passed.front().is_some_and(|first| now.since(*first) > remembered) {
            self.passed.pop_front();
        }
    }
}

/// How long a limiter that knows nothing waits.
pub fn warm_up(rate: &RateSpec, longest: Span) -> Span {
    rate.windows.iter().map(|window| window.per.min(longest)).max().unwrap_or(Span::ZERO)
}

/// A wait that a source asked for, and a little more; `chance` is evenly in `[0, 1)`.
pub fn jittered(wait: Span, chance: f64) -> Span {
    let share = JITTER_LEAST + (JITTER_MOST - JITTER_LEAST) * chance;
    wait.plus(Span::from_micros((wait.micros().max(0) as f64 * share) as i64))
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
    /// In millionths of the declared rate.
    pub pace: i64,
    /// Nobody asks before this.
    pub resumes_at: Timestamp,
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
mod tests;
