//! `patra status`: what is stored, how far, and what is wrong.

use patra_core::ports::{Inspect, SourceSummary};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::failure::Failure;
use crate::table;
use crate::wiring::Desk;

pub async fn run(global: &Global) -> Result<(), Failure> {
    let desk = Desk::open_existing(global).await?;
    let now = desk.clock.now();
    let rows: Vec<Value> = by_source(desk.store.summary().await?)
        .iter()
        .map(|source| {
            let tasks = |state: &str| source.tasks.get(state).copied().unwrap_or(0);
            json!({
                "source": source.provenance,
                "endpoint": source.endpoint,
                "records": source.records,
                "complete_to": source.watermark,
                "behind": source.watermark.map(|at| age(now.since(at).micros() / 1_000_000)),
                "queued": tasks("QUEUED"),
                "running": tasks("RUNNING"),
                "failed": tasks("FAILED") + tasks("PARTIAL"),
                "quarantined": source.quarantined,
                "outbox": source.outbox_pending,
                "trouble": source.paused.clone().or_else(|| source.last_error.clone()),
            })
        })
        .collect();
    if global.json {
        println!("{}", Value::Array(rows));
    } else if rows.is_empty() {
        println!("nothing has been harvested yet; `patra harvest SOURCE` begins");
    } else {
        let columns = [
            "source",
            "endpoint",
            "records",
            "complete_to",
            "behind",
            "queued",
            "running",
            "failed",
            "quarantined",
            "outbox",
            "trouble",
        ];
        println!("{}", table::of_rows(&rows, &columns));
    }
    Ok(())
}

/// One line per source: ids found at one endpoint may be records of another, and both are the same copy.
fn by_source(summaries: Vec<SourceSummary>) -> Vec<SourceSummary> {
    let mut sources: Vec<SourceSummary> = Vec::new();
    for next in summaries {
        let Some(source) = sources.iter_mut().find(|source| source.provenance == next.provenance) else {
            sources.push(next);
            continue;
        };
        source.endpoint = format!("{}, {}", source.endpoint, next.endpoint);
        source.records += next.records;
        source.outbox_pending += next.outbox_pending;
        source.quarantined += next.quarantined;
        for (state, count) in next.tasks {
            *source.tasks.entry(state).or_default() += count;
        }
        // Complete is only what every endpoint has reached.
        source.watermark = match (source.watermark, next.watermark) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        source.last_error = source.last_error.take().or(next.last_error);
        source.paused = source.paused.take().or(next.paused);
    }
    sources
}

/// Seconds as a person says them.
fn age(seconds: i64) -> String {
    match seconds {
        ..0 => "0 s".into(),
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patra_core::time::Timestamp;

    #[test]
    fn endpoints_of_one_source_are_one_line() {
        let found = |provenance: &str, endpoint: &str, records, watermark: Option<i64>| SourceSummary {
            provenance: provenance.into(),
            endpoint: endpoint.into(),
            records,
            watermark: watermark.map(Timestamp::from_seconds),
            ..SourceSummary::default()
        };
        let lines = by_source(vec![
            found("pubmed", "articles", 10, None),
            found("pubmed", "search", 0, Some(7)),
            found("x", "a", 1, Some(3)),
            found("x", "b", 1, Some(2)),
        ]);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].records, lines[0].watermark), (10, Some(Timestamp::from_seconds(7))));
        assert_eq!(lines[0].endpoint, "articles, search");
        assert_eq!(lines[1].watermark, Some(Timestamp::from_seconds(2)));
    }
}
