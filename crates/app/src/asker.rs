//! Asks a source for single pages beside the work, through the gate; nothing is written.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use patra_core::page::{Page, PageAsk};
use patra_core::ports::{
    Clock, Decision, Gate, HttpAnswer, HttpRequest, PermitAsk, RateKey, RejectReason, Signal, Source, Transport,
    TransportError,
};
use patra_core::spec::errors::{FetchError, classify};
use patra_core::spec::snapshot::{AuthSpec, HttpSpec, SpecSnapshot};
use patra_source::{EnvFileSecrets, HttpTransport, SafeUrl, SourceReader};

use crate::gate;
use crate::wiring::Desk;

pub struct Asker {
    pub spec: Arc<SpecSnapshot>,
    pub clock: Arc<dyn Clock>,
    reader: SourceReader,
    gate: Arc<dyn Gate>,
    watched: Arc<Watched>,
}

/// What was sent last, without its secrets.
#[derive(Clone, Default)]
pub struct Sent {
    pub method: String,
    pub url: String,
    pub status: u16,
    pub bytes: usize,
}

/// Why there is no page.
pub enum Unfetched {
    Gate(RejectReason),
    Source(Box<FetchError>),
}

impl Unfetched {
    /// What the source's answer is, for those who sort answers.
    pub fn class(&self, spec: &SpecSnapshot) -> &'static str {
        match self {
            Unfetched::Gate(_) => "GATE",
            Unfetched::Source(error) => classify(error, &spec.retry.statuses).name(),
        }
    }
}

impl fmt::Display for Unfetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfetched::Gate(RejectReason::OverDeadline { free_at }) => {
                write!(f, "the rate limit lets no request through before {free_at}")
            }
            Unfetched::Gate(RejectReason::QuotaEmpty { reset_at }) => {
                write!(f, "the budget is used up until {reset_at}")
            }
            Unfetched::Source(error) => error.fmt(f),
        }
    }
}

impl Asker {
    pub fn new(desk: &Desk, spec: SpecSnapshot) -> Asker {
        let gate = gate::own(desk);
        let hidden = match &spec.auth {
            AuthSpec::ApiKey { name, .. } | AuthSpec::Custom { name, .. } => vec![name.clone()],
            _ => Vec::new(),
        };
        let watched = Arc::new(Watched { inner: HttpTransport::new(), hidden, last: Mutex::default() });
        let reader = SourceReader::new(watched.clone(), Arc::new(EnvFileSecrets), gate.clone(), desk.clock.clone());
        Asker { spec: Arc::new(spec), reader, gate, clock: desk.clock.clone(), watched }
    }

    /// One request, once the gate lets it through.
    pub async fn fetch(&self, ask: &PageAsk) -> Result<Page, Unfetched> {
        let key = RateKey::of(&ask.spec);
        let deadline = self.clock.now().plus(ask.spec.http.total_timeout);
        loop {
            let wish = PermitAsk { key: &key, rate: &ask.spec.rate, deadline, background: false };
            match self.gate.acquire(wish).await {
                Decision::Allow(permit) => {
                    let fetched = self.reader.fetch(ask).await;
                    let signal = if fetched.is_ok() { Signal::Ok } else { Signal::Transient };
                    self.gate.feedback(permit, signal).await;
                    return fetched.map_err(|error| Unfetched::Source(Box::new(error)));
                }
                Decision::WaitUntil(until) => self.clock.sleep_until(until).await,
                Decision::Reject(reason) => return Err(Unfetched::Gate(reason)),
            }
        }
    }

    pub fn last_sent(&self) -> Sent {
        self.watched.last.lock().map(|last| last.clone()).unwrap_or_default()
    }
}

/// Keeps what was sent last, to be shown.
struct Watched {
    inner: HttpTransport,
    /// Names of parameters that carry a credential.
    hidden: Vec<String>,
    last: Mutex<Sent>,
}

#[async_trait]
impl Transport for Watched {
    async fn send(&self, http: &HttpSpec, request: HttpRequest) -> Result<HttpAnswer, TransportError> {
        let url = SafeUrl::of(&request.url, self.hidden.clone()).map(|url| url.to_string()).unwrap_or_default();
        let method = format!("{:?}", request.method).to_uppercase();
        let answer = self.inner.send(http, request).await;
        let (status, bytes) = answer.as_ref().map_or((0, 0), |answer| (answer.status, answer.body.len()));
        if let Ok(mut last) = self.last.lock() {
            *last = Sent { method, url, status, bytes };
        }
        answer
    }
}
