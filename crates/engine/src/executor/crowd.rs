//! Who waits at the gate. A process that waits for a permit already does not take more tasks that would only wait with a
//! lease in their hand, while another process may have nothing to do. No clock is read here: waits are counted by what
//! was slept, and a wait ends when its worker goes on (INV-24).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patra_core::ports::RateKey;
use patra_core::time::Span;

/// Every permit is dated, so a short wait is the usual pace. From this on a key is crowded.
pub(super) const LONG_WAIT: Span = Span::SECOND;

/// How many of this process have waited for long, by key.
#[derive(Default)]
pub(crate) struct Crowd(Mutex<HashMap<RateKey, u32>>);

/// One worker on its way through the gate; gone from the crowd when dropped.
pub(crate) struct Wait<'a> {
    crowd: &'a Crowd,
    key: &'a RateKey,
    waited: Span,
    counted: bool,
}

impl Crowd {
    pub fn enter<'a>(&'a self, key: &'a RateKey) -> Wait<'a> {
        Wait { crowd: self, key, waited: Span::ZERO, counted: false }
    }

    /// A request of this key would have to wait behind others of this process.
    pub fn is_at(&self, key: &RateKey) -> bool {
        self.waiting().contains_key(key)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RateKey, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait<'_> {
    /// Before it sleeps this long.
    pub fn sleeps(&mut self, span: Span) {
        self.waited = self.waited.plus(span.max(Span::ZERO));
        if self.waited >= LONG_WAIT && !self.counted {
            self.counted = true;
            *self.crowd.waiting().entry(self.key.clone()).or_default() += 1;
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let mut waiting = self.crowd.waiting();
        let left = waiting.get(self.key).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => waiting.remove(self.key),
            _ => waiting.insert(self.key.clone(), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_wait_is_a_crowd_and_it_ends_with_its_last_worker() {
        let (crowd, key, other) = (Crowd::default(), RateKey::new("a"), RateKey::new("b"));
        let (mut first, mut second) = (crowd.enter(&key), crowd.enter(&key));
        first.sleeps(Span::from_millis(600));
        second.sleeps(Span::from_millis(600));
        assert!(!crowd.is_at(&key), "the usual pace");
        first.sleeps(Span::from_millis(600));
        second.sleeps(Span::from_seconds(5));
        assert!(crowd.is_at(&key) && !crowd.is_at(&other));
        drop(first);
        assert!(crowd.is_at(&key), "one of ours still waits");
        drop(second);
        assert!(!crowd.is_at(&key));
    }
}
