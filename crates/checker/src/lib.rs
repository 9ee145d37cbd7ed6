//! The conscience of the product: reads what a source truly held, what it was asked and what it answered, and the
//! database that came of it, and judges.
//!
//! The checker shares no code with the engine: whatever it needs (coverage, merge order, event identity) it works out
//! again from the rows, in another way. The order is always the same: [`input`] is what the caller knows,
//! `dump` is one snapshot of the database, `case` joins both for one source, each module of `checks` judges one law
//! and adds to the [`verdict`].

#![forbid(unsafe_code)]

mod case;
mod checks;
mod cover;
mod dump;
#[cfg(test)]
mod fixture;
mod holes;
pub mod input;
mod lives;
mod rows;
mod server;
mod time;
pub mod verdict;

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};
use sqlx::{ConnectOptions, Connection};

pub use server::copy as copy_server;

pub use holes::{Uncovered, uncovered};
pub use input::{Kind, ServedRow, SourceRules, TruthRow, read_jsonl, read_rules};
pub use lives::{KnownLife, Standing, lives};
pub use verdict::{Finding, Missing, Severity, SourceVerdict, Verdict};

use case::Case;
use dump::Dump;
use verdict::Findings;

/// Opens a packed page body for the search for secrets; the checker itself knows no compression.
pub type Unpack = fn(&[u8]) -> Option<Vec<u8>>;

/// On a server an open transaction that stands still is ended after this long.
pub const OVERLAP_US: i64 = 20_000_000;

/// Where the ledger is.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file, opened read-only.
    Path(PathBuf),
    /// A PostgreSQL, MySQL or MariaDB database; it is copied to a file first.
    Server(String),
    /// An open pool, for databases in memory. Nothing is written.
    Pool(SqlitePool),
}

impl Database {
    /// A server's URL, or a file.
    pub fn at(place: &str) -> Database {
        if server::is_server(place) { Database::Server(place.to_owned()) } else { Database::Path(place.into()) }
    }
}

/// Everything the checker looks at.
#[derive(Clone, Debug)]
pub struct CheckInput {
    pub database: Database,
    /// Every version of every record, of all sources.
    pub truth: Vec<TruthRow>,
    /// Every request a source got. A source without rows here was logged by counters only: C1 and C2 then judge by
    /// the ledger's own times, and C6 cannot judge.
    pub served: Vec<ServedRow>,
    pub rules: Vec<SourceRules>,
    /// Secrets that must be nowhere.
    pub canaries: Vec<String>,
    /// Logs, exports and the like to be searched for canaries as well.
    pub files: Vec<PathBuf>,
    /// Virtual time at the end of the run; by default the last request.
    pub end_us: Option<i64>,
    /// The run is over and nothing is under way: only then C10 and "W equals the prefix" are asked for.
    pub at_rest: bool,
    /// The database clock never jumped back, so its times order the rows.
    pub steady_clock: bool,
    /// Rows carry the time at which their transaction began, and on a server transactions overlap: one may rest on
    /// rows that seem to be younger by this much.
    pub overlap_us: i64,
    pub unpack: Option<Unpack>,
}

impl CheckInput {
    /// An input without truth or log: only what the ledger says about itself is judged.
    pub fn new(database: Database) -> CheckInput {
        let overlap_us = if matches!(database, Database::Server(_)) { OVERLAP_US } else { 0 };
        CheckInput {
            database,
            truth: Vec::new(),
            served: Vec::new(),
            rules: Vec::new(),
            canaries: Vec::new(),
            files: Vec::new(),
            end_us: None,
            at_rest: true,
            steady_clock: true,
            overlap_us,
            unpack: None,
        }
    }

    /// The end of the run as far as it is known.
    fn end(&self) -> i64 {
        let last_request = self.served.iter().map(|row| row.at_us).max();
        let last_version = || self.truth.iter().map(|row| row.visible_at).max();
        self.end_us.or(last_request).or_else(last_version).unwrap_or(i64::MAX)
    }
}

/// Judges a run. A database that cannot be read is a finding (`C0`), never a panic.
pub async fn check(input: &CheckInput) -> Verdict {
    let mut findings = Findings::default();
    let mut sources = Vec::new();
    let outcome = match &input.database {
        Database::Path(path) => judge_file(input, path, &mut sources, &mut findings).await,
        Database::Server(url) => judge_server(input, url, &mut sources, &mut findings).await,
        Database::Pool(pool) => match pool.acquire().await {
            Ok(mut connection) => judge(input, &mut connection, &mut sources, &mut findings).await,
            Err(error) => Err(error.into()),
        },
    };
    if let Err(error) = outcome {
        findings.error("C0", "", format!("the database cannot be judged: {error}"), serde_json::Value::Null);
    }
    findings.into_verdict(sources)
}

