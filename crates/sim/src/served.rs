//! What was served: one row per request, or counters alone for very large runs. The checker reads these rows next to the
//! truth; tests read the counters.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::provider::Kind;
use crate::rng::hash_text;
use crate::truth::Truth;

/// One version of a record, with the hash of its exact bytes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TruthRow {
    pub source: String,
    pub id: String,
    pub version: u32,
    pub updated_at: i64,
    pub visible_at: i64,
    pub deleted: bool,
    pub same_content_as: Option<u32>,
    pub detail_missing: bool,
    pub payload_sha256: String,
}

/// One request and what it got.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServedRow {
    pub source: String,
    pub at_us: i64,
    pub method: String,
    pub path_query: String,
    pub status: u16,
    pub fault: Option<String>,
    /// Hash of the whole body, before any cut.
    pub response_sha256: String,
    pub items: Vec<(String, u32)>,
    pub kind: Kind,
    pub token: Option<String>,
    /// Situations that the answer was a case of.
    #[serde(skip)]
    pub fired: Vec<&'static str>,
    /// Hash of the request's body: two requests with one address may ask for different things.
    #[serde(skip)]
    pub body_hash: u64,
}

/// Totals of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    pub requests: u64,
    pub throttled: u64,
    /// Injected faults by name.
    pub faults: BTreeMap<String, u64>,
    /// Requests above the declared rate.
    pub rate_violations: u64,
    /// Requests above the declared concurrency.
    pub concurrency_violations: u64,
    /// Requests that repeat a token already answered in full.
    pub repeated_cursors: u64,
    pub mutations: u64,
    pub items: u64,
    /// How often each situation was met, by its id.
    pub situations: BTreeMap<String, u64>,
}

/// How much of every request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogMode {
    /// Every row.
    #[default]
    Rows,
    /// Counters only.
    Counters,
}

/// The log of one source.
#[derive(Debug, Clone, Default)]
pub struct ServedLog {
    pub mode: LogMode,
    pub rows: Vec<ServedRow>,
    pub counters: Counters,
    /// Hashes of requests with a token that were answered in full.
    answered: HashSet<u64>,
}

impl ServedLog {
    /// An empty log.
    pub fn new(mode: LogMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Counts a request that carries a stateless token; `complete` when its answer arrived whole.
    pub fn note_token(&mut self, path_query: &str, complete: bool) {
        let name = hash_text(path_query);
        if self.answered.contains(&name) {
            self.counters.repeated_cursors += 1;
        } else if complete {
            self.answered.insert(name);
        }
    }
}

/// Every version of a truth as a row; hashes are made one by one, so a large truth can be streamed.
pub fn truth_rows(truth: &Truth) -> impl Iterator<Item = TruthRow> + '_ {
    truth.versions().map(|version| {
        let payload = truth.payload(&version.id, version.version).unwrap_or_default();
        TruthRow {
            source: truth.source.name().to_owned(),
            payload_sha256: sha256_hex(&payload),
            id: version.id,
            version: version.version,
            updated_at: version.updated_at,
            visible_at: version.visible_at,
            deleted: version.deleted,
            same_content_as: version.same_content_as,
            detail_missing: version.detail_missing,
        }
    })
}

/// Writes rows as JSON lines.
pub fn write_jsonl<T: serde::Serialize>(rows: impl IntoIterator<Item = T>, out: &mut impl Write) -> io::Result<u64> {
    let mut count = 0;
    for row in rows {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
        count += 1;
    }
    Ok(count)
}

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
