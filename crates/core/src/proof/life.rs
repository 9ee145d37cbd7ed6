//! The life of one record as the ledger tells it: every page that showed it, what was decided there, what was told of it.

use serde::Serialize;
use serde_json::Value;

use crate::id::Id;
use crate::planted::{Defect, planted};
use crate::ports::Shown;
use crate::time::Timestamp;
use crate::window::Window;

/// A page that showed an id, or asked for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sighting {
    pub batch: Id,
    pub run: Id,
    pub task: Id,
    pub slice: Id,
    pub plan: Id,
    pub operation: String,
    pub endpoint: String,
    pub window: Window,
    pub phase: String,
    pub pass_no: u64,
    pub seq_no: u64,
    pub fetched_at: Option<Timestamp>,
    pub request: Value,
    pub decision: String,
}

/// A window of its source in which a record of a given time belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub slice: Id,
    pub operation: String,
    pub endpoint: String,
    pub window: Window,
    pub status: String,
    pub reason: Option<String>,
    pub read_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Life {
    pub source: String,
    pub id: String,
    pub records: Vec<Shown>,
    /// Changes that were told or are about to be.
    pub events: Vec<Shown>,
    pub quarantined: Vec<Shown>,
    pub missing: Vec<Shown>,
    pub sightings: Vec<Sighting>,
    /// Windows in which it belongs by the times that are known of it.
    pub places: Vec<Place>,
    /// Pages that were looked through for it, newest first.
    pub pages_searched: u64,
    /// More pages lie behind these.
    pub search_cut: bool,
}

impl Life {
    /// Nothing in the ledger knows this id.
    pub fn is_unknown(&self) -> bool {
        self.records.is_empty() && self.quarantined.is_empty() && self.missing.is_empty() && self.sightings.is_empty()
    }

    /// What became of the id on one page.
    pub fn decision(&self, batch: Id, phase: &str, is_listed: bool) -> String {
        let batch = batch.to_string();
        let of_batch = |row: &&Shown| row.get("batch_id").and_then(Value::as_str) == Some(&batch);
        let text = |row: &Shown, key: &str| row.get(key).map(shown).unwrap_or_default();
        if let Some(event) = self.events.iter().find(of_batch).filter(|_| !planted(Defect::LifeForgetsVersions)) {
            return format!("stored as version {} ({})", text(event, "version_no"), text(event, "change_code"));
        }
        if let Some(record) = self.records.iter().find(of_batch) {
            return format!("stored as version {}", text(record, "version_no"));
        }
        if let Some(bad) = self.quarantined.iter().find(of_batch) {
            return format!("quarantined: {} {}", text(bad, "reason_code"), text(bad, "message"));
        }
        if phase == "detail" && self.missing.iter().any(|row| of_batch(&row)) {
            return "asked for and not returned".into();
        }
        match (is_listed, self.records.is_empty()) {
            (true, _) => "listed, its details are asked for next".into(),
            (false, false) => "read again, no newer than what is stored".into(),
            (false, true) => "not kept: outside the window or the query".into(),
        }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: Value) -> Shown {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_page_kept_it_set_it_aside_or_had_nothing_new() {
        let known = Life {
            records: vec![row(json!({"batch_id": "2", "version_no": 2}))],
            events: vec![row(json!({"batch_id": "1", "version_no": 1, "change_code": "CREATED"}))],
            quarantined: vec![row(json!({"batch_id": "3", "reason_code": "BAD_TIME", "message": "no time"}))],
            missing: vec![row(json!({"batch_id": "4"}))],
            ..Life::default()
        };
        let cases = [
            (1, "search", false, "stored as version 1 (CREATED)"),
            (2, "search", false, "stored as version 2"),
            (3, "search", false, "quarantined: BAD_TIME no time"),
            (4, "detail", false, "asked for and not returned"),
            (5, "search", true, "listed, its details are asked for next"),
            (6, "search", false, "read again, no newer than what is stored"),
        ];
        for (batch, phase, is_listed, want) in cases {
            assert_eq!(known.decision(Id(batch), phase, is_listed), want);
        }
        let unknown = Life::default();
        assert_eq!(unknown.decision(Id(9), "search", false), "not kept: outside the window or the query");
        assert!(unknown.is_unknown() && !known.is_unknown());
    }
}
