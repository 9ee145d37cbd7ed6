//! Mistakes in a source definition, as plain data that CLI, API and console show alike.
//!
//! A diagnostic always says where, what was found and what was expected, and if possible what to do.
//! It never repeats a value that may be a secret.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// A place in a file, both counted from one; columns count characters. Line 0 means that the place is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable name of the kind of mistake, e.g. `unknown_key`.
    pub code: &'static str,
    pub severity: Severity,
    pub file: String,
    /// 0 where the place is not known (a version read back without its text, a trigger's override).
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub found: Option<String>,
    pub expected: Option<String>,
    pub hint: Option<String>,
}

impl Diagnostic {
    pub fn error(code: &'static str, file: &str, at: At, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            message: message.into(),
            found: None,
            expected: None,
            hint: None,
        }
    }

    pub fn warning(code: &'static str, file: &str, at: At, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, file, at, message) }
    }

    pub fn found(mut self, found: impl Into<String>) -> Diagnostic {
        self.found = Some(found.into());
        self
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Diagnostic {
        self.expected = Some(expected.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds "did you mean" when one of `known` is close to `written`.
    pub fn suggest<'a>(self, written: &str, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match closest(written, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}", self.message)?;
        match self.line {
            0 => write!(f, "\n  at {}", self.file)?,
            line => write!(f, "\n  at {}:{line}:{}", self.file, self.column)?,
        }
        match (&self.found, &self.expected) {
            (Some(found), Some(expected)) => write!(f, "\n  found `{found}`, expected {expected}")?,
            (Some(found), None) => write!(f, "\n  found `{found}`")?,
            (None, Some(expected)) => write!(f, "\n  expected {expected}")?,
            (None, None) => {}
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The known name nearest to what was written, if near enough to be a slip of the hand.
pub fn closest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let length = written.chars().count();
    let allowed = (length / 3).clamp(1, 3);
    known
        .into_iter()
        // A megabyte is never a slip of the hand, and comparing it would take long.
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (distance(&written, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Edits between two words, a swap of neighbours counting as one.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    for (at, cell) in rows[0].iter_mut().enumerate() {
        *cell = at;
    }
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let change = usize::from(left[i - 1] != right[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_recognised_and_another_word_is_not() {
        let known = ["pagination", "window", "response", "rate"];
        assert_eq!(closest("pagnation", known), Some("pagination"));
        assert_eq!(closest("windwo", known), Some("window"));
        assert_eq!(closest("credentials", known), None);
    }

    #[test]
    fn a_diagnostic_names_place_finding_expectation_and_hint() {
        let at = At { line: 14, column: 5 };
        let shown = Diagnostic::error("unknown_key", "sources/crossref.yaml", at, "unknown key `pagnation`")
            .found("pagnation")
            .expected("one of request, pagination")
            .suggest("pagnation", ["request", "pagination"])
            .to_string();
        assert_eq!(
            shown,
            "error: unknown key `pagnation`\n  at sources/crossref.yaml:14:5\n  \
             found `pagnation`, expected one of request, pagination\nhint: did you mean `pagination`?"
        );
    }
}
