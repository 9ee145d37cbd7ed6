//! A source with a known content: records on a shelf, handed out page by page as the spec asks.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::page::{Item, Page, PageAsk, PageStep, Part, Position, RateHints};
use patra_core::ports::{Clock, Source};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::PagingKind;
use patra_core::time::{Span, Timestamp};

type Twist = Box<dyn Fn(&PageAsk, Page) -> Result<Page, FetchError> + Send + Sync>;

/// Answers every ask from its records; `twist` may change or refuse what goes out.
pub struct Shelf {
    records: Vec<(String, Timestamp)>,
    clock: Arc<dyn Clock>,
    twist: Twist,
    asked: Mutex<Vec<Position>>,
}

impl Shelf {
    pub fn new(clock: Arc<dyn Clock>, records: Vec<(String, Timestamp)>) -> Shelf {
        Shelf { records, clock, twist: Box::new(|_, page| Ok(page)), asked: Mutex::default() }
    }

    pub fn twisted(self, twist: impl Fn(&PageAsk, Page) -> Result<Page, FetchError> + Send + Sync + 'static) -> Shelf {
        Shelf { twist: Box::new(twist), ..self }
    }

    /// Positions asked for so far, in order.
    pub fn asked(&self) -> Vec<Position> {
        self.asked.lock().unwrap().clone()
    }

    fn page(&self, ask: &PageAsk, position: &Position, size: usize) -> Page {
        let inside: Vec<&(String, Timestamp)> =
            self.records.iter().filter(|(id, at)| ask.window.contains(*at) && in_part(ask.part.as_ref(), id)).collect();
        let begin = match position {
            Position::Offset(offset) => *offset as usize,
            Position::Page(number) => (*number - ask.spec.pagination.base) as usize * size,
            Position::Token(token) => token.as_deref().and_then(|token| token.parse().ok()).unwrap_or(0),
            Position::Since(since) => inside.iter().take_while(|(_, at)| at < since).count(),
            Position::Url(_) => 0,
        };
        let items: Vec<Item> = inside.iter().skip(begin).take(size).map(|(id, at)| item(id, *at)).collect();
        let end = begin + items.len();
        let by_token = ask.spec.pagination.kind == PagingKind::Token;
        let next_token = (by_token && end < inside.len()).then(|| end.to_string());
        let total = ask.spec.response.total.is_some().then_some(inside.len() as u64);
        Page { items, next_token, total, ..empty(self.clock.now()) }
    }
}

#[async_trait]
impl Source for Shelf {
    async fn fetch(&self, ask: &PageAsk) -> Result<Page, FetchError> {
        let PageStep::Search { position, size } = &ask.step else {
            return Err(FetchError::Request { message: "this shelf has no second phase".into() });
        };
        self.asked.lock().unwrap().push(position.clone());
        (self.twist)(ask, self.page(ask, position, *size as usize))
    }
}

fn in_part(part: Option<&Part>, id: &str) -> bool {
    match part {
        Some(Part::IdRange { from, to }) => id.parse().is_ok_and(|id: u64| (*from..=*to).contains(&id)),
        Some(Part::HashBucket { .. }) | None => true,
    }
}

pub fn item(id: &str, at: Timestamp) -> Item {
    Item {
        id: id.into(),
        updated_at: Some(at),
        version: None,
        deleted: false,
        content_hash: Hash32::of(id.as_bytes()),
        fields: "{}".into(),
        payload: Bytes::from(id.to_owned()),
    }
}

pub fn empty(now: Timestamp) -> Page {
    Page {
        items: Vec::new(),
        bad: Vec::new(),
        total: None,
        has_more: None,
        next_token: None,
        next_url: None,
        body: Bytes::new(),
        response_hash: Hash32::default(),
        asked_at: now,
        fetched_at: now,
        source_date: None,
        status: 200,
        rate: RateHints::default(),
        request_digest: serde_json::json!({}),
        response_digest: serde_json::json!({}),
        latency: Span::ZERO,
        decode: Span::ZERO,
    }
}
