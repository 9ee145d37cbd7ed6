//! Single values: each kind read, checked and put into normal form.
//!
//! A mistake carries the byte of the value at which it begins, so that the column points into the text.

use crate::calendar;
use crate::template;
use crate::time::{Span, Timestamp};

use super::definition::Value;
use super::diagnostic::closest;
use super::dictionary::dictionary;
use super::grammar::Kind;
use super::yaml::{Body, Node};

pub(crate) enum Wrong {
    Type,
    Value(WrongValue),
}

pub(crate) struct WrongValue {
    pub code: &'static str,
    pub message: String,
    /// What was written; `None` where it may be a secret.
    pub found: Option<String>,
    pub hint: Option<String>,
    /// Byte of the value at which the mistake begins.
    pub offset: usize,
}

fn wrong(code: &'static str, text: &str, message: impl Into<String>) -> Wrong {
    Wrong::Value(WrongValue { code, message: message.into(), found: Some(text.to_owned()), hint: None, offset: 0 })
}

impl Wrong {
    fn at(self, byte: usize) -> Wrong {
        match self {
            Wrong::Value(value) => Wrong::Value(WrongValue { offset: byte, ..value }),
            Wrong::Type => Wrong::Type,
        }
    }

    fn hint(self, text: impl Into<String>) -> Wrong {
        match self {
            Wrong::Value(value) => Wrong::Value(WrongValue { hint: Some(text.into()), ..value }),
            Wrong::Type => Wrong::Type,
        }
    }
}

pub(crate) fn read(node: &Node, kind: &Kind) -> Result<Value, Wrong> {
    match (kind, &node.body) {
        (Kind::Flag, Body::Flag(flag)) => Ok(Value::Flag(*flag)),
        (Kind::Integer { min, max }, Body::Integer(number)) => {
            let inside = (*min..=*max).contains(number);
            let message = || wrong("out_of_bounds", &number.to_string(), format!("{number} is out of bounds"));
            if inside { Ok(Value::Integer(*number)) } else { Err(message()) }
        }
        (Kind::Share | Kind::Factor, Body::Integer(number)) => fraction(kind, *number as f64),
        (Kind::Share | Kind::Factor, Body::Number(number)) => fraction(kind, *number),
        // Parameters are texts to the source, whatever YAML takes them for.
        (Kind::Text | Kind::Template, Body::Integer(number)) => Ok(Value::Text(number.to_string())),
        (Kind::Text | Kind::Template, Body::Flag(flag)) => Ok(Value::Text(flag.to_string())),
        (_, Body::Text(text)) => read_text(text, kind),
        _ => Err(Wrong::Type),
    }
}

/// Reads a value written as text: a scalar of the file, or the right side of `--set key=value`.
pub(crate) fn read_text(text: &str, kind: &Kind) -> Result<Value, Wrong> {
    let kept = || Value::Text(text.to_owned());
    match kind {
        Kind::Text => Ok(kept()),
        Kind::Name if is_name(text) => Ok(kept()),
        Kind::Name => Err(wrong("bad_name", text, format!("`{text}` cannot be a name"))),
        Kind::Span => span(text),
        Kind::Time => {
            let time: Timestamp =
                text.parse().map_err(|_| wrong("bad_time", text, format!("`{text}` is not a time")))?;
            Ok(Value::Text(time.to_string()))
        }
        Kind::Zone => match calendar::zone_of(text) {
            Ok(_) => Ok(kept()),
            Err(_) => Err(wrong("bad_zone", text, format!("`{text}` is not a time zone"))),
        },
        Kind::Url => url(text),
        Kind::Template => match template::check(text) {
            Ok(()) => Ok(kept()),
            Err(error) => Err(wrong("bad_template", text, error.message).at(error.at.start)),
        },
        // Which notation holds is known only with the response's format; the compiler checks paths.
        Kind::Path => Ok(kept()),
        Kind::Pattern => pattern(text),
        Kind::Secret => secret(text),
        Kind::Share => share(text),
        Kind::Code(code) => word(text, code),
        _ => Err(Wrong::Type),
    }
}

/// Lower-case letters, digits, `-` and `_`, beginning with a letter.
pub(crate) fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && text.len() <= 64
        && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter))
}

