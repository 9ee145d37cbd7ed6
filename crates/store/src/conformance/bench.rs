//! What the behaviours are tried on: a store with a clock to turn, a source to plan for and pages to commit.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::failpoint::{Crashed, Failpoints, Strike, Striker};
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::page::Part;
use patra_core::plan::portion::Portion;
use patra_core::ports::*;
use patra_core::record::{NewRecord, VersionKey};
use patra_core::refit::Policy;
use patra_core::spec::snapshot::{NamespaceScope, Operation, QuarantineSpec, SpecSnapshot};
use patra_core::time::{Span, Timestamp};
use patra_core::window::Window;
use serde_json::json;

use super::server;
use crate::dialect::Dialect;
use crate::value::Value;
use crate::{Options, Store, Time};

pub(super) const TTL: Span = Span::from_seconds(60);
pub(super) const LAG: Span = Span::from_seconds(10);
/// The clock of a bench begins here.
pub(super) const START: i64 = 1_800_000_000;

#[derive(Clone, Copy)]
pub(super) enum Place {
    Memory,
    File,
    /// A schema of its own on the server that `PATRA_TEST_POSTGRES` names.
    Postgres,
    /// A database of its own on the server that `PATRA_TEST_MYSQL` names.
    Mysql,
}

pub(super) struct Hand(AtomicI64);

#[async_trait]
impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, until: Timestamp) {
        self.0.fetch_max(until.micros(), Ordering::SeqCst);
    }
}

