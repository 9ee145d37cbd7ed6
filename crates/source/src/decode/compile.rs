//! Compiles the paths of a response into tries, once per spec.

use std::collections::BTreeMap;

use jsonpath_rfc9535::JsonPath;
use patra_core::calendar::zone_of;
use patra_core::path::{Extract, JsonQuery, JsonStep, Path, XmlPath};
use patra_core::spec::snapshot::{Format, ResponseSpec};

use super::record::{Arity, Place, RecordPlan, Slot, Slots};
use super::trie::Trie;
use super::xmltrie::XmlTrie;

/// A response, ready to decode any number of bodies.
#[derive(Debug)]
pub struct ResponseProgram {
    pub format: Format,
    pub item_paths: Vec<String>,
    pub(super) page: Paths,
    pub(super) items: Vec<JsonItems>,
    pub(super) total: Option<Slots>,
    pub(super) has_more: Option<Slots>,
    pub(super) next_token: Option<Slots>,
    pub(super) next_url: Option<Slots>,
    pub(super) record: Paths,
    /// JSON paths left out of the content hash; in XML they are marks of the record trie.
    pub(super) exclude: Trie,
    pub(super) plan: RecordPlan,
    /// In the answer to a list of ids a null stands for an id that is not there.
    pub(super) skip_null: bool,
}

/// What the rest of a spec says about the reading of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    pub next_token: Option<&'a str>,
    pub next_url: Option<&'a str>,
    /// The window is filtered by the record's time, so it must be there.
    pub time_required: bool,
    /// The answer to a list of ids.
    pub detail: bool,
}

/// Where items of a JSON page are found.
#[derive(Debug)]
pub enum JsonItems {
    Slot { at: usize, mark: Option<usize> },
    Query(Box<JsonPath>),
}

/// The paths of one level (page or record), as one trie and the queries that need a tree.
#[derive(Debug, Default)]
pub struct Paths {
    pub json: Trie,
    pub queries: Vec<JsonPath>,
    pub xml: XmlTrie,
}

/// A single path that is looked up in a body.
#[derive(Debug)]
pub struct Probe {
    pub(super) format: Format,
    pub(super) paths: Paths,
    pub(super) slots: Slots,
}

/// Builds paths of one level; keeps what all of them need.
struct Builder<'a> {
    format: Format,
    namespaces: &'a BTreeMap<String, String>,
    paths: Paths,
}

impl ResponseProgram {
    pub fn compile(spec: &ResponseSpec, around: Around<'_>) -> Result<ResponseProgram, String> {
        let mut page = Builder::new(spec.format, &spec.namespaces);
        let items = page.items(&spec.items)?;
        let total = page.optional(spec.total.as_deref())?;
        let has_more = page.optional(spec.has_more.as_deref())?;
        let next_token = page.optional(around.next_token)?;
        let next_url = page.optional(around.next_url)?;
        let mut record = Builder::new(spec.format, &spec.namespaces);
        let plan = record.plan(spec, around.time_required)?;
        let mut exclude = Trie::default();
        for path in &spec.hash_exclude {
            record.exclude(path, &mut exclude)?;
        }
        Ok(ResponseProgram {
            format: spec.format,
            item_paths: spec.items.clone(),
            page: page.paths,
            items,
            total,
            has_more,
            next_token,
            next_url,
            record: record.paths,
            exclude,
            plan,
            skip_null: around.detail,
        })
    }
}

impl Probe {
    pub fn compile(path: &str, format: Format, namespaces: &BTreeMap<String, String>) -> Result<Probe, String> {
        let mut builder = Builder::new(format, namespaces);
        let slots = builder.slots(path)?;
        Ok(Probe { format, paths: builder.paths, slots })
    }
}

