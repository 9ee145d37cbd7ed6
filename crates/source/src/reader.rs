//! The reader: the one place where a page is asked for and decoded.
//!
//! ```text
//! program -> credentials -> draft -> authorise -> send (redirects past the gate) -> judge -> decode -> next -> Page
//! ```
//! The caller holds the gate's permit for the page itself. What the reader sends in addition, a redirect or a
//! request for a token, asks the gate again; it runs in the place of the held permit, so the concurrency it asks
//! with is one higher, while the rate counts it in full.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::page::{Page, PageAsk};
use patra_core::ports::{
    Clock, Decision, Gate, HttpAnswer, HttpRequest, PermitAsk, RateKey, RejectReason, Secrets, Signal, Source,
    Transport, TransportError,
};
use patra_core::spec::errors::{ErrorAction, FetchError};
use patra_core::spec::snapshot::{AuthSpec, Method, Operation, SpecSnapshot};
use patra_core::time::Timestamp;
use url::Url;

use crate::answer::{Verdict, judge};
use crate::auth::{Authoriser, Credentials, TokenSend, Tokens};
use crate::decode::Decoded;
use crate::next;
use crate::program::{Phase, Program, Programs};
use crate::rate::{header, hints, http_date, retry_after};
use crate::redact::{Redactor, Redactors};
use crate::request::Draft;

/// Most redirects of one request, whatever the spec says.
const REDIRECTS_MAX: u8 = 3;

/// Asks sources for pages.
pub struct SourceReader {
    transport: Arc<dyn Transport>,
    secrets: Arc<dyn Secrets>,
    gate: Arc<dyn Gate>,
    clock: Arc<dyn Clock>,
    programs: Programs,
    authoriser: Authoriser,
    redactors: Redactors,
}

/// An answer and when it was asked for and came.
struct Exchange {
    answer: HttpAnswer,
    asked_at: Timestamp,
    fetched_at: Timestamp,
}

/// What an answer is read with.
struct Reading<'a> {
    program: &'a Program,
    phase: &'a Phase,
    /// The request before credentials were added.
    plain: &'a Draft,
    credential_names: &'a [String],
    redactor: &'a Redactor,
    clock: &'a dyn Clock,
    /// The answer is that to the first request of a pass.
    first: bool,
}

#[async_trait]
impl Source for SourceReader {
    async fn fetch(&self, ask: &PageAsk) -> Result<Page, FetchError> {
        let request = |message: String| FetchError::Request { message };
        let program = self.programs.get(&ask.spec).map_err(request)?;
        let mut credentials = Credentials::resolve(&ask.spec.auth, &*self.secrets)?;
        let result = self.fetch_with(ask, &program, &mut credentials).await;
        // Every text leaves through the redactor, also those written before the last secret was learned.
        result.map_err(|error| self.redactors.get(credentials.exposed()).error(error))
    }
}

impl SourceReader {
    pub fn new(
        transport: Arc<dyn Transport>,
        secrets: Arc<dyn Secrets>,
        gate: Arc<dyn Gate>,
        clock: Arc<dyn Clock>,
    ) -> SourceReader {
        let authoriser = Authoriser { tokens: Tokens::default(), clock: clock.clone() };
        SourceReader {
            transport,
            secrets,
            gate,
            clock,
            programs: Programs::default(),
            authoriser,
            redactors: Redactors::default(),
        }
    }

    /// Decodes a kept body again, without any request; the words about the next page are read from it too.
    pub fn replay(&self, ask: &PageAsk, body: Bytes) -> Result<Decoded, FetchError> {
        let program = self.programs.get(&ask.spec).map_err(|message| FetchError::Request { message })?;
        let phase = program.phase(&ask.step).map_err(|message| FetchError::Request { message })?;
        Ok(phase.response.decode(body, None)?)
    }

    async fn fetch_with(
        &self,
        ask: &PageAsk,
        program: &Program,
        credentials: &mut Credentials,
    ) -> Result<Page, FetchError> {
        let request = |message: String| FetchError::Request { message };
        let phase = program.phase(&ask.step).map_err(request)?;
        let mut draft = Draft::render(program, ask, |text| credentials.reveal(text)).map_err(request)?;
        let plain = draft.clone();
        self.authoriser.authorise(&ask.spec, &mut draft, credentials, self).await?;
        let redactor = self.redactors.get(credentials.exposed());
        let exchange = self.exchange(&ask.spec, program, &draft).await?;
        if exchange.answer.status == 401 {
            self.forget_token(&ask.spec, credentials).await;
        }
        let verdict = judge(phase, &exchange.answer, &redactor, exchange.fetched_at)?;
        let (redactor, clock) = (&redactor, &*self.clock);
        let (credential_names, first) = (&credentials.names[..], ask.is_first());
        let reading = Reading { program, phase, plain: &plain, credential_names, redactor, clock, first };
        reading.page(verdict, exchange)
    }

