//! What a process keeps of a shared gate: slots drawn ahead, and how the gate's clock reads on ours.
//!
//! A slot belongs to a moment. It may be used from then on for [`SLOT_LIFE`]; later it has expired, or requests that
//! were held up would arrive together. Its place among the concurrent requests is then handed back.

use std::collections::VecDeque;

use super::Slot;
use crate::time::{Span, Timestamp};

/// How late a slot may be used.
pub const SLOT_LIFE: Span = Span::from_millis(15);
/// What the clocks may be apart by, as far as we know; with more nothing is used.
pub const CLOCK_ERROR_MAX: Span = Span::from_millis(10);
/// Windows of a shared gate are longer by this while nothing is known of the clocks.
pub const LATE_MAX: Span = SLOT_LIFE.plus(CLOCK_ERROR_MAX).plus(CLOCK_ERROR_MAX);
/// Slots drawn at once.
pub const AHEAD_MAX: u32 = 16;
/// Uses that are remembered; more would not change what is drawn.
const USED_MAX: usize = 256;
/// How much two clocks drift apart, in microseconds per second.
const DRIFT: i64 = 200;

/// Slots of one key, on our clock.
#[derive(Debug, Default)]
pub struct Pool {
    slots: VecDeque<Slot>,
    expired: Vec<u64>,
    /// When the last slots were used, newest last.
    used: VecDeque<Timestamp>,
}

impl Pool {
    /// The slot whose moment is now.
    pub fn take(&mut self, now: Timestamp) -> Option<Slot> {
        while let Some(first) = self.slots.front() {
            if first.at > now {
                return None;
            }
            let slot = self.slots.pop_front()?;
            if now.since(slot.at) <= SLOT_LIFE {
                self.count(now);
                return Some(slot);
            }
            self.expired.push(slot.permit);
        }
        None
    }

    /// When the next slot may be used.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.slots.front().map(|slot| slot.at)
    }

    fn count(&mut self, now: Timestamp) {
        self.used.push_back(now);
        if self.used.len() > USED_MAX {
            self.used.pop_front();
        }
    }

    /// How many to ask for: half of what is likely to be used within `horizon`. A slot that nobody uses is lost to
    /// everyone, so a key that is seldom asked for is drawn one by one.
    pub fn wanted(&mut self, now: Timestamp, horizon: Span) -> u32 {
        while self.used.front().is_some_and(|used| now.since(*used) > Span::SECOND) {
            self.used.pop_front();
        }
        let used = u32::try_from(self.used.len()).unwrap_or(AHEAD_MAX);
        let share = u32::try_from(Span::SECOND.micros() / horizon.micros().max(1)).unwrap_or(1).max(1);
        (used / share / 2).clamp(1, AHEAD_MAX)
    }

    /// Drops what was drawn; the places are handed back.
    pub fn discard(&mut self) {
        let dropped = self.slots.drain(..).map(|slot| slot.permit);
        self.expired.extend(dropped);
    }

    pub fn add(&mut self, slots: impl IntoIterator<Item = Slot>) {
        self.slots.extend(slots);
    }

    /// Places of slots that were not used.
    pub fn hand_back(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.expired)
    }
}

/// How another clock reads on ours: the exchange that told it most exactly.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockView {
    best: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Theirs less ours.
    ahead: Span,
    /// Half of the time the exchange took.
    error: Span,
    at: Timestamp,
}

impl Sample {
    fn error_at(&self, now: Timestamp) -> Span {
        let age = now.since(self.at).micros().max(0);
        self.error.plus(Span::from_micros(age / 1_000_000 * DRIFT))
    }
}

