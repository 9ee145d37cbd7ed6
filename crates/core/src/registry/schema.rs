//! The JSON Schema of a definition, made from the same table of keys that the decoder walks.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::dictionary::dictionary;
use super::grammar::{Block, Kind};
use super::source_keys::SOURCE;

/// JSON Schema (2020-12) for editors.
pub fn definition_schema() -> Json {
    let mut definitions = Map::new();
    block_schema(&SOURCE, &mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Patra source definition",
        "$ref": format!("#/$defs/{}", SOURCE.name),
        "$defs": definitions,
    })
}

fn block_schema(block: &'static Block, definitions: &mut Map<String, Json>) {
    if definitions.contains_key(block.name) {
        return;
    }
    // A place is held first, so that a block that is met again on the way is not written twice.
    definitions.insert(block.name.to_owned(), Json::Null);
    let mut properties = Map::new();
    for key in block.keys {
        let mut schema = kind_schema(&key.kind, definitions);
        if let Some(object) = schema.as_object_mut() {
            object.insert("description".into(), key.doc.into());
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let required: Vec<&str> = block.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let schema = json!({
        "type": "object",
        "description": block.doc,
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    });
    definitions.insert(block.name.to_owned(), schema);
}

fn kind_schema(kind: &'static Kind, definitions: &mut Map<String, Json>) -> Json {
    match kind {
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer { min, max: i64::MAX } => json!({ "type": "integer", "minimum": min }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Share => json!({ "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            { "type": "string", "pattern": "^[0-9.]+ *%$" },
        ] }),
        Kind::Factor => json!({ "type": "number", "minimum": 1 }),
        Kind::Name => json!({ "type": "string", "pattern": "^[a-z][a-z0-9_-]*$" }),
        Kind::Span => json!({ "type": "string", "pattern": "^P" }),
        Kind::Secret => json!({ "type": "string", "pattern": "^(env|file):" }),
        Kind::Url => json!({ "type": "string", "format": "uri" }),
        Kind::Template | Kind::Text => json!({ "type": ["string", "integer", "boolean"] }),
        Kind::Time | Kind::Zone | Kind::Path | Kind::Pattern => json!({ "type": "string" }),
        Kind::Code(code) => {
            let spellings = dictionary(code).into_iter().flat_map(|dictionary| dictionary.spellings());
            let words: BTreeSet<String> = spellings.map(str::to_ascii_lowercase).collect();
            // Codes are compared without regard to case; the list is for completion.
            json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": "^[A-Z0-9_]+$" }] })
        }
        Kind::List(kind) => {
            let one = kind_schema(kind, definitions);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Kind::Block(block) => {
            block_schema(block, definitions);
            json!({ "$ref": format!("#/$defs/{}", block.name) })
        }
        Kind::Short(block, short) => {
            block_schema(block, definitions);
            let one = block.key(short).map_or(json!(true), |key| kind_schema(&key.kind, definitions));
            json!({ "anyOf": [one, { "$ref": format!("#/$defs/{}", block.name) }] })
        }
        Kind::Table(kind) => json!({ "type": "object", "additionalProperties": kind_schema(kind, definitions) }),
        Kind::Map => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Json => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::decode;

    /// Every block with its keys, as the grammar has them.
    fn walk(block: &'static Block, seen: &mut Vec<&'static Block>) {
        if seen.iter().any(|known| known.name == block.name) {
            return;
        }
        seen.push(block);
        for key in block.keys {
            let mut kind = &key.kind;
            while let Kind::List(inner) | Kind::Table(inner) = kind {
                kind = inner;
            }
            if let Kind::Block(inner) | Kind::Short(inner, _) = kind {
                walk(inner, seen);
            }
        }
    }

    #[test]
    fn the_schema_has_exactly_the_keys_that_the_decoder_accepts() {
        let schema = definition_schema();
        let mut blocks = Vec::new();
        walk(&SOURCE, &mut blocks);
        let described = schema["$defs"].as_object().unwrap();
        assert_eq!(described.len(), blocks.len());
        for block in blocks {
            let properties = described[block.name]["properties"].as_object().unwrap();
            let keys: BTreeSet<&str> = block.keys.iter().map(|key| key.name).collect();
            assert_eq!(properties.keys().map(String::as_str).collect::<BTreeSet<_>>(), keys, "{}", block.name);
            assert!(block.keys.iter().all(|key| !key.doc.is_empty()), "{}", block.name);
        }
    }

    #[test]
    fn the_decoder_names_the_keys_of_the_schema_when_it_meets_an_unknown_one() {
        let mistakes = decode("f", "zzzzzz: 1\nsource: a\nname: A\nbase_url: https://a.org\n").unwrap_err();
        let expected = mistakes[0].expected.as_deref().unwrap();
        let schema = definition_schema();
        for key in schema["$defs"]["source"]["properties"].as_object().unwrap().keys() {
            assert!(expected.contains(key.as_str()), "{key}");
        }
    }

    #[test]
    fn every_code_of_the_grammar_has_a_dictionary() {
        let mut blocks = Vec::new();
        walk(&SOURCE, &mut blocks);
        for key in blocks.iter().flat_map(|block| block.keys) {
            let mut kind = &key.kind;
            while let Kind::List(inner) = kind {
                kind = inner;
            }
            if let Kind::Code(code) = kind {
                assert!(dictionary(code).is_some(), "{code}");
            }
        }
    }
}