fn fraction(kind: &Kind, number: f64) -> Result<Value, Wrong> {
    let fits = match kind {
        Kind::Share => (0.0..=1.0).contains(&number),
        _ => (1.0..=1000.0).contains(&number),
    };
    let message = || wrong("out_of_bounds", &number.to_string(), format!("{number} is out of bounds"));
    if fits { Ok(Value::Number(number)) } else { Err(message()) }
}

fn share(text: &str) -> Result<Value, Wrong> {
    let bad = || wrong("out_of_bounds", text, format!("`{text}` is not a share"));
    let percent: f64 = text.strip_suffix('%').ok_or_else(bad)?.trim().parse().map_err(|_| bad())?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(bad());
    }
    // Written as a quotient of whole numbers, so that 0.5% and 0.005 are the same number.
    Ok(Value::Number((percent * 1e6).round() / 1e8))
}

fn span(text: &str) -> Result<Value, Wrong> {
    match text.parse::<Span>() {
        Ok(span) if span >= Span::ZERO => Ok(Value::Text(span.to_string())),
        Ok(_) => Err(wrong("bad_span", text, format!("`{text}` is negative"))),
        Err(_) => Err(wrong("bad_span", text, format!("`{text}` is not a length of time")).at(bad_byte_of_span(text))),
    }
}

/// The first byte that cannot stand in an ISO-8601 length.
fn bad_byte_of_span(text: &str) -> usize {
    let mut time = false;
    for (at, letter) in text.char_indices() {
        let fits = match letter {
            'P' => at == 0,
            'T' if !time => {
                time = true;
                true
            }
            'D' | 'W' => !time,
            'H' | 'M' | 'S' => time,
            '.' => time,
            letter => letter.is_ascii_digit() && at > 0,
        };
        if !fits {
            return at;
        }
    }
    0
}

fn url(text: &str) -> Result<Value, Wrong> {
    let bad = |why: String| wrong("bad_url", text, why);
    let url = url::Url::parse(text).map_err(|error| bad(format!("`{text}` is not a URL: {error}")))?;
    if url.host_str().is_none() {
        return Err(bad(format!("`{text}` names no host")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Wrong::Value(WrongValue {
            code: "literal_secret",
            message: "the URL holds a user or password".into(),
            found: None,
            hint: Some("put them under `credentials` as references".into()),
            offset: 0,
        }));
    }
    if url.query().is_some() || url.fragment().is_some() {
        let at = text.find(['?', '#']).unwrap_or(0);
        // Queries are where keys are put by mistake, so what was written is not repeated.
        return Err(Wrong::Value(WrongValue {
            code: "bad_url",
            message: "a base URL has no query and no fragment".into(),
            found: None,
            hint: Some("move it to `request.query`, and keys to `credentials`".into()),
            offset: at,
        }));
    }
    Ok(Value::Text(text.to_owned()))
}

fn pattern(text: &str) -> Result<Value, Wrong> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(Value::Text(text.to_owned())),
        Err(error) => {
            // The message of the crate is a drawing; its last line says what is wrong.
            let shown = error.to_string();
            let reason = shown.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let caret = shown.lines().find(|line| line.trim_start().starts_with('^')).and_then(|line| line.find('^'));
            Err(wrong("bad_pattern", text, format!("not a regular expression: {reason}"))
                .at(caret.map_or(0, |column| column.saturating_sub(4).min(text.len()))))
        }
    }
}

fn secret(text: &str) -> Result<Value, Wrong> {
    let reference = match text.split_once(':') {
        Some(("env", name)) => {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        }
        Some(("file", path)) => !path.is_empty(),
        _ => false,
    };
    if reference {
        return Ok(Value::Text(text.to_owned()));
    }
    Err(Wrong::Value(WrongValue {
        code: "literal_secret",
        message: "a definition may name a secret but not hold it".into(),
        found: None,
        hint: Some("put the value into an environment variable and write `env:NAME`".into()),
        offset: 0,
    }))
}

fn word(text: &str, code: &str) -> Result<Value, Wrong> {
    let Some(dictionary) = dictionary(code) else { return Err(Wrong::Type) };
    if let Some(code) = dictionary.resolve(text) {
        return Ok(Value::Text(code.to_owned()));
    }
    let mistake = wrong("unknown_code", text, format!("`{text}` is not a known {}", code.replace('_', " ")));
    let spellings: Vec<String> = dictionary.spellings().map(str::to_ascii_lowercase).collect();
    Err(match closest(text, spellings.iter().map(String::as_str)) {
        Some(near) => mistake.hint(format!("did you mean `{near}`?")),
        None => mistake,
    })
}
