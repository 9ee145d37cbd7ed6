//! From tokens to a tree. Everything is bounded: the length of the text, the depth of its groups, the number of terms.
//!
//! `NOT` binds closest, then `AND`, then `OR`; conditions side by side must both hold.

use std::ops::Range;

use super::ast::{Expr, Term, Value};
use super::days::Days;
use super::error::QueryError;
use super::field::{Field, Kind};
use super::lexer::{Placed, Token, lex};
use super::values;
use crate::registry::diagnostic::closest;

/// Longest text of a query.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Most groups inside each other.
pub const DEPTH_MAX: usize = 40;
/// Most terms of one query.
pub const TERMS_MAX: usize = 500;

/// Reads a query as it is written.
pub fn parse(text: &str) -> Result<Expr, QueryError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("a query of {} bytes; at most {TEXT_BYTES_MAX} are read", text.len());
        return Err(QueryError::new(text, 0..0, message).hint("keep long lists of ids in a file for an update"));
    }
    let tokens = lex(text)?;
    let mut parser = Parser { text, tokens, next: 0, depth: 0, terms: 0 };
    if parser.tokens.is_empty() {
        return Err(parser.wrong("the query is empty").expected("a condition such as title:heart"));
    }
    let expr = parser.any(None)?;
    match parser.peek() {
        None => Ok(expr),
        Some(Token::Close) => Err(parser.wrong("`)` closes nothing")),
        Some(token) => Err(parser.wrong(format!("{} does not fit here", token.shown()))),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
    terms: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn place(&self) -> Range<usize> {
        self.tokens.get(self.next).map_or(self.text.len()..self.text.len(), |(_, range)| range.clone())
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn wrong(&self, message: impl Into<String>) -> QueryError {
        QueryError::new(self.text, self.place(), message)
    }

    /// A mistake at the token that was taken last.
    fn was_wrong(&self, message: impl Into<String>) -> QueryError {
        let place = self.tokens.get(self.next.saturating_sub(1)).map_or(0..0, |(_, range)| range.clone());
        QueryError::new(self.text, place, message)
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, QueryError>) -> Result<T, QueryError> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(format!("more than {DEPTH_MAX} groups inside each other")));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    /// Alternatives; `field` is the one whose list this is.
    fn any(&mut self, field: Option<Field>) -> Result<Expr, QueryError> {
        let mut parts = vec![self.all(field)?];
        while self.take(&Token::Or) || (field.is_some() && self.take(&Token::Comma)) {
            parts.push(self.all(field)?);
        }
        Ok(one_or(parts, Expr::Or))
    }

    fn all(&mut self, field: Option<Field>) -> Result<Expr, QueryError> {
        let mut parts = vec![self.not(field)?];
        loop {
            match self.peek() {
                Some(Token::And) => self.next += 1,
                Some(Token::Not | Token::Open | Token::Field(_) | Token::Word(_) | Token::Quoted(_)) => {}
                _ => return Ok(one_or(parts, Expr::And)),
            }
            parts.push(self.not(field)?);
        }
    }

    fn not(&mut self, field: Option<Field>) -> Result<Expr, QueryError> {
        if self.take(&Token::Not) {
            return self.deeper(|parser| Ok(Expr::Not(Box::new(parser.not(field)?))));
        }
        self.atom(field)
    }

    fn atom(&mut self, field: Option<Field>) -> Result<Expr, QueryError> {
        match (self.peek().cloned(), field) {
            (Some(Token::Open), _) => self.group(field),
            (Some(Token::Field(name)), Some(outer)) => Err(self
                .wrong(format!("`{name}:` inside the list of `{outer}`"))
                .hint(format!("close the list of `{outer}` first"))),
            (Some(Token::Field(name)), None) => {
                let field = self.field(&name)?;
                self.next += 1;
                self.value_of(field)
            }
            (Some(Token::Word(_) | Token::Quoted(_)), Some(field)) => self.value(field).map(Expr::Term),
            (Some(Token::Word(word)), None) => self.bare(&word),
            (Some(Token::Quoted(_)), None) => self.value(Field::TitleAbstract).map(Expr::Term),
            (Some(Token::Comma), None) => Err(self
                .wrong("a comma outside of a list")
                .hint("lists follow a field, as in doi:[10.1000/1, 10.1000/2]; quote a value that holds a comma")),
            (Some(token), _) => {
                Err(self.wrong(format!("{} where a condition should stand", token.shown())).expected(CONDITION))
            }
            (None, _) => Err(self.wrong("the query ends too early").expected(CONDITION)),
        }
    }

    fn group(&mut self, field: Option<Field>) -> Result<Expr, QueryError> {
        let opened = self.place();
        self.next += 1;
        let inner = self.deeper(|parser| parser.any(field))?;
        if self.take(&Token::Close) {
            return Ok(inner);
        }
        match self.peek().map(Token::shown) {
            Some(token) => Err(self.wrong(format!("{token} does not fit here")).expected("`)`, AND, OR or NOT")),
            None => Err(QueryError::new(self.text, opened, "`(` is never closed").expected("`)`")),
        }
    }

    fn field(&self, name: &str) -> Result<Field, QueryError> {
        Field::named(name).ok_or_else(|| {
            let start = self.place().start;
            let names: Vec<&str> = Field::all().map(Field::name).collect();
            let error = QueryError::new(self.text, start..start + name.len(), format!("there is no field `{name}`"))
                .expected(format!("one of {}", names.join(", ")));
            match closest(name, Field::spellings()) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("quote the whole to search for a text with a colon"),
            }
        })
    }

    /// A word without a field. Operators in small letters are a slip of the hand more often than a search.
    fn bare(&mut self, word: &str) -> Result<Expr, QueryError> {
        if ["and", "or", "not", "to"].contains(&word.to_lowercase().as_str()) {
            let hint = format!("write {}, or quote it to search for the word", word.to_uppercase());
            return Err(self.wrong(format!("`{word}` is no operator in small letters")).hint(hint));
        }
        self.value(Field::TitleAbstract).map(Expr::Term)
    }

    /// What stands after `field:`.
    fn value_of(&mut self, field: Field) -> Result<Expr, QueryError> {
        match self.peek() {
            Some(Token::Open) if field.kind() == Kind::Day && self.is_range() => self.range(field),
            Some(Token::Open) => self.group(Some(field)),
            Some(Token::OpenBracket) if self.is_range() => self.range(field),
            Some(Token::OpenBracket) => self.list(field),
            Some(Token::Word(_) | Token::Quoted(_)) => self.value(field).map(Expr::Term),
            Some(token) => {
                let message = format!("{} where the value of `{field}` should stand", token.shown());
                Err(self.wrong(message).expected(field.takes()))
            }
            None => Err(self.wrong(format!("`{field}:` has no value")).expected(field.takes())),
        }
    }

    fn is_range(&self) -> bool {
        matches!(self.tokens.get(self.next + 2), Some((Token::To, _)))
    }

    fn list(&mut self, field: Field) -> Result<Expr, QueryError> {
        self.next += 1;
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Word(_) | Token::Quoted(_)) => parts.push(Expr::Term(self.value(field)?)),
                _ => return Err(self.wrong(format!("the list of `{field}` lacks a value")).expected(field.takes())),
            }
            if self.take(&Token::CloseBracket) {
                return Ok(one_or(parts, Expr::Or));
            }
            if !self.take(&Token::Comma) {
                return Err(self.wrong(format!("the list of `{field}` goes on strangely")).expected("`,`, TO or `]`"));
            }
        }
    }

    fn value(&mut self, field: Field) -> Result<Term, QueryError> {
        self.next += 1;
        let value = match &self.tokens[self.next - 1].0 {
            Token::Word(word) => values::value(field, word, false),
            Token::Quoted(text) => values::value(field, text, true),
            other => return Err(self.was_wrong(format!("{} is no value", other.shown()))),
        };
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(self.was_wrong(format!("more than {TERMS_MAX} conditions")));
        }
        match value {
            Ok(value) => Ok(Term { field, value }),
            Err(refused) => {
                let error = self.was_wrong(refused.message).expected(field.takes());
                Err(match refused.hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
        }
    }

    /// `[a TO b]`, `[a TO b)`, `(a TO b]`, `(a TO b)`: a bracket takes its end in, a parenthesis leaves it out.
    fn range(&mut self, field: Field) -> Result<Expr, QueryError> {
        if field.kind() != Kind::Day {
            return Err(self.wrong(format!("`{field}` has no ranges")).expected(field.takes()));
        }
        let opened = self.place();
        let takes_first = self.take(&Token::OpenBracket) || !self.take(&Token::Open);
        let first = self.end(field)?;
        self.take(&Token::To);
        let last = self.end(field)?;
        let place = opened.start..self.place().end;
        let takes_last = match self.peek() {
            Some(Token::CloseBracket) => true,
            Some(Token::Close) => false,
            _ => return Err(self.wrong("the range is not closed").expected("`]` with its last day, or `)` without")),
        };
        self.next += 1;
        let days = Days {
            from: first.and_then(|days| if takes_first { days.from } else { days.to }),
            to: last.and_then(|days| if takes_last { days.to } else { days.from }),
        };
        if days.from.is_none() && days.to.is_none() {
            return Err(QueryError::new(self.text, place, "a range that is open at both ends says nothing"));
        }
        if days.is_empty() {
            let hint = "the first day comes first; `)` leaves the last day out";
            return Err(QueryError::new(self.text, place, "no day lies in this range").hint(hint));
        }
        self.terms += 1;
        Ok(Expr::Term(Term { field, value: Value::Days(days) }))
    }

    /// One end of a range; `*` is open.
    fn end(&mut self, field: Field) -> Result<Option<Days>, QueryError> {
        let text = match self.peek() {
            Some(Token::Word(text) | Token::Quoted(text)) => text.clone(),
            _ => return Err(self.wrong("the range lacks an end").expected("a year, month or day, or `*`")),
        };
        self.next += 1;
        if text == "*" {
            return Ok(None);
        }
        let days = Days::parse(&text).ok_or_else(|| {
            self.was_wrong(format!("`{text}` is not a day")).expected("a year, month or day of 1000 to 2999, or `*`")
        })?;
        debug_assert!(field.kind() == Kind::Day);
        Ok(Some(days))
    }
}

const CONDITION: &str = "a word, \"a phrase\", field:value or `(`";

fn one_or(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => many(parts),
    }
}
