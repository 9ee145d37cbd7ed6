//! JSON bodies: split into the bytes of their items without a tree, then a trie per record.

use patra_core::hash::Hash32;
use patra_core::page::{BadItem, BadReason, Item};
use serde_json::Value;

use super::canonical::Canonical;
use super::compile::{JsonItems, Paths, Probe, ResponseProgram};
use super::exact;
use super::record::{bad, is_empty};
use super::text::Text;
use super::trie::{Found, Trie};
use super::{Decoded, NotAPage, Words, check_count};

/// Texts above this are asked through plain paths only: a tree takes many times the size of its text.
const TREE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub fn decode(program: &ResponseProgram, text: &Text) -> Result<Decoded, NotAPage> {
    match decode_text(program, text) {
        // Control characters that should have been escaped spoil their record only.
        Err(error) => match text.with_masked_controls() {
            Some(masked) => decode_text(program, &masked).map_err(|_| error),
            None => Err(error),
        },
        done => done,
    }
}

fn decode_text(program: &ResponseProgram, text: &Text) -> Result<Decoded, NotAPage> {
    let body = text.as_str();
    let mut found = Found::default();
    program.page.json.project(body, &mut found).map_err(|error| NotAPage::of_json(&error))?;
    let queried = program.items.iter().any(|items| matches!(items, JsonItems::Query(_)));
    let asked = queried || !program.page.queries.is_empty();
    if asked && body.len() > TREE_BYTES_MAX {
        return Err(NotAPage::malformed("too large for a path with filters"));
    }
    let page = asked.then(|| exact::tree(body)).transpose().map_err(|error| NotAPage::of_json(&error))?;
    let trees = queries(&program.page, page.as_ref());
    let words = Words::read(program, program.page.json.matches(&found, &trees), text)?;
    let mut located = Found::default();
    let (raws, present) = split(program, body, page.as_ref(), &found, &mut located)?;
    words.check_place(present, program)?;
    check_count(raws.len())?;
    let (mut items, mut bads) = (Vec::with_capacity(raws.len()), Vec::new());
    let mut reader = RecordReader { program, text, body, found: Found::default(), canonical: Canonical::default() };
    for raw in raws {
        if raw == "null" && program.skip_null {
            continue;
        }
        match reader.read(raw) {
            Ok(item) => items.push(item),
            Err(one) => bads.push(one),
        }
    }
    Ok(words.decoded(items, bads, text.body().clone()))
}

/// The bytes of every item, and whether the place for items is there.
fn split<'a>(
    program: &ResponseProgram,
    body: &'a str,
    page: Option<&Value>,
    found: &Found<'a>,
    located: &mut Found<'a>,
) -> Result<(Vec<&'a str>, bool), NotAPage> {
    let (mut raws, mut present) = (Vec::new(), false);
    for items in &program.items {
        match items {
            JsonItems::Slot { at, mark } => {
                let matched = &found.values[*at];
                present |= mark.map_or(!matched.is_empty(), |mark| found.marks[mark]);
                raws.extend_from_slice(matched);
            }
            JsonItems::Query(query) => {
                let page = page.ok_or_else(|| NotAPage::malformed("the page was not read as a tree"))?;
                let mut trie = Trie::default();
                for node in query.query(page).iter() {
                    trie.add(&steps_of(node.path()));
                }
                if !trie.is_empty() {
                    present = true;
                    trie.project(body, located).map_err(|error| NotAPage::of_json(&error))?;
                    raws.extend(located.values.iter().flatten().copied());
                }
            }
        }
    }
    Ok((raws, present))
}

fn steps_of(path: &jsonpath_rfc9535::NormalizedPath<'_>) -> Vec<patra_core::path::JsonStep> {
    use jsonpath_rfc9535::Element;
    use patra_core::path::JsonStep;
    path.elements()
        .into_iter()
        .map(|element| match element {
            Element::Name(name) => JsonStep::Name(name.to_owned()),
            Element::Index(index) => JsonStep::Index(index),
        })
        .collect()
}

fn queries(paths: &Paths, tree: Option<&Value>) -> Vec<Vec<Value>> {
    let Some(tree) = tree else { return vec![Vec::new(); paths.queries.len()] };
    paths.queries.iter().map(|query| query.query_values(tree).into_iter().cloned().collect()).collect()
}

/// Reads one record by itself.
pub fn reread(program: &ResponseProgram, text: &Text) -> Result<Item, BadItem> {
    let body = text.as_str();
    let (found, canonical) = (Found::default(), Canonical::default());
    RecordReader { program, text, body, found, canonical }.read(body)
}

/// Reads one record after the other, with buffers that are kept.
struct RecordReader<'p, 'a> {
    program: &'p ResponseProgram,
    text: &'a Text,
    body: &'a str,
    found: Found<'a>,
    canonical: Canonical,
}

impl<'a> RecordReader<'_, 'a> {
    fn read(&mut self, raw: &'a str) -> Result<Item, BadItem> {
        let (payload, clean) = self.text.raw(self.body, raw);
        if !clean {
            let message = "the record holds bytes that are no text".to_owned();
            return Err(bad(None, (BadReason::BadText, String::new(), message), payload));
        }
        let malformed = |message: String| (BadReason::Malformed, String::new(), message);
        if raw == "null" {
            return Err(bad(None, (BadReason::NoId, String::new(), "the item is null".to_owned()), payload));
        }
        let hash: Hash32 = match self.canonical.hash(raw, &self.program.exclude) {
            Ok(hash) => hash,
            Err(error) => return Err(bad(None, malformed(error.to_string()), payload)),
        };
        let paths = &self.program.record;
        // The trie refuses a repeated key on a path. A tree keeps one of the two without a word, perhaps the wrong one.
        if let Some(key) = self.canonical.repeated.as_ref().filter(|_| !paths.queries.is_empty()) {
            return Err(bad(None, malformed(format!("key `{key}` comes twice in one object")), payload));
        }
        if let Err(error) = paths.json.project(raw, &mut self.found) {
            return Err(bad(None, malformed(error.to_string()), payload));
        }
        let trees = if paths.queries.is_empty() {
            Vec::new()
        } else if raw.len() > TREE_BYTES_MAX {
            return Err(bad(None, malformed("too large for a path with filters".to_owned()), payload));
        } else {
            match exact::tree(raw) {
                Ok(tree) => queries(paths, Some(&tree)),
                Err(error) => return Err(bad(None, malformed(error.to_string()), payload)),
            }
        };
        self.program.plan.build(paths.json.matches(&self.found, &trees), hash, payload)
    }
}

pub fn probe(probe: &Probe, text: &Text) -> Option<Value> {
    let body = text.as_str();
    let mut found = Found::default();
    probe.paths.json.project(body, &mut found).ok()?;
    let tree: Option<Value> = match probe.paths.queries.is_empty() {
        true => None,
        false => exact::tree(body).ok(),
    };
    let trees = queries(&probe.paths, tree.as_ref());
    let one = probe.slots.value(probe.paths.json.matches(&found, &trees)).ok()??;
    one.tree().ok().filter(|value| !is_empty(value))
}
