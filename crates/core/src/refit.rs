//! Mapped fields that change although the content behind them does not overwrite anything: filled in, or mapped anew.
//!
//! The raw record and its content hash stay those of the version that won by INV-13, so that reading it again still changes
//! nothing. A second hash, over that content hash and the fields, tells that the fields are other ones by now.

use serde_json::{Map, Value};

use crate::hash::Hash32;
use crate::spec::snapshot::{Operation, SpecSnapshot};

/// What a page may do to a record that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The greatest version is kept (INV-13).
    #[default]
    Newest,
    /// The same, and equal content is mapped again where the mapping has changed.
    Remap,
    /// What is stored is never overwritten; what it lacks is filled in.
    FillOnly,
}

impl Policy {
    /// A refresh maps anew what was mapped otherwise; everything else keeps to the order of versions.
    pub fn of(spec: &SpecSnapshot) -> Policy {
        match spec.operation {
            Operation::Harvest | Operation::Backfill => Policy::Newest,
            Operation::Update if spec.fill_only => Policy::FillOnly,
            Operation::Update => Policy::Remap,
        }
    }
}

/// The fields of a stored record after a page that does not replace its content; `None` where they stay.
pub fn refit(policy: Policy, stored: &str, incoming: &str) -> Option<String> {
    match policy {
        Policy::Newest => None,
        Policy::Remap => (stored != incoming).then(|| incoming.to_owned()),
        Policy::FillOnly => {
            let mut filled: Map<String, Value> = serde_json::from_str(stored).ok()?;
            let more: Map<String, Value> = serde_json::from_str(incoming).ok()?;
            fill(&mut filled, more).then(|| Value::Object(filled).to_string())
        }
    }
}

/// Adds what is empty; true when something was.
fn fill(stored: &mut Map<String, Value>, more: Map<String, Value>) -> bool {
    let mut filled = false;
    for (name, value) in more {
        if is_empty(&value) {
            continue;
        }
        match (stored.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if !known.is_empty() => filled |= fill(known, more),
            (Some(known), _) if !is_empty(known) => {}
            (_, value) => {
                stored.insert(name, value);
                filled = true;
            }
        }
    }
    filled
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Tells fields that are not those which the content was first mapped to.
pub fn fields_hash(content: Hash32, fields: &str) -> Hash32 {
    Hash32::of_parts(&[content.bytes(), fields.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_what_is_empty_is_filled() {
        for (stored, incoming, want) in [
            (json!({"a": 1}), json!({"a": 2}), None),
            (json!({"a": 1}), json!({"b": 2}), Some(json!({"a": 1, "b": 2}))),
            (json!({"a": ""}), json!({"a": "x"}), Some(json!({"a": "x"}))),
            (json!({"a": []}), json!({"a": ["x"]}), Some(json!({"a": ["x"]}))),
            (json!({"a": ["y"]}), json!({"a": ["x", "y"]}), None),
            (
                json!({"ids": {"doi": "1"}}),
                json!({"ids": {"doi": "2", "pmid": "3"}}),
                Some(json!({"ids": {"doi": "1", "pmid": "3"}})),
            ),
            (json!({"a": 1}), json!({"a": 1, "b": null, "c": {"d": ""}}), None),
            (json!({"a": {}}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        ] {
            let filled = refit(Policy::FillOnly, &stored.to_string(), &incoming.to_string());
            assert_eq!(filled.map(|text| serde_json::from_str::<Value>(&text).unwrap()), want, "{stored} {incoming}");
        }
        assert_eq!(refit(Policy::FillOnly, "{}", "not json"), None);
        assert_eq!(refit(Policy::Remap, r#"{"a":1}"#, r#"{"a":1}"#), None);
        assert_eq!(refit(Policy::Remap, r#"{"a":1}"#, "{}").as_deref(), Some("{}"));
        assert_eq!(refit(Policy::Newest, "{}", r#"{"a":1}"#), None);
    }

    fn fields() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), Just(json!("")), (0u8..3).prop_map(|n| json!(n)), Just(json!([]))];
        leaf.prop_recursive(3, 12, 3, |inner| {
            proptest::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| json!(map))
        })
    }

    fn keeps(stored: &Value, filled: &Value) -> bool {
        match (stored, filled) {
            (Value::Object(stored), Value::Object(filled)) => stored
                .iter()
                .all(|(name, value)| is_empty(value) || filled.get(name).is_some_and(|now| keeps(value, now))),
            (stored, filled) => is_empty(stored) || stored == filled,
        }
    }

    proptest! {
        #[test]
        fn filling_keeps_everything_and_is_done_once(stored in fields(), incoming in fields()) {
            let (stored, incoming) = (json!({ "x": stored }).to_string(), json!({ "x": incoming }).to_string());
            if let Some(filled) = refit(Policy::FillOnly, &stored, &incoming) {
                let (before, after): (Value, Value) = (serde_json::from_str(&stored).unwrap(), serde_json::from_str(&filled).unwrap());
                prop_assert!(keeps(&before, &after), "{stored} {filled}");
                prop_assert_eq!(refit(Policy::FillOnly, &filled, &incoming), None);
            }
        }
    }
}
