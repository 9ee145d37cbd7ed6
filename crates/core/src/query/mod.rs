//! The query language: one text for all sources, read, put into normal form, written in each source's own words.
//!
//! `parse → normal form → render by the source's rules → filter what the source could not say`. The text of the normal
//! form is what a namespace is known by, so equal queries share a cursor. A value never leaves its quotes: see
//! [`render`].

mod ast;
mod days;
mod error;
mod eval;
mod explain;
mod field;
mod lexer;
mod normal;
mod parser;
mod pattern;
mod render;
mod rules;
mod values;
mod words;

use std::fmt;

pub use ast::{Expr, Term, Value};
pub use days::Days;
pub use error::QueryError;
pub use eval::{Answer, Codes, Facts, Mapped, eval};
pub use explain::{Explanation, Verdict, abilities, explain};
pub use field::{Field, Kind};
pub use normal::normal;
pub use parser::{DEPTH_MAX, TERMS_MAX, TEXT_BYTES_MAX, parse};
pub use render::{Lack, Rendered, codes_of, render, undecidable};
pub use rules::{Rule, Rules, Style};

/// A query in normal form. Its text reads back as the same query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    expr: Expr,
}

impl Query {
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        parse(text).map(Query::of)
    }

    pub fn of(expr: Expr) -> Query {
        Query { expr: normal(expr) }
    }

    pub fn expr(&self) -> &Expr {
        &self.expr
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

#[cfg(test)]
mod tests;
