//! Requests in a second, as this process makes them: the mean of the last minute.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use patra_core::ports::Partition;
use patra_core::time::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{At, told};

const SECONDS: i64 = 60;

/// Counts of the seconds that a request was made in.
type Seconds = BTreeMap<i64, u64>;

pub struct Pace {
    gauge: Family<At, Gauge<f64, AtomicU64>>,
    sent: Mutex<BTreeMap<Partition, Seconds>>,
}

impl Pace {
    pub fn new(registry: &mut Registry) -> Pace {
        let gauge = told(registry, "qps_effective", "Requests per second, mean of a minute", Family::default());
        Pace { gauge, sent: Mutex::default() }
    }

    pub fn sent(&self, at: &Partition, now: Timestamp) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if !sent.contains_key(at) {
            sent.insert(at.clone(), Seconds::new());
        }
        let Some(seconds) = sent.get_mut(at) else { return };
        *seconds.entry(second(now)).or_default() += 1;
        forget(seconds, now);
    }

    /// Brings the gauges to this moment.
    pub fn settle(&self, now: Timestamp) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, seconds) in sent.iter_mut() {
            forget(seconds, now);
            self.gauge.get_or_create(&At::of(at)).set(seconds.values().sum::<u64>() as f64 / SECONDS as f64);
        }
    }
}

fn second(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000_000)
}

/// Also what a clock that was set back has left in the future.
fn forget(seconds: &mut Seconds, now: Timestamp) {
    let now = second(now);
    seconds.retain(|second, _| (now - SECONDS..=now).contains(second) && *second > now - SECONDS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_looked_back_on() {
        let mut registry = Registry::default();
        let pace = Pace::new(&mut registry);
        let at = Partition { provenance: "crossref".into(), endpoint: "works".into(), operation: "HARVEST".into() };
        let gauge = |pace: &Pace| pace.gauge.get_or_create(&At::of(&at)).get();
        for moment in 0..120 {
            pace.sent(&at, Timestamp::from_seconds(moment));
            pace.sent(&at, Timestamp::from_seconds(moment));
        }
        pace.settle(Timestamp::from_seconds(119));
        assert_eq!(gauge(&pace), 2.0);
        pace.settle(Timestamp::from_seconds(149));
        assert_eq!(gauge(&pace), 1.0);
        pace.settle(Timestamp::from_seconds(20));
        assert_eq!(gauge(&pace), 0.0, "the clock was set back");
    }
}
