//! A small spec to start from, a scripted transport, and the ports a reader needs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::gate::pace::FULL;
use patra_core::gate::{Estimate, estimate};
use patra_core::page::{PageAsk, PageStep, Position};
use patra_core::ports::{
    Clock, Decision, Gate, HttpAnswer, HttpRequest, Permit, PermitAsk, RateKey, Secrets, Signal, Transport,
    TransportError,
};
use patra_core::spec::snapshot::{HttpSpec, RateSpec, SpecSnapshot};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;
use patra_source::SourceReader;
use secrecy::SecretString;
use serde_json::{Value, json};

/// The spec as JSON, with the given top-level members merged over it, one level deep.
pub fn spec(overrides: Value) -> SpecSnapshot {
    let mut value = base();
    for (key, over) in overrides.as_object().unwrap() {
        match (&mut value[key], over) {
            (Value::Object(into), Value::Object(from)) if key != "auth" => {
                into.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            (slot, over) => *slot = over.clone(),
        }
    }
    serde_json::from_value(value).unwrap()
}

fn base() -> Value {
    json!({
        "format": 1, "provenance": "demo", "endpoint": "works", "entity": "works", "operation": "HARVEST",
        "registry_version": 1, "channel": "stable",
        "http": {"base_url": "https://api.example.org/v1", "allow_http": false, "allow_hosts": [],
            "connect_timeout": "PT2S", "read_timeout": "PT2S", "total_timeout": "PT10S", "redirects": 0, "proxy": null,
            "user_agent": "PatraIngest/0.1 (mailto:ops@example.org)", "body_bytes_max": 8388608, "ratio_max": 200},
        "auth": {"type": "NONE"},
        "request": {"method": "GET", "path": "/works", "headers": [], "body": null,
            "query": [["q", "${expr.q}"], ["from", "${window.from | date('%Y-%m-%d')}"], ["rows", "${page.size}"],
                ["cursor", "${page.token}"], ["mailto", "${identity.contact}"]]},
        "pagination": {"type": "TOKEN", "size": 2, "size_max": null, "max_page": null, "base": 1, "initial": "*",
            "next_token": "$.next", "next_url": null, "replayable": true, "ttl": null, "stop": ["no_token"],
            "result_cap": null, "max_per_slice": null, "overlap": 0, "backward": false, "tail_probe": false},
        "window": {"updated_since": true, "key": "updated_at", "origin": "2002-01-01T00:00:00Z",
            "boundary": {"kind": "HALF_OPEN", "grain": "PT1S", "zone": "UTC", "fractional": false},
            "align": "hour", "min": "PT1S", "max": "P31D", "slice": "P1D", "safety_lag": "PT1H", "lookback": "PT2H",
            "out_of_range": "clip", "ordered": null, "client_filter": false, "as_of": false, "second_key": null},
        "response": {"format": "JSON", "namespaces": {}, "items": ["$.items[*]"], "id": ["$.id"],
            "updated_at": "$.updated", "time": {"kind": "iso", "zone": "UTC"}, "version": null, "deleted": null,
            "total": "$.total", "total_tolerance": 0.0, "has_more": null, "hash_exclude": [],
            "fields": [{"name": "title", "path": "$.title", "required": false}]},
        "detail": null, "errors": [],
        "retry": {"first": "PT0.1S", "factor": 2.0, "longest": "PT30S", "jitter": 0.2, "attempts": 5, "statuses": []},
        "rate": {"windows": [], "burst": 1, "concurrency": 1, "key": ["source"], "respect_headers": true, "cost": 1},
        "expr": {"q": "heart failure", "params": {}, "contact": "ops@example.org"},
        "namespace": "GLOBAL", "blackbox": "full", "quarantine": {"share_max": 0.5, "records_max": 10},
        "priority": 3, "warnings": []
    })
}

pub fn ask(spec: SpecSnapshot, position: Position) -> PageAsk {
    PageAsk {
        spec: Arc::new(spec),
        window: Window::new("2026-01-01".parse().unwrap(), "2026-01-02".parse().unwrap()).unwrap(),
        part: None,
        as_of: "2026-02-01".parse().unwrap(),
        step: PageStep::Search { position, size: 2 },
        received: 0,
        correlation: "corr-1".into(),
    }
}

pub fn first(spec: SpecSnapshot) -> PageAsk {
    ask(spec, Position::Token(Some("*".into())))
}

/// Answers in order and keeps what was asked.
#[derive(Default)]
pub struct Script {
    answers: Mutex<VecDeque<Result<HttpAnswer, TransportError>>>,
    pub asked: Mutex<Vec<HttpRequest>>,
}

impl Script {
    pub fn urls(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|request| request.url.clone()).collect()
    }
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, _: &HttpSpec, request: HttpRequest) -> Result<HttpAnswer, TransportError> {
        self.asked.lock().unwrap().push(request);
        let next = self.answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Err(TransportError::Connect("the script has ended".into())))
    }
}

pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<HttpAnswer, TransportError> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ok(HttpAnswer { status, headers, body: body.into() })
}

pub fn json_answer(body: Value) -> Result<HttpAnswer, TransportError> {
    answer(200, &[("content-type", "application/json")], body.to_string())
}

/// A clock that moves only when someone sleeps.
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn new() -> TestClock {
        TestClock(AtomicI64::new("2026-01-05T00:00:00Z".parse::<Timestamp>().unwrap().micros()))
    }

    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.micros(), Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, until: Timestamp) {
        self.0.fetch_max(until.micros(), Ordering::SeqCst);
    }
}

/// Allows everything and counts it; keeps the rate that was asked with.
#[derive(Default)]
pub struct CountingGate {
    pub acquired: AtomicU64,
    pub signals: Mutex<Vec<Signal>>,
    pub concurrency: AtomicU64,
}

#[async_trait]
impl Gate for CountingGate {
    async fn acquire(&self, ask: PermitAsk<'_>) -> Decision {
        let key = ask.key;
        self.concurrency.store(u64::from(ask.rate.concurrency), Ordering::SeqCst);
        let id = self.acquired.fetch_add(1, Ordering::SeqCst);
        Decision::Allow(Permit { key: key.clone(), id, granted_at: Timestamp::default(), pace: FULL })
    }

    async fn feedback(&self, _: Permit, signal: Signal) {
        self.signals.lock().unwrap().push(signal);
    }

    async fn estimate(&self, _: &RateKey, rate: &RateSpec, horizon: Span) -> Estimate {
        estimate(rate, Timestamp::default(), FULL, Timestamp::default(), horizon)
    }
}

/// Secrets by reference; the value can be changed.
#[derive(Default)]
pub struct MapSecrets(pub Mutex<BTreeMap<String, String>>);

impl Secrets for MapSecrets {
    fn resolve(&self, reference: &str) -> Result<SecretString, String> {
        let found = self.0.lock().unwrap().get(reference).cloned();
        found.map(SecretString::from).ok_or_else(|| format!("secret `{reference}` is not set"))
    }
}

/// A reader with all its parts at hand.
pub struct Bench {
    pub script: Arc<Script>,
    pub gate: Arc<CountingGate>,
    pub clock: Arc<TestClock>,
    pub secrets: Arc<MapSecrets>,
    pub reader: SourceReader,
}

pub fn bench(answers: Vec<Result<HttpAnswer, TransportError>>) -> Bench {
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), asked: Mutex::default() });
    let (gate, clock) = (Arc::new(CountingGate::default()), Arc::new(TestClock::new()));
    let secrets = Arc::new(MapSecrets::default());
    for (reference, value) in [("env:KEY", SECRET), ("env:ID", "client-7"), ("env:PASS", "p@ss:word/1")] {
        secrets.0.lock().unwrap().insert(reference.into(), value.into());
    }
    let reader = SourceReader::new(script.clone(), secrets.clone(), gate.clone(), clock.clone());
    Bench { script, gate, clock, secrets, reader }
}

/// The canary.
pub const SECRET: &str = "s3cr3t/Ca+nary==";
