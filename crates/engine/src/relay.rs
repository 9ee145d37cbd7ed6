//! The relay: takes waiting events out of the outbox and tells them.
//!
//! ```text
//! lease a shard -> { pending events -> publish -> (ack) -> settle }* -> give the shard back
//! ```
//! Several relays take turns over shards. A round holds at most one version of a record, so its messages may be on the
//! way together and arrive in any order (INV-46); the next version is offered only after the row of this one is SENT.
//! A relay that stalls after its lease ran out may repeat what the next holder has told, and readers drop it; it cannot
//! mark anything. A relay trusts its lease until the ttl, counted from the start of the renewal, less a margin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use patra_core::outbox::{Event, Message, SENT_KEPT, SHARDS, Settlement};
use patra_core::ports::{Clock, LedgerError, Outbox, Publisher, ShardLease};
use patra_core::time::{Span, Timestamp};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySettings {
    /// Name of this process among the relays.
    pub who: String,
    pub shard_ttl: Span,
    /// Events of one round.
    pub events_max: u32,
    /// Rounds after which a shard is given to whoever waits for it.
    pub rounds_max: u32,
    /// How often an idle relay looks.
    pub poll: Span,
    /// First pause when the other side takes nothing; doubles up to thirty times.
    pub backoff: Span,
    /// How long SENT rows are kept.
    pub keep_sent: Span,
    /// How often old rows are looked for.
    pub purge_every: Span,
}

impl RelaySettings {
    pub fn new(who: impl Into<String>) -> RelaySettings {
        RelaySettings {
            who: who.into(),
            shard_ttl: Span::from_seconds(60),
            events_max: 256,
            rounds_max: 40,
            poll: Span::from_millis(250),
            backoff: Span::SECOND,
            keep_sent: SENT_KEPT,
            purge_every: Span::from_seconds(600),
        }
    }
}

/// What a relay has done, for metrics and people.
#[derive(Debug, Default)]
pub struct RelayTally {
    pub sent: AtomicU64,
    pub parked: AtomicU64,
    pub held: AtomicU64,
    pub purged: AtomicU64,
}

pub struct Relay {
    pub outbox: Arc<dyn Outbox>,
    pub publisher: Arc<dyn Publisher>,
    pub clock: Arc<dyn Clock>,
    pub settings: RelaySettings,
    pub tally: Arc<RelayTally>,
}

/// How a shard was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing more to do, or enough for one turn.
    Served,
    /// The other side does not take messages now.
    Held,
    /// Someone else has it.
    Lost,
}

/// A lease and until when it may be believed.
struct Trusted {
    lease: ShardLease,
    until: Timestamp,
}

impl Relay {
    pub fn new(
        outbox: Arc<dyn Outbox>,
        publisher: Arc<dyn Publisher>,
        clock: Arc<dyn Clock>,
        settings: RelaySettings,
    ) -> Relay {
        Relay { outbox, publisher, clock, settings, tally: Arc::default() }
    }

