//! From a definition to the Spec Snapshot of one endpoint and operation.
//!
//! Pure: the same definition, operation and overrides give the same snapshot, byte for byte. What cannot work is
//! refused here, before a plan exists; what works worse than it could becomes a warning in the plan's remarks.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::query;
use crate::registry::definition::{Definition, Map, Value, role};
use crate::registry::diagnostic::{At, Diagnostic};
use crate::registry::endpoint_keys::{ERROR_RULE, UPDATE};
use crate::registry::grammar::Kind;
use crate::registry::rows;
use crate::spec::auth;
use crate::spec::checks;
use crate::spec::derive::derive;
use crate::spec::errors::ErrorRule;
use crate::spec::expression;
use crate::spec::merge::{Merged, Param, spec_json};
use crate::spec::origin::{Level, Origin};
use crate::spec::overrides::{self, TriggerOverrides};
use crate::spec::snapshot::*;

/// A snapshot with the origin of each value, by dotted path.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub spec: SpecSnapshot,
    pub origins: BTreeMap<String, Origin>,
    /// The degradations of `spec.warnings`, with their places.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles an endpoint; `None` takes the only one that searches.
pub fn compile(
    definition: &Definition,
    endpoint: Option<&str>,
    operation: Operation,
    overrides: &TriggerOverrides,
    registry_version: i64,
    channel: &str,
) -> Result<Compiled, Vec<Diagnostic>> {
    let (name, endpoint) = pick(definition, endpoint)?;
    let choice = auth::choose(definition, name, endpoint, overrides)?;
    let mut merged = Merged::of(definition, name, endpoint, choice.credential);
    let mut mistakes = Vec::new();
    if operation == Operation::Update {
        let path = format!("endpoints.{name}.update");
        merged.layer("detail", endpoint.map("update"), &UPDATE, Level::Block, rows::BATCHING_CFG, &path);
        if let Some(leaf) = merged.leaves.remove("detail.fill_only") {
            merged.leaves.insert("fill_only".into(), leaf);
        }
    }
    let params = overrides::apply(&mut merged, overrides, &mut mistakes);
    let clipped = overrides.since.and_then(|since| overrides::begin(&mut merged, since, &mut mistakes));
    let declared_rate = declared_rate(definition, name, endpoint, choice.credential);
    derive(&mut merged, name, operation);
    allow_plain_http(&mut merged, overrides);
    let mut builder = Builder { definition, name, endpoint, merged, mistakes, origins: BTreeMap::new() };
    let Some(mut spec) = builder.spec(operation, choice.credential) else { return Err(builder.mistakes) };
    spec.expr = ExprSpec { q: overrides.q.clone(), params, contact: contact(definition, overrides), query: None };
    if spec.namespace == NamespaceScope::Global {
        (spec.format, spec.shares) = (FORMAT_SHARED, sharing(definition));
    }
    let details = spec.detail.iter().flat_map(|detail| &detail.response.fields);
    if spec.response.fields.iter().chain(details).any(|field| field.name.contains(['.', '['])) {
        spec.format = FORMAT_NESTED;
    }
    builder.mistakes.extend(auth::pool(definition, &choice.spare, &mut spec));
    let (rules, wrong_rules) = query::Rules::of(definition);
    builder.mistakes.extend(wrong_rules);
    let widened = expression::apply(&mut spec, &rules, overrides, &mut builder.mistakes);
    let points = spec.responses().any(|response| response.merged_into.is_some() || response.signals.is_some());
    if spec.fill_only || points || spec.rate.is_adapted() {
        spec.format = FORMAT_ADAPTED;
    }
    if !spec.spare_auth.is_empty() {
        spec.format = FORMAT;
    }
    spec.http.user_agent = user_agent(definition, spec.expr.contact.as_deref());
    spec.registry_version = registry_version;
    spec.channel = overrides.channel.clone().unwrap_or_else(|| channel.to_owned());
    let context = checks::Context { definition, endpoint: name, merged: &builder.merged, declared_rate };
    let (errors, mut warnings) = checks::check(&spec, &context, choice.passed_over);
    warnings.extend(clipped);
    warnings.extend(widened);
    builder.mistakes.extend(errors);
    if !builder.mistakes.is_empty() {
        return Err(builder.mistakes);
    }
    spec.warnings = warnings.iter().map(|warning| format!("{}: {}", warning.code, warning.message)).collect();
    let mut origins = builder.finish_origins();
    if let Some(name) = spec.auth.credential() {
        origins.insert("auth".into(), Origin::new(Level::Source, format!("{} {name}", rows::CREDENTIALS)));
    }
    for name in spec.expr.params.keys() {
        origins.insert(format!("expr.params.{name}"), Origin::new(Level::Trigger, format!("set {name}")));
    }
    if spec.expr.q.is_some() {
        let from = if overrides.q.is_some() { "q" } else { "query" };
        origins.insert("expr.q".into(), Origin::new(Level::Trigger, from));
    }
    Ok(Compiled { spec, origins, warnings })
}

