//! Paths into answers: RFC 9535 for JSON, an XPath-like form for XML, each with optional pipes.
//!
//! ```text
//! extract     = alternative *( " || " alternative )      the first that gives a value counts
//! alternative = path *( "|" pipe )
//! ```
//! Pipes at the end of the whole text count for every alternative that has none of its own, so
//! `$.published || $.issued | partial_date` turns either of them into a date. JSON paths of names, indices and
//! wildcards become [`JsonStep`]s, which the decoder follows without building a tree; anything else is kept as a
//! query for a tree of the record.

mod date;
mod ids;
pub mod mapping;
mod pipe;
mod plain;
mod words;
mod xml;

use std::ops::Range;

use jsonpath_rfc9535::{JsonPath, SingularSegment};

use crate::spec::snapshot::Format;

pub use date::PartialDate;
pub use ids::IdKind;
pub use pipe::Pipe;
pub use words::Codes;
pub use xml::{XmlName, XmlPath, XmlPredicate, XmlStep, XmlTarget};

/// Longest text of an extract.
pub const PATH_BYTES_MAX: usize = 4096;
/// Most alternatives, steps and pipes of one extract.
const PARTS_MAX: usize = 64;
/// Most wildcards, slices and filters, and most descents, of a path that is asked of a tree. Each multiplies what
/// the next one has to look at.
const WIDE_MAX: usize = 16;
const DESCENTS_MAX: usize = 2;

/// A path that cannot be used, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    pub message: String,
    pub at: Range<usize>,
}

impl PathError {
    fn new(message: impl Into<String>, at: Range<usize>) -> PathError {
        PathError { message: message.into(), at }
    }
}

/// Parses a path with its pipes.
pub fn check(text: &str, format: Format) -> Result<(), PathError> {
    Extract::parse(text, format).map(|_| ())
}

/// A parsed extract.
#[derive(Clone, Debug)]
pub struct Extract {
    pub text: String,
    pub alternatives: Vec<Alternative>,
}

#[derive(Clone, Debug)]
pub struct Alternative {
    pub path: Path,
    pub pipes: Vec<Pipe>,
}

#[derive(Clone, Debug)]
pub enum Path {
    Json(JsonQuery),
    Xml(XmlPath),
}

#[derive(Clone, Debug)]
pub enum JsonQuery {
    /// Followed while reading.
    Steps(Vec<JsonStep>),
    /// Filters, slices and descendants, asked of a tree.
    Query(Box<JsonPath>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonStep {
    Name(String),
    Index(usize),
    Wildcard,
}

impl JsonQuery {
    /// At most one value can match.
    pub fn is_singular(&self) -> bool {
        match self {
            JsonQuery::Steps(steps) => !steps.contains(&JsonStep::Wildcard),
            JsonQuery::Query(query) => query.singular_steps().is_some(),
        }
    }
}

impl Extract {
    pub fn parse(text: &str, format: Format) -> Result<Extract, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::new("the path is longer than 4096 bytes", 0..text.len()));
        }
        let mut alternatives = Vec::new();
        for range in split(text, "||")? {
            alternatives.push(alternative(text, range, format)?);
        }
        if alternatives.len() > PARTS_MAX {
            return Err(PathError::new("too many alternatives", 0..text.len()));
        }
        let shared = alternatives.last().map(|last| last.pipes.clone()).unwrap_or_default();
        for one in alternatives.iter_mut().filter(|one| one.pipes.is_empty()) {
            one.pipes.clone_from(&shared);
        }
        Ok(Extract { text: text.to_owned(), alternatives })
    }
}

fn alternative(text: &str, range: Range<usize>, format: Format) -> Result<Alternative, PathError> {
    let mut parts = split(&text[range.clone()], "|")?.into_iter().map(|part| shift(&part, range.start));
    let path_range = trimmed(text, parts.next().unwrap_or(range.clone()));
    if path_range.is_empty() {
        return Err(PathError::new("a path is missing", range));
    }
    let path_text = &text[path_range.clone()];
    let path = match format {
        Format::Json => Path::Json(json(path_text, path_range.start)?),
        Format::Xml => Path::Xml(xml::parse(path_text, path_range.start)?),
    };
    let mut pipes = Vec::new();
    for part in parts {
        let part = trimmed(text, part);
        pipes.push(Pipe::parse(&text[part.clone()]).map_err(|message| PathError::new(message, part))?);
    }
    if pipes.len() > PARTS_MAX {
        return Err(PathError::new("too many pipes", range));
    }
    Ok(Alternative { path, pipes })
}

