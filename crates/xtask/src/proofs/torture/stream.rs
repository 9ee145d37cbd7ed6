//! The stream of the broker against the outbox: every event is there, and the versions of a record come in order.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures::StreamExt;
use serde::Serialize;
use serde_json::Value;
use sqlx::Connection;

use super::ledger::opened;
use crate::proofs::judge::block_on;

const STREAM: &str = "PATRA";
/// No message for this long while there must be more.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// One message as far as it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    event: String,
    record: String,
    version: u64,
    /// An operator asked for it once more.
    again: bool,
}

#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Streamed {
    pub outbox: usize,
    pub messages: usize,
    /// Events of the outbox that the stream lacks.
    pub missing: usize,
    /// Events of the stream that the outbox does not know.
    pub unknown: usize,
    pub repeated: usize,
    /// Versions seen for the first time after a later one of the same record.
    pub order_breaks: usize,
}

pub fn streamed(url: &str, copy: &Path) -> Result<Streamed> {
    block_on(async { Ok(judged(&events(copy).await?, &told(url).await?)) })?
}

async fn events(copy: &Path) -> Result<HashSet<String>> {
    let mut connection = opened(copy).await?;
    let text = "SELECT lower(hex(event_id)) FROM ing_outbox";
    let events: Vec<String> = sqlx::query_scalar(text).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(events.into_iter().collect())
}

/// All messages in the order of the stream.
async fn told(url: &str) -> Result<Vec<Told>> {
    let context = jetstream::new(async_nats::connect(url).await?);
    let stream = context.get_stream(STREAM).await?;
    let last = stream.get_info().await?.state.last_sequence;
    let config = pull::OrderedConfig { deliver_policy: DeliverPolicy::All, ..pull::OrderedConfig::default() };
    let consumer = stream.create_consumer(config).await?;
    let mut messages = consumer.messages().await?;
    let mut all = Vec::new();
    let mut at = 0;
    while at < last {
        let next = tokio::time::timeout(IDLE_MAX, messages.next()).await.context("the stream stopped in the middle")?;
        let message = next.context("the stream ended early")??;
        let info = message.info().map_err(|error| anyhow!("{error}"))?;
        at = if info.pending == 0 { last } else { info.stream_sequence };
        let id = message.headers.as_ref().and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
        all.push(read(&message.payload, id.map(|id| id.as_str()))?);
    }
    Ok(all)
}

fn read(body: &[u8], message_id: Option<&str>) -> Result<Told> {
    let message: Value = serde_json::from_slice(body)?;
    let event = message["event_id"].as_str().context("a message without an event")?.to_owned();
    let version = message["version"].as_u64().context("a message without a version")?;
    Ok(Told { again: message_id != Some(&event), record: message["record"].to_string(), event, version })
}

fn judged(outbox: &HashSet<String>, told: &[Told]) -> Streamed {
    let mut found = Streamed { outbox: outbox.len(), messages: told.len(), ..Streamed::default() };
    let mut seen: HashSet<&str> = HashSet::new();
    let mut newest: HashMap<&str, u64> = HashMap::new();
    for one in told {
        if !seen.insert(&one.event) {
            found.repeated += 1;
            continue;
        }
        found.unknown += usize::from(!outbox.contains(&one.event));
        let newest = newest.entry(&one.record).or_default();
        found.order_breaks += usize::from(one.version < *newest && !one.again);
        *newest = one.version.max(*newest);
    }
    found.missing = outbox.iter().filter(|event| !seen.contains(event.as_str())).count();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_is_no_break_and_a_skipped_version_is() {
        let told = |event: &str, record: &str, version, again| Told {
            event: event.into(),
            record: record.into(),
            version,
            again,
        };
        let outbox = ["a1", "a2", "b1", "b2", "c1"].map(str::to_owned).into();
        let stream = [
            told("a1", "a", 1, false),
            told("a2", "a", 2, false),
            told("a1", "a", 1, false),
            told("b2", "b", 2, false),
            told("b1", "b", 1, false),
            told("x", "x", 1, false),
        ];
        let found = judged(&outbox, &stream);
        let wanted = Streamed { outbox: 5, messages: 6, missing: 1, unknown: 1, repeated: 1, order_breaks: 1 };
        assert_eq!(found, wanted);
        assert_eq!(judged(&outbox, &[told("b2", "b", 2, false), told("b1", "b", 1, true)]).order_breaks, 0);
    }
}
