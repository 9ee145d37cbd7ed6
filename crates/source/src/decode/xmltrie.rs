//! The XML path trie and the walker that follows it over events.
//!
//! The root of a trie is a virtual node above the outermost element: a relative path begins with a step that any
//! element matches, an absolute path names that element. An element may match several edges (predicates,
//! wildcards), so each level of the walk holds a set of nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use patra_core::path::{XmlName, XmlPath, XmlStep, XmlTarget};
use quick_xml::events::{BytesRef, BytesStart};
use serde_json::{Map, Value};

use super::group::{Begins, Group, Scope};
use super::record::Matches;
use super::xml::resolved;

const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

#[derive(Debug)]
pub struct XmlTrie {
    nodes: Vec<Node>,
    slots: usize,
    pub groups: Vec<Group>,
    /// Some path names a namespace, so declarations must be followed.
    pub namespaced: bool,
}

#[derive(Debug, Default)]
struct Node {
    edges: Vec<(Edge, usize)>,
    /// Number, and whether the parts of the element are wanted.
    texts: Vec<(usize, bool)>,
    attributes: Vec<(NameMatch, Option<usize>)>,
    /// An element here is an element of these groups.
    groups: Vec<usize>,
    item: bool,
    /// Items stand below this element.
    container: bool,
    exclude: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    name: NameMatch,
    predicate: Option<(NameMatch, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NameMatch {
    uri: Option<String>,
    local: Option<String>,
}

/// Namespace declarations in force: looked up for every element, so a flood of them must not make that slow.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// For each prefix its names, the innermost last.
    bindings: HashMap<String, Vec<String>>,
    /// Depth and prefix of each declaration.
    open: Vec<(usize, String)>,
}

impl Default for XmlTrie {
    fn default() -> XmlTrie {
        XmlTrie { nodes: vec![Node::default()], slots: 0, groups: Vec::new(), namespaced: false }
    }
}

impl XmlTrie {
    /// Asks for the text or attribute at a path; returns the number it is found under.
    pub fn add(&mut self, path: &XmlPath, uris: &BTreeMap<String, String>, tree: bool) -> Result<usize, String> {
        let node = self.node_at(path, uris)?;
        let slot = self.slots;
        self.slots += 1;
        match &path.target {
            XmlTarget::Text => self.nodes[node].texts.push((slot, tree)),
            XmlTarget::Attribute(name) => {
                let name = self.name(name, uris)?;
                self.nodes[node].attributes.push((name, Some(slot)));
            }
        }
        Ok(slot)
    }

    /// Begins a list of objects whose elements are at a path; what is added until [`close`](XmlTrie::close)
    /// belongs to them.
    pub fn open(&mut self, path: &XmlPath, uris: &BTreeMap<String, String>) -> Result<usize, String> {
        let node = self.node_at(path, uris)?;
        let inner = self.groups.len() + 1;
        self.groups.push(Group { slots: self.slots..self.slots, inner: inner..inner });
        self.nodes[node].groups.push(inner - 1);
        Ok(inner - 1)
    }

    pub fn close(&mut self, group: usize) {
        self.groups[group].slots.end = self.slots;
        self.groups[group].inner.end = self.groups.len();
    }

    /// Marks where items stand, and the element around them.
    pub fn add_items(&mut self, path: &XmlPath, uris: &BTreeMap<String, String>) -> Result<(), String> {
        if path.target != XmlTarget::Text {
            return Err("an item is an element".to_owned());
        }
        let item = self.node_at(path, uris)?;
        self.nodes[item].item = true;
        if let Some((_, above)) = path.steps.split_last() {
            let container = XmlPath { steps: above.to_vec(), ..path.clone() };
            let container = self.node_at(&container, uris)?;
            self.nodes[container].container = true;
        }
        Ok(())
    }

    /// Marks what the content hash leaves out.
    pub fn add_exclude(&mut self, path: &XmlPath, uris: &BTreeMap<String, String>) -> Result<(), String> {
        let node = self.node_at(path, uris)?;
        match &path.target {
            XmlTarget::Text => self.nodes[node].exclude = true,
            XmlTarget::Attribute(name) => {
                let name = self.name(name, uris)?;
                self.nodes[node].attributes.push((name, None));
            }
        }
        Ok(())
    }

    fn node_at(&mut self, path: &XmlPath, uris: &BTreeMap<String, String>) -> Result<usize, String> {
        let any = XmlStep { name: XmlName { prefix: None, local: None }, predicate: None };
        let first = (!path.absolute).then_some(&any);
        let mut at = 0;
        for step in first.into_iter().chain(&path.steps) {
            let predicate = match &step.predicate {
                Some(predicate) => Some((self.name(&predicate.attribute, uris)?, predicate.value.clone())),
                None => None,
            };
            let edge = Edge { name: self.name(&step.name, uris)?, predicate };
            let known = self.nodes[at].edges.iter().find(|(other, _)| *other == edge).map(|(_, child)| *child);
            at = known.unwrap_or_else(|| {
                self.nodes.push(Node::default());
                let child = self.nodes.len() - 1;
                self.nodes[at].edges.push((edge, child));
                child
            });
        }
        Ok(at)
    }

