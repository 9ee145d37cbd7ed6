//! Compiles the paths of a response into tries, once per spec.

use std::collections::BTreeMap;

use jsonpath_rfc9535::JsonPath;
use patra_core::calendar::zone_of;
use patra_core::path::mapping::{Mapped, Members as Tree, Mismapped, is_piped, mapping};
use patra_core::path::{Extract, JsonQuery, JsonStep, Path, XmlPath};
use patra_core::spec::snapshot::{FieldSpec, Format, ResponseSpec};

use super::fields::{Field, Made, Members};
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
        let tree = mapping(&spec.fields, spec.format).map_err(|wrong| first_of(&wrong))?;
        let fields = self.members(&tree, &spec.fields, None)?;
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

    /// `above`: the path of the elements that the paths begin at.
    fn members(&mut self, tree: &Tree, fields: &[FieldSpec], above: Option<&Path>) -> Result<Members, String> {
        let member = |(name, mapped): &(String, Mapped)| {
            let field = match mapped {
                Mapped::Value(at) => {
                    Field::Value(self.slots_at(&fields[*at].path, false, above)?, fields[*at].required)
                }
                Mapped::Values(at) => {
                    Field::Values(self.slots_at(&fields[*at].path, false, above)?, fields[*at].required)
                }
                Mapped::Object(inner) => Field::Object(self.members(inner, fields, above)?),
                Mapped::Objects(at, inner) if is_piped(&fields[*at], self.format) => {
                    let made = self.made(inner, fields)?;
                    Field::Made(self.slots_at(&fields[*at].path, false, above)?, made, fields[*at].required)
                }
                Mapped::Objects(at, inner) => {
                    Field::Objects(self.groups(&fields[*at].path, inner, fields, above)?, fields[*at].required)
                }
            };
            Ok((format!("{}:", serde_json::Value::from(name.as_str())), field))
        };
        tree.iter().map(member).collect()
    }

    /// The members of elements that pipes make.
    fn made(&self, inner: &Tree, fields: &[FieldSpec]) -> Result<Vec<Made>, String> {
        let member = |(name, mapped): &(String, Mapped)| {
            let Mapped::Value(at) = mapped else { return Err(format!("`{name}` cannot stand in a made element")) };
            let first = self.parse(&fields[*at].path)?.alternatives.into_iter().next();
            let pipes = first.map(|one| one.pipes).unwrap_or_default();
            let name = format!("{}:", serde_json::Value::from(name.as_str()));
            Ok(Made { name, pipes, required: fields[*at].required })
        };
        inner.iter().map(member).collect()
    }

    /// One group for each alternative of a list of objects.
    fn groups(
        &mut self,
        text: &str,
        inner: &Tree,
        fields: &[FieldSpec],
        above: Option<&Path>,
    ) -> Result<Vec<(usize, Members)>, String> {
        let mut groups = Vec::new();
        for one in self.parse(text)?.alternatives {
            let path = below(above, one.path).map_err(|message| format!("path `{text}`: {message}"))?;
            let group = match &path {
                Path::Json(JsonQuery::Steps(steps)) => self.paths.json.open(steps),
                Path::Json(_) => return Err(format!("path `{text}`: a list of objects has no filters")),
                Path::Xml(path) => self.paths.xml.open(path, self.namespaces)?,
            };
            let members = self.members(inner, fields, Some(&path))?;
            match &path {
                Path::Json(_) => self.paths.json.close(group),
                Path::Xml(_) => self.paths.xml.close(group),
            }
            groups.push((group, members));
        }
        Ok(groups)
    }

    fn optional(&mut self, path: Option<&str>) -> Result<Option<Slots>, String> {
        path.map(|path| self.slots(path)).transpose()
    }

    fn slots(&mut self, text: &str) -> Result<Slots, String> {
        self.slots_as(text, false)
    }

    /// `tree`: the parts of an XML element are wanted, not only its text.
    fn slots_as(&mut self, text: &str, tree: bool) -> Result<Slots, String> {
        self.slots_at(text, tree, None)
    }

    fn slots_at(&mut self, text: &str, tree: bool, above: Option<&Path>) -> Result<Slots, String> {
        let extract = self.parse(text)?;
        let mut alternatives = Vec::new();
        for one in extract.alternatives {
            let tree = tree || one.pipes.first().is_some_and(|pipe| pipe.wants_tree());
            // How many there may be in an element does not depend on how many elements there are.
            let singular = matches!(&one.path, Path::Json(query) if query.is_singular());
            let path = below(above, one.path).map_err(|message| format!("path `{text}`: {message}"))?;
            let (at, arity) = match path {
                Path::Json(query) => (self.json(query), if singular { Arity::One } else { Arity::Many }),
                Path::Xml(path) => (Place::Tree(self.xml(&path, text, tree)?), Arity::OneOrMany),
            };
            alternatives.push(Slot { at, arity, pipes: one.pipes });
        }
        Ok(Slots { text: text.to_owned(), alternatives })
    }

    fn json(&mut self, query: JsonQuery) -> Place {
        match query {
            JsonQuery::Steps(steps) => Place::Raw(self.paths.json.add(&steps)),
            JsonQuery::Query(query) => {
                self.paths.queries.push(*query);
                Place::Tree(self.paths.queries.len() - 1)
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

/// A path inside the elements at another path.
fn below(above: Option<&Path>, path: Path) -> Result<Path, String> {
    match (above, path) {
        (None, path) => Ok(path),
        (Some(Path::Json(JsonQuery::Steps(above))), Path::Json(JsonQuery::Steps(steps))) => {
            Ok(Path::Json(JsonQuery::Steps(above.iter().cloned().chain(steps).collect())))
        }
        (Some(Path::Xml(above)), Path::Xml(path)) if !path.absolute => {
            let steps = above.steps.iter().cloned().chain(path.steps).collect();
            Ok(Path::Xml(XmlPath { absolute: above.absolute, steps, target: path.target }))
        }
        _ => Err("it cannot stand inside a list of objects".to_owned()),
    }
}

fn first_of(wrong: &[Mismapped]) -> String {
    wrong.first().map(|wrong| format!("field `{}`: {}", wrong.field, wrong.message)).unwrap_or_default()
}
