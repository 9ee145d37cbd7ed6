//! What an expression may name. A small scanner walks its tokens and refuses everything outside the lists.
//!
//! | Variable | Value |
//! |---|---|
//! | `window.from`, `window.to` | ends of the slice `[from, to)` |
//! | `window.last` | last grain inside the window, for inclusive ends |
//! | `page.size`, `.offset`, `.number`, `.token`, `.url`, `.since` | the position, null where it is of another kind |
//! | `page.offset` beside `page.token` | items received in this pass, for result sets kept under a name |
//! | `part.from`, `.to` (inclusive), `.bucket`, `.buckets` | the part of a window below its grain, or null |
//! | `expr.q`, `expr.params.*`, `params.*` | the query in the source's words and its parameters |
//! | `expr.terms['NAME']` | conditions of the query that the source takes in a parameter of its own |
//! | `identity.contact` | contact address |
//! | `ids` | ids of a detail request, a list |
//! | `as_of` | end of the plan's window |
//! | `source.code`, `.endpoint`, `.version`, `.channel` | where the definition comes from |

use std::ops::Range;

use super::TemplateError;
use super::environment::{FILTERS, FUNCTIONS, TESTS};

const VARIABLES: &[&str] = &[
    "window.from",
    "window.to",
    "window.last",
    "page.size",
    "page.offset",
    "page.number",
    "page.token",
    "page.url",
    "page.since",
    "part.from",
    "part.to",
    "part.bucket",
    "part.buckets",
    "expr.q",
    "identity.contact",
    "ids",
    "as_of",
    "source.code",
    "source.endpoint",
    "source.version",
    "source.channel",
];
/// Maps with keys of the user's choice.
const OPEN: &[&str] = &["params.", "expr.params."];
const KEYWORDS: &[&str] =
    &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"];

/// Most tokens of one expression. The engine calls itself for each sign and pipe, so thousands of them would
/// overflow the stack, and each `~` copies what stands before it.
const TOKENS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    Number,
    Sign(char),
}

/// Finds the `}` that ends the expression which begins at `start`, past any text in quotes.
pub fn end_of_expression(text: &str, start: usize) -> Result<usize, TemplateError> {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in text[start..].char_indices().map(|(at, letter)| (start + at, letter)) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            None if letter == '}' => return Ok(at),
            None => {}
        }
    }
    Err(TemplateError::new("`${` without its `}`", start - 2..text.len()))
}

/// Checks every name of an expression and returns the variables it uses.
pub fn check(expression: &str, offset: usize) -> Result<Vec<String>, TemplateError> {
    let tokens = scan(expression, offset)?;
    if tokens.len() > TOKENS_MAX {
        let message = format!("an expression of more than {TOKENS_MAX} names, signs and texts");
        return Err(TemplateError::new(message, offset..offset + expression.len()));
    }
    let mut variables = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (token, range) = &tokens[at];
        let before = at.checked_sub(1).map(|before| &tokens[before].0);
        let called = matches!(tokens.get(at + 1), Some((Token::Sign('('), _)));
        match token {
            Token::Name(name) if before == Some(&Token::Sign('|')) => known(name, FILTERS, "filter", range)?,
            Token::Name(name) if is_test(&tokens, at) => known(name, TESTS, "test", range)?,
            Token::Name(name) if KEYWORDS.contains(name) => {}
            Token::Name(name) if called => known(name, FUNCTIONS, "function", range)?,
            Token::Name(_) => at = variable(&tokens, at, &mut variables)?,
            _ => {}
        }
        at += 1;
    }
    Ok(variables)
}

fn known(name: &str, list: &[&str], what: &str, at: &Range<usize>) -> Result<(), TemplateError> {
    if list.contains(&name) {
        return Ok(());
    }
    Err(TemplateError::new(format!("`{name}` is not a known {what}, there are: {}", list.join(", ")), at.clone()))
}

/// `x is name`, `x is not name`.
fn is_test(tokens: &[(Token<'_>, Range<usize>)], at: usize) -> bool {
    let name = |back: usize| match at.checked_sub(back).map(|at| &tokens[at].0) {
        Some(Token::Name(name)) => Some(*name),
        _ => None,
    };
    let here = match &tokens[at].0 {
        Token::Name(name) => *name,
        _ => return false,
    };
    (name(1) == Some("is") && here != "not") || (name(1) == Some("not") && name(2) == Some("is"))
}

/// Reads a variable with its attributes from `at` on; returns the index of its last token.
fn variable(
    tokens: &[(Token<'_>, Range<usize>)],
    at: usize,
    variables: &mut Vec<String>,
) -> Result<usize, TemplateError> {
    let mut dotted = match &tokens[at].0 {
        Token::Name(name) => (*name).to_owned(),
        _ => String::new(),
    };
    let mut last = at;
    loop {
        let next = |ahead: usize| tokens.get(last + ahead).map(|(token, _)| token);
        let (part, step) = match (next(1), next(2), next(3)) {
            (Some(Token::Sign('.')), Some(Token::Name(name)), _) => (*name, 2),
            (Some(Token::Sign('[')), Some(Token::Text(text)), Some(Token::Sign(']'))) => (*text, 3),
            _ => break,
        };
        dotted = format!("{dotted}.{part}");
        last += step;
    }
    let range = tokens[at].1.start..tokens[last].1.end;
    if matches!(tokens.get(last + 1), Some((Token::Sign('('), _))) {
        return Err(TemplateError::new("values have no methods, use a filter", range));
    }
    let allowed = VARIABLES.contains(&dotted.as_str())
        // Named by the source, as its parameters are.
        || dotted.strip_prefix("expr.terms.").is_some_and(|name| !name.is_empty())
        || OPEN.iter().any(|open| dotted.strip_prefix(open).is_some_and(|rest| !rest.contains('.')));
    if !allowed {
        let message = format!("`{dotted}` is not a known variable, there are: {}, params.*", VARIABLES.join(", "));
        return Err(TemplateError::new(message, range));
    }
    variables.push(dotted);
    Ok(last)
}

fn scan(expression: &str, offset: usize) -> Result<Vec<(Token<'_>, Range<usize>)>, TemplateError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = expression[at..].chars().next() {
        let rest = &expression[at..];
        let length = match letter {
            _ if letter.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => length_while(rest, |c| c.is_ascii_alphanumeric() || c == '_'),
            '0'..='9' => length_while(rest, |c| c.is_ascii_digit() || c == '.'),
            '\'' | '"' => quoted_length(rest, letter).ok_or_else(|| {
                TemplateError::new("a text without its closing quote", offset + at..offset + expression.len())
            })?,
            // No `:`, so no slices: with large numbers the engine panics on them.
            '.' | '|' | '(' | ')' | '[' | ']' | ',' | '=' | '!' | '<' | '>' | '+' | '-' | '~' => 1,
            other => {
                let message = format!("`{other}` is not allowed in an expression");
                return Err(TemplateError::new(message, offset + at..offset + at + other.len_utf8()));
            }
        };
        let token = match letter {
            'a'..='z' | 'A'..='Z' | '_' => Token::Name(&rest[..length]),
            '0'..='9' => Token::Number,
            '\'' | '"' => Token::Text(&rest[1..length - 1]),
            sign => Token::Sign(sign),
        };
        tokens.push((token, offset + at..offset + at + length));
        at += length;
    }
    Ok(tokens)
}

fn length_while(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !keep(letter)).unwrap_or(text.len())
}

fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
