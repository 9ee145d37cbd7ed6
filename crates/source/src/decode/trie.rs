//! The projection trie: follows many JSON paths at once while reading, and skips what no path asks for.
//!
//! A path that ends here leaves the bytes of the value, unparsed. Values are found in document order. A key that
//! is on a path and comes twice in one object is an error, because either of the two could be meant.

use std::borrow::Cow;
use std::fmt;

use patra_core::path::JsonStep;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::group::{Begins, Group, Scope};
use super::record::Matches;

#[derive(Debug, Default)]
pub struct Trie {
    nodes: Vec<Node>,
    slots: usize,
    marks: usize,
    pub groups: Vec<Group>,
}

#[derive(Debug, Default)]
struct Node {
    /// Values that end here are kept under these numbers.
    slots: Vec<usize>,
    /// A list or object here is noted under these numbers.
    marks: Vec<usize>,
    /// A value here is an element of these groups.
    groups: Vec<usize>,
    /// Children by name and by index, each in order: the places of a query's matches can be a hundred thousand.
    names: Vec<(Box<str>, usize)>,
    indices: Vec<(usize, usize)>,
    wildcard: Option<usize>,
}

impl Node {
    /// Where a name stands among the children.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|(key, _)| (**key).cmp(name))
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.place_of(name).ok().map(|at| self.names[at].1)
    }

    fn numbered(&self, index: usize) -> Option<usize> {
        self.indices.binary_search_by_key(&index, |(key, _)| *key).ok().map(|at| self.indices[at].1)
    }
}

/// What one text gave.
#[derive(Debug, Default)]
pub struct Found<'a> {
    pub values: Vec<Vec<&'a str>>,
    pub marks: Vec<bool>,
    pub begins: Begins,
}

impl Trie {
    /// Asks for the values at a path; returns the number they are found under.
    pub fn add(&mut self, steps: &[JsonStep]) -> usize {
        let node = self.node_at(steps);
        self.slots += 1;
        self.nodes[node].slots.push(self.slots - 1);
        self.slots - 1
    }

    /// Asks whether there is a list or object at a path.
    pub fn add_mark(&mut self, steps: &[JsonStep]) -> usize {
        let node = self.node_at(steps);
        self.marks += 1;
        self.nodes[node].marks.push(self.marks - 1);
        self.marks - 1
    }

    /// Begins a list of objects whose elements are the values at a path; what is added until
    /// [`close`](Trie::close) belongs to them.
    pub fn open(&mut self, steps: &[JsonStep]) -> usize {
        let node = self.node_at(steps);
        let inner = self.groups.len() + 1;
        self.groups.push(Group { slots: self.slots..self.slots, inner: inner..inner });
        self.nodes[node].groups.push(inner - 1);
        inner - 1
    }

    pub fn close(&mut self, group: usize) {
        self.groups[group].slots.end = self.slots;
        self.groups[group].inner.end = self.groups.len();
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Follows all paths through `text`, which must be one whole JSON value.
    pub fn project<'a>(&self, text: &'a str, found: &mut Found<'a>) -> Result<(), serde_json::Error> {
        found.values.iter_mut().for_each(Vec::clear);
        found.values.resize_with(self.slots, Vec::new);
        found.marks.clear();
        found.marks.resize(self.marks, false);
        found.begins.clear(self.groups.len());
        let mut reader = serde_json::Deserializer::from_str(text);
        if self.is_empty() {
            serde::Deserialize::deserialize(&mut reader).map(|IgnoredAny| ())?;
        } else {
            Visit { trie: self, node: 0, found }.deserialize(&mut reader)?;
        }
        reader.end()
    }

    /// What was found, with the matches of the queries beside it.
    pub fn matches<'f, 'a>(&'f self, found: &'f Found<'a>, trees: &'f [Vec<Value>]) -> Matches<'f, 'a> {
        let scope = Scope { groups: &self.groups, begins: &found.begins, element: None };
        Matches { raw: &found.values, trees, scope }
    }

