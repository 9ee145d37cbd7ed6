//! What a page costs when the ledger is large: the same commits on a small and on a large ledger, in turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use patra_core::failpoint::Failpoints;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::{BatchCommit, Claim, Clock, Leased, Ledger, OpenBatch};
use patra_core::record::{NewRecord, VersionKey};
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::Silent;
use patra_sim::Source;
use patra_store::{Options, Store};
use patra_testkit::lab::{Lab, LabPlan};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};

const PAGE_RECORDS: u64 = 100;
/// Commits before measuring begins, and commits measured.
const WARM_UP: u64 = 50;
const PAGES: u64 = 1_000;
/// Batches of one task in the filling.
const BATCHES_PER_TASK: u64 = 100;

pub struct Cost {
    pub rows: u64,
    pub median_us: f64,
    mean_us: f64,
}

impl Cost {
    fn of(rows: u64, mut spent: Vec<f64>) -> Cost {
        spent.sort_by(f64::total_cmp);
        let mean_us = spent.iter().sum::<f64>() / spent.len().max(1) as f64;
        Cost { rows, median_us: spent.get(spent.len() / 2).copied().unwrap_or(0.0), mean_us }
    }

    pub fn json(&self) -> Value {
        json!({ "ledger_rows": self.rows, "median_us": self.median_us.round(), "mean_us": self.mean_us.round() })
    }
}

/// Commits pages on both ledgers in turn, so that whatever else the machine does hits both alike.
pub fn compare(folder: &Path, small: u64, large: u64) -> Result<(Cost, Cost)> {
    let mut benches = [Bench::open(&folder.join("small.db"), small)?, Bench::open(&folder.join("large.db"), large)?];
    let mut spent = [Vec::new(), Vec::new()];
    for page in 0..WARM_UP + PAGES {
        for (bench, spent) in benches.iter_mut().zip(&mut spent) {
            let us = bench.commit(page)?;
            if page >= WARM_UP {
                spent.push(us);
            }
        }
    }
    let [of_small, of_large] = spent;
    Ok((Cost::of(small, of_small), Cost::of(large, of_large)))
}

struct Bench {
    lab: Lab,
    store: Arc<Store>,
    leased: Leased,
    open: OpenBatch,
}

impl Bench {
    fn open(path: &Path, rows: u64) -> Result<Bench> {
        let mut plan = LabPlan::new(1, 700, path);
        plan.sources = vec![Source::DataCite];
        let lab = Lab::open(plan, Failpoints::none(), Arc::new(Silent)).map_err(|error| anyhow!(error))?;
        lab.plan_source(Source::DataCite)?;
        lab.runtime.block_on(fill(path, rows))?;
        let options = Options::new(Arc::new(lab.time.clone()) as Arc<dyn Clock>, 2);
        let place = path.display().to_string();
        let store = lab.runtime.block_on(Store::open(&place, options))?;
        let taken = lab.runtime.block_on(store.acquire_tasks(&Claim::new("bench", 1, Span::DAY)))?;
        let leased = taken.into_iter().next().context("no task is due")?;
        let open = leased.batch.clone();
        Ok(Bench { lab, store, leased, open })
    }

    /// Commits one page; how long that took in microseconds.
    fn commit(&mut self, page: u64) -> Result<f64> {
        let commit = page_after(&self.open, self.store.ids().next(), page, self.lab.now());
        let next = commit.next.clone().context("every page has a next one")?;
        let started = Instant::now();
        self.lab.runtime.block_on(self.store.commit_batch(&self.leased.lease, commit))?;
        let spent = started.elapsed().as_secs_f64() * 1e6;
        self.open = next;
        Ok(spent)
    }
}

/// The next page of a task, and with it the row of the one after it.
pub fn page_after(open: &OpenBatch, next: Id, page: u64, now: Timestamp) -> BatchCommit {
    let records: Vec<NewRecord> = (0..PAGE_RECORDS).map(|place| record(page * PAGE_RECORDS + place, now)).collect();
    let token = format!("page-{}", page + 1);
    let hash = Hash32::of(token.as_bytes());
    let next = OpenBatch {
        id: next,
        batch_no: open.batch_no + 1,
        seq_no: open.seq_no + 1,
        before_token: token.clone(),
        ..open.clone()
    };
    BatchCommit {
        batch: open.clone(),
        after_token: Some(token),
        next: Some(next),
        entity: "dois".into(),
        expr_hash: hash,
        mapping_hash: hash,
        spec_fingerprint: hash,
        bad: Vec::new(),
        quarantine: patra_core::spec::sample::snapshot().quarantine,
        missing: Vec::new(),
        policy: patra_core::refit::Policy::Newest,
        page_ids: records.iter().map(|record| Hash32::of(record.provider_id.as_bytes()).short()).collect(),
        item_count: PAGE_RECORDS as u32,
        records,
        id_list: None,
        filtered: 0,
        out_of_window: 0,
        total: None,
        source_now: now,
        asked_at: now,
        fetched_at: now,
        response_hash: Some(hash),
        body: None,
        request_digest: json!({}),
        response_digest: json!({}),
        stats: serde_json::Map::new(),
        observed_max: None,
        times: None,
    }
}

