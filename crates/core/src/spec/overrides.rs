//! What one trigger sets for its own plan only: the fifth and highest level.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::registry::definition::Value;
use crate::registry::diagnostic::{At, Diagnostic, closest};
use crate::registry::endpoint_keys::{DETAIL, ENDPOINT, PAGINATION, WINDOW};
use crate::registry::grammar::{Block, Kind, Stored};
use crate::registry::scalars;
use crate::registry::source_keys::{HTTP, QUARANTINE, RATE, RETRY};
use crate::spec::merge::{Merged, spec_json};
use crate::spec::origin::{Level, Origin};
use crate::time::Timestamp;

/// Settings of one trigger. The window itself is the planner's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriggerOverrides {
    pub base_url: Option<String>,
    /// `host:port` that may be asked although it is private; also allows plain HTTP to it.
    pub allow_hosts: Vec<String>,
    /// The query in the source's own words; not together with `query`.
    pub q: Option<String>,
    /// The query in the neutral language.
    pub query: Option<String>,
    /// `--set key=value`: a path of the spec (`pagination.size`), or a parameter (`params.x`, or `x`).
    pub params: BTreeMap<String, String>,
    /// Where reading begins instead of the origin, which it never precedes.
    pub since: Option<Timestamp>,
    pub contact: Option<String>,
    /// Values for the definition's `settings`.
    pub settings: BTreeMap<String, String>,
    pub priority: Option<u8>,
    pub channel: Option<String>,
    /// Credentials whose secrets this deployment has; `None` where that is not known: optional ones are then not used.
    pub credentials: Option<BTreeSet<String>>,
}

/// Blocks that a trigger may set values of. What is asked for and how answers are read belongs to the definition.
const OPEN: [(&str, &Block); 7] = [
    ("pagination", &PAGINATION),
    ("window", &WINDOW),
    ("rate", &RATE),
    ("retry", &RETRY),
    ("http", &HTTP),
    ("quarantine", &QUARANTINE),
    ("detail", &DETAIL),
];
const OPEN_KEYS: [&str; 3] = ["priority", "namespace", "blackbox"];

/// Begins at `since`. The source has nothing before its origin: an earlier beginning is cut to it, or refused.
pub(super) fn begin(merged: &mut Merged, since: Timestamp, mistakes: &mut Vec<Diagnostic>) -> Option<Diagnostic> {
    let declared = merged.text("window.origin").and_then(|text| text.parse::<Timestamp>().ok());
    let Some(origin) = declared.filter(|origin| since < *origin) else {
        let origin = Origin::new(Level::Trigger, "since");
        merged.put("window.origin", since.to_string().into(), origin, "--since".into());
        return None;
    };
    let message = format!("the source has nothing before {origin}, asked for was {since}");
    if merged.text("window.out_of_range") == Some("fail") {
        let hint = format!("begin at {origin}, or declare `window.out_of_range: clip`");
        mistakes.push(Diagnostic::error("out_of_range", "--since", At::default(), message).hint(hint));
        return None;
    }
    Some(Diagnostic::warning("out_of_range", "--since", At::default(), format!("{message}; it begins there")))
}

/// Lays the overrides over the lower levels; returns the selecting parameters.
pub(super) fn apply(
    merged: &mut Merged,
    overrides: &TriggerOverrides,
    mistakes: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let trigger = |key: &str| Origin::new(Level::Trigger, key);
    if let Some(url) = &overrides.base_url {
        merged.put("http.base_url", url.as_str().into(), trigger("base_url"), "--base-url".into());
    }
    if !overrides.allow_hosts.is_empty() {
        let hosts: Json = overrides.allow_hosts.clone().into();
        merged.put("http.allow_hosts", hosts, trigger("allow_hosts"), "--allow-host".into());
    }
    let mut params = BTreeMap::new();
    for (key, text) in &overrides.params {
        match find(key) {
            Target::Spec(kind) => match read(text, kind) {
                Some(value) => {
                    let json = spec_json(kind, &value);
                    merged.put(key, json, trigger(&format!("set {key}")), format!("--set {key}"));
                }
                None => mistakes.push(bad_value(key, text, kind)),
            },
            Target::Param(name) if is_used(merged, name) => {
                params.insert(name.to_owned(), text.clone());
            }
            Target::Param(name) => mistakes.push(unused(merged, key, name)),
            Target::Closed => mistakes.push(closed(key)),
        }
    }
    if overrides.q.is_some() && !templates(merged).any(|template| template.contains("expr.q")) {
        let message = "this endpoint cannot be searched: no template uses `expr.q`";
        let found = Diagnostic::error("query_unsupported", "--native-query", At::default(), message);
        mistakes.push(found.hint("harvest without a query and filter the records afterwards"));
    }
    if let Some(priority) = overrides.priority {
        merged.put("priority", priority.into(), trigger("priority"), "--priority".into());
    }
    params
}

