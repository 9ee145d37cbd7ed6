//! `patra status`: what is stored, how far, and what is wrong.

use patra_core::ports::{Inspect, ListFilter, Noun, Shown, SourceSummary};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::commands::gate::{budget_line, open_budgets};
use crate::failure::Failure;
use crate::table;
use crate::wiring::Desk;

/// More than these are a heap, not a list.
const ALARMS_SHOWN: u32 = 100;

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
                "stopped": source.paused.is_some(),
                "trouble": trouble(source),
            })
        })
        .collect();
    let alarms = open_alarms(&desk).await?;
    if global.json {
        println!("{}", Value::Array(rows.into_iter().map(|row| with_alarms(row, &alarms)).collect()));
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
    if !global.json {
        let line = |alarm: &Shown| {
            format!(
                "alarm {}: {}/{}: {}",
                alarm["kind_code"], alarm["provenance_code"], alarm["what"], alarm["message"]
            )
        };
        alarms.iter().for_each(|alarm| println!("{}", line(alarm).replace('"', "")));
        for budget in open_budgets(&desk).await? {
            println!("budget {}: {}", budget["rate_key"].as_str().unwrap_or_default(), budget_line(&budget));
        }
    }
    Ok(())
}

async fn open_alarms(desk: &Desk) -> Result<Vec<Shown>, Failure> {
    let filter = ListFilter { status: Some("OPEN".into()), limit: ALARMS_SHOWN, ..ListFilter::default() };
    Ok(desk.store.list(Noun::Alarm, &filter).await?)
}

/// The alarms of a source beside its figures.
fn with_alarms(mut row: Value, alarms: &[Shown]) -> Value {
    let own = alarms.iter().filter(|alarm| alarm["provenance_code"] == row["source"]);
    let own: Vec<Value> = own.map(|alarm| json!({ "kind": alarm["kind_code"], "what": alarm["what"], "message": alarm["message"], "raised_at": alarm["raised_at"] })).collect();
    row["alarms"] = Value::Array(own);
    row
}

fn trouble(source: &SourceSummary) -> Option<String> {
    let stopped = source.paused.as_ref().map(|reason| format!("stopped: {reason}"));
    stopped.or_else(|| source.last_error.clone())
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