/// Strikes once, at the named point.
#[derive(Default)]
pub(super) struct Once(Mutex<Option<(&'static str, Strike)>>);

impl Striker for Once {
    fn strike(&self, name: &'static str) -> Strike {
        let mut armed = self.0.lock().unwrap();
        match *armed {
            Some((point, strike)) if point == name => {
                *armed = None;
                strike
            }
            _ => Strike::Pass,
        }
    }
}

pub(super) struct Bench {
    pub store: Arc<Store>,
    pub clock: Arc<Hand>,
    pub once: Arc<Once>,
    drawn: AtomicU64,
    /// Where the store was opened.
    pub place: String,
    folder: Option<tempfile::TempDir>,
}

impl Bench {
    /// `None` where there is no such server, which is said.
    pub async fn find(place: Place) -> Option<Bench> {
        match place {
            Place::Memory | Place::File => Some(Bench::open(place).await),
            Place::Postgres | Place::Mysql => {
                let url = server::fresh(matches!(place, Place::Postgres)).await?;
                Some(Bench::open_at(url, None).await)
            }
        }
    }

    pub async fn open(place: Place) -> Bench {
        let folder = match place {
            Place::File => Some(tempfile::tempdir().unwrap()),
            _ => None,
        };
        let path = folder.as_ref().map_or_else(|| ":memory:".to_owned(), file_in);
        Bench::open_at(path, folder).await
    }

    async fn open_at(place: String, folder: Option<tempfile::TempDir>) -> Bench {
        let clock = Arc::new(Hand(AtomicI64::new(START * 1_000_000)));
        let once = Arc::new(Once::default());
        let options = Options {
            failpoints: Failpoints::with(once.clone()),
            time: Time::Injected,
            ..Options::new(clock.clone() as Arc<dyn Clock>, 7)
        };
        let store = Store::open(&place, options).await.unwrap();
        Bench { store, clock, once, drawn: AtomicU64::new(0), place, folder }
    }

    pub fn path(&self) -> Option<String> {
        self.folder.as_ref().map(file_in)
    }

    pub fn advance(&self, span: Span) {
        self.clock.0.fetch_add(span.micros(), Ordering::SeqCst);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn id(&self) -> Id {
        self.store.ids().next()
    }

    pub fn arm(&self, point: &'static str, strike: Strike) {
        *self.once.0.lock().unwrap() = Some((point, strike));
    }

    pub fn fired(&self) -> bool {
        self.once.0.lock().unwrap().is_none()
    }

    fn unique(&self) -> Hash32 {
        Hash32::of(&self.drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes())
    }

    /// A slice `[from, to)` in seconds.
    pub fn slice(&self, from: i64, to: i64, part: Option<Part>) -> NewSlice {
        NewSlice {
            id: self.id(),
            slice_no: 1,
            window: window(from, to),
            part,
            slice_spec: json!({"strategy": "TIME"}),
            signature_hash: self.unique(),
            expr_hash: Hash32::of(b"expr"),
            expr: json!({}),
            task: NewTask {
                id: self.id(),
                idempotent_key: self.unique(),
                params: json!({}),
                credential: None,
                priority: 3,
                scheduled_at: self.now(),
                first_token: "p0".into(),
                expected_requests: 1,
            },
        }
    }

    pub fn plan(&self, slices: Vec<NewSlice>) -> NewPlan {
        self.plan_of(namespace(Operation::Harvest), slices)
    }

    pub fn plan_of(&self, namespace: Namespace, slices: Vec<NewSlice>) -> NewPlan {
        let from = slices.iter().map(|slice| slice.window.from()).min().unwrap_or(at(0));
        let to = slices.iter().map(|slice| slice.window.to()).max().unwrap_or(at(1));
        let spec = spec(namespace.operation);
        NewPlan {
            id: self.id(),
            instance: self.id(),
            plan_key: self.unique().to_string(),
            namespace,
            window: Window::new(from, to).unwrap(),
            slice_strategy: "TIME".into(),
            slice_params: json!({}),
            expr_proto_hash: Hash32::of(b"proto"),
            expr_proto: json!({}),
            spec: Arc::new(spec),
            spec_fingerprint: Hash32::of(b"spec"),
            remarks: json!({"sliceCount": slices.len()}),
            slices,
            portion: Portion::ALL,
            finished_to: None,
        }
    }

    /// Publishes a plan of these windows; its id.
    pub async fn publish(&self, windows: &[(i64, i64)]) -> Id {
        let slices = windows.iter().map(|(from, to)| self.slice(*from, *to, None)).collect();
        self.publish_plan(self.plan(slices)).await
    }

    pub async fn publish_plan(&self, plan: NewPlan) -> Id {
        let id = plan.id;
        assert_eq!(self.store.publish_plan(plan).await, Ok(Published::Created(id)));
        id
    }

    pub async fn acquire(&self, limit: u32) -> Vec<Leased> {
        self.store.acquire_tasks(&Claim::new("worker", limit, TTL)).await.unwrap()
    }

    pub async fn acquire_one(&self) -> Leased {
        self.acquire(1).await.pop().expect("a task is due")
    }

    /// A task of a fresh plan over `[0, 100)`.
    pub async fn leased(&self) -> Leased {
        self.publish(&[(0, 100)]).await;
        self.acquire_one().await
    }

    /// A page of these records, followed by another page when `next` names its token.
    pub fn page(&self, batch: &OpenBatch, records: Vec<NewRecord>, next: Option<&str>) -> BatchCommit {
        let after = next.map(|token| OpenBatch {
            id: self.id(),
            batch_no: batch.batch_no + 1,
            pass_no: batch.pass_no,
            seq_no: batch.seq_no + 1,
            phase: Phase::Search,
            before_token: token.to_owned(),
        });
        BatchCommit {
            batch: batch.clone(),
            after_token: next.map(str::to_owned),
            next: after,
            entity: "works".into(),
            expr_hash: Hash32::of(b"expr"),
            mapping_hash: Hash32::of(b"mapping"),
            spec_fingerprint: Hash32::of(b"spec"),
            item_count: records.len() as u32,
            page_ids: records.iter().map(|record| Hash32::of(record.provider_id.as_bytes()).short()).collect(),
            records,
            bad: Vec::new(),
            quarantine: QuarantineSpec { share_max: 0.5, records_max: 100 },
            missing: Vec::new(),
            policy: Policy::Newest,
            id_list: None,
            filtered: 0,
            out_of_window: 0,
            total: Some(1_000),
            source_now: self.now(),
            asked_at: self.now(),
            fetched_at: self.now(),
            response_hash: Some(self.unique()),
            body: None,
            request_digest: json!({}),
            response_digest: json!({}),
            stats: serde_json::Map::new(),
            observed_max: None,
            times: None,
        }
    }

    pub async fn commit(&self, lease: &Lease, page: BatchCommit) -> Committed {
        self.store.commit_batch(lease, page).await.unwrap()
    }

    pub fn succeeded(&self) -> SliceOutcome {
        SliceOutcome::Succeeded { read_at: self.now(), source_behind: Span::ZERO, remarks: json!({}) }
    }

    /// Commits the only page of a task and finishes its slice.
    pub async fn succeed(&self, leased: &Leased) -> Finished {
        let page = self.page(&leased.batch, Vec::new(), None);
        self.commit(&leased.lease, page).await;
        self.store.finish_slice(&leased.lease, self.succeeded()).await.unwrap()
    }

    pub async fn watermark(&self) -> Option<Timestamp> {
        self.store.planning_view(&namespace(Operation::Harvest)).await.unwrap().watermark
    }

    /// The columns of every row, as one text.
    pub async fn column(&self, text: &str) -> Vec<String> {
        let mut tx = self.store.inner.db.read().await.unwrap();
        let rows = tx.rows_composed("test", text, Vec::new()).await.unwrap();
        tx.rollback().await;
        rows.iter().map(|row| row.values.iter().map(shown).collect()).collect()
    }

    pub async fn one(&self, text: &str) -> String {
        let found = self.column(text).await;
        assert_eq!(found.len(), 1, "{text}");
        found[0].clone()
    }

    pub async fn change(&self, text: &str) {
        self.change_with(text, Vec::new()).await;
    }

    pub async fn change_with(&self, text: &str, values: Vec<Value>) {
        let mut tx = self.store.inner.db.write().await.unwrap();
        tx.execute_composed(text, values).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// From now on the database refuses records whose id begins with `poison`.
    pub async fn refuse_poison(&self) {
        let rule = match self.store.inner.db.dialect() {
            Dialect::Sqlite => {
                "CREATE TRIGGER poison BEFORE INSERT ON ing_record WHEN NEW.provider_id LIKE 'poison%'
                 BEGIN SELECT RAISE(ABORT, 'poisoned'); END"
            }
            Dialect::Postgres | Dialect::Mysql => {
                "ALTER TABLE ing_record ADD CONSTRAINT poisoned CHECK (provider_id NOT LIKE 'poison%')"
            }
        };
        self.change(rule).await;
    }

    /// Everything a batch commit writes, to compare before and after.
    pub async fn ledger_state(&self) -> Vec<String> {
        self.store.inner.db.settled().await;
        let mut state = Vec::new();
        for text in [
            "SELECT COUNT(*), ':', MAX(version_no) FROM ing_record",
            "SELECT COUNT(*) FROM ing_outbox",
            "SELECT COUNT(*) FROM ing_quarantine",
            "SELECT COUNT(*) FROM ing_missing_id",
            "SELECT COUNT(*) FROM ing_page_body",
            "SELECT id, status_code, COALESCE(after_token, '') FROM ing_task_run_batch ORDER BY id",
            "SELECT id, status_code, last_pass, ':', last_seq FROM ing_task ORDER BY id",
            "SELECT id, status_code, COALESCE(stats, '') FROM ing_task_run ORDER BY id",
            "SELECT id, status_code, read_at FROM ing_plan_slice ORDER BY id",
            "SELECT id, status_code, slice_count, ':', open_slice_count FROM ing_plan ORDER BY id",
            "SELECT id, version FROM ing_cursor",
            "SELECT id, event_no FROM ing_cursor_event ORDER BY id",
        ] {
            state.extend(self.column(text).await);
            state.push("--".into());
        }
        state
    }
}

fn file_in(folder: &tempfile::TempDir) -> String {
    folder.path().join("patra.db").display().to_string()
}

/// Runs a step that dies at an armed failpoint; the point it died at.
pub(super) async fn crash<T: Send + 'static>(step: impl Future<Output = T> + Send + 'static) -> &'static str {
    let error = tokio::spawn(step).await.err().expect("the step dies");
    error.into_panic().downcast_ref::<Crashed>().expect("a planted crash").0
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Shared(text) => text.to_string(),
        Value::Bytes(bytes) if bytes.len() >= 16 => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Time(time) => time.to_string(),
    }
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

pub(super) fn window(from: i64, to: i64) -> Window {
    Window::new(at(from), at(to)).unwrap()
}

pub(super) fn namespace(operation: Operation) -> Namespace {
    Namespace {
        provenance: "crossref".into(),
        endpoint: "works".into(),
        operation,
        cursor_key: "indexed_at".into(),
        scope: NamespaceScope::Expr,
        key: "k".into(),
    }
}

/// From the epoch on, with the usual lag.
pub(super) fn walk_of(namespace: &Namespace) -> Walk {
    Walk { namespace: namespace.clone(), origin: at(0), settling_lag: LAG, shares: Vec::new() }
}

/// A record with a version of its own: the greater `updated`, the newer.
pub(super) fn record(id: &str, updated: i64, content: &str) -> NewRecord {
    let key = VersionKey::new(Some(at(updated)), None, at(START), Hash32::of(content.as_bytes()), 1);
    NewRecord {
        provider_id: id.into(),
        key,
        updated_at: Some(at(updated)),
        deleted: false,
        merged_into: None,
        notices: Vec::new(),
        fields: json!({"title": content}).to_string(),
        payload: Bytes::from(content.to_owned()),
    }
}

fn spec(operation: Operation) -> SpecSnapshot {
    serde_json::from_value(json!({
        "format": 1, "provenance": "crossref", "endpoint": "works", "entity": "works",
        "operation": operation, "registry_version": 1, "channel": "stable",
        "http": {"base_url": "https://api.crossref.org", "allow_http": false, "allow_hosts": [],
            "connect_timeout": "PT10S", "read_timeout": "PT30S", "total_timeout": "PT2M", "redirects": 0,
            "proxy": null, "user_agent": "patra", "body_bytes_max": 1000000, "ratio_max": 200},
        "auth": {"type": "NONE"},
        "request": {"method": "GET", "path": "/works", "query": [], "headers": [], "body": null},
        "pagination": {"type": "TOKEN", "size": 100, "size_max": null, "max_page": null, "base": 0, "initial": "*",
            "next_token": "$.next", "next_url": null, "replayable": true, "ttl": null, "stop": ["no_token"],
            "result_cap": null, "max_per_slice": null, "overlap": 0, "backward": false, "tail_probe": false},
        "window": {"updated_since": true, "key": "indexed_at", "origin": "1970-01-01T00:00:00Z",
            "boundary": {"kind": "HALF_OPEN", "grain": "PT1S", "zone": "UTC", "fractional": false},
            "align": "minute", "min": "PT1S", "max": "P1D", "slice": "PT1H", "safety_lag": "PT10S",
            "lookback": "PT0S", "out_of_range": "clip", "ordered": null, "client_filter": false, "as_of": false,
            "second_key": null},
        "response": {"format": "JSON", "namespaces": {}, "items": ["$.items[*]"], "id": ["$.DOI"],
            "updated_at": null, "time": {"kind": "iso", "zone": "UTC"}, "version": null, "deleted": null,
            "total": null, "total_tolerance": 0.0, "has_more": null, "hash_exclude": [], "fields": []},
        "detail": null, "errors": [],
        "retry": {"first": "PT0.1S", "factor": 2.0, "longest": "PT30S", "jitter": 0.2, "attempts": 5, "statuses": []},
        "rate": {"windows": [], "burst": 1, "concurrency": 1, "key": ["source"], "respect_headers": true, "cost": 1},
        "expr": {"q": null, "params": {}, "contact": null},
        "namespace": "EXPR", "blackbox": "off", "quarantine": {"share_max": 0.2, "records_max": 100},
        "priority": 3, "warnings": []
    }))
    .unwrap()
}
