//! The parsers that read what others wrote, each behind one function from bytes to a verdict.
//!
//! The corpus test and the fuzzer both run these, so an input found by one is a case of the other.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use patra_core::page::{BadReason, PageAsk, PageStep, Position};
use patra_core::path::Extract;
use patra_core::ports::TransportError;
use patra_core::registry::{self, Severity};
use patra_core::spec::check_definition;
use patra_core::spec::snapshot::{Format, Method, ResponseSpec, SpecSnapshot};
use patra_core::template::{Context, Template};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use patra_source::decode::{Around, Decoded, NotAPage, Probe, ResponseProgram};
use patra_source::next;
use patra_source::program::Program;
use patra_source::rate;
use patra_source::redact::Redactor;
use patra_source::request::Draft;
use patra_source::transport::{Coding, Limits, inflate};
use serde_json::{Value, json};
use url::Url;

/// Limits of a body in the corpus: 8 MiB, at most 200 times its packed size.
pub const LIMITS: Limits = Limits { bytes: 8 << 20, ratio: 200 };

/// A parser, and the form of spec it works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Json(JsonShape),
    Xml(XmlShape),
    Template,
    NextUrl,
    LinkHeader,
    RetryAfter,
    Date(Clock),
    Definition,
    Unpack(Packing),
    JsonPath,
    XmlPath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JsonShape {
    /// `$.items[*]` with `$.id`.
    Plain,
    /// A list of ids, each its own record.
    Ids,
    /// Items, id and a field behind filters, which are asked of a tree.
    Filtered,
    /// An id that passes a pipe, and one of a list.
    Piped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XmlShape {
    /// `/set/item` with `id`.
    Plain,
    /// An OAI-PMH list: namespaces, an attribute as tombstone.
    Oai,
    /// The id is an attribute.
    Attribute,
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    Iso,
    IsoNewYork,
    Seconds,
    Millis,
    Partial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packing {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// An error; the text is what a person would read.
    Refused(String),
    Page {
        ids: Vec<String>,
        bad: Vec<BadReason>,
        next: Option<String>,
        total: Option<u64>,
    },
    /// A value as text; `None` is a value that is absent.
    Value(Option<String>),
}

pub fn run(target: Target, input: &[u8]) -> Verdict {
    match target {
        Target::Json(shape) => page(json_page(shape, input)),
        Target::Xml(shape) => page(xml_page(shape, input)),
        Target::Template => value(template(&text(input)).map_err(|error| error.message)),
        Target::NextUrl => value(next_url(&text(input)).map(Some)),
        Target::LinkHeader => Verdict::Value(next::link_next(&[("link".to_owned(), text(input))])),
        Target::RetryAfter => Verdict::Value(retry_after(&text(input)).map(|at| at.to_string())),
        Target::Date(clock) => value(date(clock, input)),
        Target::Definition => value(definition(&text(input)).map(|()| None)),
        Target::Unpack(packing) => value(unpack(packing, input).map(|body| Some(body.len().to_string()))),
        Target::JsonPath => value(path(&text(input), Format::Json)),
        Target::XmlPath => value(path(&text(input), Format::Xml)),
    }
}

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

fn value(result: Result<Option<String>, String>) -> Verdict {
    result.map_or_else(Verdict::Refused, Verdict::Value)
}

fn page(result: Result<Decoded, NotAPage>) -> Verdict {
    match result {
        Ok(page) => Verdict::Page {
            ids: page.items.iter().map(|item| item.id.clone()).collect(),
            bad: page.bad.iter().map(|bad| bad.reason).collect(),
            next: page.next_token,
            total: page.total,
        },
        Err(error) => Verdict::Refused(error.to_string()),
    }
}

/// A response spec with everything unset, and `over` laid on top.
fn response(over: Value) -> ResponseSpec {
    let mut base = json!({"format": "JSON", "namespaces": {}, "items": ["$.items[*]"], "id": ["$.id"],
        "updated_at": null, "time": {"kind": "iso", "zone": "UTC"}, "version": null, "deleted": null, "total": null,
        "total_tolerance": 0.0, "has_more": null, "hash_exclude": [], "fields": []});
    base.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    serde_json::from_value(base).unwrap()
}

fn compiled(over: Value, next_token: &str) -> ResponseProgram {
    let around = Around { next_token: Some(next_token), ..Around::default() };
    ResponseProgram::compile(&response(over), around).unwrap()
}

static JSON: LazyLock<BTreeMap<JsonShape, ResponseProgram>> = LazyLock::new(|| {
    let title = json!([{"name": "title", "path": "$.title", "required": false}]);
    let plain = json!({"total": "$.total", "updated_at": "$.updated", "fields": title, "version": "$.version",
        "deleted": "$.deleted", "hash_exclude": ["$.score", "$.noise[*].at"]});
    let filtered = json!({"items": ["$.groups[?@.ok==true].items[*]"], "id": ["$.ids[?@.type=='own'].value | first"],
        "fields": [{"name": "last", "path": "$.list[-1]", "required": false}]});
    BTreeMap::from([
        (JsonShape::Plain, compiled(plain, "$.next")),
        (JsonShape::Ids, compiled(json!({"items": ["$.list[*]"], "id": []}), "$.next")),
        (JsonShape::Filtered, compiled(filtered, "$.next")),
        (JsonShape::Piped, compiled(json!({"id": ["$.id | trim", "$.more[*].v"]}), "$.next")),
    ])
});

pub fn json_page(shape: JsonShape, input: &[u8]) -> Result<Decoded, NotAPage> {
    JSON[&shape].decode(Bytes::copy_from_slice(input), None)
}

static XML: LazyLock<BTreeMap<XmlShape, ResponseProgram>> = LazyLock::new(|| {
    let plain = json!({"format": "XML", "items": ["/set/item"], "id": ["id"], "updated_at": "updated", "total": "@total",
        "fields": [{"name": "title", "path": "title", "required": false},
            {"name": "date", "path": "date | partial_date", "required": false}], "hash_exclude": ["stamp", "@seen"]});
    let oai = json!({"format": "XML", "items": ["ListRecords/oai:record"], "id": ["oai:header/oai:identifier"],
        "updated_at": "oai:header/oai:datestamp", "deleted": "oai:header[@status='deleted']",
        "namespaces": {"oai": "http://www.openarchives.org/OAI/2.0/", "dc": "http://purl.org/dc/elements/1.1/"},
        "fields": [{"name": "title", "path": "metadata/*/dc:title", "required": false}]});
    let attribute = json!({"format": "XML", "items": ["/set/item"], "id": ["@id"]});
    BTreeMap::from([
        (XmlShape::Plain, compiled(plain, "next")),
        (XmlShape::Oai, compiled(oai, "ListRecords/resumptionToken")),
        (XmlShape::Attribute, compiled(attribute, "@next")),
    ])
});

pub fn xml_page(shape: XmlShape, input: &[u8]) -> Result<Decoded, NotAPage> {
    XML[&shape].decode(Bytes::copy_from_slice(input), None)
}

pub fn ask(spec: Arc<SpecSnapshot>, position: Position) -> PageAsk {
    PageAsk {
        spec,
        window: Window::new("2026-01-01".parse().unwrap(), "2026-01-02".parse().unwrap()).unwrap(),
        part: None,
        as_of: "2026-02-01".parse().unwrap(),
        step: PageStep::Search { position, size: 10 },
        received: 0,
        correlation: "corpus".into(),
    }
}

static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
    let mut spec = patra_core::spec::sample::snapshot();
    spec.expr.q = Some("q".repeat(20_000));
    spec.expr.params = BTreeMap::from([("type".to_owned(), "review".into())]);
    Context::new(&ask(Arc::new(spec), Position::Token(Some("t/1=".into())))).unwrap()
});