    /// Relays until it is told to stop.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut failures = 0u32;
        let mut purge_at = self.clock.now();
        while !stop.is_cancelled() {
            if self.clock.now() >= purge_at {
                self.purge().await;
                purge_at = self.clock.now().plus(self.settings.purge_every);
            }
            let pause = match self.turn(stop).await {
                Ok(Some(Left::Served | Left::Lost)) => {
                    failures = 0;
                    continue;
                }
                Ok(None) => self.settings.poll,
                Ok(Some(Left::Held)) => self.backed_off(&mut failures),
                Err(error) => {
                    tracing::warn!("the relay cannot reach the outbox: {error}");
                    self.backed_off(&mut failures)
                }
            };
            futures::select_biased! {
                () = stop.cancelled().fuse() => {},
                () = self.clock.sleep(pause).fuse() => {},
            }
        }
    }

    /// Tells what is waiting now and comes back; false when the other side did not take everything.
    pub async fn drain(&self) -> Result<bool, LedgerError> {
        let never = CancellationToken::new();
        loop {
            match self.turn(&never).await? {
                None => return Ok(true),
                Some(Left::Held) => return Ok(false),
                Some(Left::Served | Left::Lost) => {}
            }
        }
    }

    fn backed_off(&self, failures: &mut u32) -> Span {
        *failures = (*failures + 1).min(6);
        self.settings.backoff.times(1 << (*failures - 1)).min(self.settings.backoff.times(30))
    }

    /// One shard, if there is one to serve.
    async fn turn(&self, stop: &CancellationToken) -> Result<Option<Left>, LedgerError> {
        let asked = self.clock.now();
        let Some(lease) = self.outbox.lease_shard(&self.settings.who, self.settings.shard_ttl).await? else {
            return Ok(None);
        };
        let mut trusted = self.trusted(lease, asked);
        let left = match self.serve(&mut trusted, stop).await {
            Err(LedgerError::ShardLost { shard }) => {
                tracing::warn!("outbox shard {shard} went to another relay");
                return Ok(Some(Left::Lost));
            }
            other => other?,
        };
        self.outbox.release_shard(&trusted.lease).await?;
        Ok(Some(left))
    }

    async fn serve(&self, trusted: &mut Trusted, stop: &CancellationToken) -> Result<Left, LedgerError> {
        for _ in 0..self.settings.rounds_max {
            self.keep(trusted).await?;
            let events = self.outbox.pending_events(&trusted.lease, self.settings.events_max).await?;
            if events.is_empty() || stop.is_cancelled() {
                return Ok(Left::Served);
            }
            let settlement = self.tell(events, trusted.until).await;
            self.outbox.settle(&trusted.lease, &settlement).await?;
            self.count(&settlement);
            if settlement.held > 0 {
                return Ok(Left::Held);
            }
        }
        Ok(Left::Served)
    }

    /// Renews in good time: a round must fit into what is left.
    async fn keep(&self, trusted: &mut Trusted) -> Result<(), LedgerError> {
        let asked = self.clock.now();
        if trusted.until.since(asked) < Span::from_micros(self.settings.shard_ttl.micros() / 2) {
            let lease = self.outbox.renew_shard(&trusted.lease, self.settings.shard_ttl).await?;
            *trusted = self.trusted(lease, asked);
        }
        Ok(())
    }

    fn trusted(&self, lease: ShardLease, asked: Timestamp) -> Trusted {
        let margin = Span::from_micros(self.settings.shard_ttl.micros() / 10);
        Trusted { lease, until: asked.plus(self.settings.shard_ttl).minus(margin) }
    }

    /// Publishes a round. Verdicts that come after the lease has run out are not waited for.
    async fn tell(&self, events: Vec<Event>, until: Timestamp) -> Settlement {
        let mut settlement = Settlement::default();
        let mut messages: Vec<Message> = Vec::with_capacity(events.len());
        for event in &events {
            match event.message() {
                Ok(message) => messages.push(message),
                Err(unwritable) => settlement.parked.push((event.id, unwritable.to_string())),
            }
        }
        let rows: Vec<_> = messages.iter().map(|message| message.row).collect();
        let published = futures::select_biased! {
            deliveries = self.publisher.publish(&messages).fuse() => deliveries,
            () = self.clock.sleep_until(until).fuse() => Vec::new(),
        };
        settlement.add(&rows, published);
        settlement
    }

    fn count(&self, settlement: &Settlement) {
        self.tally.sent.fetch_add(settlement.sent.len() as u64, Ordering::Relaxed);
        self.tally.parked.fetch_add(settlement.parked.len() as u64, Ordering::Relaxed);
        self.tally.held.fetch_add(settlement.held as u64, Ordering::Relaxed);
        for (row, reason) in &settlement.parked {
            tracing::error!(outbox.id = %row, "event {row} cannot be sent and is parked: {reason:?}");
        }
        if settlement.held > 0 {
            let reason = settlement.held_reason.as_deref().unwrap_or("no answer in time");
            tracing::warn!(held = settlement.held, "{} events wait: {reason:?}", settlement.held);
        }
    }

    async fn purge(&self) {
        const CHUNK: u32 = 500;
        let before = self.clock.now().minus(self.settings.keep_sent);
        for shard in 0..SHARDS {
            loop {
                match self.outbox.purge_sent(shard, before, CHUNK).await {
                    Ok(gone) => {
                        self.tally.purged.fetch_add(gone, Ordering::Relaxed);
                        if gone < u64::from(CHUNK) {
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::warn!("old events were not deleted: {error}");
                        return;
                    }
                }
            }
        }
    }
}
