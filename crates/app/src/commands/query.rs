//! `patra query explain`: what each source makes of a query. Needs no database.

use std::path::Path;

use clap::{Args, Subcommand};
use patra_core::query::{Explanation, Query, Verdict, explain};
use patra_core::registry::{Definition, catalogue, decode};
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure, mistaken};
use crate::wiring::{looks_like_a_file, read_definition};

#[derive(Debug, Subcommand)]
pub enum QueryCommand {
    /// What each source is sent for a query, what it cannot say, and what is filtered by us
    Explain(ExplainArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// A query, e.g. 'title:"heart failure" AND published:[2020 TO *]'
    #[arg(value_name = "EXPR")]
    pub query: String,
    /// A built-in source or a definition file; repeatable, all built-in sources by default
    #[arg(long = "source", value_name = "SOURCE|FILE")]
    pub sources: Vec<String>,
}

pub fn run(global: &Global, command: &QueryCommand) -> Result<(), Failure> {
    let QueryCommand::Explain(args) = command;
    let query = parsed(&args.query)?;
    let definitions = definitions(&args.sources)?;
    let explanations: Vec<Explanation> = definitions.iter().map(|definition| explain(definition, &query)).collect();
    if global.json {
        println!("{}", json!({ "query": query.to_string(), "sources": explanations }));
        return Ok(());
    }
    println!("{query}");
    for explanation in &explanations {
        println!("\n{}", shown(explanation));
    }
    Ok(())
}

/// A query that can be read; else a mistake that points at the character.
pub fn parsed(text: &str) -> Result<Query, Failure> {
    Query::parse(text).map_err(|error| Failure::new(Exit::Usage, error))
}

fn definitions(wanted: &[String]) -> Result<Vec<Definition>, Failure> {
    if wanted.is_empty() {
        return catalogue::ALL.iter().map(built_in).collect();
    }
    wanted.iter().map(|source| definition(source)).collect()
}

fn definition(source: &str) -> Result<Definition, Failure> {
    if looks_like_a_file(source) {
        return Ok(read_definition(Path::new(source))?.0);
    }
    let entry = catalogue::ALL.iter().find(|entry| entry.source == source).ok_or_else(|| {
        let names: Vec<&str> = catalogue::ALL.iter().map(|entry| entry.source).collect();
        Failure::new(Exit::NotFound, format!("there is no built-in source `{source}`"))
            .hint(format!("one of {}, or a definition file", names.join(", ")))
    })?;
    built_in(entry)
}

fn built_in(entry: &catalogue::Entry) -> Result<Definition, Failure> {
    decode(entry.file, entry.text).map_err(|mistakes| mistaken(&mistakes))
}

fn shown(explanation: &Explanation) -> String {
    let verdict = match explanation.verdict {
        Verdict::Exact => "says it all",
        Verdict::Filtered => "finds more than asked, filtered by us",
        Verdict::Refused => "refused",
    };
    let mut lines = vec![format!("{}: {verdict}", explanation.source)];
    let mut line = |what: &str, text: &str| lines.push(format!("  {what:<9}{text}"));
    if let Some(reason) = &explanation.reason {
        line("because", reason);
    }
    for (name, value) in &explanation.sent {
        line("sent", &format!("{name} = {value}"));
    }
    if explanation.verdict == Verdict::Filtered && explanation.sent.is_empty() {
        line("sent", "nothing: everything is read");
    }
    for lack in &explanation.lacks {
        line("cannot", &format!("{}: {}", lack.condition, lack.reason));
    }
    if let Some(filter) = explanation.filter.as_ref().filter(|_| explanation.verdict == Verdict::Filtered) {
        line("filtered", &format!("{filter} (records that do not show it are kept)"));
    }
    lines.join("\n")
}