/// Checks a template as the registry does and renders it.
pub fn template(text: &str) -> Result<Option<String>, patra_core::template::TemplateError> {
    patra_core::template::check(text)?;
    Template::parse(text)?.render(&CONTEXT)
}

/// The origin of the source in this corpus.
pub const BASE: &str = "https://api.example.org/v1";

static FOLLOWED: LazyLock<(Program, Arc<SpecSnapshot>)> = LazyLock::new(|| {
    let mut spec = patra_core::spec::sample::snapshot();
    spec.http.base_url = BASE.to_owned();
    spec.request.query = vec![("q".into(), "heart".into()), ("cursor".into(), "${page.url}".into())];
    (Program::compile(&spec).unwrap(), Arc::new(spec))
});

static SENT: LazyLock<(Draft, Url, Redactor)> = LazyLock::new(|| {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let draft = Draft {
        method: Method::Get,
        url: Url::parse("https://api.example.org/v1/works").unwrap(),
        query: vec![pair("q", "heart"), pair("cursor", "1"), pair("api_key", "secret-value")],
        headers: Vec::new(),
        body: None,
        paging: vec!["cursor".into()],
        personal: Vec::new(),
    };
    (draft, Url::parse(BASE).unwrap(), Redactor::new(["secret-value"]))
});

