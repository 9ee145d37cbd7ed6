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
            arrivals.silence_s = arrivals.silence_s.max(seconds(longest_gap(&times, storm_us)));
        }
        arrivals
    }
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
    fn the_longest_silence_counts_from_the_first_moment_to_the_last() {
        assert_eq!(longest_gap(&[], (10, 50)), 40);
        assert_eq!(longest_gap(&[12, 30, 45], (10, 50)), 18);
        assert_eq!(longest_gap(&[30], (0, 90)), 60);
    }
}
