//! A YAML tree into a definition in normal form, collecting every mistake on the way.
//!
//! The decoder walks the tree along the grammar: unknown keys, wrong types and bad values are noted and passed
//! over, so that one look at a file shows everything that is wrong with it.

use crate::path::mapping::is_field_name;

use super::definition::{Definition, Map, Places, Value};
use super::diagnostic::{At, Diagnostic};
use super::endpoint_keys::FIELD;
use super::grammar::{Block, Kind, names};
use super::scalars;
use super::source_keys::SOURCE;
use super::yaml::{self, Body, Entry, Node};

/// Reads a definition; on failure gives every mistake found, in the order of the text.
pub fn decode(file: &str, text: &str) -> Result<Definition, Vec<Diagnostic>> {
    let node = yaml::parse(file, text).map_err(|mistake| vec![*mistake])?;
    let mut decoder = Decoder::new(file, text);
    let root = decoder.block(&node, &SOURCE, "");
    let mut mistakes = decoder.mistakes;
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    match root {
        Some(root) if mistakes.is_empty() => Ok(Definition { root, places: decoder.places }),
        _ => Err(mistakes),
    }
}

pub(super) struct Decoder {
    places: Places,
    mistakes: Vec<Diagnostic>,
}

impl Decoder {
    fn new(file: &str, text: &str) -> Decoder {
        let places = Places { file: file.to_owned(), source: text.into(), ..Places::default() };
        Decoder { places, mistakes: Vec::new() }
    }

    fn block(&mut self, node: &Node, block: &'static Block, path: &str) -> Option<Map> {
        let entries = match &node.body {
            Body::Map(entries) => entries.as_slice(),
            Body::Null => &[],
            _ => {
                self.wrong_type(node, &Kind::Block(block), path);
                return None;
            }
        };
        let mut map = Map::default();
        for entry in entries {
            let inner = join(path, &entry.key);
            match block.key(&entry.key) {
                Some(key) => {
                    self.note(&inner, entry);
                    if let Some(value) = self.value(&entry.value, &key.kind, &inner) {
                        map.push(key.name, value);
                    }
                }
                None => self.unknown_key(entry, block),
            }
        }
        self.missing_keys(node, entries, block, path);
        Some(map.sorted_by(block))
    }

    fn note(&mut self, path: &str, entry: &Entry) {
        self.places.keys.insert(path.to_owned(), entry.at);
        self.places.values.insert(path.to_owned(), entry.value.at);
    }

    fn unknown_key(&mut self, entry: &Entry, block: &'static Block) {
        let message = format!("unknown key `{}`", entry.key);
        self.mistakes.push(
            Diagnostic::error("unknown_key", &self.places.file, entry.at, message)
                .found(&entry.key)
                .expected(format!("one of {}", names(block)))
                .suggest(&entry.key, block.keys.iter().map(|key| key.name)),
        );
    }

    fn missing_keys(&mut self, node: &Node, entries: &[Entry], block: &'static Block, path: &str) {
        // The place of a missing key is the key of the block that lacks it, where there is one.
        let at = if path.is_empty() { At { line: 1, column: 1 } } else { self.place_of_block(node, path) };
        for key in block.keys.iter().filter(|key| key.required) {
            let given = entries.iter().any(|entry| entry.key == key.name && entry.value.body != Body::Null);
            if !given {
                let message = match path {
                    "" => format!("`{}` is missing", key.name),
                    path => format!("`{path}` has no `{}`", key.name),
                };
                let mistake = Diagnostic::error("missing_key", &self.places.file, at, message)
                    .expected(key.kind.expected())
                    .hint(format!("add `{}`: {}", key.name, key.doc));
                self.mistakes.push(mistake);
            }
        }
    }

    fn place_of_block(&self, node: &Node, path: &str) -> At {
        self.places.keys.get(path).copied().unwrap_or(node.at)
    }