impl ClockView {
    /// An answer with the time `theirs`, asked and received on our clock.
    pub fn observe(&mut self, asked: Timestamp, received: Timestamp, theirs: Timestamp) {
        let half = Span::from_micros(received.since(asked).micros().max(0) / 2);
        let sample = Sample { ahead: theirs.since(asked.plus(half)), error: half, at: received };
        let better = match self.best {
            None => true,
            Some(best) => {
                let apart = sample.ahead.micros().abs_diff(best.ahead.micros());
                let explained = best.error_at(received).plus(sample.error).micros().unsigned_abs();
                // Clocks that disagree by more than both can be wrong: theirs was set, or it is another machine.
                apart > explained || sample.error <= best.error_at(received)
            }
        };
        if better {
            self.best = Some(sample);
        }
    }

    /// Windows must be longer by this: a slot may be used late, and what reads early on our clock may read late on
    /// another's.
    pub fn late_max(&self, now: Timestamp) -> Span {
        let error = self.best.map_or(CLOCK_ERROR_MAX, |best| best.error_at(now).min(CLOCK_ERROR_MAX));
        SLOT_LIFE.plus(error).plus(error)
    }

    /// Their time on our clock; `None` while it is not known well enough.
    pub fn ours(&self, theirs: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let best = self.best.filter(|best| best.error_at(now) <= CLOCK_ERROR_MAX)?;
        Some(theirs.minus(best.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_seconds(1_000).plus(Span::from_millis(millis))
    }

    #[test]
    fn a_slot_is_used_in_its_moment_or_not_at_all() {
        let mut pool = Pool::default();
        pool.add([0, 20, 40].map(|millis| Slot { at: at(millis), permit: millis as u64 }));
        assert_eq!(pool.take(at(-1)), None);
        assert_eq!(pool.take(at(0)).map(|slot| slot.permit), Some(0));
        assert_eq!(pool.take(at(10)), None);
        // Held up: the second has expired, the third is just late.
        assert_eq!(pool.take(at(50)).map(|slot| slot.permit), Some(40));
        assert_eq!(pool.hand_back(), [20]);
        assert_eq!(pool.next_at(), None);
    }

    #[test]
    fn as_much_is_drawn_ahead_as_is_used() {
        let mut pool = Pool::default();
        assert_eq!(pool.wanted(at(0), Span::SECOND), 1, "nothing is known yet");
        pool.add((0..12).map(|number| Slot { at: at(number * 20), permit: number as u64 }));
        (0..12).for_each(|number| assert!(pool.take(at(number * 20)).is_some()));
        assert_eq!(pool.wanted(at(240), Span::SECOND), 6);
        assert_eq!(pool.wanted(at(240), Span::from_millis(250)), 1);
        assert_eq!(pool.wanted(at(2_000), Span::SECOND), 1, "it was long ago");
    }

    #[test]
    fn what_is_discarded_is_handed_back() {
        let mut pool = Pool::default();
        pool.add([1, 2].map(|permit| Slot { at: at(0), permit }));
        pool.discard();
        assert_eq!(pool.take(at(0)), None);
        assert_eq!(pool.hand_back(), [1, 2]);
    }

    #[test]
    fn the_quickest_exchange_tells_the_clock_and_a_slow_one_changes_nothing() {
        let mut view = ClockView::default();
        assert_eq!((view.ours(at(0), at(0)), view.late_max(at(0))), (None, LATE_MAX));
        view.observe(at(0), at(500), at(10_250));
        assert_eq!(view.ours(at(10_250), at(500)), None, "not known well enough");
        view.observe(at(600), at(602), at(10_601));
        assert_eq!(view.ours(at(11_000), at(602)), Some(at(1_000)));
        assert_eq!(view.late_max(at(602)), SLOT_LIFE.plus(Span::from_millis(2)));
        view.observe(at(700), at(1_700), at(11_650));
        assert_eq!(view.ours(at(11_000), at(1_700)), Some(at(1_000)), "the answer was slow on its way back");
        view.observe(at(1_800), at(1_802), at(90_000));
        assert_eq!(view.ours(at(90_000), at(1_802)), Some(at(1_801)), "it is another clock now");
        assert_eq!(view.ours(at(90_000), at(200_000)), None, "clocks drift");
    }
}
