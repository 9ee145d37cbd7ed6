//! The five levels of settings laid over each other, each value with its origin.
//!
//! Everything is a leaf under its dotted path in the spec (`pagination.size`); a higher level replaces the leaf.
//! Lists are leaves. Parameters of the request are merged by name and keep their order.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::registry::definition::{Definition, Map, Value};
use crate::registry::endpoint_keys::{BODY, DETAIL, ENDPOINT, PAGINATION, REQUEST, RESPONSE, WINDOW};
use crate::registry::grammar::{Block, Kind, Stored};
use crate::registry::rows;
use crate::registry::source_keys::{HTTP, QUARANTINE, RATE, RETRY};
use crate::spec::origin::{Level, Origin};

/// Dictionaries whose codes the spec writes in lower case.
const LOWER: [&str; 9] = [
    "stop_rule",
    "align",
    "out_of_range",
    "sort_order",
    "second_key_type",
    "time_kind",
    "error_action",
    "rate_key_part",
    "blackbox",
];

/// What holds at a path of the spec when nobody says anything.
pub fn built_in_value(path: &str) -> Option<Json> {
    built_in().into_iter().find(|(known, _)| *known == path).map(|(_, value)| value)
}

/// The built-in level: what holds when nobody says anything and it can be said without looking at other values.
fn built_in() -> Vec<(&'static str, Json)> {
    vec![
        ("http.allow_http", json!(false)),
        ("http.allow_hosts", json!([])),
        ("http.connect_timeout", json!("PT10S")),
        ("http.read_timeout", json!("PT30S")),
        ("http.total_timeout", json!("PT2M")),
        ("http.redirects", json!(0)),
        ("http.body_bytes_max", json!(64 << 20)),
        ("http.ratio_max", json!(200)),
        ("request.method", json!("GET")),
        ("pagination.replayable", json!(true)),
        ("pagination.backward", json!(false)),
        ("pagination.tail_probe", json!(false)),
        ("window.updated_since", json!(false)),
        ("window.boundary.kind", json!("HALF_OPEN")),
        ("window.boundary.zone", json!("UTC")),
        ("window.boundary.fractional", json!(false)),
        ("window.safety_lag", json!("PT10M")),
        ("window.out_of_range", json!("clip")),
        ("window.as_of", json!(false)),
        ("response.format", json!("JSON")),
        ("response.namespaces", json!({})),
        ("response.time.kind", json!("iso")),
        ("response.time.zone", json!("UTC")),
        ("response.total_tolerance", json!(0.0)),
        ("response.hash_exclude", json!([])),
        ("retry.first", json!("PT0.1S")),
        ("retry.factor", json!(2.0)),
        ("retry.longest", json!("PT30S")),
        ("retry.jitter", json!(0.2)),
        ("retry.attempts", json!(5)),
        ("retry.statuses", json!([])),
        ("rate.burst", json!(1)),
        ("rate.concurrency", json!(1)),
        ("rate.key", json!(["source", "credential"])),
        ("rate.respect_headers", json!(true)),
        ("rate.cost", json!(1)),
        ("blackbox", json!("full")),
        ("quarantine.share_max", json!(0.2)),
        ("quarantine.records_max", json!(100)),
    ]
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub json: Json,
    pub origin: Origin,
    /// Where it stands in the definition; for overrides the option as written.
    pub path: String,
}

/// One parameter, header or form field.
#[derive(Clone, Debug)]
pub(super) struct Param {
    pub name: String,
    pub template: String,
    pub origin: Origin,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    pub leaves: BTreeMap<String, Leaf>,
    pub query: Vec<Param>,
    pub headers: Vec<Param>,
    pub form: Vec<Param>,
}

impl Merged {
    /// Levels one to four of an endpoint; `credential` is the one in use.
    pub fn of(definition: &Definition, name: &str, endpoint: &Map, credential: Option<(&str, &Map)>) -> Merged {
        let mut merged = Merged::default();
        for (path, json) in built_in() {
            merged.put(path, json, Origin::new(Level::Default, "built in"), String::new());
        }
        merged.source(definition.root(), credential);
        merged.endpoint(name, endpoint);
        merged
    }

    pub fn put(&mut self, path: &str, json: Json, origin: Origin, definition_path: String) {
        self.leaves.insert(path.to_owned(), Leaf { json, origin, path: definition_path });
    }

    /// Sets a value that follows from others, unless someone has set it.
    pub fn derive(&mut self, path: &str, json: Json, how: &str) {
        if !self.leaves.contains_key(path) {
            self.put(path, json, Origin::new(Level::Default, how), String::new());
        }
    }

    pub fn get(&self, path: &str) -> Option<&Json> {
        self.leaves.get(path).map(|leaf| &leaf.json)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(Json::as_str)
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.get(path).and_then(Json::as_u64)
    }

    /// The leaves below a prefix as one JSON object.
    pub fn section(&self, prefix: &str) -> Json {
        let mut section = serde_json::Map::new();
        let start = format!("{prefix}.");
        for (path, leaf) in self.leaves.range(start.clone()..) {
            let Some(rest) = path.strip_prefix(&start) else { break };
            match rest.split_once('.') {
                Some((outer, inner)) => {
                    let nested = section.entry(outer).or_insert_with(|| json!({}));
                    if let Some(nested) = nested.as_object_mut() {
                        nested.insert(inner.to_owned(), leaf.json.clone());
                    }
                }
                None => {
                    section.insert(rest.to_owned(), leaf.json.clone());
                }
            }
        }
        Json::Object(section)
    }

