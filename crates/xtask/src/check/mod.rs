//! `cargo xtask test`: the only gate. Cheap stages first; every stage runs, so one go shows all that is wrong.

mod alerts;
mod lexer;
mod rules;
mod tally;

use anyhow::Result;
use clap::Args;

use crate::servers::{Kind, Servers};
use crate::shell::{Stream, cargo, passed, root, stage, watched};
use tally::Tally;

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Only the tests: no format, lints, sizes or documentation
    #[arg(long)]
    quick: bool,
    /// Test on SQLite alone, which needs no server, and leave out the alerts, which need promtool
    #[arg(long)]
    sqlite: bool,
}

pub fn run(args: &TestArgs) -> Result<bool> {
    let mut ok = true;
    let mut tally = Tally::default();
    if !args.quick {
        ok &= stage("format", || passed(cargo().args(["fmt", "--all", "--check"])))?;
        ok &= stage("sizes and rules", rules)?;
        if !args.sqlite {
            ok &= stage("alerts", alerts::judged)?;
        }
        ok &= stage("lints", lints)?;
    }
    ok &= stage("tests", || tests(args.sqlite, &mut tally))?;
    if !args.quick {
        ok &= stage("documentation", documentation)?;
    }
    println!("{tally}");
    Ok(ok && tally.failed == 0)
}

/// The tests of recorded answers, with the table they print.
pub fn catalogue() -> Result<bool> {
    let tests = ["test", "--quiet", "-p", "patra-source", "--test", "source", "recorded::"];
    passed(cargo().args(tests).args(["--", "--nocapture", "--test-threads=1"]))
}

fn rules() -> Result<bool> {
    let broken = rules::broken(&root())?;
    for rule in &broken {
        println!("{rule}");
    }
    Ok(broken.is_empty())
}

fn lints() -> Result<bool> {
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    passed(cargo().args(lints))
}

/// The short version of the torture is among the tests, which all other builds of this program leave out.
const PROOFS: [&str; 2] = ["--features", "xtask/proofs"];

/// All tests, with nextest where it is installed; it leaves out the examples in the documentation.
fn tests(sqlite: bool, tally: &mut Tally) -> Result<bool> {
    let mut look = |line: &str| tally.read(line);
    // Built first, so that the servers do not wait for the compiler.
    if !passed(cargo().args(["test", "--workspace", "--no-run", "--quiet"]).args(PROOFS))? {
        return Ok(false);
    }
    let servers = if sqlite { None } else { Some(Servers::start(&Kind::ALL)?) };
    let environment = servers.as_ref().map(Servers::environment).unwrap_or_default();
    if !has_nextest() {
        let tests = ["test", "--workspace", "--no-fail-fast"];
        return watched(cargo().args(tests).args(PROOFS).envs(environment), Stream::Out, look);
    }
    let nextest = ["nextest", "run", "--workspace", "--no-fail-fast", "--color", "never"];
    let ok = watched(cargo().args(nextest).args(PROOFS).envs(environment), Stream::Err, &mut look)?;
    Ok(watched(cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]), Stream::Out, &mut look)? && ok)
}

fn has_nextest() -> bool {
    cargo().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

fn documentation() -> Result<bool> {
    passed(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
    )
}
