//! `patra status`: what is stored, how far, and what is wrong.

use patra_core::ports::Inspect;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::failure::Failure;
use crate::table;
use crate::wiring::Desk;

pub async fn run(global: &Global) -> Result<(), Failure> {
    let desk = Desk::open_existing(&global.database).await?;
    let now = desk.clock.now();
    let rows: Vec<Value> = desk
        .store
        .summary()
        .await?
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