async fn judge_file(
    input: &CheckInput,
    path: &Path,
    sources: &mut Vec<SourceVerdict>,
    findings: &mut Findings,
) -> Result<(), rows::DumpError> {
    let mut connection = open(path).await?;
    let outcome = judge(input, &mut connection, sources, findings).await;
    // A read-only connection has nothing to lose when closing fails.
    connection.close().await.ok();
    outcome
}

async fn judge_server(
    input: &CheckInput,
    url: &str,
    sources: &mut Vec<SourceVerdict>,
    findings: &mut Findings,
) -> Result<(), rows::DumpError> {
    let folder = tempfile::tempdir().map_err(sqlx::Error::Io)?;
    let file = folder.path().join("copy.db");
    server::copy(url, &file).await?;
    judge_file(input, &file, sources, findings).await
}

async fn open(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    SqliteConnectOptions::new().filename(path).read_only(true).connect().await
}

async fn judge(
    input: &CheckInput,
    connection: &mut SqliteConnection,
    sources: &mut Vec<SourceVerdict>,
    findings: &mut Findings,
) -> Result<(), rows::DumpError> {
    // One read transaction: every table is seen at the same moment.
    let mut snapshot = connection.begin().await?;
    let dump = Dump::load(&mut snapshot).await?;
    for rules in &input.rules {
        let case = Case::new(input, rules, &dump);
        let mut verdict = case.opening();
        checks::exact_store::check(&case, &mut verdict, findings);
        checks::watermark::check(&case, &mut verdict, findings);
        checks::complete::check(&case, &mut verdict, findings);
        checks::tiling::check(&case, findings);
        checks::rate::check(&case, findings);
        checks::accounts::check_served(&case, findings);
        sources.push(verdict);
    }
    checks::events::check(&dump, &input.rules, sources, findings);
    checks::ledger::check(&dump, &input.rules, findings);
    checks::chain::check(&dump, &input.rules, findings);
    checks::fencing::check(&dump, &input.rules, input.steady_clock, findings);
    checks::accounts::check(&dump, &input.rules, findings);
    if input.at_rest {
        checks::progress::check(&dump, &input.rules, input.end(), findings);
    }
    checks::secrets::check(input, &mut snapshot, findings).await?;
    snapshot.rollback().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_cannot_be_read_is_a_finding() {
        let folder = tempfile::tempdir().unwrap();
        let verdict = check(&CheckInput::new(Database::Path(folder.path().join("none.db")))).await;
        assert!(!verdict.ok && verdict.errors("C0").count() == 1);
        let input = fixture::good().await;
        fixture::run(&input, "UPDATE ing_plan SET window_to = 'tomorrow' WHERE id = 2").await;
        let verdict = check(&input).await;
        let message = &verdict.errors("C0").next().unwrap().message;
        assert!(message.contains("ing_plan") && message.contains("row 2") && message.contains("tomorrow"), "{message}");
    }

    #[tokio::test]
    async fn a_file_is_judged_like_a_pool_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("patra.db");
        let mut input = fixture::good_in(&format!("sqlite://{}?mode=rwc", path.display())).await;
        let before = std::fs::read(&path).unwrap();
        let pool = check(&input).await;
        input.database = Database::Path(path.clone());
        assert_eq!(check(&input).await, pool);
        assert!(pool.ok);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[tokio::test]
    async fn without_an_arrival_log_the_ledgers_own_times_are_believed() {
        let mut input = fixture::good().await;
        input.served.clear();
        let verdict = check(&input).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
        assert_eq!((verdict.sources[0].expected, verdict.sources[0].missing_count), (9, 0));
        fixture::run(&input, "DELETE FROM ing_record WHERE provider_id = 'c'").await;
        assert_eq!(check(&input).await.sources[0].missing_count, 1);
    }

    #[tokio::test]
    async fn a_page_of_many_records_is_judged_like_a_small_one() {
        let verdict = check(&fixture::large(2_000).await).await;
        assert!(verdict.ok, "{:#?}", verdict.findings);
        assert_eq!(verdict.sources[0].expected, 2_009);
    }
}
