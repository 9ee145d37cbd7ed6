//! Writes one request: templates rendered, every value encoded for the place it stands in.
//!
//! The request stays a draft of parts (URL, query, headers, body) until the credentials have been added, so that
//! they never pass through a template. The query of a next URL is used as it was stored; parameters that it does
//! not repeat are added again.

use bytes::Bytes;
use patra_core::page::{PageAsk, PageStep, Position};
use patra_core::ports::HttpRequest;
use patra_core::spec::snapshot::{Format, Method};
use patra_core::template::{Context, Template};
use url::Url;

use crate::encode::{pairs, percent};
use crate::program::{BodyProgram, JsonTemplate, Phase, Program, RequestProgram, accept};

/// Encodings we can undo.
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";
/// Parameters that place a page; a next URL replaces them.
const PAGING: [&str; 5] = ["page.offset", "page.number", "page.token", "page.url", "page.since"];

/// A request in parts. It may hold secrets once authorised: never print it.
#[derive(Clone)]
pub struct Draft {
    pub method: Method,
    /// Scheme, host, port and path; no query.
    pub url: Url,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Option<DraftBody>,
    /// Names of parameters that place the page: a next URL replaces them.
    pub paging: Vec<String>,
    /// Names of parameters that name a person: not stored, added again at each request.
    pub personal: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum DraftBody {
    Form(Vec<(String, String)>),
    Json(serde_json::Value),
}

impl Draft {
    /// Renders the request for a page. `reveal` puts credentials back into tokens and URLs.
    pub fn render(program: &Program, ask: &PageAsk, reveal: impl Fn(&str) -> String) -> Result<Draft, String> {
        let phase = program.phase(&ask.step)?;
        let ask = revealed(ask, &reveal);
        let context = Context::new(&ask).map_err(|error| error.to_string())?;
        let request = &phase.request;
        let mut draft = Draft {
            method: request.method,
            url: path_url(&program.base, &request.path, &context)?,
            query: fields(&request.query, &context)?,
            headers: base_headers(phase, &ask, &context)?,
            body: body(request, &context)?,
            paging: naming(&request.query, &PAGING),
            personal: naming(&request.query, &["identity.contact"]),
        };
        if let PageStep::Search { position: Position::Url(Some(next)), .. } = &ask.step {
            draft.follow(&program.base, next)?;
        }
        Ok(draft)
    }

    /// Asks for a stored next URL: its own parameters first, then those of ours it does not name.
    fn follow(&mut self, base: &Url, next: &str) -> Result<(), String> {
        if !next.starts_with('/') || next.starts_with("//") || next.contains('\\') {
            return Err("a stored next URL begins with one slash".to_owned());
        }
        let url = base.join(next).map_err(|error| format!("next URL: {error}"))?;
        if url.origin() != base.origin() {
            return Err("a stored next URL leaves the origin".to_owned());
        }
        let own: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let mut query = own.clone();
        for (name, value) in &self.query {
            if !self.paging.contains(name) && !own.iter().any(|(known, _)| known == name) {
                query.push((name.clone(), value.clone()));
            }
        }
        self.query = query;
        self.url = url;
        self.url.set_query(None);
        self.url.set_fragment(None);
        Ok(())
    }

    /// The whole URL with its query.
    pub fn full_url(&self) -> Url {
        let mut url = self.url.clone();
        url.set_query((!self.query.is_empty()).then(|| pairs(&self.query)).as_deref());
        url
    }

