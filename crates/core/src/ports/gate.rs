//! The rate gate: every request asks first and reports afterwards.

use async_trait::async_trait;

use crate::gate::{Drawn, Estimate, Want};
use crate::spec::snapshot::{RateKeyPart, RateSpec, SpecSnapshot};
use crate::time::{Span, Timestamp};

/// What shares one limit, e.g. `crossref/plus`. Parts hold only `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RateKey(String);

impl RateKey {
    pub fn new(text: impl Into<String>) -> RateKey {
        RateKey(text.into())
    }

    /// The key that a spec's requests are counted under.
    pub fn of(spec: &SpecSnapshot) -> RateKey {
        if let Some(name) = &spec.rate.shared {
            return RateKey(format!("shared/{name}"));
        }
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

    /// One for each credential of the spec.
    pub fn each(spec: &SpecSnapshot) -> Vec<RateKey> {
        match spec.spare_auth.is_empty() {
            true => vec![RateKey::of(spec)],
            false => spec.each_credential().iter().map(RateKey::of).collect(),
        }
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
    /// At which it was granted, in millionths of the declared rate.
    pub pace: i64,
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

/// One request that wants to be sent.
#[derive(Clone, Copy, Debug)]
pub struct PermitAsk<'a> {
    pub key: &'a RateKey,
    pub rate: &'a RateSpec,
    pub deadline: Timestamp,
    /// BACKFILL: takes a share while others wait.
    pub background: bool,
}

#[async_trait]
pub trait Gate: Send + Sync {
    /// Allows a request now, or says when to ask again, or refuses because it cannot be before the deadline.
    async fn acquire(&self, ask: PermitAsk<'_>) -> Decision;

    /// Ends the request that `permit` allowed and tells the gate what the source said.
    async fn feedback(&self, permit: Permit, signal: Signal);

    /// What the key lets through within `horizon` from now; spends nothing.
    async fn estimate(&self, key: &RateKey, rate: &RateSpec, horizon: Span) -> Estimate;
}

/// Where the fleet's limits are kept. Changes of place are numbered, and nothing is carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateMode {
    pub place: GatePlace,
    pub epoch: i64,
    /// On the database clock; 1970 for the place where the fleet began.
    pub since: Timestamp,
}

impl GateMode {
    /// No other place has let requests through before.
    pub fn is_first(&self) -> bool {
        self.since == Timestamp::from_seconds(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlace {
    Redis,
    Database,
}

impl GatePlace {
    pub const fn code(self) -> &'static str {
        match self {
            GatePlace::Redis => "REDIS",
            GatePlace::Database => "DATABASE",
        }
    }

    pub fn from_code(code: &str) -> Option<GatePlace> {
        [GatePlace::Redis, GatePlace::Database].into_iter().find(|place| place.code() == code)
    }
}

/// What a process tells and asks a shared gate in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct GateAsk {
    pub key: RateKey,
    pub rate: RateSpec,
    pub mode: GateMode,
    /// No slots are wanted when there is only something to tell.
    pub want: Want,
    /// How long a key of which this place knows nothing is left alone, from the change of place on.
    pub fresh_wait: Span,
    /// Slots count as used up to this much late.
    pub late_max: Span,
    /// Places among the concurrent requests that are free again.
    pub done: Vec<u64>,
    pub told: Vec<Told>,
}

/// What the source said, for everyone who asks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Too much, to the request of this slot: ask less often, and not at all for a while.
    Throttled {
        slot: u64,
        pause: Span,
    },
    Pause {
        pause: Span,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateLost {
    #[error("the shared gate does not answer: {message}")]
    Unreachable { message: String },
    /// It runs, but it is not the one that knows what was spent.
    #[error("the shared gate has forgotten everything")]
    Emptied,
}

/// A gate that several processes share.
#[async_trait]
pub trait SharedGate: Send + Sync {
    /// Hands out slots that keep the limits over all processes; what is told counts first.
    async fn ask(&self, ask: &GateAsk) -> Result<Drawn, GateLost>;

    /// Makes the place ready for an epoch that begins with nothing known.
    async fn prepare(&self, epoch: i64) -> Result<(), GateLost>;
}

/// The one place where it is written where limits are kept.
#[async_trait]
pub trait GateModes: Send + Sync {
    async fn mode(&self) -> Result<GateMode, GateLost>;

    /// Changes the place if nobody else did since `seen`; what is in force now.
    async fn change(&self, seen: GateMode, place: GatePlace) -> Result<GateMode, GateLost>;
}
