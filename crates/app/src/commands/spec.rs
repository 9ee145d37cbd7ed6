//! `patra spec show`: what a definition is compiled into, and where each value comes from.

use serde_json::{Value, json};

use crate::cli::{Global, SpecCommand};
use crate::failure::Failure;
use crate::table;
use crate::wiring::{Desk, looks_like_a_file};

pub async fn run(global: &Global, command: &SpecCommand) -> Result<(), Failure> {
    let SpecCommand::Show { source, origin, trigger: args } = command;
    // A file is compiled as it stands and published nowhere: showing changes nothing.
    let desk = match looks_like_a_file(source) {
        true => Desk::open(":memory:").await?,
        false => Desk::open_to_look(global).await?,
    };
    let source = desk.source_of(source, &args.channel).await?;
    let compiled = desk.planner().compile(&desk.trigger(&source, args).await?).await?;
    if !origin {
        println!("{}", serde_json::to_string_pretty(&compiled.spec)?);
        return Ok(());
    }
    if global.json {
        println!("{}", serde_json::to_string(&json!({ "spec": compiled.spec, "origins": compiled.origins }))?);
        return Ok(());
    }
    let spec = serde_json::to_value(&compiled.spec)?;
    let rows: Vec<Value> = compiled
        .origins
        .iter()
        .map(|(path, origin)| json!({ "value_of": path, "is": value_at(&spec, path), "from": origin.to_string() }))
        .collect();
    println!("{}", table::of_rows(&rows, &["value_of", "is", "from"]));
    Ok(())
}

/// The value at a dotted path, shortened for a table.
fn value_at(spec: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(spec, |value, name| match value {
        Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
        other => other.get(name),
    });
    let text = found.map(table::text_of).unwrap_or_default();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
