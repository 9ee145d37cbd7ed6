//! What the caller knows: the truth of each source, its arrival log, and the rules under which it was read.
//!
//! The first two are read from the JSON lines a simulated source writes; unknown fields are ignored, so a log may
//! say more than is needed here.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One version of one record as the source held it. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthRow {
    pub source: String,
    pub id: String,
    pub version: u32,
    pub updated_at: i64,
    /// The source shows this version from here on, until a later one is visible.
    pub visible_at: i64,
    pub deleted: bool,
    /// A re-stamp: the content of that version again, except noise. The engine keeps the older payload.
    #[serde(default)]
    pub same_content_as: Option<u32>,
    /// Listed by the search and left out by the detail request.
    #[serde(default)]
    pub detail_missing: bool,
    /// Hex of SHA-256 over the record's bytes as served.
    pub payload_sha256: String,
}

/// One request and what it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedRow {
    pub source: String,
    pub at_us: i64,
    pub method: String,
    pub path_query: String,
    pub status: u16,
    #[serde(default)]
    pub fault: Option<String>,
    /// Hex of SHA-256 over the whole body.
    pub response_sha256: String,
    /// Id and version of each record in the answer, in its order.
    #[serde(default)]
    pub items: Vec<(String, u32)>,
    pub kind: Kind,
    #[serde(default)]
    pub token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Search,
    Detail,
}

/// How one source was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRules {
    /// Name in truth and log.
    pub source: String,
    pub provenance_code: String,
    /// `endpoint_name` of its records.
    pub entity: String,
    pub origin_us: i64,
    pub lag_us: i64,
    pub lookback_us: i64,
    /// Slice edges are multiples of this; whole days are counted in `zone`.
    pub grain_us: i64,
    #[serde(default = "utc")]
    pub zone: String,
    /// At most so many requests in any span of so many microseconds; several limits may hold together.
    #[serde(default)]
    pub rates: Vec<(u32, i64)>,
    /// Deletions are delivered as tombstones; otherwise a deleted record is simply gone.
    #[serde(default)]
    pub expect_deletes: bool,
    /// The search gives ids only; records come from detail requests.
    #[serde(default)]
    pub two_phase: bool,
    /// Retention has deleted old slices, so the finished prefix of the cursor is believed.
    #[serde(default)]
    pub slices_pruned: bool,
    /// The source's `Date` is cut to this, so a reading may be dated this much too early and never later.
    #[serde(default = "second")]
    pub clock_grain_us: i64,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn second() -> i64 {
    1_000_000
}

/// Reads JSON lines; a bad line is an error that names its number.
pub fn read_jsonl<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut rows = Vec::new();
    for (at, line) in BufReader::new(std::fs::File::open(path)?).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let row = serde_json::from_str(&line)
            .map_err(|error| io::Error::other(format!("{} line {}: {error}", path.display(), at + 1)))?;
        rows.push(row);
    }
    Ok(rows)
}

/// Reads a JSON array of rules.
pub fn read_rules(path: &Path) -> io::Result<Vec<SourceRules>> {
    serde_json::from_slice(&std::fs::read(path)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_a_simulated_source_writes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("served.jsonl");
        let line = r#"{"source":"doaj","at_us":5,"method":"GET","path_query":"/doaj","status":200,"fault":null,"response_sha256":"ab","items":[["x",2]],"kind":"detail","token":null}"#;
        std::fs::write(&path, format!("{line}\n\n{line}\n")).unwrap();
        let rows: Vec<ServedRow> = read_jsonl(&path).unwrap();
        assert_eq!((rows.len(), rows[0].kind, rows[1].items[0].1), (2, Kind::Detail, 2));
        std::fs::write(&path, format!("{line}\nnonsense\n")).unwrap();
        let error = read_jsonl::<ServedRow>(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn rules_need_only_what_differs_from_the_usual() {
        let text = r#"[{"source":"a","provenance_code":"a","entity":"w","origin_us":0,"lag_us":1,"lookback_us":2,"grain_us":3}]"#;
        let rules: Vec<SourceRules> = serde_json::from_str(text).unwrap();
        assert_eq!((rules[0].zone.as_str(), rules[0].clock_grain_us), ("UTC", 1_000_000));
    }
}
