//! The watch: looks for alarms, says each once in the log, and tells a person somewhere else where that is wanted.
//!
//! Any number may watch. What is on follows from the ledger, and who raises, clears or tells is decided by its rows.

use std::sync::Arc;

use futures::FutureExt;
use patra_core::hash::Hash32;
use patra_core::healing::{Thresholds, alarms};
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::{Alarms, Clock, KeptAlarm, LedgerError, Publisher, Settled};
use patra_core::record::ChangeKind;
use patra_core::time::Span;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// One who tells is given up on after this, and another tells.
const TELLING: Span = Span::from_seconds(120);

pub struct Watch {
    pub alarms: Arc<dyn Alarms>,
    pub clock: Arc<dyn Clock>,
    pub thresholds: Thresholds,
    /// Where alarms are told beside the log.
    pub tell: Option<Arc<dyn Publisher>>,
}

impl Watch {
    /// Looks again and again, until stopped. A database that is away is waited for.
    pub async fn run(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.look().await {
                tracing::warn!("looking for alarms failed, trying again: {error}");
            }
            futures::select_biased! {
                () = stop.cancelled().fuse() => {}
                () = self.clock.sleep(self.thresholds.alarm_every).fuse() => {}
            }
        }
    }

    /// One look: raises, clears, tells.
    pub async fn look(&self) -> Result<Settled, LedgerError> {
        let facts = self.alarms.alarm_facts(self.thresholds.queued_max).await?;
        let settled = self.alarms.settle_alarms(alarms(&facts, &self.thresholds)).await?;
        for alarm in &settled.raised {
            tracing::error!("alarm {}: {}", alarm.key(), alarm.message);
        }
        for alarm in &settled.cleared {
            tracing::warn!("alarm {} is over", alarm.key());
        }
        if let Some(publisher) = &self.tell {
            self.tell_to(&**publisher).await?;
        }
        Ok(settled)
    }

    /// What is not taken now is tried again at the next look, by whoever is first.
    async fn tell_to(&self, publisher: &dyn Publisher) -> Result<(), LedgerError> {
        for alarm in self.alarms.take_untold(TELLING).await? {
            match publisher.publish(&[message_of(&alarm)]).await.pop() {
                Some(Delivery::Acked) => self.alarms.mark_told(&alarm).await?,
                Some(Delivery::Refused { reason }) => {
                    tracing::error!("alarm {} cannot be told: {reason}", alarm.alarm.key());
                    self.alarms.mark_told(&alarm).await?;
                }
                Some(Delivery::NotNow { reason }) => {
                    tracing::warn!("alarm {} is not told yet: {reason}", alarm.alarm.key());
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn message_of(kept: &KeptAlarm) -> Message {
    let state = if kept.cleared_at.is_some() { "CLEARED" } else { "RAISED" };
    let event_id = Hash32::of_parts(&[&kept.id.0.to_be_bytes(), state.as_bytes()]);
    let body = json!({
        "schema": "patra.alarm/1",
        "alarm": kept.id,
        "state": state,
        "kind": kept.alarm.kind,
        "source": kept.alarm.provenance,
        "what": kept.alarm.what,
        "message": kept.alarm.message,
        "raised_at": kept.raised_at,
        "cleared_at": kept.cleared_at,
    });
    Message {
        row: kept.id,
        event_id,
        message_id: event_id.to_string(),
        provenance: kept.alarm.provenance.clone(),
        entity: "alarm".into(),
        change: ChangeKind::Created,
        body: body.to_string().into(),
    }
}