fn pick<'a>(definition: &'a Definition, wanted: Option<&str>) -> Result<(&'a str, &'a Map), Vec<Diagnostic>> {
    let places = definition.places();
    let searching: Vec<(&str, &Map)> = definition.endpoints().filter(|(_, map)| role(map) == "SEARCH").collect();
    let names = searching.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mistake = |code, message: String| {
        Diagnostic::error(code, &places.file, places.key("endpoints"), message).expected(format!("one of {names}"))
    };
    let mistake = match (wanted, searching.as_slice()) {
        (None, [only]) => return Ok(*only),
        (None, []) => mistake("endpoint_needed", "no endpoint of this source searches".into()),
        (None, _) => mistake("endpoint_needed", "several endpoints search, so one must be named".into()),
        (Some(wanted), _) => match definition.endpoints().find(|(name, _)| *name == wanted) {
            Some((name, map)) if role(map) == "SEARCH" => return Ok((name, map)),
            Some((name, _)) => {
                let at = places.value(&format!("endpoints.{name}.role"));
                let message = format!("endpoint `{name}` does not search, it is asked by others");
                Diagnostic::error("endpoint_role", &places.file, at, message).expected(format!("one of {names}"))
            }
            None => mistake("endpoint_unknown", format!("there is no endpoint `{wanted}`"))
                .found(wanted)
                .suggest(wanted, searching.iter().map(|(name, _)| *name)),
        },
    };
    Err(vec![mistake])
}

/// Endpoints that are declared to share one watermark.
fn sharing(definition: &Definition) -> Vec<String> {
    let global = |endpoint: &Map| role(endpoint) == "SEARCH" && endpoint.text("namespace") == Some("GLOBAL");
    definition.endpoints().filter(|(_, endpoint)| global(endpoint)).map(|(name, _)| name.to_owned()).collect()
}

/// The fastest rate the definition allows, which no trigger may exceed.
fn declared_rate(
    definition: &Definition,
    name: &str,
    endpoint: &Map,
    credential: Option<(&str, &Map)>,
) -> Vec<RateWindow> {
    let mut merged = Merged::of(definition, name, endpoint, credential);
    derive(&mut merged, name, Operation::Harvest);
    merged.get("rate.windows").and_then(|json| serde_json::from_value(json.clone()).ok()).unwrap_or_default()
}

/// A host that the trigger itself allows may be asked without encryption: simulators and local mirrors.
fn allow_plain_http(merged: &mut Merged, overrides: &TriggerOverrides) {
    let Some(url) = overrides.base_url.as_deref().and_then(|url| url::Url::parse(url).ok()) else { return };
    let host = format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
    if url.scheme() == "http" && overrides.allow_hosts.contains(&host) {
        let origin = Origin::new(Level::Trigger, "allow_hosts");
        merged.put("http.allow_http", true.into(), origin, "--allow-host".into());
    }
}

/// The contact address: the trigger's, else the definition's, where `${settings.NAME}` names a setting.
fn contact(definition: &Definition, overrides: &TriggerOverrides) -> Option<String> {
    if overrides.contact.is_some() {
        return overrides.contact.clone();
    }
    let written = definition.root().map("identity")?.text("contact")?;
    let setting = written.strip_prefix("${settings.").and_then(|rest| rest.strip_suffix('}'));
    let Some(setting) = setting else { return Some(written.to_owned()) };
    let default = definition.root().map("settings").and_then(|settings| settings.text(setting));
    let value = overrides.settings.get(setting).map(String::as_str).or(default)?;
    (!value.is_empty()).then(|| value.to_owned())
}

fn user_agent(definition: &Definition, contact: Option<&str>) -> String {
    let written = definition.root().map("identity").and_then(|identity| identity.text("user_agent"));
    let product = concat!("PatraIngest/", env!("CARGO_PKG_VERSION"));
    match (written, contact) {
        (Some(written), _) => written.to_owned(),
        (None, Some(contact)) => format!("{product} (mailto:{contact})"),
        (None, None) => product.to_owned(),
    }
}

struct Builder<'a> {
    definition: &'a Definition,
    name: &'a str,
    endpoint: &'a Map,
    merged: Merged,
    mistakes: Vec<Diagnostic>,
    origins: BTreeMap<String, Origin>,
}

