//! What a process keeps of a shared gate: slots drawn ahead, and how the gate's clock reads on ours.
//!
//! A slot belongs to a moment. It may be used from then on for [`SLOT_LIFE`]; later it has expired, or requests that
//! were held up would arrive together. Its place among the concurrent requests is then handed back.

use std::collections::VecDeque;

use super::Slot;
use crate::time::{Span, Timestamp};

/// How late a slot may be used.
pub const SLOT_LIFE: Span = Span::from_millis(25);
/// What the clocks may be apart by, as far as we know; with more nothing is used.
pub const CLOCK_ERROR_MAX: Span = Span::from_millis(10);
/// Windows of a shared gate are longer by this.
pub const LATE_MAX: Span = SLOT_LIFE.plus(CLOCK_ERROR_MAX);
/// Slots drawn at once.
pub const AHEAD_MAX: u32 = 16;
/// How much two clocks drift apart, in microseconds per second.
const DRIFT: i64 = 200;

/// Slots of one key, on our clock.
#[derive(Debug)]
pub struct Pool {
    slots: VecDeque<Slot>,
    expired: Vec<u64>,
    /// How many to draw next time.
    ahead: u32,
    wasted: bool,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { slots: VecDeque::new(), expired: Vec::new(), ahead: 1, wasted: false }
    }
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
                return Some(slot);
            }
            self.expired.push(slot.permit);
            self.wasted = true;
        }
        None
    }

    /// When the next slot may be used.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.slots.front().map(|slot| slot.at)
    }

    /// How many to ask for: more while all are used, fewer when some expired.
    pub fn wanted(&mut self) -> u32 {
        self.ahead = if self.wasted { (self.ahead / 2).max(1) } else { (self.ahead * 2).min(AHEAD_MAX) };
        self.wasted = false;
        self.ahead
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
        assert_eq!(pool.take(at(60)).map(|slot| slot.permit), Some(40));
        assert_eq!(pool.hand_back(), [20]);
        assert_eq!(pool.next_at(), None);
    }

    #[test]
    fn more_is_drawn_ahead_while_all_of_it_is_used() {
        let mut pool = Pool::default();
        let wanted: Vec<u32> = (0..6).map(|_| pool.wanted()).collect();
        assert_eq!(wanted, [2, 4, 8, 16, 16, 16]);
        pool.add([Slot { at: at(0), permit: 1 }]);
        assert_eq!(pool.take(at(900)), None);
        assert_eq!(pool.wanted(), 8);
    }

    #[test]
    fn the_quickest_exchange_tells_the_clock_and_a_slow_one_changes_nothing() {
        let mut view = ClockView::default();
        assert_eq!(view.ours(at(0), at(0)), None);
        view.observe(at(0), at(500), at(10_250));
        assert_eq!(view.ours(at(10_250), at(500)), None, "not known well enough");
        view.observe(at(600), at(602), at(10_601));
        assert_eq!(view.ours(at(11_000), at(602)), Some(at(1_000)));
        view.observe(at(700), at(1_700), at(11_650));
        assert_eq!(view.ours(at(11_000), at(1_700)), Some(at(1_000)), "the answer was slow on its way back");
        view.observe(at(1_800), at(1_802), at(90_000));
        assert_eq!(view.ours(at(90_000), at(1_802)), Some(at(1_801)), "it is another clock now");
        assert_eq!(view.ours(at(90_000), at(200_000)), None, "clocks drift");
    }
}
