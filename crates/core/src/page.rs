//! One page: what is asked of a source, and what its answer was decoded into.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::spec::snapshot::{PagingKind, SpecSnapshot};
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Where the next page of a search begins. Stored in the ledger as JSON, so a new run can go on there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    Offset(u64),
    Page(u64),
    /// `None` asks without a token.
    Token(Option<String>),
    /// Path and query relative to the origin, without credentials; `None` is the first request.
    Url(Option<String>),
    /// TIME paging: everything from this instant on.
    Since(Timestamp),
}

/// A part of a window that time cannot cut any further.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Both ends inclusive.
    IdRange {
        from: u64,
        to: u64,
    },
    HashBucket {
        bucket: u32,
        buckets: u32,
    },
}

/// Everything needed to write one request.
#[derive(Clone, Debug)]
pub struct PageAsk {
    pub spec: Arc<SpecSnapshot>,
    pub window: Window,
    pub part: Option<Part>,
    /// End of the plan's window, for sources that answer `as_of`.
    pub as_of: Timestamp,
    pub step: PageStep,
    /// Items that the source sent in this pass before.
    pub received: u64,
    /// Sent as `X-Ingest-Correlation-Id`.
    pub correlation: String,
}

impl PageAsk {
    /// The same request may be sent again after an answer was lost: everywhere with replayable paging, and always for
    /// the first page, which begins a walk of its own.
    pub fn is_repeatable(&self) -> bool {
        let paging = &self.spec.pagination;
        let begins = matches!(paging.kind, PagingKind::Token | PagingKind::Url) && self.is_first();
        paging.replayable || begins
    }

    /// The request that begins a pass.
    pub fn is_first(&self) -> bool {
        let PageStep::Search { position, .. } = &self.step else { return false };
        let paging = &self.spec.pagination;
        match position {
            Position::Offset(offset) => *offset == 0,
            Position::Page(number) => *number == paging.base,
            Position::Token(token) => *token == paging.initial,
            Position::Url(url) => url.is_none(),
            Position::Since(since) => *since == self.window.from(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStep {
    Search { position: Position, size: u32 },
    Detail { ids: Vec<String> },
}

/// A whole answer, decoded. Bytes of items are slices of `body`.
#[derive(Clone, Debug)]
pub struct Page {
    pub items: Vec<Item>,
    /// Items that cannot become records.
    pub bad: Vec<BadItem>,
    pub total: Option<u64>,
    pub has_more: Option<bool>,
    /// Next token as the source gave it, credentials removed.
    pub next_token: Option<String>,
    /// Path and query of the next URL, merged with the request's parameters, credentials removed.
    pub next_url: Option<String>,
    /// The body as it may be kept: decompressed, secrets redacted.
    pub body: Bytes,
    /// Hash of the body as it came, before redaction.
    pub response_hash: Hash32,
    /// Start of the request on the injected clock: the page shows the source at this time or later.
    pub asked_at: Timestamp,
    pub fetched_at: Timestamp,
    /// The source's `Date` header.
    pub source_date: Option<Timestamp>,
    pub status: u16,
    pub rate: RateHints,
    /// Redacted JSON as in 14.3.3.
    pub request_digest: serde_json::Value,
    pub response_digest: serde_json::Value,
    pub latency: Span,
    pub decode: Span,
}

impl Page {
    /// Known ids as a page without a request: committed like one, so that the details find them there.
    pub fn of_ids(ids: &[String], now: Timestamp) -> Page {
        let item = |id: &String| Item {
            id: id.clone(),
            updated_at: None,
            version: None,
            deleted: false,
            content_hash: Hash32::of(id.as_bytes()),
            fields: "{}".into(),
            payload: Bytes::new(),
        };
        Page {
            items: ids.iter().map(item).collect(),
            bad: Vec::new(),
            total: Some(ids.len() as u64),
            has_more: Some(false),
            next_token: None,
            next_url: None,
            body: Bytes::new(),
            response_hash: Hash32::of(b""),
            asked_at: now,
            fetched_at: now,
            source_date: None,
            status: 200,
            rate: RateHints::default(),
            request_digest: serde_json::json!({ "ids": ids.len() }),
            response_digest: serde_json::json!({}),
            latency: Span::ZERO,
            decode: Span::ZERO,
        }
    }

    /// Items the source sent, good or bad.
    pub fn item_count(&self) -> usize {
        self.items.len() + self.bad.len()
    }
}

/// One record as the source gave it. In a two-phase search only `id` is meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: String,
    /// Time of the watermark key, cut to microseconds; `None` where the source gives none.
    pub updated_at: Option<Timestamp>,
    pub version: Option<String>,
    pub deleted: bool,
    /// Over the raw record without the paths declared as noise.
    pub content_hash: Hash32,
    /// Mapped fields as a JSON object text.
    pub fields: String,
    pub payload: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BadItem {
    pub id: Option<String>,
    pub reason: BadReason,
    /// The path or field that failed.
    pub path: String,
    pub message: String,
    pub raw: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BadReason {
    NoId,
    BadTime,
    MissingField,
    BadField,
    BadText,
    TooLong,
    Malformed,
    /// Refused by the database.
    Store,
}

/// What the source said about its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateHints {
    pub limit: Option<u64>,
    /// The time that the limit is for.
    #[serde(default)]
    pub interval: Option<crate::time::Span>,
    pub remaining: Option<u64>,
    pub reset_at: Option<Timestamp>,
    pub retry_after: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    #[test]
    fn the_first_page_of_a_server_side_cursor_may_be_asked_for_again_and_no_other() {
        let mut spec = sample::snapshot();
        spec.pagination.kind = PagingKind::Token;
        spec.pagination.replayable = false;
        spec.pagination.initial = Some("*".into());
        let window = Window::new(Timestamp::from_seconds(0), Timestamp::from_seconds(1)).unwrap();
        let spec = Arc::new(spec);
        for (token, want) in [("*", true), ("next", false)] {
            let step = PageStep::Search { position: Position::Token(Some(token.into())), size: 1 };
            let (spec, correlation) = (spec.clone(), String::new());
            let ask = PageAsk { spec, window, part: None, as_of: window.to(), step, received: 0, correlation };
            assert_eq!(ask.is_repeatable(), want, "{token}");
        }
    }
}
