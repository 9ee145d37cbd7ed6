//! Paths into XML: `a/b`, `a/b/@attr`, `a[@Attr='x']/b`, `p:name`, `*`, `.`, and a leading `/`.
//!
//! A name without prefix matches that local name in any namespace; a prefix stands for the namespace the
//! definition declares for it. The text of an element is all text below it, mixed content included.

use super::{PARTS_MAX, PathError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlPath {
    /// Begins at the document's root element instead of below it.
    pub absolute: bool,
    /// Empty: the element itself.
    pub steps: Vec<XmlStep>,
    pub target: XmlTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlStep {
    pub name: XmlName,
    pub predicate: Option<XmlPredicate>,
}

/// `[@name='value']`, or `[@name]` when only its presence counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlPredicate {
    pub attribute: XmlName,
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlName {
    pub prefix: Option<String>,
    /// `None` is `*`.
    pub local: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XmlTarget {
    Text,
    Attribute(XmlName),
}

pub fn parse(text: &str, offset: usize) -> Result<XmlPath, PathError> {
    let wrong = |message: String, at: usize, length: usize| PathError::new(message, offset + at..offset + at + length);
    let absolute = text.starts_with('/');
    let mut at = usize::from(absolute);
    let mut path = XmlPath { absolute, steps: Vec::new(), target: XmlTarget::Text };
    if text[at..].is_empty() {
        return Err(wrong("a path needs at least one name".into(), 0, text.len()));
    }
    let mut ended = false;
    for part in parts(&text[at..]) {
        if ended {
            return Err(wrong("nothing may follow an attribute or `.`".into(), at, part.len()));
        }
        match part {
            "" => return Err(wrong("an empty step (`//` is not supported)".into(), at, 0)),
            ".." => return Err(wrong("`..` is not supported".into(), at, 2)),
            "." => ended = true,
            _ if part.starts_with('@') => {
                let name = name(&part[1..]).map_err(|message| wrong(message, at, part.len()))?;
                path.target = XmlTarget::Attribute(name);
                ended = true;
            }
            _ => path.steps.push(step(part).map_err(|message| wrong(message, at, part.len()))?),
        }
        at += part.len() + 1;
    }
    if path.steps.len() > PARTS_MAX {
        return Err(wrong("too many steps".into(), 0, text.len()));
    }
    Ok(path)
}

/// Cuts at slashes outside brackets and quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (at, letter) in text.char_indices() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None => match letter {
                '\'' | '"' => quote = Some(letter),
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                '/' if depth == 0 => {
                    parts.push(&text[start..at]);
                    start = at + 1;
                }
                _ => {}
            },
        }
    }
    parts.push(&text[start..]);
    parts
}

fn step(text: &str) -> Result<XmlStep, String> {
    let Some(open) = text.find('[') else {
        return Ok(XmlStep { name: name(text)?, predicate: None });
    };
    let inside = text[open + 1..].strip_suffix(']').ok_or_else(|| format!("`{text}` lacks its `]`"))?.trim();
    let inside =
        inside.strip_prefix('@').ok_or_else(|| "only `[@name='value']` and `[@name]` are supported".to_owned())?;
    let predicate = match inside.split_once('=') {
        None => XmlPredicate { attribute: name(inside.trim())?, value: None },
        Some((attribute, value)) => {
            let value = value.trim();
            let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
            let value = quote
                .and_then(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
                .filter(|value| !value.contains(['\'', '"']))
                .ok_or_else(|| "the value of a predicate stands in quotes".to_owned())?;
            XmlPredicate { attribute: name(attribute.trim())?, value: Some(value.to_owned()) }
        }
    };
    Ok(XmlStep { name: name(text[..open].trim_end())?, predicate: Some(predicate) })
}

fn name(text: &str) -> Result<XmlName, String> {
    let (prefix, local) = match text.split_once(':') {
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, text),
    };
    for part in prefix.iter().copied().chain((local != "*").then_some(local)) {
        let first = part.chars().next();
        let valid = first.is_some_and(|first| first.is_alphabetic() || first == '_')
            && part.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.'));
        if !valid {
            return Err(format!("`{text}` is not a name"));
        }
    }
    Ok(XmlName { prefix: prefix.map(str::to_owned), local: (local != "*").then(|| local.to_owned()) })
}