fn json(text: &str, offset: usize) -> Result<JsonQuery, PathError> {
    let query = JsonPath::parse(text).map_err(|error| {
        let at = match &error {
            jsonpath_rfc9535::Error::Syntax { position, .. } => (offset + position).min(offset + text.len()),
            _ => offset,
        };
        PathError::new(format!("not a JSON path: {error}"), at..offset + text.len())
    })?;
    if let Some(steps) = query.singular_steps() {
        let simple: Option<Vec<JsonStep>> = steps
            .iter()
            .map(|step| match step {
                SingularSegment::Name(name) => Some(JsonStep::Name(name.clone())),
                SingularSegment::Index(index) => usize::try_from(index.get()).ok().map(JsonStep::Index),
            })
            .collect();
        if let Some(steps) = simple {
            return Ok(JsonQuery::Steps(steps));
        }
    }
    Ok(match with_wildcards(text) {
        Some(steps) => JsonQuery::Steps(steps),
        None if is_narrow(text) => JsonQuery::Query(Box::new(query)),
        None => {
            let message = "the path has too many wildcards, slices, filters or descents";
            return Err(PathError::new(message, offset..offset + text.len()));
        }
    })
}

fn is_narrow(text: &str) -> bool {
    let (mut quote, mut escaped, mut wide, mut descents, mut dots) = (None, false, 0, 0, 0);
    for letter in text.chars() {
        dots = if letter == '.' && quote.is_none() { dots + 1 } else { 0 };
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            None => {
                wide += usize::from(matches!(letter, '*' | '?' | ':'));
                descents += usize::from(dots == 2);
            }
        }
    }
    wide <= WIDE_MAX && descents <= DESCENTS_MAX
}

/// Steps of a path that has only names, indices and wildcards; the text is known to be a valid path. Each stretch
/// between wildcards is singular, so the parser of the crate reads it and we cut only at the wildcards.
fn with_wildcards(text: &str) -> Option<Vec<JsonStep>> {
    let mut steps = Vec::new();
    let mut rest = text.strip_prefix('$')?.to_owned();
    loop {
        let (cut, length) = next_wildcard(&rest);
        let query = JsonPath::parse(&format!("${}", &rest[..cut])).ok()?;
        for step in query.singular_steps()? {
            steps.push(match step {
                SingularSegment::Name(name) => JsonStep::Name(name.clone()),
                SingularSegment::Index(index) => JsonStep::Index(usize::try_from(index.get()).ok()?),
            });
        }
        if length == 0 {
            return (steps.len() <= PARTS_MAX).then_some(steps);
        }
        steps.push(JsonStep::Wildcard);
        rest = rest[cut + length..].to_owned();
    }
}

/// Start and length of the next `[*]` or `.*` outside quotes; length 0 when there is none.
fn next_wildcard(text: &str) -> (usize, usize) {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            None => {
                for form in ["[*]", ".*"] {
                    if text[at..].starts_with(form) {
                        return (at, form.len());
                    }
                }
            }
        }
    }
    (text.len(), 0)
}

/// Cuts at `separator` outside quotes and brackets.
fn split(text: &str, separator: &str) -> Result<Vec<Range<usize>>, PathError> {
    let (mut parts, mut start, mut depth, mut quote, mut escaped) = (Vec::new(), 0, 0usize, None, false);
    let mut skip_until = 0;
    for (at, letter) in text.char_indices() {
        if at < skip_until {
            continue;
        }
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None => match letter {
                '\'' | '"' => quote = Some(letter),
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.saturating_sub(1),
                '|' if depth == 0 && text[at..].starts_with(separator) => {
                    parts.push(start..at);
                    start = at + separator.len();
                    skip_until = start;
                }
                _ => {}
            },
        }
    }
    if quote.is_some() {
        return Err(PathError::new("a text without its closing quote", start..text.len()));
    }
    parts.push(start..text.len());
    Ok(parts)
}

fn shift(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

#[cfg(test)]
mod tests;
