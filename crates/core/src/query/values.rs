//! Values as they are kept: identifiers in one form, texts tidy, days as spans.

use super::ast::Value;
use super::days::Days;
use super::field::{Field, Kind};
use super::words::{tidy, words};

/// Why a value cannot be what was written.
pub struct Refused {
    pub message: String,
    pub hint: Option<&'static str>,
}

fn refused(message: impl Into<String>) -> Refused {
    Refused { message: message.into(), hint: None }
}

/// The value of a field; `quoted` texts are taken as they are, a bare word may end in `*`.
pub fn value(field: Field, text: &str, quoted: bool) -> Result<Value, Refused> {
    if let Some(stem) = text.strip_suffix('*').filter(|_| !quoted) {
        return prefix(field, stem);
    }
    if !quoted && text.contains('*') && field.kind() != Kind::Id {
        return Err(Refused {
            message: "`*` stands only at the end of a word".into(),
            hint: Some("quote it to search for it"),
        });
    }
    match field.kind() {
        Kind::Text | Kind::Name | Kind::Code if words(text).is_empty() => {
            Err(refused("there is no word in it to look for"))
        }
        Kind::Text | Kind::Name | Kind::Code => Ok(Value::Text(tidy(text))),
        Kind::Id => identifier(field, text.trim()).map(Value::Text).ok_or_else(|| {
            let article = if matches!(field, Field::Issn | Field::Orcid) { "an" } else { "a" };
            refused(format!("`{text}` is not {article} {}", field.name().to_uppercase()))
        }),
        Kind::Day => Days::parse(text.trim()).map(Value::Days).ok_or_else(|| refused(format!("`{text}` is not a day"))),
    }
}

fn prefix(field: Field, stem: &str) -> Result<Value, Refused> {
    if !matches!(field.kind(), Kind::Text | Kind::Name) {
        return Err(refused(format!("`{field}` cannot be searched by the beginning of a word")));
    }
    match words(stem).as_slice() {
        [only] if tidy(stem) == *only && stem.chars().all(char::is_alphanumeric) => Ok(Value::Prefix(only.clone())),
        [] => Err(refused("a prefix needs letters before its `*`")),
        _ => Err(Refused {
            message: "a prefix is one word of letters and digits".into(),
            hint: Some("write `blood AND press*`"),
        }),
    }
}

/// The canonical form of an identifier.
fn identifier(field: Field, text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    match field {
        Field::Doi => doi(&lower),
        Field::Pmid => {
            let digits = lower.trim_start_matches("pmid:").trim().trim_start_matches('0');
            let fits = (1..=10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            fits.then(|| digits.to_owned())
        }
        Field::Issn => checked_groups(&lower, 8),
        _ => {
            let number = ["https://orcid.org/", "http://orcid.org/", "orcid:"]
                .iter()
                .find_map(|start| lower.strip_prefix(start))
                .unwrap_or(&lower);
            checked_groups(number, 16)
        }
    }
}

fn doi(lower: &str) -> Option<String> {
    const STARTS: [&str; 5] =
        ["https://doi.org/", "http://doi.org/", "https://dx.doi.org/", "http://dx.doi.org/", "doi:"];
    let bare = STARTS.iter().find_map(|start| lower.strip_prefix(start)).unwrap_or(lower).trim();
    let (registrant, name) = bare.strip_prefix("10.")?.split_once('/')?;
    let fits = !registrant.is_empty()
        && registrant.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && !name.is_empty()
        && !bare.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    fits.then(|| bare.to_owned())
}

/// Digits in groups of four, the last of which may be an X.
fn checked_groups(lower: &str, length: usize) -> Option<String> {
    let digits: String = lower.chars().filter(|letter| *letter != '-').collect();
    let body = digits.strip_suffix('x').unwrap_or(&digits);
    if digits.len() != length || !body.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let upper = digits.to_ascii_uppercase();
    let groups: Vec<&str> = (0..length).step_by(4).map(|at| &upper[at..at + 4]).collect();
    Some(groups.join("-"))
}

/// An identifier of a record in the same form; what has another form is compared as it is.
pub fn record_identifier(field: Field, text: &str) -> String {
    identifier(field, text.trim()).unwrap_or_else(|| text.trim().to_lowercase())
}
