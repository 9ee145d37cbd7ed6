//! How many tests passed, read from the runner's own closing lines.

use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
}

impl Tally {
    /// Adds the line if it closes a run: `test result: ok. 5 passed; 0 failed; ...` of cargo, or
    /// `Summary [ 1.2s] 7 tests run: 5 passed, 1 failed, 1 timed out, 0 skipped` of nextest.
    pub fn read(&mut self, line: &str) {
        let line = line.trim();
        let counts = match line.strip_prefix("test result: ") {
            Some(rest) => rest,
            None if line.starts_with("Summary [") => line.split_once("run: ").map_or("", |(_, rest)| rest),
            None => return,
        };
        for part in counts.split([';', ',', '.']) {
            let mut words = part.split_whitespace();
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += count,
                Some("failed" | "timed" | "exec") => self.failed += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_both_runners_are_added_up() {
        let lines = [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
            "     Summary [   4.031s] 110 tests run: 104 passed (3 slow, 2 flaky), 4 failed, 2 timed out, 9 skipped",
            "        PASS [   0.010s] patra-core time::tests::five_passed",
        ];
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        assert_eq!(tally, Tally { passed: 108, failed: 8 });
        assert_eq!(tally.to_string(), "108 passed, 8 failed");
    }
}
