//! `patra source`: which sources there are, and whether a definition is right.

use std::path::PathBuf;

use patra_core::ports::{Registry, StoredVersion};
use patra_core::registry::{Definition, Diagnostic, Severity, definition_schema};
use patra_core::spec::{check_definition, specs_of};
use patra_engine::planner::definition_of;
use serde_json::{Value, json};

use crate::cli::{Global, SourceCommand};
use crate::commands::{operator, source_test};
use crate::failure::{Exit, Failure, mistaken};
use crate::table;
use crate::wiring::{Desk, read_definition};

pub async fn run(global: &Global, command: &SourceCommand) -> Result<(), Failure> {
    match command {
        SourceCommand::List => list(global).await,
        SourceCommand::Show { source } => show(global, source).await,
        SourceCommand::Pause(args) => operator::order(global, args, true).await,
        SourceCommand::Resume(args) => operator::order(global, args, false).await,
        SourceCommand::Test(args) => source_test::run(global, args).await,
        SourceCommand::Check { files } => check(global, files),
        SourceCommand::Schema => {
            println!("{}", serde_json::to_string_pretty(&definition_schema())?);
            Ok(())
        }
        SourceCommand::Keys => {
            print!("{}", keys(&definition_schema()));
            Ok(())
        }
    }
}

/// One table per block, from the same schema that editors use.
fn keys(schema: &Value) -> String {
    let mut text = String::from(
        "# Keys of a source definition\n\nMade by `patra source keys`; how to use them is in `definitions.md`.\n",
    );
    for (name, block) in schema["$defs"].as_object().into_iter().flatten() {
        text.push_str(&format!(
            "\n## {name}\n\n{}\n\n| Key | What |\n|---|---|\n",
            block["description"].as_str().unwrap_or_default()
        ));
        let required = block["required"].as_array();
        for (key, value) in block["properties"].as_object().into_iter().flatten() {
            let needed = required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(key)));
            let mark = if needed { " (required)" } else { "" };
            let what = value["description"].as_str().unwrap_or_default().replace('|', "\\|");
            text.push_str(&format!("| `{key}`{mark} | {what} |\n"));
        }
    }
    text
}

/// The versions in force now, one per source and channel.
pub async fn in_force(desk: &Desk) -> Result<Vec<StoredVersion>, Failure> {
    let now = desk.clock.now();
    let current =
        |version: &StoredVersion| version.effective_from <= now && version.effective_to.is_none_or(|end| end > now);
    let mut versions: Vec<StoredVersion> = desk.store.versions(None).await?.into_iter().filter(current).collect();
    versions.sort_by(|left, right| (&left.provenance, &left.channel).cmp(&(&right.provenance, &right.channel)));
    Ok(versions)
}

async fn list(global: &Global) -> Result<(), Failure> {
    let desk = Desk::open_to_look(global).await?;
    let mut rows = Vec::new();
    for version in in_force(&desk).await? {
        let Some(whole) = desk.store.version(&version.provenance, version.version).await? else { continue };
        let definition = definition_of(&whole).map_err(|mistakes| mistaken(&mistakes))?;
        let endpoints: Vec<&str> = definition.endpoints().map(|(name, _)| name).collect();
        rows.push(json!({
            "source": version.provenance,
            "name": definition.name(),
            "endpoints": endpoints.join(", "),
            "verified": !definition.is_unverified(),
            "channel": version.channel,
            "version": version.version,
            "by": version.actor,
        }));
    }
    if global.json {
        println!("{}", Value::Array(rows));
    } else {
        println!("{}", table::of_rows(&rows, &["source", "name", "endpoints", "verified", "channel", "version", "by"]));
    }
    Ok(())
}

async fn show(global: &Global, source: &str) -> Result<(), Failure> {
    let desk = Desk::open_to_look(global).await?;
    let now = desk.clock.now();
    let version = desk.store.version_at(source, "stable", now).await?.ok_or_else(|| unknown(source))?;
    if global.json {
        println!("{}", serde_json::to_string(&version)?);
        return Ok(());
    }
    println!("# {source}, version {} by {} since {}", version.version, version.actor, version.effective_from);
    print!("{}", version.definition);
    Ok(())
}

pub fn unknown(source: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no source `{source}`")).hint("`patra source list` shows the sources")
}

/// Decodes and compiles each file without touching a database.
fn check(global: &Global, files: &[PathBuf]) -> Result<(), Failure> {
    let mut all = Vec::new();
    for file in files {
        let found = mistakes_of(file)?;
        if !found.iter().any(is_error) && !global.json {
            println!("{}: no mistakes", file.display());
            found.iter().for_each(|warning| println!("{warning}"));
        }
        all.extend(found);
    }
    if global.json {
        println!("{}", serde_json::to_string(&all)?);
    }
    all.retain(is_error);
    match all.is_empty() {
        true => Ok(()),
        false if global.json => Err(Failure::new(Exit::Definition, format!("{} mistakes", all.len()))),
        false => Err(mistaken(&all)),
    }
}

fn mistakes_of(file: &std::path::Path) -> Result<Vec<Diagnostic>, Failure> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(Exit::NotFound, format!("cannot read `{shown}`: {error}")))?;
    Ok(match patra_core::registry::decode(&shown, &text) {
        Ok(definition) => {
            let mut found = check_definition(&definition);
            found.extend(program_mistakes(&definition));
            found
        }
        Err(mistakes) => mistakes,
    })
}

/// What compiles and still cannot be read with, e.g. an XML prefix that no namespace is declared for.
fn program_mistakes(definition: &Definition) -> Vec<Diagnostic> {
    let places = definition.places();
    let mut found: Vec<Diagnostic> = Vec::new();
    for mistake in specs_of(definition).iter().flat_map(patra_source::review) {
        let at = places.value(&format!("endpoints.{}.{}", mistake.endpoint, mistake.path));
        let told = Diagnostic::error("program", &places.file, at, mistake.message);
        if !found.contains(&told) {
            found.push(told);
        }
    }
    found
}

/// Degradations are told but do not stop anybody.
fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

/// Reads a file for a command that needs it to be right.
pub fn checked(file: &std::path::Path) -> Result<(Definition, String), Failure> {
    let mut mistakes = mistakes_of(file)?;
    mistakes.retain(is_error);
    if !mistakes.is_empty() {
        return Err(mistaken(&mistakes));
    }
    read_definition(file)
}
