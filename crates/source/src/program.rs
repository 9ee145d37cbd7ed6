//! A spec, compiled once: templates, paths and error rules ready to use. Programs are kept by spec.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use patra_core::hash::Hash32;
use patra_core::page::PageStep;
use patra_core::spec::errors::{ErrorAction, ErrorRule};
use patra_core::spec::snapshot::{BodySpec, Format, Method, PaginationSpec, RequestSpec, ResponseSpec, SpecSnapshot};
use patra_core::template::Template;
use regex::bytes::{Regex, RegexBuilder};
use url::Url;

use crate::decode::{Around, Probe, ResponseProgram};

/// Programs kept in memory.
const PROGRAMS_MAX: usize = 256;
/// Size of a compiled body pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Both phases of one endpoint.
#[derive(Debug)]
pub struct Program {
    pub base: Url,
    pub search: Phase,
    pub detail: Option<Phase>,
}

/// One request and the reading of its answer.
#[derive(Debug)]
pub struct Phase {
    pub request: RequestProgram,
    pub response: ResponseProgram,
    pub rules: Vec<RuleProgram>,
    /// The next URL stands in the `Link` header.
    pub link_header: bool,
    pub digest: serde_json::Value,
}

#[derive(Debug)]
pub struct RequestProgram {
    pub method: Method,
    pub path: Template,
    pub query: Vec<(String, Template)>,
    pub headers: Vec<(String, Template)>,
    pub body: Option<BodyProgram>,
}

#[derive(Debug)]
pub enum BodyProgram {
    Form(Vec<(String, Template)>),
    Json(JsonTemplate),
}

/// A JSON value with templates for texts.
#[derive(Debug)]
pub enum JsonTemplate {
    Text(Template),
    List(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
    Plain(serde_json::Value),
}

#[derive(Debug)]
pub struct RuleProgram {
    pub status: Vec<u16>,
    pub content_type: Option<String>,
    pub header: Option<(String, Option<String>)>,
    pub path: Option<Probe>,
    pub body: Option<Regex>,
    pub action: ErrorAction,
}

impl Program {
    pub fn compile(spec: &SpecSnapshot) -> Result<Program, String> {
        let base = Url::parse(&spec.http.base_url).map_err(|error| format!("base URL: {error}"))?;
        if base.query().is_some() || base.fragment().is_some() || base.cannot_be_a_base() {
            return Err("the base URL has no query and no fragment".to_owned());
        }
        let search = Phase::compile(spec, &spec.request, &spec.response, &spec.errors, Some(&spec.pagination))?;
        let detail = match &spec.detail {
            Some(detail) => Some(Phase::compile(spec, &detail.request, &detail.response, &detail.errors, None)?),
            None => None,
        };
        Ok(Program { base, search, detail })
    }

