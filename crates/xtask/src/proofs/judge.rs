//! What the checker says of a harvest that was disturbed, and what the ledger itself shows.

use std::path::Path;

use anyhow::Result;
use patra_checker::{CheckInput, Database, ServedRow, SourceRules, Verdict, read_jsonl};
use patra_core::spec::snapshot::SpecSnapshot;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::rig::Harvest;

/// The verdict on a harvest; `kept` holds the truth of its world.
pub fn verdict(harvest: &Harvest, spec: &SpecSnapshot, kept: &Path, served: Vec<ServedRow>) -> Result<Verdict> {
    // A fresh process begins with a fresh bucket, so the rate over several of them is not judged here.
    let rules = SourceRules { rates: Vec::new(), ..patra_testkit::lab::rules_of(&harvest.source, spec) };
    let mut input = CheckInput::new(Database::Path(harvest.database.clone()));
    input.truth = read_jsonl(&kept.join("truth.jsonl"))?;
    input.served = served;
    input.rules = vec![rules];
    input.end_us = Some(now_us());
    block_on(patra_checker::check(&input))
}

/// Pages committed more than once in a pass.
pub fn doubled(database: &Path) -> Result<u64> {
    let text = "SELECT COUNT(*) FROM (SELECT 1 FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'
                 GROUP BY task_id, pass_no, seq_no HAVING COUNT(*) > 1)";
    block_on(count(database, text, &[]))?
}

pub async fn count(database: &Path, text: &'static str, binds: &[String]) -> Result<u64> {
    let mut connection = SqliteConnectOptions::new().filename(database).connect().await?;
    let query = binds.iter().fold(sqlx::query_scalar(text), |query, bind| query.bind(bind.clone()));
    let count: i64 = query.fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(u64::try_from(count)?)
}

pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

pub fn now_us() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the request log is dated by the machine's clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
