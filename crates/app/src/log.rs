//! Log lines: which ones are told, and that none of them names a person (14.10).

use std::io::{self, Write};

use patra_core::mask::masked_bytes;

use crate::cli::{Cli, Command};

/// Talk goes to stderr; `RUST_LOG` overrides `-v`. What runs for years says why it waits, also without `-v`.
pub fn start(cli: &Cli) {
    let stays =
        matches!(cli.command, Command::Planner(_) | Command::Executor(_) | Command::Relay(_) | Command::Serve(_));
    let level = match cli.global.verbose {
        0 if stays && !cli.global.quiet => "warn",
        0 => "error",
        1 => "info",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new(format!(
            "patra={level},patra_engine={level},patra_store={level},patra_source={level},patra_remote={level}"
        ))
    });
    let writer = || Masked(io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false).init();
}

/// Masks what is written to it; each line comes in one piece.
struct Masked<W>(W);

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(&masked_bytes(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_names_no_person() {
        let mut seen = Vec::new();
        let line = |writer: &mut Vec<u8>| Masked(writer).write_all(b"jane@example.org did not answer\n");
        line(&mut seen).unwrap();
        let text = String::from_utf8(seen).unwrap();
        assert!(text.starts_with("[email:") && text.ends_with("] did not answer\n"), "{text}");
    }
}