    /// Turns the parts into the request that is sent.
    pub fn finish(&self) -> Result<HttpRequest, String> {
        let mut headers = self.headers.clone();
        let body = match &self.body {
            None => None,
            Some(DraftBody::Form(fields)) => {
                headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
                Some(Bytes::from(pairs(fields)))
            }
            Some(DraftBody::Json(value)) => {
                headers.push(("Content-Type".into(), "application/json".into()));
                Some(Bytes::from(value.to_string()))
            }
        };
        headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
        Ok(HttpRequest { method: self.method, url: self.full_url().into(), headers, body })
    }
}

/// Parameters whose template mentions one of the variables.
fn naming(query: &[(String, Template)], variables: &[&str]) -> Vec<String> {
    let mentions = |template: &Template| template.names().iter().any(|name| variables.contains(&name.as_str()));
    query.iter().filter(|(_, template)| mentions(template)).map(|(name, _)| name.clone()).collect()
}

fn revealed(ask: &PageAsk, reveal: &impl Fn(&str) -> String) -> PageAsk {
    let mut ask = ask.clone();
    if let PageStep::Search { position: Position::Token(Some(text)) | Position::Url(Some(text)), .. } = &mut ask.step {
        *text = reveal(text);
    }
    ask
}

/// Base URL and path. Values are encoded per segment and cannot climb out of the base path.
fn path_url(base: &Url, path: &Template, context: &Context) -> Result<Url, String> {
    let encode = |value: &str| {
        if value.split(['/', '\\']).any(|part| matches!(part, "." | "..")) {
            return Err("a path value must not hold `.` or `..` as a part".to_owned());
        }
        Ok(percent(value))
    };
    let rendered = path.render_with(context, encode).map_err(|error| format!("path: {error}"))?;
    let rendered = rendered.ok_or("path: a value is null")?;
    let literal_climbs = rendered.split('/').any(is_dots);
    if literal_climbs || rendered.contains(['?', '#', '\\']) || rendered.chars().any(char::is_control) {
        return Err("path: `..`, `?`, `#` and control characters are not allowed".to_owned());
    }
    let mut url = base.clone();
    let joined = format!("{}/{}", base.path().trim_end_matches('/'), rendered.trim_start_matches('/'));
    url.set_path(if rendered.is_empty() { base.path() } else { &joined });
    if !url.path().starts_with(base.path().trim_end_matches('/')) {
        return Err("path: it leaves the base path".to_owned());
    }
    Ok(url)
}

/// `.` and `..`, also percent-encoded: servers and the URL parser read them alike.
fn is_dots(part: &str) -> bool {
    let plain = part.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn fields(templates: &[(String, Template)], context: &Context) -> Result<Vec<(String, String)>, String> {
    let mut rendered = Vec::with_capacity(templates.len());
    for (name, template) in templates {
        if let Some(value) = template.render(context).map_err(|error| format!("`{name}`: {error}"))? {
            rendered.push((name.clone(), value));
        }
    }
    Ok(rendered)
}

fn base_headers(phase: &Phase, ask: &PageAsk, context: &Context) -> Result<Vec<(String, String)>, String> {
    let format: Format = phase.response.format;
    let mut headers = vec![
        ("User-Agent".to_owned(), ask.spec.http.user_agent.clone()),
        ("X-Ingest-Correlation-Id".to_owned(), ask.correlation.clone()),
        ("Accept-Encoding".to_owned(), ACCEPT_ENCODING.to_owned()),
    ];
    let own = fields(&phase.request.headers, context)?;
    if !own.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        headers.push(("Accept".to_owned(), accept(format).to_owned()));
    }
    headers.retain(|(name, _)| !own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    headers.extend(own);
    Ok(headers)
}

fn body(request: &RequestProgram, context: &Context) -> Result<Option<DraftBody>, String> {
    match &request.body {
        None => Ok(None),
        Some(_) if request.method == Method::Get => Err("a GET request has no body".to_owned()),
        Some(BodyProgram::Form(templates)) => Ok(Some(DraftBody::Form(fields(templates, context)?))),
        Some(BodyProgram::Json(template)) => {
            Ok(Some(DraftBody::Json(json(template, context)?.unwrap_or(serde_json::Value::Null))))
        }
    }
}

/// A member or item that renders to null is left out.
fn json(template: &JsonTemplate, context: &Context) -> Result<Option<serde_json::Value>, String> {
    Ok(match template {
        JsonTemplate::Text(template) => template.render_json(context).map_err(|error| format!("body: {error}"))?,
        JsonTemplate::Plain(value) => Some(value.clone()),
        JsonTemplate::List(items) => {
            let mut list = Vec::new();
            for item in items {
                list.extend(json(item, context)?);
            }
            Some(serde_json::Value::Array(list))
        }
        JsonTemplate::Object(members) => {
            let mut map = serde_json::Map::new();
            for (key, member) in members {
                if let Some(value) = json(member, context)? {
                    map.insert(key.clone(), value);
                }
            }
            Some(serde_json::Value::Object(map))
        }
    })
}

/// Refuses what could end a header or begin another.
pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err("a header name holds characters that are not allowed".to_owned());
    }
    if value.chars().any(char::is_control) {
        return Err(format!("header `{name}` holds a control character"));
    }
    Ok(())
}
