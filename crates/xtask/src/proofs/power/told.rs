//! What a harvest told the outside that it has committed, and whether a ledger holds it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};

use super::trace::{Call, Edge, Trace};
use crate::proofs::torture::ledger::opened;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Plan,
    Batch,
    Task,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Plan, Kind::Batch, Kind::Task];

    /// Rows of which the commit has been told.
    fn rows(self) -> &'static str {
        match self {
            Kind::Plan => "SELECT id FROM ing_plan",
            Kind::Batch => "SELECT id FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'",
            Kind::Task => "SELECT id FROM ing_task WHERE status_code = 'SUCCEEDED'",
        }
    }
}

/// A commit that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    pub kind: Kind,
    pub id: i64,
}

/// All that was told, with its place among the moments. Telling begins after the commit has returned, so a cut right
/// after its beginning must already find it.
pub fn told(trace: &Trace) -> Vec<(usize, Told)> {
    let mut all = Vec::new();
    for (place, moment) in trace.moments.iter().enumerate() {
        if let Edge::Begin(call) = moment.edge
            && let Call::Say { text } = &trace.calls[call]
        {
            all.extend(text.lines().filter_map(commit_of).map(|told| (place, told)));
        }
    }
    all
}

/// `... batch 17 is committed: ...`
fn commit_of(line: &str) -> Option<Told> {
    let (before, _) = line.split_once(" is committed: ")?;
    let mut words = before.rsplit(' ');
    let id = words.next()?.parse().ok()?;
    let kind = match words.next()? {
        "plan" => Kind::Plan,
        "batch" => Kind::Batch,
        "task" => Kind::Task,
        _ => return None,
    };
    Some(Told { kind, id })
}

/// What a ledger shows after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Why it is not whole.
    pub unsound: Option<String>,
    pub lost: Vec<Told>,
}

/// Opens the ledger, which recovers it, reads all of it and looks for everything that was told.
pub async fn look(database: &Path, told: &[Told]) -> Result<Found> {
    if !database.exists() {
        return Ok(Found { unsound: None, lost: told.to_vec() });
    }
    match looked(database, told).await {
        Ok(found) => Ok(found),
        Err(error) => Ok(Found { unsound: Some(format!("{error:#}")), lost: told.to_vec() }),
    }
}

async fn looked(database: &Path, told: &[Told]) -> Result<Found> {
    let mut connection = opened(database).await?;
    let said: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await?;
    let unsound = (said != "ok").then_some(said);
    let mut lost = Vec::new();
    for kind in Kind::ALL {
        let told: Vec<Told> = told.iter().copied().filter(|told| told.kind == kind).collect();
        // Before the first commit of a kind there need not be its table.
        if !told.is_empty() {
            let kept = ids(&mut connection, kind).await?;
            lost.extend(told.into_iter().filter(|told| !kept.contains(&told.id)));
        }
    }
    connection.close().await?;
    Ok(Found { unsound, lost })
}

async fn ids(connection: &mut SqliteConnection, kind: Kind) -> Result<BTreeSet<i64>> {
    let rows = match sqlx::query(kind.rows()).fetch_all(connection).await {
        Ok(rows) => rows,
        // A ledger that lost its tables is still whole; it has lost all that was told.
        Err(sqlx::Error::Database(error)) if error.message().starts_with("no such table") => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_from_the_lines_of_a_harvest() {
        for (line, want) in [
            ("2026 DEBUG batch 17 is committed: 10 records task.id=4 batch.id=17", Some((Kind::Batch, 17))),
            ("DEBUG task 4 is committed: [a, b) is proven task.id=4", Some((Kind::Task, 4))),
            ("DEBUG plan 2 is committed: 9 slices", Some((Kind::Plan, 2))),
            ("WARN whether renew was committed is left to the next look", None),
            ("DEBUG page 9 is committed: not known", None),
        ] {
            assert_eq!(commit_of(line), want.map(|(kind, id)| Told { kind, id }), "{line}");
        }
    }
}
