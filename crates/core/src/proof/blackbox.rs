//! The black box (14.9): the evidence of pages as one archive, and the manifest by which it is checked.
//!
//! The seal is no signature, as that of a certificate is none: it finds a slip of the hand, not a forger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::Hash32;
use crate::mask::masked;
use crate::time::Timestamp;

pub const FORMAT: &str = "patra-blackbox";
/// The part that lists the others; it comes last, because it has their hashes.
pub const MANIFEST: &str = "manifest.json";
/// Ids shown of each decision.
pub const SAMPLE_IDS: usize = 3;

/// What is kept of the answers in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Bodies {
    /// At most a kilobyte of each; e-mail addresses, phone and id numbers are masked.
    MaskedSample,
    /// As they were kept: without secrets, and not masked.
    WholeUnmasked,
}

/// A part as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: String,
    pub bytes: u64,
    pub sha256: Hash32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub version: u32,
    /// The run or page that was asked for, and its source.
    pub target: String,
    pub source: String,
    pub pages: u64,
    pub bodies: Bodies,
    pub operator: String,
    pub reason: String,
    pub made_at: Timestamp,
    pub expires_at: Timestamp,
    pub parts: Vec<Listed>,
    /// Over everything above.
    pub seal: Hash32,
}

impl Manifest {
    pub const VERSION: u32 = 1;

    pub fn sealed(mut self) -> Manifest {
        self.seal = self.over();
        self
    }

    fn over(&self) -> Hash32 {
        let mut text = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut text {
            fields.remove("seal");
        }
        Hash32::of_json(&text)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// What is wrong with an archive that holds these parts.
    pub fn flaws(&self, found: &[Listed]) -> Vec<String> {
        let mut flaws = Vec::new();
        if self.format != FORMAT || self.version != Manifest::VERSION {
            flaws.push("it has a form that this build does not know".to_owned());
        }
        if self.seal != self.over() {
            flaws.push("its manifest was changed after it was made".to_owned());
        }
        let known: BTreeMap<&str, &Listed> = found.iter().map(|part| (part.name.as_str(), part)).collect();
        if known.len() != found.len() {
            flaws.push("it has two parts of one name".to_owned());
        }
        for part in &self.parts {
            match known.get(part.name.as_str()) {
                None => flaws.push(format!("`{}` is missing", part.name)),
                Some(found) if *found != part => flaws.push(format!("`{}` is not what was exported", part.name)),
                Some(_) => {}
            }
        }
        let listed = |name: &str| self.parts.iter().any(|part| part.name == name);
        let strange = found.iter().filter(|part| !listed(&part.name));
        flaws.extend(strange.map(|part| format!("`{}` is not in the manifest", part.name)));
        flaws
    }
}

/// How many ids of a page ended in one way, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub count: u64,
    pub sample: Vec<String>,
}

/// Ids of a page by what was decided of them there, as far as rows still say so: CREATED, UPDATED, DELETED, STORED (its
/// event is gone), NOT_NEWER, QUARANTINED, NOT_KEPT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decisions(pub BTreeMap<String, Decided>);

impl Decisions {
    pub fn add(&mut self, decision: &str, id: &str) {
        let decided = self.0.entry(decision.to_owned()).or_default();
        decided.count += 1;
        if decided.sample.len() < SAMPLE_IDS {
            decided.sample.push(id.to_owned());
        }
    }
}

/// Masks every text of a part but ids of rows, which are long numbers too.
pub fn mask_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Array(items) => items.iter_mut().for_each(mask_texts),
        Value::Object(fields) => {
            let named = fields.iter_mut().filter(|(name, _)| *name != "id" && !name.ends_with("_id"));
            named.for_each(|(_, value)| mask_texts(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(name: &str, text: &str) -> Listed {
        Listed { name: name.into(), bytes: text.len() as u64, sha256: Hash32::of(text.as_bytes()) }
    }

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT.into(),
            version: Manifest::VERSION,
            target: "run 7".into(),
            source: "crossref".into(),
            pages: 1,
            bodies: Bodies::MaskedSample,
            operator: "ada".into(),
            reason: "a complaint".into(),
            made_at: Timestamp::from_seconds(0),
            expires_at: Timestamp::from_seconds(100),
            parts: vec![part("a", "1"), part("b", "2")],
            seal: Hash32::default(),
        }
        .sealed()
    }

    #[test]
    fn every_change_of_an_archive_is_found_and_named() {
        let whole = manifest();
        let found = whole.parts.clone();
        assert_eq!(whole.flaws(&found), Vec::<String>::new());
        let read: Manifest = serde_json::from_value(json!(whole)).unwrap();
        assert_eq!(read.flaws(&found), Vec::<String>::new(), "it reads back");
        for (parts, want) in [
            (vec![part("a", "1")], "`b` is missing"),
            (vec![part("a", "1"), part("b", "3")], "`b` is not what was exported"),
            (vec![part("a", "1"), part("b", "2"), part("c", "")], "`c` is not in the manifest"),
            (vec![part("a", "1"), part("b", "2"), part("b", "2")], "it has two parts of one name"),
        ] {
            assert_eq!(whole.flaws(&parts), [want]);
        }
        let later = Manifest { expires_at: Timestamp::from_seconds(200), ..whole.clone() };
        assert_eq!(later.flaws(&found), ["its manifest was changed after it was made"]);
        let other = Manifest { version: 2, ..whole.clone() }.sealed();
        assert_eq!(other.flaws(&found), ["it has a form that this build does not know"]);
        assert!(!whole.is_expired(Timestamp::from_seconds(99)) && whole.is_expired(Timestamp::from_seconds(100)));
    }

    #[test]
    fn of_each_decision_a_few_ids_are_shown_and_all_are_counted() {
        let mut decisions = Decisions::default();
        ["a", "b", "c", "d"].iter().for_each(|id| decisions.add("CREATED", id));
        decisions.add("NOT_KEPT", "e");
        let want = json!({
            "CREATED": { "count": 4, "sample": ["a", "b", "c"] }, "NOT_KEPT": { "count": 1, "sample": ["e"] },
        });
        assert_eq!(json!(decisions), want);
    }

    #[test]
    fn texts_are_masked_at_every_depth_and_ids_of_rows_are_not() {
        let mut value = json!({ "run_id": "11010519491231002X", "a": [{ "b": "x@y.org", "id": "x@y.org" }], "n": 1 });
        mask_texts(&mut value);
        assert_eq!((&value["run_id"], &value["a"][0]["id"]), (&json!("11010519491231002X"), &json!("x@y.org")));
        assert!(value["a"][0]["b"].as_str().unwrap().starts_with("[email:"), "{value}");
    }
}
