//! What the source's own headers do to the declared rate: they are believed over what we guess, and never make us faster
//! than declared, unless nobody has declared a limit.

use std::collections::HashMap;

use crate::page::RateHints;
use crate::ports::RateKey;
use crate::spec::snapshot::{RateSpec, RateWindow};
use crate::time::{Span, Timestamp};

/// A limit that was told counts for so long after the last answer that told it.
const TOLD_LIFE: Span = Span::from_seconds(60);
/// More than this in a microsecond-exact window is no limit anybody means.
const REQUESTS_MAX: u64 = 1_000_000;

/// The limits that sources told us, by key.
#[derive(Debug, Default)]
pub struct ToldLimits(HashMap<RateKey, (RateWindow, Timestamp)>);

impl ToldLimits {
    /// Notes what an answer said.
    pub fn hear(&mut self, key: &RateKey, hints: &RateHints, now: Timestamp) {
        if let Some(window) = told_window(hints) {
            self.0.insert(key.clone(), (window, now.plus(TOLD_LIFE)));
        }
    }

    /// The rate that holds now.
    pub fn rate(&mut self, key: &RateKey, declared: &RateSpec, now: Timestamp) -> RateSpec {
        match self.0.get(key).copied() {
            Some((_, until)) if until < now => {
                self.0.remove(key);
                declared.clone()
            }
            Some((window, _)) if declared.respect_headers => limited(declared, window),
            _ => declared.clone(),
        }
    }
}

/// A limit is of use only with the time it is for.
fn told_window(hints: &RateHints) -> Option<RateWindow> {
    let (limit, per) = (hints.limit?, hints.interval?);
    let requests = u32::try_from(limit.clamp(1, REQUESTS_MAX)).ok()?;
    (per > Span::ZERO).then_some(RateWindow { requests, per })
}

fn limited(declared: &RateSpec, told: RateWindow) -> RateSpec {
    let mut rate = declared.clone();
    if rate.unknown {
        rate.windows = vec![told];
    } else if !rate.windows.contains(&told) {
        rate.windows.push(told);
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    fn hints(limit: u64, seconds: i64) -> RateHints {
        RateHints { limit: Some(limit), interval: Some(Span::from_seconds(seconds)), ..RateHints::default() }
    }

    fn rate(unknown: bool) -> RateSpec {
        RateSpec { unknown, ..sample::snapshot().rate }
    }

    #[test]
    fn a_told_limit_holds_beside_the_declared_one_and_replaces_an_unknown_one() {
        let (key, now) = (RateKey::new("a"), Timestamp::from_seconds(1_000));
        // (told, nobody declared a limit, seconds later) -> requests in a second at most
        for (told, unknown, later, want) in [
            (hints(4, 1), false, 0, 4),
            (hints(50, 1), false, 0, 10),
            (hints(50, 1), true, 0, 50),
            (hints(4, 1), true, 0, 4),
            (hints(4, 1), false, 61, 10),
            (RateHints { limit: Some(4), ..RateHints::default() }, false, 0, 10),
        ] {
            let mut limits = ToldLimits::default();
            limits.hear(&key, &told, now);
            let held = limits.rate(&key, &rate(unknown), now.plus(Span::from_seconds(later)));
            assert_eq!(held.tightest().requests, want, "{told:?} {unknown} {later}");
            let deaf = RateSpec { respect_headers: false, ..rate(unknown) };
            limits.hear(&key, &told, now);
            assert_eq!(limits.rate(&key, &deaf, now).windows, deaf.windows);
        }
    }
}