    /// The child of an excluded path, for the canonical writer.
    pub fn child_of_name(&self, node: usize, name: &str) -> Option<usize> {
        let node = self.nodes.get(node)?;
        node.named(name).or(node.wildcard)
    }

    pub fn child_of_index(&self, node: usize, index: usize) -> Option<usize> {
        let node = self.nodes.get(node)?;
        node.numbered(index).or(node.wildcard)
    }

    pub fn ends_at(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.slots.is_empty())
    }

    fn node_at(&mut self, steps: &[JsonStep]) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for step in steps {
            let node = &self.nodes[at];
            let child = match step {
                JsonStep::Name(name) => node.named(name),
                JsonStep::Index(index) => node.numbered(*index),
                JsonStep::Wildcard => node.wildcard,
            };
            at = child.unwrap_or_else(|| self.grow(at, step));
        }
        at
    }

    fn grow(&mut self, at: usize, step: &JsonStep) -> usize {
        let child = self.nodes.len();
        self.nodes.push(Node::default());
        let node = &mut self.nodes[at];
        match step {
            JsonStep::Name(name) => {
                let place = node.place_of(name).unwrap_or_else(|place| place);
                node.names.insert(place, (name.as_str().into(), child));
            }
            JsonStep::Index(index) => {
                let place = node.indices.partition_point(|(key, _)| key < index);
                node.indices.insert(place, (*index, child));
            }
            JsonStep::Wildcard => node.wildcard = Some(child),
        }
        child
    }
}

struct Visit<'t, 'f, 'a> {
    trie: &'t Trie,
    node: usize,
    found: &'f mut Found<'a>,
}

