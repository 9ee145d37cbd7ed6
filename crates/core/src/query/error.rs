//! A query that cannot be read: what is wrong, at which character, what was expected, what to do.

use std::fmt;
use std::ops::Range;

use crate::registry::{At, Diagnostic};

/// Characters shown on each side of a mistake in a long line.
const SHOWN_AROUND: usize = 60;

/// A mistake in the text of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The whole text of the query.
    pub text: String,
    /// The bytes that are wrong; empty at the end of the text.
    pub at: Range<usize>,
    pub message: String,
    pub expected: Option<String>,
    pub hint: Option<String>,
}

impl QueryError {
    pub(super) fn new(text: &str, at: Range<usize>, message: impl Into<String>) -> QueryError {
        QueryError { text: text.to_owned(), at, message: message.into(), expected: None, hint: None }
    }

    pub(super) fn expected(mut self, expected: impl Into<String>) -> QueryError {
        self.expected = Some(expected.into());
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> QueryError {
        self.hint = Some(hint.into());
        self
    }

    /// Line and column of the mistake, both counted from one, columns in characters.
    pub fn place(&self) -> At {
        let before = &self.text[..self.at.start];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        At { line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    /// The line of the mistake, cut around it, and the marks under it.
    fn shown(&self) -> (String, String) {
        let start = self.text[..self.at.start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        let letters: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let column = self.text[start..self.at.start].chars().count();
        let wrong = self.text[self.at.clone()].split('\n').next().map_or(0, |part| part.chars().count());
        let from = column.saturating_sub(SHOWN_AROUND);
        let to = (column + wrong.clamp(1, SHOWN_AROUND) + SHOWN_AROUND).min(letters.len());
        let cut = |cut: bool| if cut { "…" } else { "" };
        let shown: String = letters.get(from..to.max(from)).unwrap_or_default().iter().collect();
        let text = format!("{}{shown}{}", cut(from > 0), cut(to < letters.len()));
        let marks = wrong.min(to.saturating_sub(column)).max(1);
        let indent = column - from + usize::from(from > 0);
        (text, format!("{}{}", " ".repeat(indent), "^".repeat(marks)))
    }

    /// The same as a diagnostic of a trigger.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut found = Diagnostic::error("query_syntax", "--query", self.place(), self.message.clone());
        found.expected.clone_from(&self.expected);
        found.hint.clone_from(&self.hint);
        found
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, marks) = self.shown();
        let At { line: number, column } = self.place();
        write!(f, "error: {}\n  at query:{number}:{column}\n  | {line}\n  | {marks}", self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "\n  expected {expected}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for QueryError {}
