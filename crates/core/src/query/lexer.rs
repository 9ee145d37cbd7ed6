//! The text of a query as tokens with their places.

use std::ops::Range;

use super::error::QueryError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name before a colon.
    Field(String),
    Word(String),
    /// A text in quotes, without them.
    Quoted(String),
    And,
    Or,
    Not,
    To,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Comma,
}

impl Token {
    /// How the token is called in a message.
    pub fn shown(&self) -> String {
        match self {
            Token::Field(name) => format!("`{name}:`"),
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::And => "`AND`".into(),
            Token::Or => "`OR`".into(),
            Token::Not => "`NOT`".into(),
            Token::To => "`TO`".into(),
            Token::Open => "`(`".into(),
            Token::Close => "`)`".into(),
            Token::OpenBracket => "`[`".into(),
            Token::CloseBracket => "`]`".into(),
            Token::Comma => "`,`".into(),
        }
    }
}

/// A token and the bytes it stands at.
pub type Placed = (Token, Range<usize>);

pub fn lex(text: &str) -> Result<Vec<Placed>, QueryError> {
    let mut tokens: Vec<Placed> = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let after_field = matches!(tokens.last(), Some((Token::Field(_), range)) if range.end == at);
        let (token, end) = match letter {
            '(' => (Token::Open, at + 1),
            ')' => (Token::Close, at + 1),
            '[' => (Token::OpenBracket, at + 1),
            ']' => (Token::CloseBracket, at + 1),
            ',' => (Token::Comma, at + 1),
            '"' | '“' => quoted(text, at, letter)?,
            '{' | '}' => {
                let message = format!("`{letter}` means nothing here");
                return Err(QueryError::new(text, at..at + 1, message)
                    .hint("write [a TO b] with both ends, [a TO b) without the last; quote it to search for it"));
            }
            _ => word(text, at, after_field),
        };
        tokens.push((token, at..end));
        at = end;
    }
    Ok(tokens)
}

/// A text in quotes; `\"` and `\\` stand for themselves.
fn quoted(text: &str, start: usize, open: char) -> Result<(Token, usize), QueryError> {
    let close = if open == '“' { '”' } else { '"' };
    let mut inner = String::new();
    let mut escaped = false;
    for (at, letter) in text[start..].char_indices().skip(1) {
        match letter {
            _ if escaped => {
                inner.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            _ if letter == close => return Ok((Token::Quoted(inner), start + at + letter.len_utf8())),
            _ => inner.push(letter),
        }
    }
    let place = start..start + open.len_utf8();
    Err(QueryError::new(text, place, "a quote that is never closed").hint("write `\\\"` for a quote inside a phrase"))
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '(' | ')' | '[' | ']' | '{' | '}' | ',' | '"' | '“' | '”')
}

/// A word, an operator, or a field with its colon. Right after a field a word may hold colons (`doi:10.1000/a:b`).
fn word(text: &str, start: usize, after_field: bool) -> (Token, usize) {
    let rest = &text[start..];
    let length = rest.char_indices().skip(1).find(|(_, letter)| ends_word(*letter)).map_or(rest.len(), |(at, _)| at);
    let word = &rest[..length];
    if !after_field && let Some(colon) = word.find(':') {
        let name = &word[..colon];
        if !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_') {
            return (Token::Field(name.to_owned()), start + colon + 1);
        }
    }
    let token = match word {
        "AND" if !after_field => Token::And,
        "OR" if !after_field => Token::Or,
        "NOT" if !after_field => Token::Not,
        "TO" if !after_field => Token::To,
        word => Token::Word(word.to_owned()),
    };
    (token, start + length)
}
