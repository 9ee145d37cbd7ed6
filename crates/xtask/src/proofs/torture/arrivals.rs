//! What the request log of the simulators says of the limits, and of how much of them was used.

use patra_checker::{ServedRow, SourceRules};
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Arrivals {
    /// Half the span already holds more than the whole span may. A busy machine delivers some requests late, so that a
    /// window holds one too many; this many come only from a gate that forgot, or from two of them.
    pub twice_the_rate: usize,
    /// Requests in a second while the storm lasted, over all sources.
    pub per_second: f64,
    /// The same in the best ten seconds: what the fleet reaches when it is left alone.
    pub best_per_second: f64,
    /// The longest time in the storm without a request to a source.
    pub silence_s: f64,
}

impl Arrivals {
    pub fn of(rules: &[SourceRules], served: &[ServedRow], storm_us: (i64, i64)) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for rules in rules {
            let mut times: Vec<i64> =
                served.iter().filter(|row| row.source == rules.source).map(|row| row.at_us).collect();
            times.sort_unstable();
            arrivals.twice_the_rate += twice(rules, &times);
            times.retain(|at| storm_us.0 <= *at && *at < storm_us.1);
            arrivals.per_second += times.len() as f64 / seconds(storm_us.1 - storm_us.0);
            arrivals.best_per_second += best(&times);
            arrivals.silence_s = arrivals.silence_s.max(seconds(longest_gap(&times, storm_us)));
        }
        arrivals
    }
}

/// Requests in a second, over the ten seconds that hold most.
fn best(times: &[i64]) -> f64 {
    let (mut first, mut most) = (0, 0);
    for (last, at) in times.iter().enumerate() {
        while at - times[first] >= 10_000_000 {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as f64 / 10.0
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

fn twice(rules: &SourceRules, times: &[i64]) -> usize {
    let over = |(limit, per_us): &(u32, i64)| {
        let pairs = times.iter().zip(times.iter().skip(*limit as usize));
        pairs.filter(|(first, over)| *over - *first < per_us / 2).count()
    };
    rules.rates.iter().map(over).sum()
}

fn longest_gap(times: &[i64], (from, to): (i64, i64)) -> i64 {
    let starts = std::iter::once(from).chain(times.iter().copied());
    let ends = times.iter().copied().chain(std::iter::once(to));
    starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_ten_seconds_are_found_anywhere() {
        let times: Vec<i64> =
            (0..5).map(|at| at * 9_000_000).chain((0..30).map(|at| 50_000_000 + at * 500_000)).collect();
        assert_eq!(best(&times), 2.0);
        assert_eq!(best(&[]), 0.0);
    }

    #[test]
    fn the_longest_silence_counts_from_the_first_moment_to_the_last() {
        assert_eq!(longest_gap(&[], (10, 50)), 40);
        assert_eq!(longest_gap(&[12, 30, 45], (10, 50)), 18);
        assert_eq!(longest_gap(&[30], (0, 90)), 60);
    }
}
