//! `cargo xtask readers`: exported files open in the real DuckDB and pandas, and say what the lines of JSON say.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::rig::patra;
use crate::shell::passed;

const PACKAGES: [&str; 3] = ["duckdb==2.0.0", "pandas==3.1.1", "pyarrow==26.0.1"];
const SCRIPT: &str = include_str!("readers.py");

pub fn run() -> Result<bool> {
    let python = python()?;
    let folder = tempfile::tempdir()?;
    let ledger = folder.path().join("ledger");
    let made = passed(Command::new(patra()?).args(["demo", "--quiet", "--records", "2000", "--keep"]).arg(&ledger))?;
    ensure!(made, "the demo failed");
    for format in ["jsonl", "csv", "parquet"] {
        let out = folder.path().join(format!("all.{format}"));
        // Small pieces, so that the file has many row groups.
        let export = ["export", "--quiet", "--piece", "300", "--database"];
        let written = passed(Command::new(patra()?).args(export).arg(ledger.join("demo.db")).arg("-o").arg(&out))?;
        ensure!(written, "the export to {format} failed");
    }
    passed(Command::new(python).args(["-c", SCRIPT]).arg(folder.path()))
}

/// A Python of its own beside this program, with the packages that are asked for; made once.
fn python() -> Result<PathBuf> {
    let folder = std::env::current_exe()?.with_file_name("readers-python");
    let python = folder.join("bin/python");
    let has_all = |python: &Path| {
        let wanted = "import duckdb, pandas, pyarrow";
        Command::new(python).args(["-c", wanted]).output().is_ok_and(|output| output.status.success())
    };
    if has_all(&python) {
        return Ok(python);
    }
    println!("installing {}", PACKAGES.join(", "));
    ensure!(passed(Command::new("python3").args(["-m", "venv"]).arg(&folder))?, "python3 cannot make an environment");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    ensure!(passed(Command::new(&python).args(install).args(PACKAGES))?, "the packages cannot be installed here");
    Ok(python)
}
