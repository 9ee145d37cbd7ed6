//! How much a key is good for before long: a hint for plans, never a promise.

use super::pace::FULL;
use crate::spec::snapshot::{RateSpec, RateWindow};
use crate::time::{Span, Timestamp};

/// What a key lets through before long, for whoever plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Requests within the time that was asked about.
    pub requests: u64,
    /// Requests that may be under way at once.
    pub concurrency: u32,
    /// The source asked for a pause until then.
    pub resumes_at: Timestamp,
    /// In millionths of the declared rate.
    pub pace: i64,
}

/// As many requests as fit between the end of a pause and the horizon, at the pace of now.
pub fn estimate(rate: &RateSpec, now: Timestamp, pace: i64, resumes_at: Timestamp, horizon: Span) -> Estimate {
    let open = now.plus(horizon).since(resumes_at.max(now)).max(Span::ZERO);
    let within = |window: &RateWindow| {
        let all = i128::from(window.requests) * i128::from(open.micros()) * i128::from(pace);
        let one = i128::from(window.per.micros().max(1)) * i128::from(FULL) * i128::from(rate.permits());
        u64::try_from(all / one).unwrap_or(u64::MAX)
    };
    let requests = rate.windows.iter().map(within).min().unwrap_or(u64::MAX);
    Estimate { requests, concurrency: rate.concurrency.max(1), resumes_at, pace }
}
