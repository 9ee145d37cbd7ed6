//! How fast a source may be asked after it has refused us, as a share of the declared rate (AIMD).
//!
//! ```text
//! pace  declared rate ------.                                  .----
//!                           |                               .-'        each step twice the one before
//!            what was seen  |     .------------------------'           held for `hold` cool-downs
//!                           `-----'                                    divided by `demote` for one cool-down
//! ```
//! A refusal divides the pace. One cool-down later it returns to just below what the source took in the window before the
//! refused request, stays there, and then tries more in steps that grow with time, whether or not anyone asks. The pace is
//! worked out from the last refusal and the time alone, so that every process and the script in Redis come to the same.
//!
//! What a source took is counted in requests that were let through, at the times they were: answers come later than
//! refusals and would be missed. A source that took all it had declared and then refused one more has told nothing new:
//! somewhere on its way a request was held up and came together with others. That costs a fiftieth, not half.

use serde::{Deserialize, Serialize};

use crate::spec::snapshot::{AdaptSpec, RateSpec};
use crate::time::{Span, Timestamp};

/// The pace of a source that never refused us, in millionths of the declared rate.
pub const FULL: i64 = 1_000_000;
/// The way back ends this much below the pace that was refused.
pub const BELOW_REFUSED: i64 = 950_000;
/// And this much below what was taken in the window before the refusal.
pub const BELOW_SEEN: i64 = 970_000;
/// From this pace on the declared rate is asked for, and the source is believed to keep to it.
pub const DECLARED: i64 = 970_000;
/// Where a refusal tells nothing new, the way goes on this much below.
pub const BELOW_DECLARED: i64 = 980_000;
/// Of what the pace allows, in thousandths: so much was taken.
pub const TAKEN_ALL: i64 = 950;
/// Steps double; more of them would be more than the whole.
const DOUBLINGS_MAX: i64 = 20;
/// Of the declared rate, where a warm-up begins.
pub const WARM_UP_FROM: i64 = 100_000;

/// What is known of a source's patience.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// For one cool-down after the refusal.
    pub low: i64,
    /// Afterwards, until more is tried.
    pub hold: i64,
    /// The way back is counted from here.
    pub from: Timestamp,
    /// Refusals before this are answers to what was sent before the last one was heard.
    pub deaf_until: Timestamp,
    /// A warm-up is counted from here.
    pub born: Timestamp,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::born(Timestamp::default())
    }
}

impl Pace {
    pub fn born(at: Timestamp) -> Pace {
        Pace { low: FULL, hold: FULL, from: Timestamp::default(), deaf_until: Timestamp::default(), born: at }
    }

    /// The pace at a time, in millionths.
    pub fn at(&self, adapt: &AdaptSpec, now: Timestamp) -> i64 {
        self.recovered(adapt, now).min(self.warmed(adapt, now)).max(1)
    }

    fn recovered(&self, adapt: &AdaptSpec, now: Timestamp) -> i64 {
        let periods = now.since(self.from).micros().max(0) / adapt.cool_down.micros().max(1);
        let tried = periods - i64::from(adapt.hold);
        match periods {
            0 => self.low,
            _ if tried < 1 => self.hold,
            _ => {
                let steps = (1_i64 << tried.min(DOUBLINGS_MAX)) - 1;
                self.hold.saturating_add(adapt.step_millionths().saturating_mul(steps)).min(FULL)
            }
        }
    }

    fn warmed(&self, adapt: &AdaptSpec, now: Timestamp) -> i64 {
        let (age, whole) = (now.since(self.born).micros().max(0), adapt.warm_up.micros());
        if age >= whole {
            return FULL;
        }
        WARM_UP_FROM + (FULL - WARM_UP_FROM) / 1_000 * (age / (whole / 1_000).max(1)).min(1_000)
    }

    /// The source refused after it had taken `seen` requests in the tightest window, as far as that is known; nobody
    /// asks before `resumes_at`.
    pub fn refused(&mut self, rate: &RateSpec, seen: Option<i64>, now: Timestamp, resumes_at: Timestamp) {
        let (adapt, pace) = (&rate.adapt, self.at(&rate.adapt, now));
        let again = now.since(self.from) < adapt.cool_down.times(i64::from(adapt.hold) + 1);
        self.from = self.from.max(resumes_at);
        if now < self.deaf_until {
            return;
        }
        let window = rate.tightest();
        let floor = adapt.floor_millionths(window);
        let divided = pace * 1_000 / adapt.demote_thousandths();
        let (low, hold) = match seen.filter(|taken| *taken > 0) {
            Some(taken) => lowered(pace, divided, taken, i64::from(window.requests.max(1))),
            // Nothing is known: it may be a moment's trouble, until it comes again.
            None => (divided, if again { divided } else { thousandths(pace, BELOW_REFUSED) }),
        };
        self.low = low.max(floor).min(FULL);
        self.hold = hold.max(self.low);
        self.from = now.max(resumes_at);
        self.deaf_until = now.plus(adapt.cool_down);
    }

    /// Moves with a clock that was set back.
    pub fn set_back(&mut self, back: Span) {
        for time in [&mut self.from, &mut self.deaf_until, &mut self.born] {
            *time = time.minus(back);
        }
    }
}