    fn source(&mut self, root: &Map, credential: Option<(&str, &Map)>) {
        if let Some(url) = root.text("base_url") {
            let origin = Origin::new(Level::Source, format!("{}.base_url", rows::HTTP_CFG));
            self.put("http.base_url", url.into(), origin, "base_url".into());
        }
        self.layer("http", root.map("http"), &HTTP, Level::Source, rows::HTTP_CFG, "http");
        self.layer("rate", root.map("rate"), &RATE, Level::Source, rows::RATE_CFG, "rate");
        self.layer("retry", root.map("retry"), &RETRY, Level::Source, rows::RETRY_CFG, "retry");
        let quarantine = root.map("quarantine");
        self.layer("quarantine", quarantine, &QUARANTINE, Level::Source, rows::PROVENANCE, "quarantine");
        if let Some(code) = root.text("blackbox") {
            let origin = Origin::new(Level::Source, format!("{}.blackbox_code", rows::PROVENANCE));
            self.put("blackbox", code.to_ascii_lowercase().into(), origin, "blackbox".into());
        }
        if let Some(defaults) = root.map("defaults") {
            self.cut(defaults, Level::Source, "defaults");
            if let Some(request) = defaults.map("request") {
                self.params(request, Level::Source);
            }
        }
        if let Some((name, credential)) = credential {
            let path = format!("credentials.{name}.rate");
            self.layer("rate", credential.map("rate"), &RATE, Level::Source, rows::RATE_CFG, &path);
        }
    }

    fn endpoint(&mut self, name: &str, endpoint: &Map) {
        let base = format!("endpoints.{name}");
        let (table, level) = (rows::ENDPOINT_DEF, Level::Endpoint);
        let own: Map = endpoint.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        self.layer("", Some(&own), &ENDPOINT, level, table, &base);
        if let Some(leaf) = self.leaves.remove("timeout") {
            self.leaves.insert("http.total_timeout".into(), leaf);
        }
        let below = |key: &str| format!("{base}.{key}");
        self.layer("request", endpoint.map("request"), &REQUEST, level, table, &below("request"));
        self.layer("response", endpoint.map("response"), &RESPONSE, level, table, &below("response"));
        for (key, block, table) in [("http", &HTTP, rows::HTTP_CFG), ("retry", &RETRY, rows::RETRY_CFG)] {
            self.layer(key, endpoint.map(key), block, Level::Block, table, &below(key));
        }
        self.layer("rate", endpoint.map("rate"), &RATE, Level::Block, rows::RATE_CFG, &below("rate"));
        self.layer("detail", endpoint.map("detail"), &DETAIL, Level::Block, rows::BATCHING_CFG, &below("detail"));
        self.cut(endpoint, Level::Block, &base);
        if let Some(request) = endpoint.map("request") {
            self.params(request, Level::Block);
        }
    }

    fn cut(&mut self, of: &Map, level: Level, base: &str) {
        for (key, block, table) in
            [("pagination", &PAGINATION, rows::PAGINATION_CFG), ("window", &WINDOW, rows::WINDOW_CFG)]
        {
            self.layer(key, of.map(key), block, level, table, &format!("{base}.{key}"));
        }
    }

    /// Lays the values of one block over what is there.
    pub fn layer(
        &mut self,
        prefix: &str,
        map: Option<&Map>,
        block: &'static Block,
        level: Level,
        table: &str,
        base: &str,
    ) {
        let Some(map) = map else { return };
        for key in block.keys {
            let Some(value) = map.get(key.name) else { continue };
            let path = if prefix.is_empty() { key.name.to_owned() } else { format!("{prefix}.{}", key.name) };
            let definition_path = format!("{base}.{}", key.name);
            match (key.stored, &key.kind, value) {
                (Stored::Column(column), kind, value) => {
                    let origin = Origin::new(level, format!("{table}.{column}"));
                    self.put(&path, spec_json(kind, value), origin, definition_path);
                }
                (Stored::Paths, kind, value) => {
                    let origin = Origin::new(Level::Block, format!("{}.path", rows::FIELD_DICT));
                    self.put(&path, spec_json(kind, value), origin, definition_path);
                }
                (Stored::Flat, Kind::Block(inner), Value::Map(nested)) => {
                    self.layer(&path, Some(nested), inner, level, table, &definition_path);
                }
                _ => {}
            }
        }
    }

    fn params(&mut self, request: &Map, level: Level) {
        let origin = Origin::new(level, format!("{}.value_template", rows::PARAM_MAP));
        let form = request.map(BODY.name).and_then(|body| body.map("form"));
        overlay(&mut self.query, request.map("query"), &origin);
        overlay(&mut self.headers, request.map("headers"), &origin);
        overlay(&mut self.form, form, &origin);
    }
}

fn overlay(params: &mut Vec<Param>, table: Option<&Map>, origin: &Origin) {
    for (name, value) in table.into_iter().flat_map(Map::iter) {
        let Value::Text(template) = value else { continue };
        let param = Param { name: name.to_owned(), template: template.clone(), origin: origin.clone() };
        match params.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = param,
            None => params.push(param),
        }
    }
}

/// A value as the spec writes it: as in the definition, but some codes in lower case.
pub(super) fn spec_json(kind: &Kind, value: &Value) -> Json {
    match (kind, value) {
        (Kind::Code(dictionary), Value::Text(code)) if LOWER.contains(dictionary) => code.to_ascii_lowercase().into(),
        (Kind::List(kind), Value::List(items)) => {
            items.iter().map(|item| spec_json(kind, item)).collect::<Vec<_>>().into()
        }
        (Kind::Block(block) | Kind::Short(block, _), Value::Map(map)) => {
            let entry = |(name, value): (&str, &Value)| {
                let json = block.key(name).map_or_else(|| value.to_json(), |key| spec_json(&key.kind, value));
                (name.to_owned(), json)
            };
            map.iter().map(entry).collect()
        }
        (_, value) => value.to_json(),
    }
}
