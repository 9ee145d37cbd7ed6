//! `patra init`: a database with the built-in sources.

use patra_core::ports::Registry;
use serde_json::json;

use crate::cli::Global;
use crate::failure::Failure;
use crate::wiring::Desk;

pub async fn run(global: &Global) -> Result<(), Failure> {
    let desk = Desk::open(global.database()).await?;
    let mut sources: Vec<String> =
        desk.store.versions(None).await?.into_iter().map(|version| version.provenance).collect();
    sources.sort();
    sources.dedup();
    if global.json {
        println!("{}", json!({ "database": patra_store::shown(global.database()), "sources": sources }));
    } else {
        println!(
            "{} is ready with {} sources: {}",
            patra_store::shown(global.database()),
            sources.len(),
            sources.join(", ")
        );
        println!("next: patra harvest {} --since 2026-01-01", sources.first().map_or("SOURCE", String::as_str));
    }
    desk.store.close().await;
    Ok(())
}