    fn name(&mut self, name: &XmlName, uris: &BTreeMap<String, String>) -> Result<NameMatch, String> {
        let uri = match name.prefix.as_deref() {
            None => None,
            Some("xml") => Some(XML_NAMESPACE.to_owned()),
            Some(prefix) => {
                let uri = uris.get(prefix).ok_or_else(|| format!("no namespace is declared for `{prefix}`"))?;
                Some(uri.clone())
            }
        };
        self.namespaced |= uri.is_some();
        Ok(NameMatch { uri, local: name.local.clone() })
    }
}

impl Namespaces {
    pub fn open(&mut self, tag: &BytesStart<'_>, depth: usize) {
        if !tag.attributes_raw().contains("xmlns") {
            return;
        }
        for attribute in tag.attributes().with_checks(false).flatten() {
            let key = attribute.key.into_inner();
            let prefix = match key.strip_prefix("xmlns") {
                Some("") => "",
                Some(rest) if rest.starts_with(':') => &rest[1..],
                _ => continue,
            };
            self.bindings.entry(prefix.to_owned()).or_default().push(unescaped(&attribute.value));
            self.open.push((depth, prefix.to_owned()));
        }
    }

    pub fn close(&mut self, depth: usize) {
        while let Some((_, prefix)) = self.open.pop_if(|(at, _)| *at >= depth) {
            if let Some(names) = self.bindings.get_mut(&prefix) {
                names.pop();
            }
        }
    }

    fn uri(&self, prefix: &str) -> Option<&str> {
        if prefix == "xml" {
            return Some(XML_NAMESPACE);
        }
        self.bindings.get(prefix)?.last().map(String::as_str)
    }
}

impl NameMatch {
    fn element(&self, qualified: &str, namespaces: &Namespaces) -> bool {
        let (prefix, local) = qualified.split_once(':').unwrap_or(("", qualified));
        self.local.as_deref().is_none_or(|name| name == local)
            && self.uri.as_deref().is_none_or(|uri| namespaces.uri(prefix) == Some(uri))
    }

    /// An attribute without prefix is in no namespace.
    fn attribute(&self, qualified: &str, namespaces: &Namespaces) -> bool {
        let (prefix, local) = qualified.split_once(':').unwrap_or(("", qualified));
        self.local.as_deref().is_none_or(|name| name == local)
            && match self.uri.as_deref() {
                None => prefix.is_empty(),
                Some(uri) => !prefix.is_empty() && namespaces.uri(prefix) == Some(uri),
            }
    }
}

/// The text of an attribute; an entity nobody declared stays as written.
fn unescaped(value: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(value.len()), value);
    while let Some((before, after)) = rest.split_once('&') {
        let Some((name, after)) = after.split_once(';') else { break };
        text.push_str(before);
        text.push_str(&resolved(&BytesRef::new(name)));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Follows one trie from element to element and collects what its paths ask for.
pub struct Walker<'t> {
    trie: &'t XmlTrie,
    /// Nodes of all open levels, and where each level begins.
    active: Vec<usize>,
    levels: Vec<usize>,
    open: Vec<Capture>,
    excluding: Vec<(usize, usize)>,
    pub found: Vec<Vec<Value>>,
    pub begins: Begins,
    pub excluded: Vec<Range<usize>>,
}

struct Capture {
    slot: usize,
    level: usize,
    text: String,
    parts: Option<Map<String, Value>>,
    /// Name of the open child and where its text begins.
    child: Option<(String, usize)>,
}

/// What an element is, beside its texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub item: bool,
    pub container: bool,
}

