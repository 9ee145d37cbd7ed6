//! Starting other programs: from the root of the repository, shown as they go, their lines kept where needed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(PathBuf::from).unwrap_or(here)
}

/// The `cargo` that runs us, without what it told this program about itself: build scripts look at that, and would build
/// everything that rests on them again whenever `cargo xtask` and a plain `cargo` take turns.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// A stage under a heading; says how long it took.
pub fn stage(name: &str, stage: impl FnOnce() -> Result<bool>) -> Result<bool> {
    println!("== {name}");
    let started = Instant::now();
    let ok = stage()?;
    println!("== {name}: {} in {}", if ok { "ok" } else { "FAILED" }, shown(started.elapsed()));
    Ok(ok)
}

pub fn shown(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// Runs to the end with its output passed through.
pub fn passed(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(status.success())
}

/// Which of its streams a program's summary is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Runs to the end; the lines of one stream are shown and handed to `look`.
pub fn watched(command: &mut Command, stream: Stream, mut look: impl FnMut(&str)) -> Result<bool> {
    match stream {
        Stream::Out => command.stdout(Stdio::piped()),
        Stream::Err => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let lines: Box<dyn BufRead> = match (child.stdout.take(), child.stderr.take()) {
        (Some(out), _) => Box::new(BufReader::new(out)),
        (None, Some(err)) => Box::new(BufReader::new(err)),
        (None, None) => Box::new(std::io::empty()),
    };
    for line in lines.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        match stream {
            Stream::Out => println!("{line}"),
            Stream::Err => eprintln!("{line}"),
        }
        look(&line);
    }
    Ok(child.wait()?.success())
}
