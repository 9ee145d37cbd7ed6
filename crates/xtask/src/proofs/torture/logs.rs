//! What the processes said of refused writes and unknown commits; it is in no table.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Said {
    /// Writes with an old lease that the ledger refused, by step.
    pub refused: BTreeMap<String, u64>,
    /// Unknown commits that the same process has looked up.
    pub resolved: u64,
    /// Unknown commits that were left to the next holder, because the database was away or the process gave up.
    pub left: u64,
    pub panics: Vec<String>,
}

impl Said {
    pub fn stale_tried(&self) -> u64 {
        self.refused.values().sum()
    }

    fn read(&mut self, line: &str) {
        if let Some((_, rest)) = line.split_once("has another holder: ") {
            let step = rest.split(' ').next().unwrap_or_default();
            *self.refused.entry(step.to_owned()).or_default() += 1;
        } else if line.contains("the unknown commit of ") {
            self.resolved += 1;
        } else if line.contains("is left to the next look: ") {
            self.left += 1;
        } else if line.contains("panicked at") {
            self.panics.push(line.to_owned());
        }
    }
}

pub fn said(folder: &Path) -> Result<Said> {
    let mut said = Said::default();
    for entry in std::fs::read_dir(folder)? {
        for line in BufReader::new(std::fs::File::open(entry?.path())?).split(b'\n') {
            said.read(&String::from_utf8_lossy(&line?));
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_writes_are_counted_by_step() {
        let mut said = Said::default();
        for line in [
            "WARN task 7 has another holder: commit_batch was refused step=\"commit_batch\"",
            "WARN task 8 has another holder: renew was refused step=\"renew\"",
            "WARN task 9 has another holder: renew was refused step=\"renew\"",
            "INFO the unknown commit of renew is resolved: it has happened once",
            "WARN whether renew was committed is left to the next look: gone",
            "thread 'main' panicked at x.rs:1:1:",
        ] {
            said.read(line);
        }
        assert_eq!((said.stale_tried(), said.refused["renew"], said.resolved, said.left), (3, 2, 1, 1));
        assert_eq!(said.panics.len(), 1);
    }
}
