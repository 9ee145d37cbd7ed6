//! Alarms that are on, for the whole fleet: raised once, told once, cleared when the cause is gone.

use async_trait::async_trait;

use crate::healing::{Alarm, Facts};
use crate::id::Id;
use crate::ports::LedgerError;
use crate::time::{Span, Timestamp};

/// An alarm as the ledger keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptAlarm {
    pub id: Id,
    pub alarm: Alarm,
    pub raised_at: Timestamp,
    /// The cause is gone since.
    pub cleared_at: Option<Timestamp>,
}

/// What a settlement changed, each told to one process only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    pub raised: Vec<Alarm>,
    pub cleared: Vec<Alarm>,
}

#[async_trait]
pub trait Alarms: Send + Sync {
    /// Everything alarms follow from; queues are counted up to one more than `queued_max`.
    async fn alarm_facts(&self, queued_max: u32) -> Result<Facts, LedgerError>;

    /// Makes the open alarms those that are wanted: raises what is new and clears what is gone.
    async fn settle_alarms(&self, wanted: Vec<Alarm>) -> Result<Settled, LedgerError>;

    /// Alarms that nobody has told yet, or whose end nobody has told; for `ttl` they are told by nobody else.
    async fn take_untold(&self, ttl: Span) -> Result<Vec<KeptAlarm>, LedgerError>;

    /// They were told.
    async fn mark_told(&self, alarm: &KeptAlarm) -> Result<(), LedgerError>;
}
