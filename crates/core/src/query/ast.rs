//! A query as a tree, and its canonical text.

use std::fmt;

use super::days::Days;
use super::field::Field;

/// A condition on records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expr {
    Term(Term),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

/// One field with what it must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    pub field: Field,
    pub value: Value,
}

/// What a field must hold. Texts are tidy and identifiers in their canonical form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    Text(String),
    /// The beginning of a word.
    Prefix(String),
    Days(Days),
}

impl Expr {
    /// Every term, in order.
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Expr::Term(term) => vec![term],
            Expr::Not(inner) => inner.terms(),
            Expr::And(parts) | Expr::Or(parts) => parts.iter().flat_map(Expr::terms).collect(),
        }
    }

    /// The conditions that must all hold.
    pub fn clauses(&self) -> &[Expr] {
        match self {
            Expr::And(parts) => parts,
            other => std::slice::from_ref(other),
        }
    }

    /// As the part of a larger expression.
    fn inner(&self) -> String {
        match self {
            Expr::And(_) | Expr::Or(_) => format!("({self})"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |parts: &[Expr], sign: &str| parts.iter().map(Expr::inner).collect::<Vec<_>>().join(sign);
        match self {
            Expr::Term(term) => term.fmt(f),
            Expr::Not(inner) => write!(f, "NOT {}", inner.inner()),
            Expr::And(parts) => f.write_str(&joined(parts, " AND ")),
            Expr::Or(parts) => f.write_str(&joined(parts, " OR ")),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.field, self.value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) if is_plain(text) => f.write_str(text),
            Value::Text(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            Value::Prefix(text) => write!(f, "{text}*"),
            Value::Days(days) => days.fmt(f),
        }
    }
}

/// Needs no quotes.
fn is_plain(text: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | '/' | '_' | '+');
    !text.is_empty() && text.chars().all(plain)
}