    /// Sends the request and follows allowed redirects.
    async fn exchange(&self, spec: &SpecSnapshot, program: &Program, draft: &Draft) -> Result<Exchange, FetchError> {
        let mut request = draft.finish().map_err(|message| FetchError::Request { message })?;
        let asked_at = self.clock.now();
        let mut answer = self.transport.send(&spec.http, request.clone()).await.map_err(lost)?;
        for _ in 0..spec.http.redirects.min(REDIRECTS_MAX) {
            let Some(target) = redirect_target(&answer, &request, &program.base)? else { break };
            request.url = target.into();
            answer = self.send_extra(spec, request.clone()).await?;
        }
        if spec.http.redirects > 0
            && let Some(target) = redirect_target(&answer, &request, &program.base)?
        {
            return Err(FetchError::Foreign { message: format!("{}: too many redirects", target.path()) });
        }
        Ok(Exchange { answer, asked_at, fetched_at: self.clock.now() })
    }

    /// Sends a request that the caller holds no permit for.
    async fn send_extra(&self, spec: &SpecSnapshot, request: HttpRequest) -> Result<HttpAnswer, FetchError> {
        let key = RateKey::of(spec);
        let mut rate = spec.rate.clone();
        rate.concurrency = rate.concurrency.saturating_add(1);
        let background = spec.operation == Operation::Backfill;
        let deadline = self.clock.now().plus(spec.http.total_timeout);
        let permit = loop {
            match self.gate.acquire(PermitAsk { key: &key, rate: &rate, deadline, background }).await {
                Decision::Allow(permit) => break permit,
                Decision::WaitUntil(until) => self.clock.sleep_until(until).await,
                Decision::Reject(reason) => return Err(rejected(reason)),
            }
        };
        let result = self.transport.send(&spec.http, request).await;
        let signal = match &result {
            Ok(answer) => signal_of(answer, self.clock.now()),
            Err(_) => Signal::Transient,
        };
        self.gate.feedback(permit, signal).await;
        result.map_err(lost)
    }

    async fn forget_token(&self, spec: &SpecSnapshot, credentials: &Credentials) {
        let values: Vec<&str> = credentials.exposed().collect();
        if let (AuthSpec::Oauth2 { .. }, [secret, id, token]) = (&spec.auth, values.as_slice()) {
            self.authoriser.tokens.forget(spec, id, secret, token).await;
        }
    }
}

impl Reading<'_> {
    fn page(&self, verdict: Verdict, exchange: Exchange) -> Result<Page, FetchError> {
        let Exchange { answer, asked_at, fetched_at } = exchange;
        let (phase, redactor) = (self.phase, self.redactor);
        let response_hash = Hash32::of(&answer.body);
        let rate = hints(&answer.headers, fetched_at);
        let started = self.clock.now();
        let decoded = self.decoded(&verdict, &answer)?;
        let decode = self.clock.now().since(started);
        let found = match phase.link_header && verdict == Verdict::Page {
            true => next::link_next(&answer.headers),
            false => decoded.next_url,
        };
        let next_url = found.map(|found| self.next_url(&found)).transpose()?;
        Ok(Page {
            items: decoded.items,
            bad: decoded.bad,
            total: decoded.total,
            has_more: decoded.has_more,
            next_token: decoded.next_token.map(|token| redactor.text(&token)),
            next_url,
            body: decoded.body,
            response_hash,
            asked_at,
            fetched_at,
            source_date: header(&answer.headers, "date").and_then(http_date),
            status: answer.status,
            request_digest: redactor.json(self.request_digest()),
            response_digest: redactor.json(response_digest(phase, &answer, &rate, response_hash)),
            rate,
            latency: fetched_at.since(asked_at),
            decode,
        })
    }

    /// Decodes the redacted body, so that no slice of it can hold a secret.
    fn decoded(&self, verdict: &Verdict, answer: &HttpAnswer) -> Result<Decoded, FetchError> {
        let body = self.redactor.bytes(&answer.body);
        if *verdict == Verdict::Empty {
            return Ok(empty(body, self.first));
        }
        let content_type = header(&answer.headers, "content-type");
        Ok(self.phase.response.decode(body, content_type)?)
    }

    fn next_url(&self, found: &str) -> Result<String, FetchError> {
        next::merge(found, self.plain, &self.program.base, self.credential_names, self.redactor)
            .map_err(|message| FetchError::Foreign { message: format!("a next page at {message}") })
    }

    /// As in 14.3.3: templates instead of values, and the hash of the body without credentials.
    fn request_digest(&self) -> serde_json::Value {
        let common = &self.phase.digest;
        let mut digest = serde_json::json!({
            "method": common["method"],
            "urlTemplate": common["urlTemplate"],
            "query": common["query"],
            "headers": common["headers"],
        });
        if let Some(body) = self.plain.finish().ok().and_then(|request| request.body) {
            digest["bodyHash"] = format!("sha256:{}", Hash32::of(&body)).into();
        }
        digest
    }
}

