//! How often a source is asked again at once: retries feed outages (INV-50).

use crate::time::{Span, Timestamp};

/// Always allowed in a minute: one in a second.
const FLOOR: u64 = 60;
/// One retry for so many first requests.
const SHARE: u64 = 10;

/// The minute of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryBudget {
    begun: Timestamp,
    firsts: u64,
    firsts_before: u64,
    retries: u64,
}

impl RetryBudget {
    /// A request is sent that was not sent before.
    pub fn first(&mut self, now: Timestamp) {
        self.turn(now);
        self.firsts += 1;
    }

    /// Takes one retry, or says that the task had better come back later.
    pub fn may_retry(&mut self, now: Timestamp) -> bool {
        self.turn(now);
        let allowed = self.retries < (self.firsts.max(self.firsts_before) / SHARE).max(FLOOR);
        self.retries += u64::from(allowed);
        allowed
    }

    fn turn(&mut self, now: Timestamp) {
        let age = now.since(self.begun);
        // A clock that was set back begins a new minute too.
        if age >= Span::MINUTE || age < Span::ZERO {
            let follows = age < Span::MINUTE.times(2);
            let firsts_before = if follows { self.firsts } else { 0 };
            *self = RetryBudget { begun: now, firsts: 0, firsts_before, retries: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000_000 + seconds)
    }

    #[test]
    fn a_tenth_of_the_first_requests_or_one_in_a_second_is_asked_again() {
        for (firsts, want) in [(0, 60), (600, 60), (2_000, 200)] {
            let mut budget = RetryBudget::default();
            (0..firsts).for_each(|_| budget.first(at(1)));
            let allowed = (0..1_000).filter(|_| budget.may_retry(at(2))).count();
            assert_eq!(allowed, want, "{firsts}");
            assert!(budget.may_retry(at(63)), "the next minute has its own");
        }
    }
}
