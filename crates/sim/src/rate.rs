//! Counts requests against a declared limit, exactly: no span of the declared length may hold more than the limit.

use std::collections::VecDeque;

use crate::provider::Rate;

/// Arrivals of one source within the last span, and when its open requests end.
#[derive(Debug, Clone, Default)]
pub struct RateMeter {
    arrivals: VecDeque<i64>,
    open_until: Vec<i64>,
}

impl RateMeter {
    /// True when one more request now stays within the limit; only then it is counted.
    pub fn admit(&mut self, rate: Rate, now_us: i64) -> bool {
        while self.arrivals.front().is_some_and(|at| now_us - at >= rate.per_us) {
            self.arrivals.pop_front();
        }
        if self.arrivals.len() >= rate.limit as usize {
            return false;
        }
        self.arrivals.push_back(now_us);
        true
    }

    /// True when fewer requests than allowed are open now.
    pub fn has_room(&mut self, rate: Rate, now_us: i64) -> bool {
        self.open_until.retain(|until| *until > now_us);
        self.open_until.len() < rate.concurrency as usize
    }

    /// Notes that a request stays open until then.
    pub fn opened(&mut self, until_us: i64) {
        self.open_until.push(until_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sliding_second_never_holds_more_than_the_limit() {
        let rate = Rate { limit: 3, per_us: 1_000_000, concurrency: 1 };
        let mut meter = RateMeter::default();
        let admitted: Vec<bool> = [0, 1, 500_000, 999_999, 1_000_000, 1_000_000].map(|at| meter.admit(rate, at)).into();
        assert_eq!(admitted, [true, true, true, false, true, false]);
    }

    #[test]
    fn open_requests_fill_the_room_until_they_end() {
        let rate = Rate { limit: 9, per_us: 1, concurrency: 1 };
        let mut meter = RateMeter::default();
        assert!(meter.has_room(rate, 0));
        meter.opened(10);
        assert!(!meter.has_room(rate, 9));
        assert!(meter.has_room(rate, 10));
    }
}
