//! What should be told of an id, worked out again from the log of the source and the rows: the committed pages whose answers
//! listed it, and what became of it.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::Connection;

use crate::case::Case;
use crate::dump::Dump;
use crate::rows::DumpError;
use crate::{CheckInput, Database};

/// How an id stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Not in any page that was committed.
    #[default]
    Unknown,
    /// Stored, and changed once.
    Present,
    /// Stored, and an earlier version was stored before it.
    Superseded,
    /// Set aside and never stored.
    Quarantined,
    /// Listed, asked for, and not delivered.
    Undelivered,
    /// It came, and nothing was kept of it.
    Filtered,
}

/// What is known of an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLife {
    pub standing: Standing,
    /// Committed pages whose answers listed it.
    pub pages: BTreeSet<i64>,
    /// Of these, those that stored a version of it.
    pub stored_by: BTreeSet<i64>,
    /// Of these, those that set it aside.
    pub set_aside_by: BTreeSet<i64>,
}

/// Every id of a source that came in a committed page, or of which a row tells. An id that is not here is unknown.
pub async fn lives(input: &CheckInput, source: &str) -> Result<BTreeMap<String, KnownLife>, DumpError> {
    let Database::Path(file) = &input.database else { return Ok(BTreeMap::new()) };
    let mut connection = crate::open(file).await?;
    let mut snapshot = connection.begin().await?;
    let dump = Dump::load(&mut snapshot).await?;
    let Some(rules) = input.rules.iter().find(|rules| rules.source == source) else { return Ok(BTreeMap::new()) };
    Ok(of(&Case::new(input, rules, &dump)))
}

fn of(case: &Case<'_>) -> BTreeMap<String, KnownLife> {
    let mut lives: BTreeMap<String, KnownLife> = BTreeMap::new();
    for page in &case.pages {
        for (id, _) in page.served.map_or(&[][..], |row| &row.items) {
            lives.entry(id.clone()).or_default().pages.insert(page.batch.id);
        }
    }
    let ours = |provenance: &str| provenance == case.rules.provenance_code;
    for row in case.dump.outbox.iter().filter(|row| ours(&row.provenance)) {
        lives.entry(row.provider_id.clone()).or_default().stored_by.insert(row.batch_id);
    }
    for row in case.dump.quarantine.iter().filter(|row| ours(&row.provenance)) {
        if let Some(id) = &row.provider_id {
            lives.entry(id.clone()).or_default().set_aside_by.insert(row.batch_id);
        }
    }
    let undelivered: BTreeSet<&str> = case
        .dump
        .missing_ids
        .iter()
        .filter(|row| ours(&row.provenance) && row.status != "FOUND")
        .map(|row| row.provider_id.as_str())
        .collect();
    for (id, life) in &mut lives {
        life.standing = match (case.stored.get(id.as_str()), life.set_aside_by.is_empty()) {
            (Some(stored), _) if stored.record.version_no > 1 => Standing::Superseded,
            (Some(_), _) => Standing::Present,
            (None, false) => Standing::Quarantined,
            (None, true) if undelivered.contains(id.as_str()) => Standing::Undelivered,
            (None, true) => Standing::Filtered,
        };
    }
    lives
}
