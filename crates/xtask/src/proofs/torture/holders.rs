//! Who held a task when: how soon the tasks of a struck process went to another, and whether anyone wrote after that.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use patra_core::time::Timestamp;
use serde::Serialize;
use sqlx::{Connection, Row};

use super::fleet::{Role, Strike};
use super::ledger::opened;
use crate::proofs::judge::block_on;

const RUNS: &str = "SELECT task_id, lease_epoch, worker, started_at, COALESCE(reason, '') FROM ing_task_run
     ORDER BY task_id, lease_epoch";
/// A page that was committed although a later holder had begun.
const STALE: &str = "SELECT COUNT(*) FROM ing_task_run_batch b
      JOIN ing_task_run r ON r.task_id = b.task_id AND r.lease_epoch > b.lease_epoch
     WHERE b.status_code = 'SUCCEEDED' AND r.started_at < b.committed_at";
const LEFT_OPEN: &str = "SELECT (SELECT COUNT(*) FROM ing_task_run_batch WHERE status_code = 'RUNNING')
     + (SELECT COUNT(*) FROM ing_task_run WHERE status_code = 'RUNNING')
     + (SELECT COUNT(*) FROM ing_task WHERE status_code = 'RUNNING')";
/// One event per change, so a change that was written twice shows as two.
const TWICE: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM ing_outbox GROUP BY event_id HAVING COUNT(*) > 1)";

/// One holder of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub task: i64,
    pub worker: String,
    pub started_us: i64,
    /// It ended because another one took the task over.
    pub lost: bool,
    pub poisoned: bool,
}

/// What the rows of a ledger say about its holders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Holders {
    pub runs: usize,
    /// Runs that ended by a takeover, for any reason.
    pub lost: usize,
    /// Tasks given up because three holders in a row were lost at one page: in a storm by bad luck alone.
    pub poisoned: usize,
    pub stale_accepted: i64,
    pub left_open: i64,
    pub events_twice: i64,
    pub takeovers: usize,
    pub takeover_p50_s: f64,
    pub takeover_p99_s: f64,
    pub takeover_max_s: f64,
    /// With the time in which there was no database.
    pub takeover_p99_raw_s: f64,
}

pub fn holders(copy: &Path, strikes: &[Strike], away: &[(i64, i64)]) -> Result<Holders> {
    let (holds, stale_accepted, left_open, events_twice) = block_on(read(copy))??;
    let taken = takeovers(&holds, strikes);
    let raw = seconds(taken.iter().map(|(from, to)| to - from));
    let net = seconds(taken.iter().map(|span| span.1 - span.0 - overlap(*span, away)));
    Ok(Holders {
        runs: holds.len(),
        lost: holds.iter().filter(|hold| hold.lost).count(),
        poisoned: holds.iter().filter(|hold| hold.poisoned).count(),
        stale_accepted,
        left_open,
        events_twice,
        takeovers: taken.len(),
        takeover_p50_s: share_of(&net, 0.50),
        takeover_p99_s: share_of(&net, 0.99),
        takeover_max_s: share_of(&net, 1.0),
        takeover_p99_raw_s: share_of(&raw, 0.99),
    })
}

async fn read(copy: &Path) -> Result<(Vec<Hold>, i64, i64, i64)> {
    let mut connection = opened(copy).await?;
    let mut holds = Vec::new();
    for row in sqlx::query(RUNS).fetch_all(&mut connection).await? {
        let started: Timestamp = row.try_get::<String, _>(3)?.parse()?;
        let reason: String = row.try_get(4)?;
        let (lost, poisoned) = (reason == "LEASE_LOST", reason == "POISON");
        let (task, worker) = (row.try_get(0)?, row.try_get(2)?);
        holds.push(Hold { task, worker, started_us: started.micros(), lost, poisoned });
    }
    let stale = sqlx::query_scalar(STALE).fetch_one(&mut connection).await?;
    let open = sqlx::query_scalar(LEFT_OPEN).fetch_one(&mut connection).await?;
    let twice = sqlx::query_scalar(TWICE).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok((holds, stale, open, twice))
}

/// From each strike to the next claim of a task that the process held then. A process that only stood still may have
/// gone on in time; then its loss, if any, is another story.
fn takeovers(holds: &[Hold], strikes: &[Strike]) -> Vec<(i64, i64)> {
    let mut by_process: BTreeMap<&str, Vec<(&Hold, &Hold)>> = BTreeMap::new();
    for pair in holds.windows(2).filter(|pair| pair[0].task == pair[1].task && pair[0].lost) {
        let process = pair[0].worker.split('-').next().unwrap_or_default();
        by_process.entry(process).or_default().push((&pair[0], &pair[1]));
    }
    let mut taken = Vec::new();
    for strike in strikes.iter().filter(|strike| strike.role == Role::Executor) {
        let process = strike.process.to_string();
        for (held, next) in by_process.get(process.as_str()).into_iter().flatten() {
            let wait = next.started_us - strike.at_us;
            let because = strike.stopped_us.is_none_or(|span| wait <= span);
            if held.started_us <= strike.at_us && wait > 0 && because {
                taken.push((strike.at_us, next.started_us));
            }
        }
    }
    taken
}

fn overlap(span: (i64, i64), away: &[(i64, i64)]) -> i64 {
    away.iter().map(|(from, to)| ((*to).min(span.1) - (*from).max(span.0)).max(0)).sum()
}

fn seconds(spans: impl Iterator<Item = i64>) -> Vec<f64> {
    let mut seconds: Vec<f64> = spans.map(|span| span as f64 / 1e6).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// The value that this share of all does not exceed; of sorted values.
fn share_of(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(task: i64, worker: &str, started_us: i64, lost: bool) -> Hold {
        Hold { task, worker: worker.to_owned(), started_us, lost, poisoned: false }
    }

    #[test]
    fn a_takeover_is_counted_from_the_strike_that_caused_it() {
        let holds = [
            hold(1, "10-0", 0, true),
            hold(1, "11-0", 30, false),
            hold(2, "10-1", 0, false),
            hold(2, "12-0", 40, false),
            hold(3, "10-0", 50, true),
            hold(3, "12-1", 60, false),
        ];
        let strike = |at_us, stopped_us| Strike { role: Role::Executor, process: 10, at_us, stopped_us };
        assert_eq!(takeovers(&holds, &[strike(5, None)]), [(5, 30)]);
        assert_eq!(takeovers(&holds, &[strike(5, Some(20))]), []);
        assert_eq!(takeovers(&holds, &[strike(5, Some(40)), strike(55, None)]), [(5, 30), (55, 60)]);
    }

    #[test]
    fn time_without_a_database_does_not_count() {
        assert_eq!(overlap((10, 50), &[(0, 5), (0, 12), (20, 30), (45, 90)]), 2 + 10 + 5);
        assert_eq!(share_of(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.0);
        assert_eq!((share_of(&[1.0, 2.0], 0.99), share_of(&[], 0.99)), (2.0, 0.0));
    }
}