fn record(number: u64, now: Timestamp) -> NewRecord {
    let hash = Hash32::of(&number.to_be_bytes());
    NewRecord {
        provider_id: format!("10.1234/{}", &hash.to_string()[..16]),
        key: VersionKey::new(Some(now), None, now, hash, 1),
        updated_at: Some(now),
        deleted: false,
        merged_into: None,
        notices: Vec::new(),
        fields: json!({ "title": hash.to_string() }).to_string(),
        payload: hash.to_string().repeat(16).into(),
    }
}

/// Finished slices, tasks, runs and batches of the same source, copied from the plan's own rows.
async fn fill(path: &Path, rows: u64) -> Result<()> {
    let tasks = rows.div_ceil(BATCHES_PER_TASK);
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await?;
    connection.execute("PRAGMA synchronous = OFF; BEGIN").await?;
    for text in [FILL_SLICES, FILL_TASKS, FILL_RUNS] {
        sqlx::query(text).bind(i64::try_from(tasks)?).execute(&mut connection).await?;
    }
    let batches = sqlx::query(FILL_BATCHES).bind(i64::try_from(rows)?).bind(i64::try_from(BATCHES_PER_TASK)?);
    batches.execute(&mut connection).await?;
    connection.execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").await?;
    connection.close().await?;
    // What the filling left to the system to write must not be written while pages are measured.
    std::fs::File::open(path)?.sync_all()?;
    Ok(())
}

const FILL_SLICES: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO ing_plan_slice (id, plan_id, provenance_code, endpoint_name, operation_code, namespace_hash, slice_no,
        slice_signature_hash, slice_spec, expr_hash, expr_snapshot, window_from, window_to, read_at, status_code,
        created_at, updated_at)
    SELECT n.i, 1, s.provenance_code, s.endpoint_name, s.operation_code, s.namespace_hash, n.i, hex(randomblob(32)),
        s.slice_spec, s.expr_hash, s.expr_snapshot, s.window_from, s.window_to, s.created_at, 'SUCCEEDED',
        s.created_at, s.updated_at
      FROM n, (SELECT * FROM ing_plan_slice LIMIT 1) s";
const FILL_TASKS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO ing_task (id, schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name, operation_code,
        params, first_token, idempotent_key, expr_hash, priority, status_code, scheduled_at, lease_epoch, created_at,
        updated_at)
    SELECT n.i, 1, 1, n.i, t.provenance_code, t.endpoint_name, t.operation_code, t.params, t.first_token,
        randomblob(32), t.expr_hash, t.priority, 'SUCCEEDED', t.scheduled_at, 1, t.created_at, t.updated_at
      FROM n, (SELECT * FROM ing_task LIMIT 1) t";
const FILL_RUNS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO ing_task_run (id, run_uuid, task_id, slice_id, plan_id, attempt_no, lease_epoch, worker,
        provenance_code, endpoint_name, operation_code, status_code, window_from, window_to, started_at, created_at,
        updated_at)
    SELECT n.i, randomblob(16), n.i, n.i, 1, 1, 1, 'bench', t.provenance_code, t.endpoint_name, t.operation_code,
        'SUCCEEDED', t.created_at, t.created_at, t.created_at, t.created_at, t.updated_at
      FROM n, (SELECT * FROM ing_task ORDER BY id DESC LIMIT 1) t";
const FILL_BATCHES: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
    INSERT INTO ing_task_run_batch (id, run_id, task_id, slice_id, plan_id, expr_hash, provenance_code, endpoint_name,
        operation_code, lease_epoch, batch_no, phase, pass_no, seq_no, before_token, before_token_hash, after_token,
        idempotent_key, record_count, page_ids, response_hash, stats, status_code, started_at, committed_at)
    SELECT n.i + 1, n.i / ?2 + 1, n.i / ?2 + 1, n.i / ?2 + 1, 1, t.expr_hash, t.provenance_code, t.endpoint_name,
        t.operation_code, 1, n.i % ?2 + 1, 'search', 1, n.i % ?2, 'page-' || (n.i % ?2), randomblob(32),
        'page-' || (n.i % ?2 + 1), randomblob(32), 100, randomblob(800), randomblob(32),
        '{\"fetched\":100,\"inserted\":100}', 'SUCCEEDED', t.created_at, t.created_at
      FROM n, (SELECT * FROM ing_task ORDER BY id DESC LIMIT 1) t";