impl<'a> Builder<'a> {
    fn new(format: Format, namespaces: &'a BTreeMap<String, String>) -> Builder<'a> {
        Builder { format, namespaces, paths: Paths::default() }
    }

    fn plan(&mut self, spec: &ResponseSpec, time_required: bool) -> Result<RecordPlan, String> {
        // Without an id path the item is its own id, as in a search that gives only ids.
        let own = match spec.format {
            Format::Json => "$",
            Format::Xml => ".",
        };
        let own = [own.to_owned()];
        let id_paths = if spec.id.is_empty() { &own[..] } else { &spec.id };
        let mut fields = Vec::new();
        for field in &spec.fields {
            fields.push((field.name.clone(), self.slots(&field.path)?, field.required));
        }
        Ok(RecordPlan {
            id: id_paths.iter().map(|path| self.slots(path)).collect::<Result<_, _>>()?,
            updated_at: match &spec.updated_at {
                Some(path) => Some(self.slots_as(path, true)?),
                None => None,
            },
            version: self.optional(spec.version.as_deref())?,
            deleted: self.optional(spec.deleted.as_deref())?,
            fields,
            time_kind: spec.time.kind,
            zone: zone_of(&spec.time.zone).map_err(|error| error.to_string())?,
            time_required,
        })
    }

    fn optional(&mut self, path: Option<&str>) -> Result<Option<Slots>, String> {
        path.map(|path| self.slots(path)).transpose()
    }

    fn slots(&mut self, text: &str) -> Result<Slots, String> {
        self.slots_as(text, false)
    }

    /// `tree`: the parts of an XML element are wanted, not only its text.
    fn slots_as(&mut self, text: &str, tree: bool) -> Result<Slots, String> {
        let extract = self.parse(text)?;
        let mut alternatives = Vec::new();
        for one in extract.alternatives {
            let tree = tree || one.pipes.first().is_some_and(|pipe| pipe.wants_tree());
            let (at, arity) = match one.path {
                Path::Json(query) => self.json(query),
                Path::Xml(path) => (Place::Tree(self.xml(&path, text, tree)?), Arity::OneOrMany),
            };
            alternatives.push(Slot { at, arity, pipes: one.pipes });
        }
        Ok(Slots { text: text.to_owned(), alternatives })
    }

    fn json(&mut self, query: JsonQuery) -> (Place, Arity) {
        let arity = if query.is_singular() { Arity::One } else { Arity::Many };
        match query {
            JsonQuery::Steps(steps) => (Place::Raw(self.paths.json.add(&steps)), arity),
            JsonQuery::Query(query) => {
                self.paths.queries.push(*query);
                (Place::Tree(self.paths.queries.len() - 1), arity)
            }
        }
    }

    fn xml(&mut self, path: &XmlPath, text: &str, tree: bool) -> Result<usize, String> {
        self.paths.xml.add(path, self.namespaces, tree).map_err(|message| format!("path `{text}`: {message}"))
    }

    fn items(&mut self, paths: &[String]) -> Result<Vec<JsonItems>, String> {
        let mut items = Vec::new();
        for text in paths {
            let mut extract = self.parse(text)?;
            let plain = extract.alternatives.len() == 1 && extract.alternatives[0].pipes.is_empty();
            let Some(one) = extract.alternatives.pop().filter(|_| plain) else {
                return Err(format!("path `{text}`: items have no alternatives and no pipes"));
            };
            match one.path {
                Path::Json(JsonQuery::Steps(steps)) => {
                    let mark = match steps.split_last() {
                        Some((JsonStep::Wildcard, container)) => Some(self.paths.json.add_mark(container)),
                        _ => None,
                    };
                    items.push(JsonItems::Slot { at: self.paths.json.add(&steps), mark });
                }
                Path::Json(JsonQuery::Query(query)) => items.push(JsonItems::Query(query)),
                Path::Xml(path) => self
                    .paths
                    .xml
                    .add_items(&path, self.namespaces)
                    .map_err(|message| format!("path `{text}`: {message}"))?,
            }
        }
        Ok(items)
    }

    fn exclude(&mut self, text: &str, json: &mut Trie) -> Result<(), String> {
        for one in self.parse(text)?.alternatives {
            match one.path {
                Path::Json(JsonQuery::Steps(steps)) if !steps.is_empty() => {
                    json.add(&steps);
                }
                Path::Json(_) => return Err(format!("path `{text}`: only names, indices and `*` can be excluded")),
                Path::Xml(path) => self
                    .paths
                    .xml
                    .add_exclude(&path, self.namespaces)
                    .map_err(|message| format!("path `{text}`: {message}"))?,
            }
        }
        Ok(())
    }

    fn parse(&self, text: &str) -> Result<Extract, String> {
        Extract::parse(text, self.format).map_err(|error| format!("path `{text}`: {error}"))
    }
}