impl<'t, 'a> Visit<'t, '_, 'a> {
    fn node(&self) -> &'t Node {
        &self.trie.nodes[self.node]
    }

    fn mark(&mut self) {
        for mark in &self.node().marks {
            self.found.marks[*mark] = true;
        }
    }

    fn at<'f>(&'f mut self, node: usize) -> Visit<'t, 'f, 'a> {
        Visit { trie: self.trie, node, found: &mut *self.found }
    }

    /// Reads a value that two paths want, from its bytes.
    fn both(&mut self, nodes: [usize; 2], raw: &'a RawValue) -> Result<(), serde_json::Error> {
        for node in nodes {
            self.at(node).deserialize(&mut serde_json::Deserializer::from_str(raw.get()))?;
        }
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Visit<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(mut self, deserializer: D) -> Result<(), D::Error> {
        let node = self.node();
        for group in &node.groups {
            let Found { values, begins, .. } = &mut *self.found;
            begins.note(*group, &self.trie.groups, |slot| values[slot].len());
        }
        if node.slots.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let raw: &'a RawValue = serde::Deserialize::deserialize(deserializer)?;
        for slot in &node.slots {
            self.found.values[*slot].push(raw.get());
        }
        if !node.marks.is_empty() && raw.get().starts_with(['[', '{']) {
            self.mark();
        }
        let leaf = node.names.is_empty() && node.indices.is_empty() && node.wildcard.is_none();
        if leaf || !raw.get().starts_with(['[', '{']) {
            return Ok(());
        }
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        reader.deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'a> Visitor<'a> for Visit<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.mark();
        let node = self.node();
        let mut seen = vec![false; node.names.len()];
        while let Some(Key(key)) = map.next_key_seed(KeySeed)? {
            let place = node.place_of(&key).ok();
            if place.is_some_and(|place| std::mem::replace(&mut seen[place], true)) {
                return Err(A::Error::custom(format!("key `{key}` comes twice")));
            }
            match [place.map(|place| node.names[place].1), node.wildcard] {
                [None, None] => map.next_value::<IgnoredAny>().map(|_| ())?,
                [Some(child), None] | [None, Some(child)] => map.next_value_seed(self.at(child))?,
                [Some(first), Some(second)] => {
                    let raw = map.next_value()?;
                    self.both([first, second], raw).map_err(A::Error::custom)?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.mark();
        let node = self.node();
        for index in 0.. {
            let more = match [node.numbered(index), node.wildcard] {
                [None, None] => list.next_element::<IgnoredAny>()?.is_some(),
                [Some(child), None] | [None, Some(child)] => list.next_element_seed(self.at(child))?.is_some(),
                [Some(first), Some(second)] => match list.next_element()? {
                    None => false,
                    Some(raw) => self.both([first, second], raw).map(|()| true).map_err(A::Error::custom)?,
                },
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key, borrowed unless it holds escapes.
struct Key<'a>(Cow<'a, str>);
struct KeySeed;

impl<'a> DeserializeSeed<'a> for KeySeed {
    type Value = Key<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Key<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for KeySeed {
    type Value = Key<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<Key<'a>, E> {
        Ok(Key(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Key<'a>, E> {
        Ok(Key(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use patra_core::path::{Extract, JsonQuery, Path};
    use patra_core::spec::snapshot::Format;

    use super::*;

    fn steps(text: &str) -> Vec<JsonStep> {
        match Extract::parse(text, Format::Json).unwrap().alternatives.remove(0).path {
            Path::Json(JsonQuery::Steps(steps)) => steps,
            other => panic!("{other:?}"),
        }
    }

    fn project<'a>(paths: &[&str], text: &'a str) -> Result<Vec<Vec<&'a str>>, String> {
        let mut trie = Trie::default();
        for path in paths {
            trie.add(&steps(path));
        }
        let mut found = Found::default();
        trie.project(text, &mut found).map_err(|error| error.to_string())?;
        Ok(found.values)
    }

    #[test]
    fn values_are_found_unparsed_in_document_order() {
        let text = r#"{"a":{"b":[1e400,{"c": "x"} ,null],"d":"\ud800"},"e":12345678901234567890123}"#;
        let paths = ["$.a.b[*]", "$.a.b[1].c", "$.e", "$.a.d", "$.zz", "$", "$.a.b[*].c", "$.a.*"];
        let found = project(&paths, text).unwrap();
        assert_eq!(found[0], ["1e400", r#"{"c": "x"}"#, "null"]);
        assert_eq!(found[1], [r#""x""#]);
        assert_eq!(found[2], ["12345678901234567890123"]);
        assert_eq!(found[3], [r#""\ud800""#]);
        assert!(found[4].is_empty());
        assert_eq!(found[5], [text]);
        assert_eq!(found[6], [r#""x""#]);
        assert_eq!(found[7].len(), 2);
    }

    #[test]
    fn a_key_on_a_path_that_comes_twice_is_refused() {
        assert!(project(&["$.id"], r#"{"id":1,"id":2}"#).unwrap_err().contains("twice"));
        assert!(project(&["$.id"], r#"{"id":1,"\u0069d":2}"#).unwrap_err().contains("twice"));
        assert!(project(&["$.id"], r#"{"x":1,"x":2}"#).is_ok());
    }

    #[test]
    fn the_text_must_be_one_whole_value() {
        for text in ["", "{", r#"{"a":1}x"#, r#"{"a":1}{"a":2}"#, "[1,]", "nul"] {
            assert!(project(&["$.a"], text).is_err(), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(project(&["$[0][0]"], &deep).is_ok(), "what no path asks for is skipped without a stack");
    }

    #[test]
    fn marks_tell_a_missing_list_from_an_empty_one() {
        let mut trie = Trie::default();
        trie.add(&steps("$.a[*]"));
        let mark = trie.add_mark(&steps("$.a"));
        for (text, want) in [(r#"{"a":[]}"#, true), (r#"{"a":null}"#, false), ("{}", false), (r#"{"a":{}}"#, true)] {
            let mut found = Found::default();
            trie.project(text, &mut found).unwrap();
            assert_eq!(found.marks[mark], want, "{text}");
        }
    }
}
