//! The `stats` of batches, runs and slices: counts that add up at every level (INV-19).
//!
//! A batch says what its page gave; a run keeps the running sums, so nothing is ever counted again by reading all
//! pages; a slice sums its runs. Numbers add, except the greatest latency; the mean is derived.

use patra_core::ports::{BatchCommit, Counts};
use patra_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

const MAX_LATENCY: &str = "maxLatencyMs";
const AVG_LATENCY: &str = "avgLatencyMs";
const LATENCY: &str = "latencyMs";
const OBSERVED_MAX: &str = "observedMax";

/// What a resumed reading needs of the `stats` of a batch.
#[derive(Debug, Deserialize)]
pub(crate) struct Times {
    #[serde(default)]
    pub times: Option<(Timestamp, Timestamp)>,
}

/// `stats` of a batch: what the executor measured, and what became of the page's records.
pub(crate) fn of_batch(batch: &BatchCommit, counts: &Counts, missing: usize) -> Map<String, Value> {
    let mut stats = batch.stats.clone();
    put_counts(&mut stats, counts);
    stats.insert("itemsCount".into(), batch.item_count.into());
    stats.insert("upserted".into(), (counts.inserted + counts.updated).into());
    let skipped = counts.unchanged + counts.stale + counts.duplicate + counts.filtered;
    stats.insert("skipped".into(), skipped.into());
    stats.insert("failed".into(), counts.quarantined.into());
    stats.insert("outOfWindow".into(), batch.out_of_window.into());
    stats.insert("missing".into(), missing.into());
    stats.insert("pages".into(), 1.into());
    stats.insert("tokensUsed".into(), u64::from(!batch.batch.before_token.is_empty()).into());
    stats.insert("bytesOut".into(), batch.records.iter().map(|record| record.payload.len()).sum::<usize>().into());
    stats.insert("hasNext".into(), batch.after_token.is_some().into());
    stats.insert("nextHint".into(), json!({ "token": batch.after_token }));
    stats.insert(OBSERVED_MAX.into(), json!(batch.observed_max));
    if let Some(times) = batch.times {
        stats.insert("times".into(), json!(times));
    }
    stats
}

/// Adds a batch to the sums of its run.
pub(crate) fn add_batch(run: &mut Map<String, Value>, batch: &Map<String, Value>) {
    let latency = batch.get(LATENCY).and_then(Value::as_u64).unwrap_or(0);
    let retries = batch.get("retryCount").and_then(Value::as_u64).unwrap_or(0);
    let mut as_run = batch.clone();
    as_run.insert("reqCount".into(), batch.get("reqCount").cloned().unwrap_or_else(|| (1 + retries).into()));
    as_run.insert("retCount".into(), batch.get("itemsCount").cloned().unwrap_or_default());
    as_run.insert("pagesVisited".into(), 1.into());
    as_run.insert(MAX_LATENCY.into(), latency.into());
    add(run, &as_run);
    run.insert("hasNextLast".into(), batch.get("hasNext").cloned().unwrap_or_default());
}

/// Adds the sums of a run to those of its slice.
pub(crate) fn add(sums: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        let merged = match (sums.get(key), value) {
            (_, Value::Number(_)) if key == AVG_LATENCY => continue,
            (Some(Value::Number(left)), Value::Number(right)) if key == MAX_LATENCY => greater(left, right),
            (Some(Value::Number(left)), Value::Number(right)) => plus(left, right),
            (None, Value::Number(number)) => number.clone().into(),
            (known, Value::String(time)) if key == OBSERVED_MAX => {
                let known = known.and_then(Value::as_str).unwrap_or_default();
                json!(if time.as_str() > known { time } else { known })
            }
            _ => continue,
        };
        sums.insert(key.clone(), merged);
    }
    let number = |key: &str| sums.get(key).and_then(Value::as_u64);
    if let (Some(total), Some(pages)) = (number(LATENCY), number("pagesVisited").filter(|pages| *pages > 0)) {
        sums.insert(AVG_LATENCY.into(), (total / pages).into());
    }
}

/// The greatest source time seen; it is only observed and moves nothing.
pub(crate) fn observed_max(stats: &Map<String, Value>) -> Option<Timestamp> {
    stats.get(OBSERVED_MAX)?.as_str()?.parse().ok()
}

/// The counts as stored with a batch.
pub(crate) fn counts_of(stats: &Map<String, Value>) -> Counts {
    serde_json::from_value(Value::Object(stats.clone())).unwrap_or_default()
}

fn put_counts(stats: &mut Map<String, Value>, counts: &Counts) {
    if let Ok(Value::Object(counts)) = serde_json::to_value(counts) {
        stats.extend(counts);
    }
}

fn plus(left: &Number, right: &Number) -> Value {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.saturating_add(right).into(),
        _ => (left.as_f64().unwrap_or(0.0) + right.as_f64().unwrap_or(0.0)).into(),
    }
}

fn greater(left: &Number, right: &Number) -> Value {
    if right.as_f64() > left.as_f64() { right.clone().into() } else { left.clone().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_run_sums_its_batches_and_a_slice_its_runs() {
        let first = map(json!({"inserted": 3, "itemsCount": 4, "latencyMs": 100, "429Count": 1, "hasNext": true,
                               "observedMax": "2026-01-02T00:00:00.000000Z"}));
        let second = map(json!({"inserted": 2, "itemsCount": 2, "latencyMs": 300, "retryCount": 2, "hasNext": false,
                                "observedMax": "2026-01-01T00:00:00.000000Z"}));
        let mut run = Map::new();
        add_batch(&mut run, &first);
        add_batch(&mut run, &second);
        let want = json!({"inserted": 5, "itemsCount": 6, "retCount": 6, "latencyMs": 400, "avgLatencyMs": 200,
            "maxLatencyMs": 300, "429Count": 1, "retryCount": 2, "reqCount": 4, "pagesVisited": 2,
            "hasNextLast": false, "observedMax": "2026-01-02T00:00:00.000000Z"});
        assert_eq!(Value::Object(run.clone()), want);
        let mut slice = Map::new();
        add(&mut slice, &run);
        add(&mut slice, &run);
        assert_eq!((slice["inserted"].as_u64(), slice["avgLatencyMs"].as_u64()), (Some(10), Some(200)));
        assert_eq!(observed_max(&slice), "2026-01-02".parse().ok());
    }
}