enum Target<'a> {
    Spec(&'static Kind),
    Param(&'a str),
    Closed,
}

fn find(key: &str) -> Target<'_> {
    if let Some(name) = key.strip_prefix("params.") {
        return Target::Param(name);
    }
    let Some((first, rest)) = key.split_once('.') else {
        let known = OPEN_KEYS.contains(&key).then(|| ENDPOINT.key(key)).flatten();
        return known.map_or(Target::Param(key), |found| Target::Spec(&found.kind));
    };
    let Some((_, block)) = OPEN.iter().find(|(name, _)| *name == first) else { return Target::Closed };
    let mut block = *block;
    let mut names = rest.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(found) = block.key(name) else { return Target::Closed };
        match (found.stored, &found.kind) {
            (Stored::Flat, Kind::Block(inner)) if names.peek().is_some() => block = inner,
            (Stored::Column(_), kind) if names.peek().is_none() => return Target::Spec(kind),
            _ => return Target::Closed,
        }
    }
    Target::Closed
}

fn read(text: &str, kind: &Kind) -> Option<Value> {
    match kind {
        Kind::Flag => text.parse().ok().map(Value::Flag),
        Kind::Integer { min, max } => {
            let number: i64 = text.parse().ok()?;
            (*min..=*max).contains(&number).then_some(Value::Integer(number))
        }
        Kind::Share | Kind::Factor if !text.ends_with('%') => {
            let number: f64 = text.parse().ok()?;
            let fits = if matches!(kind, Kind::Share) { (0.0..=1.0).contains(&number) } else { number >= 1.0 };
            fits.then_some(Value::Number(number))
        }
        Kind::List(kind) => text.split(',').map(|item| read(item.trim(), kind)).collect::<Option<_>>().map(Value::List),
        kind => scalars::read_text(text, kind).ok(),
    }
}

fn is_used(merged: &Merged, name: &str) -> bool {
    let wanted = format!("params.{name}");
    templates(merged).any(|template| template.contains(&wanted))
}

fn templates(merged: &Merged) -> impl Iterator<Item = &str> {
    let params = [&merged.query, &merged.headers, &merged.form].into_iter().flatten().map(|p| p.template.as_str());
    let mut texts: Vec<&str> = params.chain(merged.text("request.path")).collect();
    if let Some(body) = merged.get("request.body.json") {
        collect_texts(body, &mut texts);
    }
    texts.into_iter()
}

fn collect_texts<'a>(json: &'a Json, texts: &mut Vec<&'a str>) {
    match json {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Json::Object(map) => map.values().for_each(|value| collect_texts(value, texts)),
        _ => {}
    }
}

/// The parameters that the templates name.
fn declared(merged: &Merged) -> Vec<&str> {
    let name_end = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    templates(merged)
        .flat_map(|template| template.split("params.").skip(1))
        .map(|rest| &rest[..name_end(rest)])
        .collect()
}

fn mistake(code: &'static str, key: &str, message: String) -> Diagnostic {
    Diagnostic::error(code, &format!("--set {key}"), At::default(), message)
}

fn bad_value(key: &str, text: &str, kind: &Kind) -> Diagnostic {
    mistake("bad_override", key, format!("`{text}` cannot be the value of `{key}`"))
        .found(text)
        .expected(kind.expected())
}

fn unused(merged: &Merged, key: &str, name: &str) -> Diagnostic {
    let declared = declared(merged);
    let near = closest(name, declared.iter().copied().chain(OPEN_KEYS));
    let found = mistake("unknown_override", key, format!("no template of this endpoint uses `params.{name}`"));
    match near {
        Some(near) => found.hint(format!("did you mean `{near}`?")),
        None => found.hint("see `patra spec show` for what can be set"),
    }
}

fn closed(key: &str) -> Diagnostic {
    let known: Vec<String> = OPEN
        .iter()
        .flat_map(|(name, block)| block.keys.iter().map(move |key| format!("{name}.{}", key.name)))
        .collect();
    mistake("unknown_override", key, format!("`{key}` cannot be set by a trigger"))
        .suggest(key, known.iter().map(String::as_str))
}
