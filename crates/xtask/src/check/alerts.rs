//! The alerts of `deploy/`, judged by Prometheus' own tool: they are well formed, and each fires and ends as its test says.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::servers;
use crate::shell::{passed, root};

const RULES: &str = "deploy/prometheus/patra.rules.yml";
const TESTS: &str = "deploy/prometheus/patra.rules.test.yml";
const DASHBOARD: &str = "deploy/grafana/patra.json";

pub fn judged() -> Result<bool> {
    let promtool = servers::tool("promtool", "prometheus")?;
    let folder = tempfile::tempdir()?;
    let queries = folder.path().join("queries.yml");
    std::fs::write(&queries, queries_of_dashboard()?)?;
    let mut ok = true;
    for (kind, file) in [("check", root().join(RULES)), ("test", root().join(TESTS)), ("check", queries)] {
        ok &= passed(Command::new(&promtool).args([kind, "rules", "--"]).arg(file))?;
    }
    Ok(ok)
}

/// The queries of the dashboard as rules, which the tool can read (YAML takes JSON).
fn queries_of_dashboard() -> Result<String> {
    let text = std::fs::read_to_string(root().join(DASHBOARD)).context(DASHBOARD)?;
    let dashboard: Value = serde_json::from_str(&text).context(DASHBOARD)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let queries = list(&dashboard["panels"]).into_iter().flat_map(|panel| list(&panel["targets"]));
    let rules: Vec<Value> = queries
        .enumerate()
        .map(|(number, query)| json!({ "record": format!("query:{number}"), "expr": query["expr"] }))
        .collect();
    anyhow::ensure!(!rules.is_empty(), "{DASHBOARD} asks for nothing");
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
}