impl<'t> Walker<'t> {
    pub fn new(trie: &'t XmlTrie) -> Walker<'t> {
        let mut walker = Walker {
            trie,
            active: Vec::new(),
            levels: Vec::new(),
            open: Vec::new(),
            excluding: Vec::new(),
            found: Vec::new(),
            begins: Begins::default(),
            excluded: Vec::new(),
        };
        walker.reset();
        walker
    }

    pub fn reset(&mut self) {
        self.active.clear();
        self.active.push(0);
        self.levels.clear();
        self.open.clear();
        self.excluding.clear();
        self.excluded.clear();
        self.found.iter_mut().for_each(Vec::clear);
        self.found.resize_with(self.trie.slots, Vec::new);
        self.begins.clear(self.trie.groups.len());
    }

    pub fn matches(&self) -> Matches<'_, 'static> {
        let scope = Scope { groups: &self.trie.groups, begins: &self.begins, element: None };
        Matches { raw: &[], trees: &self.found, scope }
    }

    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// `whole` is the text that the tag was read from, `at` where the tag begins in it.
    pub fn start(&mut self, tag: &BytesStart<'_>, namespaces: &Namespaces, whole: &str, at: usize) -> Seen {
        let name = tag.name().into_inner();
        let above = self.levels.last().copied().unwrap_or(0);
        let level = self.active.len();
        for index in above..level {
            for (edge, child) in &self.trie.nodes[self.active[index]].edges {
                if edge.name.element(name, namespaces) && predicate_holds(edge, tag, namespaces) {
                    self.active.push(*child);
                }
            }
        }
        self.levels.push(level);
        let depth = self.levels.len();
        for capture in self.open.iter_mut().filter(|capture| capture.parts.is_some() && capture.level + 1 == depth) {
            let local = name.split_once(':').map_or(name, |(_, local)| local);
            capture.child = Some((local.to_owned(), capture.text.len()));
        }
        let mut seen = Seen::default();
        for index in level..self.active.len() {
            let node = &self.trie.nodes[self.active[index]];
            seen.item |= node.item;
            seen.container |= node.container;
            for group in &node.groups {
                let found = &self.found;
                self.begins.note(*group, &self.trie.groups, |slot| found[slot].len());
            }
            if node.exclude {
                self.excluding.push((depth, at));
            }
            for (slot, tree) in &node.texts {
                let parts = tree.then(Map::new);
                self.open.push(Capture { slot: *slot, level: depth, text: String::new(), parts, child: None });
            }
            if !node.attributes.is_empty() {
                attributes(node, tag, namespaces, whole, &mut self.found, &mut self.excluded);
            }
        }
        seen
    }

    pub fn text(&mut self, text: &str) {
        for capture in &mut self.open {
            capture.text.push_str(text);
        }
    }

    /// `at` is where the element ends.
    pub fn end(&mut self, at: usize) {
        let depth = self.levels.len();
        for capture in self.open.iter_mut().filter(|capture| capture.level + 1 == depth) {
            if let (Some(parts), Some((name, start))) = (&mut capture.parts, capture.child.take()) {
                parts.entry(name).or_insert_with(|| Value::from(capture.text[start..].trim()));
            }
        }
        while self.open.last().is_some_and(|capture| capture.level == depth) {
            let Some(capture) = self.open.pop() else { break };
            self.found[capture.slot].push(capture.value());
        }
        while let Some((_, start)) = self.excluding.pop_if(|(level, _)| *level == depth) {
            self.excluded.push(start..at);
        }
        if let Some(level) = self.levels.pop() {
            self.active.truncate(level);
        }
    }
}

impl Capture {
    fn value(self) -> Value {
        match self.parts {
            Some(mut parts) if !parts.is_empty() => {
                parts.insert("#text".to_owned(), Value::from(self.text.trim()));
                Value::Object(parts)
            }
            _ if self.text.trim().len() == self.text.len() => Value::String(self.text),
            _ => Value::from(self.text.trim()),
        }
    }
}

fn predicate_holds(edge: &Edge, tag: &BytesStart<'_>, namespaces: &Namespaces) -> bool {
    let Some((name, value)) = &edge.predicate else { return true };
    tag.attributes().with_checks(false).flatten().any(|attribute| {
        name.attribute(attribute.key.into_inner(), namespaces)
            && value.as_deref().is_none_or(|value| unescaped(&attribute.value) == value)
    })
}

fn attributes(
    node: &Node,
    tag: &BytesStart<'_>,
    namespaces: &Namespaces,
    whole: &str,
    found: &mut [Vec<Value>],
    excluded: &mut Vec<Range<usize>>,
) {
    let mut seen = BTreeSet::new();
    for attribute in tag.attributes().with_checks(false).flatten() {
        for (name, slot) in &node.attributes {
            if !name.attribute(attribute.key.into_inner(), namespaces) {
                continue;
            }
            match slot {
                // Either of two could be meant: NUL, which no text may hold.
                Some(slot) if !seen.insert((*slot, attribute.key.into_inner())) => {
                    if let Some(last) = found[*slot].last_mut() {
                        *last = Value::from("\0");
                    }
                }
                Some(slot) => found[*slot].push(Value::String(unescaped(&attribute.value))),
                None => {
                    let start = (attribute.value.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
                    if start <= whole.len() && start + attribute.value.len() <= whole.len() {
                        excluded.push(start..start + attribute.value.len());
                    }
                }
            }
        }
    }
}
