//! A source definition in normal form: codes resolved, lengths and times normalised, keys in the grammar's order.
//!
//! Two definitions that mean the same are equal, whether they come from YAML or from registry rows; where each
//! value stands in the text is kept beside it and takes no part in the comparison.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::diagnostic::At;
use super::grammar::{Block, Kind};
use super::yaml;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    Json(serde_json::Value),
    List(Vec<Value>),
    Map(Map),
}

/// Names to values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(String, Value)>);

impl Map {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn map(&self, name: &str) -> Option<&Map> {
        match self.get(name) {
            Some(Value::Map(map)) => Some(map),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Flag(true)))
    }

    /// Adds a value; an empty block or list is the same as none and is left out.
    pub fn push(&mut self, name: impl Into<String>, value: Value) {
        let empty = match &value {
            Value::Map(map) => map.is_empty(),
            Value::List(items) => items.is_empty(),
            _ => false,
        };
        if !empty {
            self.0.push((name.into(), value));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The entries that are blocks.
    pub fn blocks(&self) -> impl Iterator<Item = (&str, &Map)> {
        self.iter().filter_map(|(name, value)| match value {
            Value::Map(map) => Some((name, map)),
            _ => None,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the keys of a block into the order of the grammar.
    pub fn sorted_by(mut self, block: &Block) -> Map {
        let rank = |name: &str| block.keys.iter().position(|key| key.name == name).unwrap_or(usize::MAX);
        self.0.sort_by_key(|(name, _)| rank(name));
        self
    }
}

impl FromIterator<(String, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Map {
        Map(entries.into_iter().collect())
    }
}

impl Value {
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Flag(flag) => (*flag).into(),
            Value::Integer(number) => (*number).into(),
            Value::Number(number) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::Json(json) => json.clone(),
            Value::List(items) => items.iter().map(Value::to_json).collect::<Vec<_>>().into(),
            Value::Map(map) => map.iter().map(|(name, value)| (name.to_owned(), value.to_json())).collect(),
        }
    }

    /// Reads back what [`to_json`](Value::to_json) wrote; `None` when it does not fit the kind.
    pub fn from_json(kind: &Kind, json: &serde_json::Value) -> Option<Value> {
        match kind {
            Kind::Flag => json.as_bool().map(Value::Flag),
            Kind::Integer { .. } => json.as_i64().map(Value::Integer),
            Kind::Share | Kind::Factor => json.as_f64().map(Value::Number),
            Kind::Json => Some(Value::Json(json.clone())),
            Kind::List(kind) => {
                json.as_array()?.iter().map(|item| Value::from_json(kind, item)).collect::<Option<_>>().map(Value::List)
            }
            Kind::Block(block) | Kind::Short(block, _) => {
                let object = json.as_object()?;
                let mut map = Map::default();
                for key in block.keys {
                    if let Some(json) = object.get(key.name) {
                        map.push(key.name, Value::from_json(&key.kind, json)?);
                    }
                }
                Some(Value::Map(map))
            }
            Kind::Map => {
                let entry = |(name, text): (&String, &serde_json::Value)| {
                    Some((name.clone(), Value::Text(text.as_str()?.to_owned())))
                };
                json.as_object()?.iter().map(entry).collect::<Option<Map>>().map(Value::Map)
            }
            _ => json.as_str().map(|text| Value::Text(text.to_owned())),
        }
    }
}

/// Where the values of a definition stand in its text, by dotted path.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub file: String,
    pub source: Arc<str>,
    /// Where each line begins, once somebody asks.
    pub(super) starts: OnceLock<Vec<usize>>,
    pub(super) keys: BTreeMap<String, At>,
    pub(super) values: BTreeMap<String, At>,
}

impl Places {
    /// The value at a path, or what encloses it.
    pub fn value(&self, path: &str) -> At {
        nearest(&self.values, path)
    }

    /// The key at a path, or what encloses it.
    pub fn key(&self, path: &str) -> At {
        nearest(&self.keys, path)
    }

    /// A byte of the text at a path.
    pub fn inside(&self, path: &str, text: &str, offset: usize) -> At {
        let start = self.value(path);
        if start.line == 0 { start } else { yaml::inside(self.line(start.line), start, text, offset) }
    }

    /// A line of the text, counted from 1.
    pub(super) fn line(&self, number: u32) -> Option<&str> {
        let ends = || self.source.match_indices('\n').map(|(at, _)| at + 1);
        let starts = self.starts.get_or_init(|| std::iter::once(0).chain(ends()).collect());
        let start = *starts.get(number.checked_sub(1)? as usize)?;
        self.source[start..].lines().next()
    }
}

fn nearest(places: &BTreeMap<String, At>, path: &str) -> At {
    let mut path = path;
    loop {
        if let Some(at) = places.get(path) {
            return *at;
        }
        match path.rsplit_once('.') {
            Some((outer, _)) => path = outer,
            None => return At::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Definition {
    pub(super) root: Map,
    pub(super) places: Places,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Definition) -> bool {
        self.root == other.root
    }
}

impl Definition {
    pub fn source(&self) -> &str {
        self.root.text("source").unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.root.text("name").unwrap_or_default()
    }

    pub fn root(&self) -> &Map {
        &self.root
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Takes over the places of the same definition as written, so that later mistakes name lines.
    pub fn with_places_of(mut self, written: &Definition) -> Definition {
        self.places = written.places.clone();
        self
    }

    pub fn endpoints(&self) -> impl Iterator<Item = (&str, &Map)> {
        self.root.map("endpoints").into_iter().flat_map(Map::blocks)
    }

    pub fn endpoint(&self, name: &str) -> Option<&Map> {
        self.endpoints().find(|(known, _)| *known == name).map(|(_, endpoint)| endpoint)
    }

    /// Whether an endpoint was tried on a sample made by hand only.
    pub fn is_unverified(&self) -> bool {
        let sample =
            |endpoint: &Map| endpoint.map("response").and_then(|response| response.text("evidence")) == Some("SAMPLE");
        self.endpoints().any(|(_, endpoint)| sample(endpoint))
    }

    pub fn credentials(&self) -> impl Iterator<Item = (&str, &Map)> {
        self.root.map("credentials").into_iter().flat_map(Map::blocks)
    }

    /// The references each credential needs, so that a deployment can look whether it has them.
    pub fn secret_references(&self) -> BTreeMap<String, Vec<String>> {
        let references = |credential: &Map| {
            ["secret", "user", "password", "client_id", "client_secret"]
                .iter()
                .filter_map(|key| credential.text(key).map(str::to_owned))
                .collect()
        };
        self.credentials().map(|(name, credential)| (name.to_owned(), references(credential))).collect()
    }
}

/// The role code of an endpoint; an endpoint that says nothing searches.
pub fn role(endpoint: &Map) -> &str {
    endpoint.text("role").unwrap_or("SEARCH")
}
