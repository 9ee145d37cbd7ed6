//! What comes out: one row per source for people, and every finding with its evidence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Findings of one check and source that are spelled out; the rest are counted.
const FINDINGS_MAX: u64 = 20;
/// Missing records of one source that are named.
pub(crate) const MISSING_MAX: usize = 50;

/// The judgement of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub sources: Vec<SourceVerdict>,
    pub findings: Vec<Finding>,
    /// Errors by check, also those not spelled out.
    pub error_counts: BTreeMap<String, u64>,
    /// No error was found.
    pub ok: bool,
}

impl Verdict {
    /// Findings of one check that are errors.
    pub fn errors<'a>(&'a self, check: &'a str) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(move |finding| finding.check == check && finding.severity == Severity::Error)
    }
}

/// One line of the table of a run. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceVerdict {
    pub source: String,
    /// Records whose state at the end is dated in `[origin, W)`, was visible in time and before the last reading of
    /// its window, and is not gone.
    pub expected: u64,
    pub stored: u64,
    /// Expected, and neither stored with that content nor quarantined.
    pub missing_count: u64,
    pub missing: Vec<Missing>,
    /// Stored, and not what the source ever held.
    pub extra_count: u64,
    /// Events told twice, or told of no change.
    pub outbox_duplicates: u64,
    pub outbox_events: u64,
    pub quarantined: u64,
    /// Listed by the search but withheld by the detail request, and noted as such.
    pub noted_missing: u64,
    /// In `[origin, W)`, but visible only after the last reading of their window: the next plan owes them.
    pub late: u64,
    /// Visible later than lag and lookback allow.
    pub too_late: u64,
    pub requests: u64,
    pub watermark: Option<i64>,
    /// End of the contiguous coverage, recomputed from the slices.
    pub watermark_proven: Option<i64>,
    /// Where W would be had nothing failed: the largest plan end.
    pub watermark_truth: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    pub id: String,
    pub version: u32,
    pub updated_at: i64,
    pub visible_at: i64,
    pub stored_version: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run fails.
    Error,
    /// Something could not be judged, or is worth a look.
    Note,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// `C1`..`C10`; `C0` when the database could not be read.
    pub check: String,
    pub source: String,
    pub severity: Severity,
    pub message: String,
    pub evidence: Value,
}

/// Collects findings, bounded per check and source.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    told: BTreeMap<(&'static str, String), u64>,
    errors: BTreeMap<String, u64>,
}

impl Findings {
    pub fn error(&mut self, check: &'static str, source: &str, message: impl Into<String>, evidence: Value) {
        *self.errors.entry(check.to_owned()).or_default() += 1;
        self.add(check, source, Severity::Error, message.into(), evidence);
    }

    pub fn note(&mut self, check: &'static str, source: &str, message: impl Into<String>) {
        self.add(check, source, Severity::Note, message.into(), Value::Null);
    }

    fn add(&mut self, check: &'static str, source: &str, severity: Severity, message: String, evidence: Value) {
        let told = self.told.entry((check, source.to_owned())).or_default();
        *told += 1;
        if *told <= FINDINGS_MAX {
            self.list.push(Finding { check: check.to_owned(), source: source.to_owned(), severity, message, evidence });
        }
    }

    pub fn into_verdict(self, sources: Vec<SourceVerdict>) -> Verdict {
        Verdict { sources, ok: self.errors.is_empty(), findings: self.list, error_counts: self.errors }
    }
}
