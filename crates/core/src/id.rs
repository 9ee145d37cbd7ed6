//! Time-ordered 64-bit ids, made before the row they name, so that a repeated insert is the same insert.
//!
//! 41 bits of milliseconds, 10 bits of worker slot, 12 bits of sequence. A generator never goes backward, not
//! even when its clock does. The slot is leased in the database, so no two processes share one. Whoever writes ids asks
//! first whether the slot is still leased ([`IdGen::is_live`]): a process that slept past its lease must not write ids
//! that the slot's next owner may make too.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ports::Clock;
use crate::time::Timestamp;

/// 2024-01-01T00:00:00Z, the zero of the milliseconds in an id.
const EPOCH_MILLIS: i64 = 1_704_067_200_000;
const SLOT_BITS: i64 = 10;
const SEQUENCE_BITS: i64 = 12;
/// Number of worker slots.
pub const SLOTS: u16 = 1 << SLOT_BITS;

/// Name of one row. JSON prints it as a string, because JavaScript cannot hold 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id(pub i64);

impl Id {
    /// Below every id made at or after this time, as far as clocks agree.
    pub fn floor(at: Timestamp) -> Id {
        let millis = (at.micros() / 1_000 - EPOCH_MILLIS).clamp(0, (1 << 41) - 1);
        Id(millis << (SLOT_BITS + SEQUENCE_BITS))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Id {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Id)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Makes ids for one worker slot.
pub struct IdGen {
    clock: Arc<dyn Clock>,
    slot: i64,
    /// Milliseconds and sequence of the last id, without the slot.
    last: AtomicI64,
    /// End of the slot's lease in microseconds; the far future where nobody keeps it.
    live_until: AtomicI64,
}

impl IdGen {
    pub fn new(clock: Arc<dyn Clock>, slot: u16) -> IdGen {
        let slot = i64::from(slot % SLOTS);
        IdGen { clock, slot, last: AtomicI64::new(0), live_until: AtomicI64::new(i64::MAX) }
    }

    pub fn slot(&self) -> u16 {
        u16::try_from(self.slot).unwrap_or(0)
    }

    /// The slot is leased until then, counted from the start of the renewal.
    pub fn keep_until(&self, until: Timestamp) {
        self.live_until.store(until.micros(), Ordering::SeqCst);
    }

    /// The slot was given to another process.
    pub fn retire(&self) {
        self.live_until.store(i64::MIN, Ordering::SeqCst);
    }

    /// Whether ids of this generator may be written.
    pub fn is_live(&self) -> bool {
        self.clock.now().micros() < self.live_until.load(Ordering::SeqCst)
    }

    pub fn next(&self) -> Id {
        let now = ((self.clock.now().micros() / 1_000 - EPOCH_MILLIS).max(0)) << SEQUENCE_BITS;
        let step = |last: i64| Some(now.max(last + 1));
        let last = match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => last,
        };
        let tick = now.max(last + 1);
        let (millis, sequence) = (tick >> SEQUENCE_BITS, tick & ((1 << SEQUENCE_BITS) - 1));
        Id((millis << (SLOT_BITS + SEQUENCE_BITS)) | (self.slot << SEQUENCE_BITS) | sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;
    use async_trait::async_trait;
    use std::sync::Mutex;

    struct Hand(Mutex<Timestamp>);

    #[async_trait]
    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
        async fn sleep_until(&self, _until: Timestamp) {}
    }

    #[test]
    fn ids_rise_also_when_the_clock_goes_back() {
        let clock = Arc::new(Hand(Mutex::new(Timestamp::from_seconds(1_800_000_000))));
        let ids = IdGen::new(clock.clone(), 7);
        let first: Vec<Id> = (0..10_000).map(|_| ids.next()).collect();
        *clock.0.lock().unwrap() = Timestamp::from_seconds(1_700_000_000);
        let second: Vec<Id> = (0..10_000).map(|_| ids.next()).collect();
        let all: Vec<Id> = first.into_iter().chain(second).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.iter().all(|id| (id.0 >> SEQUENCE_BITS) & 1023 == 7));
    }

    #[test]
    fn a_slot_is_live_until_its_lease_runs_out_or_it_is_retired() {
        let clock = Arc::new(Hand(Mutex::new(Timestamp::from_seconds(1_800_000_000))));
        let ids = IdGen::new(clock.clone(), 7);
        assert!(ids.is_live(), "nobody keeps it");
        ids.keep_until(clock.now().plus(Span::MINUTE));
        *clock.0.lock().unwrap() = Timestamp::from_seconds(1_800_000_060);
        assert!(!ids.is_live());
        ids.keep_until(clock.now().plus(Span::MINUTE));
        assert!(ids.is_live(), "nobody else had taken it");
        ids.retire();
        assert!(!ids.is_live());
    }

    #[test]
    fn slots_keep_ids_apart_in_the_same_millisecond() {
        let clock = Arc::new(Hand(Mutex::new(Timestamp::from_seconds(1_800_000_000))));
        let (one, two) = (IdGen::new(clock.clone(), 1), IdGen::new(clock, 2));
        assert_ne!(one.next(), two.next());
    }
}
