//! The one place that reads the machine's clock and its randomness.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use patra_core::ports::{Clock, Random};
use patra_core::time::{Span, Timestamp};

/// Wall-clock time that never goes backward within a process.
pub struct SystemClock {
    started: Instant,
    origin: Timestamp,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the injected clock itself")]
    pub fn start() -> SystemClock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        SystemClock { started: Instant::now(), origin: Timestamp::from_micros(micros) }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.origin.plus(Span::from_micros(passed))
    }

    async fn sleep_until(&self, until: Timestamp) {
        tokio::time::sleep(until.since(self.now()).to_std()).await;
    }
}

/// Random numbers seeded from the process's own hash keys.
pub struct SystemRandom(AtomicU64);

impl SystemRandom {
    pub fn seeded() -> SystemRandom {
        let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
        SystemRandom(AtomicU64::new(seed))
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let mut mixed = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
