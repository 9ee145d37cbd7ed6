//! A mutation fuzzer of the parsers that read what others wrote. It runs in one process, on stable Rust, and the
//! same seed gives the same inputs. Usage and targets: `docs/fuzzing.md`.

#[path = "../../source/tests/corpus/mod.rs"]
#[expect(clippy::unwrap_used, reason = "cases are built as in the tests they belong to")]
mod corpus;

mod checks;
mod meter;
mod mutate;
mod pages;
mod run;
mod seeds;

use std::process::ExitCode;
use std::time::Duration;

use checks::NAMES;

const USAGE: &str = "usage:
  patra-fuzz TARGET|all [--seconds N] [--runs N] [--seed S] [--trace]
  patra-fuzz replay TARGET FILE
  patra-fuzz corpus";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["corpus"] => run::corpus(),
        ["replay", target, file] => run::replay(target, file),
        ["all", rest @ ..] => match options(rest) {
            Some(options) => {
                let ended: Vec<ExitCode> = NAMES.iter().map(|name| run::fuzz(name, &options)).collect();
                ended.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
            }
            None => usage(),
        },
        [target, rest @ ..] if NAMES.contains(target) => match options(rest) {
            Some(options) => run::fuzz(target, &options),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}\ntargets: {}", NAMES.join(", "));
    ExitCode::from(2)
}

fn options(words: &[&str]) -> Option<run::Options> {
    let mut options = run::Options { time: Duration::from_secs(60), runs: u64::MAX, seed: 1, trace: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => options.time = Duration::from_secs(words.next()?.parse().ok()?),
            "--runs" => options.runs = words.next()?.parse().ok()?,
            "--seed" => options.seed = words.next()?.parse().ok()?,
            "--trace" => options.trace = true,
            _ => return None,
        }
    }
    Some(options)
}