    pub fn phase(&self, step: &PageStep) -> Result<&Phase, String> {
        match step {
            PageStep::Search { .. } => Ok(&self.search),
            PageStep::Detail { .. } => {
                self.detail.as_ref().ok_or_else(|| "the endpoint has no detail request".to_owned())
            }
        }
    }
}

impl Phase {
    fn compile(
        spec: &SpecSnapshot,
        request: &RequestSpec,
        response: &ResponseSpec,
        errors: &[ErrorRule],
        pagination: Option<&PaginationSpec>,
    ) -> Result<Phase, String> {
        let next_url = pagination.and_then(|pagination| pagination.next_url.as_deref());
        let link_header = next_url == Some("link_header");
        let next_token = pagination.and_then(|pagination| pagination.next_token.as_deref());
        let around = Around {
            next_token,
            next_url: next_url.filter(|_| !link_header),
            // In a two-phase search the items are ids; the time is on the record.
            time_required: spec.window.client_filter && (pagination.is_none() || spec.detail.is_none()),
            detail: pagination.is_none(),
        };
        let rules = errors.iter().map(|rule| RuleProgram::compile(rule, response.format, &response.namespaces));
        Ok(Phase {
            request: RequestProgram::compile(request)?,
            response: ResponseProgram::compile(response, around)?,
            rules: rules.collect::<Result<_, _>>()?,
            link_header,
            digest: digest(spec, request, response, next_token.or(next_url)),
        })
    }
}

/// The part of the digests that is the same for every page (14.3.3): templates, not values.
fn digest(
    spec: &SpecSnapshot,
    request: &RequestSpec,
    response: &ResponseSpec,
    next: Option<&str>,
) -> serde_json::Value {
    let query: serde_json::Map<String, serde_json::Value> =
        request.query.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let mut headers = vec![format!("Accept: {}", accept(response.format))];
    headers.extend(request.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    serde_json::json!({
        "method": request.method,
        "urlTemplate": format!("{}{}", spec.http.base_url.trim_end_matches('/'), request.path),
        "query": query,
        "headers": headers,
        "itemsPath": response.items.join(" "),
        "nextTokenPath": next,
    })
}

pub fn accept(format: Format) -> &'static str {
    match format {
        Format::Json => "application/json",
        Format::Xml => "application/xml, text/xml;q=0.9, application/atom+xml;q=0.9",
    }
}

impl RequestProgram {
    fn compile(spec: &RequestSpec) -> Result<RequestProgram, String> {
        if spec.method == Method::Get && spec.body.is_some() {
            return Err("a GET request has no body".to_owned());
        }
        let body = match &spec.body {
            None => None,
            Some(BodySpec::Form { fields }) => Some(BodyProgram::Form(templates(fields)?)),
            Some(BodySpec::Json { template }) => Some(BodyProgram::Json(JsonTemplate::compile(template)?)),
        };
        Ok(RequestProgram {
            method: spec.method,
            path: template(&spec.path)?,
            query: templates(&spec.query)?,
            headers: templates(&spec.headers)?,
            body,
        })
    }
}

fn templates(pairs: &[(String, String)]) -> Result<Vec<(String, Template)>, String> {
    pairs.iter().map(|(name, text)| Ok((name.clone(), template(text)?))).collect()
}

fn template(text: &str) -> Result<Template, String> {
    Template::parse(text).map_err(|error| format!("template `{text}`: {error}"))
}

impl JsonTemplate {
    fn compile(value: &serde_json::Value) -> Result<JsonTemplate, String> {
        use serde_json::Value;
        Ok(match value {
            Value::String(text) => JsonTemplate::Text(template(text)?),
            Value::Array(items) => {
                JsonTemplate::List(items.iter().map(JsonTemplate::compile).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let members = map.iter().map(|(key, value)| Ok((key.clone(), JsonTemplate::compile(value)?)));
                JsonTemplate::Object(members.collect::<Result<_, String>>()?)
            }
            plain => JsonTemplate::Plain(plain.clone()),
        })
    }
}

impl RuleProgram {
    pub(crate) fn compile(
        rule: &ErrorRule,
        format: Format,
        namespaces: &BTreeMap<String, String>,
    ) -> Result<RuleProgram, String> {
        let when = &rule.when;
        let header = when.header.as_deref().map(|header| match header.split_once(':') {
            Some((name, text)) => (name.trim().to_lowercase(), Some(text.trim().to_lowercase())),
            None => (header.trim().to_lowercase(), None),
        });
        let path = match &when.path {
            Some(path) => Some(Probe::compile(path, format, namespaces)?),
            None => None,
        };
        let body = match &when.body {
            Some(pattern) => Some(pattern_of(pattern)?),
            None => None,
        };
        let content_type = when.content_type.as_deref().map(str::to_lowercase);
        Ok(RuleProgram { status: when.status.clone(), content_type, header, path, body, action: rule.then })
    }
}

/// A pattern over a body; the engine runs in linear time, the size is bounded here.
fn pattern_of(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| format!("pattern `{pattern}`: {error}"))
}

/// Programs by spec. A spec that is the same object is found without hashing it.
#[derive(Default)]
pub struct Programs {
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    spec: Arc<SpecSnapshot>,
    key: (String, String, Hash32),
    program: Arc<Program>,
}

impl Programs {
    pub fn get(&self, spec: &Arc<SpecSnapshot>) -> Result<Arc<Program>, String> {
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(found) = kept.iter().find(|kept| Arc::ptr_eq(&kept.spec, spec)) {
            return Ok(found.program.clone());
        }
        let value = serde_json::to_value(&**spec).map_err(|error| error.to_string())?;
        let key = (spec.provenance.clone(), spec.endpoint.clone(), Hash32::of_json(&value));
        let program = match kept.iter().position(|kept| kept.key == key) {
            // The newer object takes the place: the older one is likely gone.
            Some(at) => kept.swap_remove(at).program,
            None => Arc::new(Program::compile(spec)?),
        };
        if kept.len() >= PROGRAMS_MAX {
            kept.remove(0);
        }
        kept.push(Kept { spec: spec.clone(), key, program: program.clone() });
        Ok(program)
    }
}
