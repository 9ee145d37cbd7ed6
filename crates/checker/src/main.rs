//! `patra-check`: judges a finished run from files and prints the verdict as JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use patra_checker::{CheckInput, Database, check, read_jsonl, read_rules};

const USAGE: &str =
    "usage: patra-check --database FILE|URL --rules FILE.json [--truth FILE.jsonl]... [--served FILE.jsonl]...
                   [--canary STR]... [--search FILE]... [--end MICROS] [--running] [--unsteady-clock]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let input = match read_arguments(std::env::args().skip(1)) {
        Ok(input) => input,
        Err(message) => {
            eprintln!("error: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let verdict = check(&input).await;
    match serde_json::to_string_pretty(&verdict) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("error: the verdict cannot be written: {error}"),
    }
    if verdict.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_arguments(mut arguments: impl Iterator<Item = String>) -> Result<CheckInput, String> {
    let mut input = CheckInput::new(Database::Path(PathBuf::new()));
    let mut database = None;
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--running" => {
                input.at_rest = false;
                continue;
            }
            "--unsteady-clock" => {
                input.steady_clock = false;
                continue;
            }
            _ => {}
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let path = PathBuf::from(&value);
        match name.as_str() {
            "--database" => database = Some(Database::at(&value)),
            "--truth" => input.truth.extend(read_jsonl(&path).map_err(|error| error.to_string())?),
            "--served" => input.served.extend(read_jsonl(&path).map_err(|error| error.to_string())?),
            "--rules" => input.rules.extend(read_rules(&path).map_err(|error| error.to_string())?),
            "--canary" => input.canaries.push(value),
            "--search" => input.files.push(path),
            "--end" => input.end_us = Some(value.parse().map_err(|_| format!("--end {value} is not a number"))?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    input.database = database.ok_or("--database is missing")?;
    Ok(input)
}