    fn value(&mut self, node: &Node, kind: &'static Kind, path: &str) -> Option<Value> {
        match (kind, &node.body) {
            (_, Body::Null) => None,
            (Kind::Block(block), _) => self.block(node, block, path).map(Value::Map),
            (Kind::Short(block, _), Body::Map(_)) => self.block(node, block, path).map(Value::Map),
            (Kind::Short(block, short), _) => {
                let key = block.key(short)?;
                let value = self.value(node, &key.kind, path)?;
                Some(Value::Map(Map::from_iter([(key.name.to_owned(), value)])))
            }
            (Kind::List(kind), Body::List(items)) => Some(Value::List(self.items(items, kind, path))),
            (Kind::List(kind), Body::Map(_)) if !matches!(kind, Kind::Block(_)) => {
                self.wrong_type(node, &Kind::List(kind), path);
                None
            }
            (Kind::List(kind), _) => self.value(node, kind, path).map(|value| Value::List(vec![value])),
            (Kind::Table(kind), Body::Map(entries)) => Some(Value::Map(self.table(entries, kind, path))),
            (Kind::Map, Body::Map(entries)) => Some(Value::Map(self.texts(entries, path))),
            (Kind::Json, _) => Some(Value::Json(self.json(node))),
            _ => self.scalar(node, kind, path),
        }
    }

    fn items(&mut self, items: &[Node], kind: &'static Kind, path: &str) -> Vec<Value> {
        let mut list = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let inner = format!("{path}.{at}");
            self.places.values.insert(inner.clone(), item.at);
            list.extend(self.value(item, kind, &inner));
        }
        list
    }

    fn table(&mut self, entries: &[Entry], kind: &'static Kind, path: &str) -> Map {
        // Blocks are named by us and become parts of keys; parameters and headers are named by the source.
        let named_by_us = matches!(kind, Kind::Block(_) | Kind::Short(..));
        let mut map = Map::default();
        for entry in entries {
            let inner = join(path, &entry.key);
            self.note(&inner, entry);
            let is_field = matches!(kind, Kind::Short(block, _) if block.name == FIELD.name);
            let is_name = if is_field { is_field_name(&entry.key) } else { scalars::is_name(&entry.key) };
            if named_by_us && !is_name {
                let message = format!("`{}` cannot be a name", entry.key);
                let mistake = Diagnostic::error("bad_name", &self.places.file, entry.at, message)
                    .found(&entry.key)
                    .expected(Kind::Name.expected());
                self.mistakes.push(mistake);
            }
            if let Some(value) = self.value(&entry.value, kind, &inner) {
                map.push(&entry.key, value);
            }
        }
        map
    }

    fn texts(&mut self, entries: &[Entry], path: &str) -> Map {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by(|left, right| left.key.cmp(&right.key));
        let mut map = Map::default();
        for entry in sorted {
            let inner = join(path, &entry.key);
            self.note(&inner, entry);
            if let Some(value) = self.value(&entry.value, &Kind::Text, &inner) {
                map.push(&entry.key, value);
            }
        }
        map
    }

    fn json(&mut self, node: &Node) -> serde_json::Value {
        match &node.body {
            Body::Null => serde_json::Value::Null,
            Body::Flag(flag) => (*flag).into(),
            Body::Integer(number) => (*number).into(),
            Body::Number(number) => (*number).into(),
            Body::Text(text) => {
                self.scalar(node, &Kind::Template, "");
                text.as_str().into()
            }
            Body::List(items) => items.iter().map(|item| self.json(item)).collect::<Vec<_>>().into(),
            Body::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), self.json(&entry.value))).collect(),
        }
    }

    fn scalar(&mut self, node: &Node, kind: &Kind, path: &str) -> Option<Value> {
        match scalars::read(node, kind) {
            Ok(value) => Some(value),
            Err(scalars::Wrong::Type) => {
                self.wrong_type(node, kind, path);
                None
            }
            Err(scalars::Wrong::Value(wrong)) => {
                let at = match &node.body {
                    Body::Text(text) => yaml::inside(self.places.line(node.at.line), node.at, text, wrong.offset),
                    _ => node.at,
                };
                let mut mistake = Diagnostic::error(wrong.code, &self.places.file, at, wrong.message);
                mistake.found = wrong.found;
                mistake.expected = Some(kind.expected());
                mistake.hint = wrong.hint;
                self.mistakes.push(mistake);
                None
            }
        }
    }

    fn wrong_type(&mut self, node: &Node, kind: &Kind, path: &str) {
        let name = path.rsplit('.').next().unwrap_or(path);
        let message = match name {
            "" => "the file is not a source definition".to_owned(),
            name => format!("`{name}` cannot be {}", node.kind()),
        };
        let found = if matches!(kind, Kind::Secret) { node.kind().to_owned() } else { node.shown() };
        let mistake =
            Diagnostic::error("wrong_type", &self.places.file, node.at, message).found(found).expected(kind.expected());
        self.mistakes.push(mistake);
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
