//! Time and chance, injected everywhere, so that a simulation runs the real code.

use async_trait::async_trait;

use crate::time::{Span, Timestamp};

#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns at or after `until`; at once when it has passed.
    async fn sleep_until(&self, until: Timestamp);

    async fn sleep(&self, span: Span) {
        self.sleep_until(self.now().plus(span)).await;
    }
}

pub trait Random: Send + Sync {
    fn next_u64(&self) -> u64;

    /// Evenly in `[0, 1)`.
    fn fraction(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
