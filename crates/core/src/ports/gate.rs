//! The rate gate: every request asks first and reports afterwards.

use async_trait::async_trait;

use crate::spec::snapshot::{RateKeyPart, RateSpec, SpecSnapshot};
use crate::time::Timestamp;

/// What shares one limit, e.g. `crossref/plus`. Parts hold only `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RateKey(String);

impl RateKey {
    pub fn new(text: impl Into<String>) -> RateKey {
        RateKey(text.into())
    }

    /// The key that a spec's requests are counted under.
    pub fn of(spec: &SpecSnapshot) -> RateKey {
        let parts: Vec<&str> = spec
            .rate
            .key
            .iter()
            .filter_map(|part| match part {
                RateKeyPart::Source => Some(spec.provenance.as_str()),
                RateKeyPart::Endpoint => Some(spec.endpoint.as_str()),
                RateKeyPart::Credential => spec.auth.credential(),
            })
            .collect();
        RateKey(if parts.is_empty() { spec.provenance.clone() } else { parts.join("/") })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A place among the concurrent requests of a key; handed back after the answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    pub key: RateKey,
    pub id: u64,
    /// A permit is a dated slot: unused for longer than a moment it must be handed back and asked for again, or
    /// requests held up on the way would arrive together.
    pub granted_at: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Permit),
    WaitUntil(Timestamp),
    Reject(RejectReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// It would take until the given time, past the deadline.
    OverDeadline {
        free_at: Timestamp,
    },
    QuotaEmpty {
        reset_at: Timestamp,
    },
}

/// What an answer says about the limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    Ok,
    Throttled { retry_after: Option<Timestamp> },
    Remaining { remaining: u64, reset_at: Option<Timestamp> },
    Transient,
}

#[async_trait]
pub trait Gate: Send + Sync {
    /// Allows a request now, or says when to ask again, or refuses because it cannot be before `deadline`.
    async fn acquire(&self, key: &RateKey, rate: &RateSpec, deadline: Timestamp) -> Decision;

    /// Ends the request that `permit` allowed and tells the gate what the source said.
    async fn feedback(&self, permit: Permit, signal: Signal);
}
