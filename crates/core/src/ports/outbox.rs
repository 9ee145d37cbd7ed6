//! The outbox and those it is told to.

use async_trait::async_trait;

use crate::hash::Hash32;
use crate::id::Id;
use crate::outbox::{Delivery, Event, Held, Message, Settlement};
use crate::ports::LedgerError;
use crate::time::{Span, Timestamp};

/// The right to publish the events of one shard. Only [`Outbox::lease_shard`] makes one; the epoch fences late writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLease {
    pub shard: u8,
    pub epoch: i64,
    pub owner: String,
    /// On the database clock.
    pub expires_at: Timestamp,
}

/// How much is waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    pub pending: u64,
    pub parked: u64,
    pub oldest_pending_at: Option<Timestamp>,
}

/// Which events are to be published again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Republish {
    Rows(Vec<Id>),
    /// All parked ones.
    Parked,
    /// Every kept version of one record.
    Record {
        provenance: String,
        entity: String,
        provider_id: String,
    },
    /// SENT ones that were recorded in `[from, to)`.
    Recorded {
        from: Timestamp,
        to: Timestamp,
    },
}

/// A SENT row, to compare with what a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentEvent {
    pub row: Id,
    pub event_id: Hash32,
    pub sent_at: Timestamp,
}

#[async_trait]
pub trait Outbox: Send + Sync {
    /// Leases the free shard with waiting events that was served longest ago, with a higher epoch; `None` when nothing
    /// waits that nobody else holds.
    async fn lease_shard(&self, who: &str, ttl: Span) -> Result<Option<ShardLease>, LedgerError>;

    /// Moves the end of the lease if it is still ours.
    async fn renew_shard(&self, lease: &ShardLease, ttl: Span) -> Result<ShardLease, LedgerError>;

    /// Gives the shard back; nothing happens when it was lost.
    async fn release_shard(&self, lease: &ShardLease) -> Result<(), LedgerError>;

    /// PENDING events of the shard by state, oldest first, at most one of each record and never one with an earlier
    /// version waiting. What stands behind a parked version is parked too.
    async fn pending_events(&self, lease: &ShardLease, limit: u32) -> Result<Vec<Event>, LedgerError>;

    /// Marks events SENT and parks others in one commit, if the shard is still ours.
    async fn settle(&self, lease: &ShardLease, settlement: &Settlement) -> Result<(), LedgerError>;

    async fn outbox_counts(&self) -> Result<OutboxCounts, LedgerError>;

    /// SENT rows of a shard recorded in `[from, to)`, by id, after the row `after`.
    async fn sent_events(
        &self,
        shard: u8,
        from: Timestamp,
        to: Timestamp,
        after: Option<Id>,
        limit: u32,
    ) -> Result<Vec<SentEvent>, LedgerError>;

    /// Makes events PENDING again; how many.
    async fn republish(&self, which: &Republish) -> Result<u64, LedgerError>;

    /// Deletes at most `limit` rows of a shard that were SENT before this; how many.
    async fn purge_sent(&self, shard: u8, before: Timestamp, limit: u32) -> Result<u64, LedgerError>;
}

#[async_trait]
pub trait Publisher: Send + Sync {
    /// Publishes messages of different records, in any order; one verdict for each, in the order they came in.
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery>;
}

/// The far side did not say what it holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream cannot be read: {message}")]
pub struct StreamError {
    pub message: String,
}

/// What a stream still holds of what was sent to it.
#[derive(Debug)]
pub struct StreamView {
    pub held: Held,
    /// The stream forgets messages older than this by itself, so they are not missing.
    pub keeps: Option<Span>,
}

#[async_trait]
pub trait Stream: Send + Sync {
    /// Every event the stream holds at some time after the call.
    async fn view(&self) -> Result<StreamView, StreamError>;
}