#[async_trait]
impl TokenSend for SourceReader {
    async fn send_token(&self, spec: &SpecSnapshot, mut request: HttpRequest) -> Result<HttpAnswer, FetchError> {
        request.headers.push(("User-Agent".to_owned(), spec.http.user_agent.clone()));
        self.send_extra(spec, request).await
    }
}

/// Where a redirect leads, if the answer is one that may be followed.
fn redirect_target(answer: &HttpAnswer, request: &HttpRequest, base: &Url) -> Result<Option<Url>, FetchError> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) || request.method != Method::Get {
        return Ok(None);
    }
    let foreign = |message: String| FetchError::Foreign { message: format!("a redirect to {message}") };
    let Some(location) = header(&answer.headers, "location") else { return Ok(None) };
    let here = Url::parse(&request.url).map_err(|_| foreign("an unreadable URL".to_owned()))?;
    let mut target = here.join(location).map_err(|_| foreign("an unreadable URL".to_owned()))?;
    next::same_origin(&target, base).map_err(foreign)?;
    if target.query().is_none() {
        // Sources that moved often forget the query, and without it another result would come.
        target.set_query(here.query());
    }
    Ok(Some(target))
}

fn lost(error: TransportError) -> FetchError {
    match error {
        TransportError::Connect(message) => FetchError::Connect { message },
        TransportError::Lost(message) => FetchError::Lost { message },
        TransportError::TooLarge(message) => FetchError::TooLarge { message },
        TransportError::Foreign(message) => FetchError::Foreign { message },
    }
}

fn rejected(reason: RejectReason) -> FetchError {
    match reason {
        RejectReason::OverDeadline { free_at } => FetchError::Status {
            status: 429,
            message: "the gate has no room before the deadline".to_owned(),
            retry_after: Some(free_at),
        },
        RejectReason::QuotaEmpty { reset_at } => FetchError::Rule {
            action: ErrorAction::Quota,
            status: 0,
            message: "the quota is empty".to_owned(),
            retry_after: Some(reset_at),
        },
    }
}

fn signal_of(answer: &HttpAnswer, now: Timestamp) -> Signal {
    match answer.status {
        429 => Signal::Throttled { retry_after: retry_after(&answer.headers, now) },
        503 if retry_after(&answer.headers, now).is_some() => {
            Signal::Throttled { retry_after: retry_after(&answer.headers, now) }
        }
        500..=599 => Signal::Transient,
        _ => Signal::Ok,
    }
}

/// No hits at the beginning are a count of zero; a page past the end says nothing about the count.
fn empty(body: Bytes, first: bool) -> Decoded {
    Decoded {
        items: Vec::new(),
        bad: Vec::new(),
        total: first.then_some(0),
        has_more: Some(false),
        next_token: None,
        next_url: None,
        body,
    }
}

fn response_digest(
    phase: &Phase,
    answer: &HttpAnswer,
    rate: &patra_core::page::RateHints,
    response_hash: Hash32,
) -> serde_json::Value {
    serde_json::json!({
        "status": answer.status,
        "bytes": answer.body.len(),
        "headerHints": {
            "retryAfter": rate.retry_after,
            "rateLimitLimit": rate.limit,
            "rateLimitRemaining": rate.remaining,
            "rateLimitReset": rate.reset_at,
        },
        "itemsPath": phase.digest["itemsPath"],
        "nextTokenPath": phase.digest["nextTokenPath"],
        "sample": format!("sha256:{response_hash}"),
    })
}
