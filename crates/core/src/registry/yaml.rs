//! YAML text into a tree in which every key and value knows its line and column.
//!
//! The reader refuses what is too large or expands too far before it builds anything. What a value may be
//! is not decided here: the tree goes to [`decode`](super::decode()), which finds all mistakes at once.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::diagnostic::{At, Diagnostic};

/// A definition is written by people; the largest shipped one has some 10 KB.
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;
const NODES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 32;
const ALIASES_MAX: usize = 200;
const REPLAYED_EVENTS_MAX: usize = 5_000;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub at: At,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Null,
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub at: At,
    pub value: Node,
}

impl Node {
    /// What a person would call this value.
    pub fn kind(&self) -> &'static str {
        match self.body {
            Body::Null => "nothing",
            Body::Flag(_) => "a flag",
            Body::Integer(_) | Body::Number(_) => "a number",
            Body::Text(_) => "a text",
            Body::List(_) => "a list",
            Body::Map(_) => "a block",
        }
    }

    /// The value as it may be shown in a message.
    pub fn shown(&self) -> String {
        match &self.body {
            Body::Flag(flag) => flag.to_string(),
            Body::Integer(number) => number.to_string(),
            Body::Number(number) => number.to_string(),
            Body::Text(text) => text.chars().take(80).collect(),
            Body::Null | Body::List(_) | Body::Map(_) => self.kind().to_owned(),
        }
    }
}

/// Reads one YAML document.
pub fn parse(file: &str, text: &str) -> Result<Node, Box<Diagnostic>> {
    if text.len() > DEFINITION_BYTES_MAX {
        let message = format!("the file has {} bytes, which is too large for a source definition", text.len());
        let mistake = Diagnostic::error("file_too_large", file, At::default(), message);
        return Err(Box::new(mistake.expected(format!("at most {DEFINITION_BYTES_MAX} bytes"))));
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| Box::new(syntax_error(file, &error)))
}

fn options() -> serde_saphyr::Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_nodes = NODES_MAX;
    budget.max_events = NODES_MAX * 3;
    budget.max_depth = DEPTH_MAX;
    budget.flow_nesting_limit = DEPTH_MAX;
    budget.max_aliases = ALIASES_MAX;
    budget.max_anchors = ALIASES_MAX;
    budget.max_documents = 1;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = REPLAYED_EVENTS_MAX;
    options.alias_limits.max_replay_stack_depth = 8;
    options.alias_limits.max_alias_expansions_per_anchor = ALIASES_MAX;
    options.strict_booleans = true;
    options
}

fn syntax_error(file: &str, error: &serde_saphyr::Error) -> Diagnostic {
    let error = error.without_snippet();
    let at = error.location().map_or_else(At::default, place);
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let message = match key {
            Some(key) => format!("the key `{key}` is given twice"),
            None => "a key is given twice".to_owned(),
        };
        let hint = "keep one of them; a later value would silently replace the first";
        return Diagnostic::error("duplicate_key", file, at, message).hint(hint);
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or("not YAML");
    // The place is shown apart.
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    Diagnostic::error("yaml", file, at, message)
}

fn place(location: serde_saphyr::Location) -> At {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    At { line: narrow(location.line()), column: narrow(location.column()) }
}

/// The place of byte `offset` of a scalar's value, given where the scalar stands and the line it begins in.
///
/// Block scalars and scalars over several lines are folded by YAML; for them the start of the value is named.
pub fn inside(line: Option<&str>, start: At, value: &str, offset: usize) -> At {
    let Some(line) = line else { return start };
    let written: Vec<char> = line.chars().skip(start.column.saturating_sub(1) as usize).collect();
    let quote = written.first().copied().filter(|letter| matches!(letter, '"' | '\''));
    let mut position = usize::from(quote.is_some());
    for (at, letter) in value.char_indices() {
        if at >= offset {
            break;
        }
        let width = match (quote, written.get(position)) {
            (Some('\''), Some('\'')) => 2,
            (Some('"'), Some('\\')) => escape_width(written.get(position + 1).copied()),
            (_, Some(same)) if *same == letter => 1,
            _ => return start,
        };
        position += width;
    }
    let moved = u32::try_from(position).unwrap_or(0);
    At { line: start.line, column: start.column.saturating_add(moved) }
}

fn escape_width(letter: Option<char>) -> usize {
    match letter {
        Some('x') => 4,
        Some('u') => 6,
        Some('U') => 10,
        _ => 2,
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Body>::deserialize(deserializer)?;
        Ok(Node { at: place(spanned.defined), body: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Body, E> {
        Ok(Body::Null)
    }

    fn visit_none<E>(self) -> Result<Body, E> {
        Ok(Body::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body, D::Error> {
        Body::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Body, E> {
        Ok(Body::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Body, E> {
        Ok(Body::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Body, E> {
        Ok(i64::try_from(number).map_or(Body::Number(number as f64), Body::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Body, E> {
        Ok(Body::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Body, E> {
        Ok(Body::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Body, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Body::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Body, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            map.push(Entry { at: place(key.defined), key: key.value, value: entries.next_value()? });
        }
        Ok(Body::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> At {
        At { line, column }
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let Body::Map(entries) = parse("f", "a: 1\nb:\n  - x\n  - { c: true }\n").unwrap().body else { panic!() };
        assert_eq!((entries[0].at, entries[0].value.at), (at(1, 1), at(1, 4)));
        let Body::List(items) = &entries[1].value.body else { panic!() };
        assert_eq!(items[0].at, at(3, 5));
        let Body::Map(inner) = &items[1].body else { panic!() };
        assert_eq!((inner[0].at, inner[0].value.at), (at(4, 7), at(4, 10)));
    }

    #[test]
    fn a_place_inside_a_value_counts_quotes_and_escapes() {
        for (source, value, offset, column) in [
            ("k: plain", "plain", 2, 6),
            ("k: 'it''s x'", "it's x", 5, 11),
            (r#"k: "a\tb c""#, "a\tb c", 4, 10),
            ("k: \"αβ c\"", "αβ c", 5, 8),
        ] {
            assert_eq!(inside(Some(source), at(1, 4), value, offset), at(1, column), "{source}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_or_expands_too_far_is_refused() {
        let large = format!("a: \"{}\"", "x".repeat(10 << 20));
        assert_eq!(parse("f", &large).unwrap_err().code, "file_too_large");
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..8 {
            let before = level - 1;
            bomb.push_str(&format!(
                "a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}, *a{before}]\n"
            ));
        }
        assert_eq!(parse("f", &bomb).unwrap_err().code, "yaml");
    }

    #[test]
    fn a_duplicate_key_is_refused_where_it_stands() {
        let mistake = parse("f", "a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!((mistake.code, mistake.line, mistake.column), ("duplicate_key", 3, 1));
    }
}