pub fn next_url(found: &str) -> Result<String, String> {
    let (draft, base, redactor) = &*SENT;
    next::merge(found, draft, base, &["api_key".into()], redactor)
}

/// The URL that a stored position asks for.
pub fn followed(stored: &str) -> Result<Url, String> {
    let (program, spec) = &*FOLLOWED;
    let draft = Draft::render(program, &ask(spec.clone(), Position::Url(Some(stored.into()))), str::to_owned)?;
    Ok(draft.full_url())
}

pub fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub fn retry_after(value: &str) -> Option<Timestamp> {
    rate::retry_after(&[("retry-after".to_owned(), value.to_owned())], now())
}

static DATES: LazyLock<BTreeMap<Clock, ResponseProgram>> = LazyLock::new(|| {
    let program = |kind: &str, zone: &str| {
        compiled(json!({"updated_at": "$.updated", "time": {"kind": kind, "zone": zone}}), "$.next")
    };
    BTreeMap::from([
        (Clock::Iso, program("iso", "UTC")),
        (Clock::IsoNewYork, program("iso", "America/New_York")),
        (Clock::Seconds, program("epoch_seconds", "UTC")),
        (Clock::Millis, program("epoch_millis", "UTC")),
        (Clock::Partial, program("partial", "UTC")),
    ])
});

/// The time of a record whose time is `input`, a JSON value.
pub fn date(clock: Clock, input: &[u8]) -> Result<Option<String>, String> {
    let body = [&b"{\"items\":[{\"id\":\"a\",\"updated\":"[..], input, b"}]}"].concat();
    let page = DATES[&clock].decode(Bytes::from(body), None).map_err(|error| error.to_string())?;
    match (page.items.as_slice(), page.bad.as_slice()) {
        ([item], []) => Ok(item.updated_at.map(|at| at.to_string())),
        ([], [bad]) => Err(format!("{:?}: {}", bad.reason, bad.message)),
        (items, bad) => Err(format!("{} items and {} bad ones", items.len(), bad.len())),
    }
}

/// `Ok` when a definition could be published; else the codes of its mistakes.
pub fn definition(text: &str) -> Result<(), String> {
    let mistakes = match registry::decode("corpus.yaml", text) {
        Ok(definition) => check_definition(&definition),
        Err(mistakes) => mistakes,
    };
    let codes: Vec<&str> =
        mistakes.iter().filter(|mistake| mistake.severity == Severity::Error).map(|mistake| mistake.code).collect();
    if codes.is_empty() { Ok(()) } else { Err(codes.join(" ")) }
}

pub fn unpack(packing: Packing, input: &[u8]) -> Result<Bytes, String> {
    let coding = match packing {
        Packing::Gzip => Coding::Gzip,
        Packing::Deflate => Coding::Deflate,
        Packing::Brotli => Coding::Brotli,
        Packing::Zstd => Coding::Zstd,
    };
    inflate(Bytes::copy_from_slice(input), coding, LIMITS).map_err(|error| match error {
        TransportError::TooLarge(message) => format!("too large: {message}"),
        TransportError::Lost(message) => format!("lost: {message}"),
        other => other.to_string(),
    })
}

/// What paths are tried on.
pub const JSON_SAMPLE: &str = r#"{"a":[{"b":1,"c":"x","type":"doi"},{"b":[1,2,[3]],"d":{"a":{"b":null}}},"s",4],
    "b":{"a":{"a":{"a":1}}},"items":[{"id":"1"},{"id":2}],"value":1.5,"":{"*":[0]}}"#;
pub const XML_SAMPLE: &str =
    "<set x='1' xmlns:p='urn:p'><a t='doi' p:q='2'>t<b>u</b></a><a><b c='3'/></a><p:a>v</p:a></set>";

/// Parses a path and looks it up in a sample.
pub fn path(text: &str, format: Format) -> Result<Option<String>, String> {
    Extract::parse(text, format).map_err(|error| error.message)?;
    let namespaces = BTreeMap::from([("p".to_owned(), "urn:p".to_owned())]);
    let sample = match format {
        Format::Json => JSON_SAMPLE,
        Format::Xml => XML_SAMPLE,
    };
    let found = Probe::compile(text, format, &namespaces)?.value(&Bytes::from_static(sample.as_bytes()), None);
    Ok(found.map(|found| found.to_string()))
}