impl Builder<'_> {
    fn spec(&mut self, operation: Operation, credential: Option<(&str, &Map)>) -> Option<SpecSnapshot> {
        self.need_values();
        let request = request(&self.merged);
        let auth = match auth::spec(self.definition, credential, request.method) {
            Ok(auth) => auth,
            Err(mistakes) => {
                self.mistakes.extend(mistakes);
                AuthSpec::None
            }
        };
        let detail = self.detail();
        let base = format!("endpoints.{}", self.name);
        if !self.mistakes.is_empty() {
            return None;
        }
        self.merged.derive("http.user_agent", "".into(), "of the contact");
        Some(SpecSnapshot {
            format: FORMAT_ALONE,
            spare_auth: Vec::new(),
            provenance: self.definition.source().to_owned(),
            endpoint: self.name.to_owned(),
            entity: self.leaf("entity")?,
            operation,
            registry_version: 0,
            channel: String::new(),
            http: self.section("http")?,
            auth,
            request,
            pagination: self.pagination()?,
            window: self.section("window")?,
            response: self.response(&base)?,
            detail,
            errors: errors(self.definition, self.endpoint),
            retry: self.section("retry")?,
            rate: self.section("rate")?,
            expr: ExprSpec::default(),
            namespace: self.leaf("namespace")?,
            shares: Vec::new(),
            blackbox: self.leaf("blackbox")?,
            quarantine: self.section("quarantine")?,
            priority: self.leaf("priority")?,
            fill_only: self.merged.get("fill_only").and_then(Json::as_bool).unwrap_or(false),
            warnings: Vec::new(),
        })
    }

    /// What no level can supply must be in the definition.
    fn need_values(&mut self) {
        for (path, code, hint) in [
            ("http.base_url", "base_url_missing", "add `base_url`"),
            ("pagination.type", "pagination_missing", "add `pagination: { type: token }`, or page, offset, url, time"),
            ("window.key", "watermark_missing", "add `window.key`: the name of the time that windows cut"),
            ("window.origin", "origin_missing", "add `window.origin`: a time before the oldest record"),
        ] {
            if self.merged.get(path).is_none() {
                let message = format!("endpoint `{}` has no `{path}`", self.name);
                self.fault(code, &format!("endpoints.{}.{path}", self.name), message, hint);
            }
        }
    }

    fn fault(&mut self, code: &'static str, path: &str, message: String, hint: &str) {
        let places = self.definition.places();
        self.mistakes.push(Diagnostic::error(code, &places.file, places.key(path), message).hint(hint));
    }

    fn pagination(&mut self) -> Option<PaginationSpec> {
        // One key names where the next page is; the kind of paging says whether that is a token or a URL.
        let target = match self.merged.text("pagination.type") {
            Some("URL") => "pagination.next_url",
            _ => "pagination.next_token",
        };
        if let Some(leaf) = self.merged.leaves.remove("pagination.next") {
            self.merged.leaves.insert(target.to_owned(), leaf);
        }
        self.section("pagination")
    }

    fn response(&mut self, base: &str) -> Option<ResponseSpec> {
        let fields = fields(self.endpoint);
        response(&self.merged, fields).map_err(|error| self.incomplete(&format!("{base}.response"), &error)).ok()
    }

    fn detail(&mut self) -> Option<DetailSpec> {
        let target = self.merged.text("detail.endpoint")?.to_owned();
        let path = format!("endpoints.{}.detail.endpoint", self.name);
        let Some(endpoint) = self.definition.endpoint(&target) else {
            let names: Vec<&str> = self.definition.endpoints().map(|(name, _)| name).collect();
            let places = self.definition.places();
            let message = format!("there is no endpoint `{target}` to ask for details");
            let mistake = Diagnostic::error("detail_unknown", &places.file, places.value(&path), message);
            self.mistakes.push(mistake.found(&target).suggest(&target, names));
            return None;
        };
        if role(endpoint) != "DETAIL" {
            let message = format!("endpoint `{target}` is asked for details but its role is not detail");
            self.fault("detail_role", &format!("endpoints.{target}.role"), message, "write `role: detail`");
            return None;
        }
        let merged = Merged::of(self.definition, &target, endpoint, None);
        for (path, leaf) in merged.leaves.iter().filter(|(path, _)| of_response(path)) {
            self.origins.insert(format!("detail.{path}"), leaf.origin.clone());
        }
        let response = response(&merged, fields(endpoint))
            .map_err(|error| self.incomplete(&format!("endpoints.{target}.response"), &error))
            .ok()?;
        let id_batch_size = self.merged.number("detail.id_batch_size").and_then(|size| u32::try_from(size).ok());
        Some(DetailSpec {
            endpoint: target,
            request: request(&merged),
            response,
            id_batch_size: id_batch_size.unwrap_or(1),
            errors: errors(self.definition, endpoint),
        })
    }

    fn section<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let json = self.merged.section(name);
        let path = format!("endpoints.{}.{name}", self.name);
        serde_json::from_value(json).map_err(|error| self.incomplete(&path, &error)).ok()
    }

    fn leaf<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        let json = self.merged.get(path).cloned().unwrap_or(Json::Null);
        serde_json::from_value(json).map_err(|error| self.incomplete(path, &error)).ok()
    }

    fn incomplete(&mut self, path: &str, error: &serde_json::Error) {
        let name = path.rsplit('.').next().unwrap_or(path);
        self.fault("incomplete", path, format!("`{name}` is incomplete: {error}"), "see the description of its keys");
    }

    fn finish_origins(mut self) -> BTreeMap<String, Origin> {
        // What only steers the compiler is no value of the spec.
        for steering in ["role", "auth", "credential", "response.shape", "response.evidence"] {
            self.merged.leaves.remove(steering);
        }
        for (path, leaf) in std::mem::take(&mut self.merged.leaves) {
            self.origins.insert(path, leaf.origin);
        }
        let merged = self.merged;
        for (part, params) in [("query", merged.query), ("headers", merged.headers), ("form", merged.form)] {
            for param in params {
                self.origins.insert(format!("request.{part}.{}", param.name), param.origin);
            }
        }
        self.origins
    }
}

