//! `cargo xtask`: the gate (`test`) and the long proofs (`bench`, `torture`).
//!
//! `test` installs and starts the servers it needs; `test --sqlite` needs nothing but the Rust toolchain. The proofs build this program once more, in release and with the
//! ledger linked in, and then drive the real `patra` binary.

mod check;
mod proofs;
mod servers;
mod shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The gate and the long proofs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Format, lints, sizes, tests and documentation: everything `.ci/run` asks for
    Test(check::TestArgs),
    /// What every shipped definition reads out of every recorded answer, as a table
    Catalogue,
    /// Exported files in the real DuckDB and pandas, which are installed beside this program
    Readers,
    /// Start the servers of the tests and say where they are, until a line is entered
    Servers,
    /// Records per second, share of a bare bulk upsert, cost of a page on a large ledger
    Bench(proofs::BenchArgs),
    /// Proofs that take minutes: a fleet in a storm, or one of the proofs below
    Torture(proofs::TortureArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(args) => check::run(&args),
        Command::Catalogue => check::catalogue(),
        Command::Readers => proofs::readers(),
        Command::Servers => servers::keep(),
        Command::Bench(args) => proofs::bench(&args),
        Command::Torture(args) => proofs::torture(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