/// For one cool-down, and afterwards, where so many requests were taken in the window.
fn lowered(pace: i64, divided: i64, taken: i64, requests: i64) -> (i64, i64) {
    if took_all(pace, taken, requests) {
        let below = thousandths(pace, BELOW_DECLARED);
        return (below, below);
    }
    let target = thousandths(pace, BELOW_REFUSED).min(taken * BELOW_SEEN / requests);
    (divided.min(target), target)
}

/// In whole thousandths, as the script in Redis counts.
fn thousandths(pace: i64, share: i64) -> i64 {
    pace / 1_000 * (share / 1_000)
}

/// The declared rate was asked for, and with the refused request all of it was: one too many by a hair.
fn took_all(pace: i64, taken: i64, requests: i64) -> bool {
    pace >= DECLARED && (taken + 1) * FULL * 1_000 >= requests * pace * TAKEN_ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;
    use crate::spec::snapshot::RateWindow;
    use proptest::prelude::*;

    fn rate(requests: u32) -> RateSpec {
        let windows = vec![RateWindow { requests, per: Span::SECOND }];
        RateSpec { windows, ..sample::snapshot().rate }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_seconds(1_000).plus(Span::from_millis(millis))
    }

    #[test]
    fn a_refusal_halves_the_pace_then_holds_below_what_was_seen_and_then_tries_more() {
        let rate = rate(50);
        let mut pace = Pace::default();
        pace.refused(&rate, Some(10), at(520), at(1_520));
        let level = |seconds: i64| pace.at(&rate.adapt, at(1_520 + seconds * 1_000));
        assert_eq!((level(0), level(1), level(12)), (194_000, 194_000, 194_000));
        assert_eq!((level(13), level(14)), (204_000, 224_000), "steps double");
        assert_eq!((level(19), level(20)), (FULL, FULL), "back within 20 s, and never above the declared rate");
    }

    #[test]
    fn without_answers_it_is_divided_down_to_the_floor() {
        let rate = rate(50);
        let mut pace = Pace::default();
        for number in 0..20 {
            pace.refused(&rate, None, at(number * 1_500), at(number * 1_500));
        }
        assert_eq!(pace.at(&rate.adapt, at(19 * 1_500)), FULL / 500, "0.1 of 50 requests in a second");
    }

    #[test]
    fn refusals_of_one_moment_count_once_and_the_longest_pause_counts() {
        let rate = rate(50);
        let mut pace = Pace::default();
        pace.refused(&rate, None, at(0), at(1_000));
        pace.refused(&rate, None, at(300), at(9_000));
        assert_eq!(pace.at(&rate.adapt, at(9_500)), FULL / 2);
        assert_eq!(pace.at(&rate.adapt, at(10_500)), BELOW_REFUSED);
    }

    #[test]
    fn a_source_that_took_all_it_declared_is_asked_a_fiftieth_less() {
        let rate = rate(50);
        let mut pace = Pace::default();
        pace.refused(&rate, Some(49), at(0), at(1_000));
        let level = |pace: &Pace, millis: i64| pace.at(&rate.adapt, at(millis));
        assert_eq!(
            (level(&pace, 1_000), level(&pace, 12_000), level(&pace, 20_000)),
            (BELOW_DECLARED, BELOW_DECLARED, FULL)
        );
        pace.refused(&rate, Some(10), at(1_300), at(2_300));
        assert_eq!((level(&pace, 2_300), level(&pace, 4_000)), (194_000, 194_000), "it takes ten now");
        pace.refused(&rate, Some(10), at(16_400), at(17_400));
        assert_eq!(level(&pace, 18_400), 194_000, "counted from the pace of that moment, 224,000");
    }

    #[test]
    fn a_warm_up_rises_from_a_tenth() {
        let mut rate = rate(50);
        rate.adapt.warm_up = Span::from_seconds(10);
        let pace = Pace::born(at(0));
        let level = |millis: i64| pace.at(&rate.adapt, at(millis));
        assert_eq!((level(0), level(5_000), level(10_000)), (WARM_UP_FROM, 550_000, FULL));
    }

    proptest! {
        #[test]
        fn the_pace_stays_between_floor_and_full_and_only_time_raises_it(
            events in proptest::collection::vec((1i64..3_000, any::<Option<u8>>(), 0i64..5_000), 1..80),
        ) {
            let rate = rate(50);
            let mut pace = Pace::default();
            let mut now = at(0);
            for (pause, seen, wait) in events {
                let before = pace.at(&rate.adapt, now);
                now = now.plus(Span::from_millis(pause));
                prop_assert!(pace.at(&rate.adapt, now) >= before, "time never lowers it");
                let level = pace.at(&rate.adapt, now);
                pace.refused(&rate, seen.map(i64::from), now, now.plus(Span::from_millis(wait)));
                let after = pace.at(&rate.adapt, now);
                prop_assert!(after <= level && (FULL / 500..=FULL).contains(&after));
                prop_assert_eq!(pace.at(&rate.adapt, now.plus(Span::MINUTE)), FULL);
            }
        }
    }
}