/// Values of a response that its spec has too.
fn of_response(path: &str) -> bool {
    path.starts_with("response.") && !matches!(path, "response.shape" | "response.evidence")
}

fn request(merged: &Merged) -> RequestSpec {
    let pairs = |params: &[Param]| params.iter().map(|param| (param.name.clone(), param.template.clone())).collect();
    let json = merged.get("request.body.json").map(|template| BodySpec::Json { template: template.clone() });
    let form = (!merged.form.is_empty()).then(|| BodySpec::Form { fields: pairs(&merged.form) });
    RequestSpec {
        method: if merged.text("request.method") == Some("POST") { Method::Post } else { Method::Get },
        path: merged.text("request.path").unwrap_or_default().to_owned(),
        query: pairs(&merged.query),
        headers: pairs(&merged.headers),
        body: form.or(json),
    }
}

fn response(merged: &Merged, fields: Vec<FieldSpec>) -> Result<ResponseSpec, serde_json::Error> {
    let mut section = merged.section("response");
    if let Some(object) = section.as_object_mut() {
        // `none` says that the source gives no time, which is not the same as having forgotten the path.
        if object.get("updated_at").and_then(Json::as_str) == Some("none") {
            object.remove("updated_at");
        }
        // Both are for those who write definitions; a run needs neither.
        object.remove("shape");
        object.remove("evidence");
        object.insert("fields".into(), serde_json::to_value(fields)?);
    }
    serde_json::from_value(section)
}

fn fields(endpoint: &Map) -> Vec<FieldSpec> {
    let field = |(name, map): (&str, &Map)| FieldSpec {
        name: name.to_owned(),
        path: map.text("path").unwrap_or_default().to_owned(),
        required: map.flag("required"),
    };
    endpoint.map("fields").into_iter().flat_map(Map::blocks).map(field).collect()
}

/// The endpoint's rules, then the source's: the first match wins.
fn errors(definition: &Definition, endpoint: &Map) -> Vec<ErrorRule> {
    let of_source = definition.root().map("defaults").and_then(|defaults| defaults.get("errors"));
    let lists = [endpoint.get("errors"), of_source];
    let rules = lists.into_iter().flatten().flat_map(|list| match list {
        Value::List(rules) => rules.as_slice(),
        _ => &[],
    });
    let kind = Kind::Block(&ERROR_RULE);
    rules.filter_map(|rule| serde_json::from_value(spec_json(&kind, rule)).ok()).collect()
}

/// The place of a leaf: in the definition, or the option of the trigger that set it.
pub(super) fn place_of(definition: &Definition, endpoint: &str, merged: &Merged, path: &str) -> (String, At) {
    let places = definition.places();
    match merged.leaves.get(path) {
        Some(leaf) if leaf.origin.level == Level::Trigger => (leaf.path.clone(), At::default()),
        Some(leaf) if !leaf.path.is_empty() => (places.file.clone(), places.value(&leaf.path)),
        _ => (places.file.clone(), places.key(&format!("endpoints.{endpoint}.{path}"))),
    }
}
