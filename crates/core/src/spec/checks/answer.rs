//! Answers: second phase, the three paths no record can do without, and the syntax of all paths.

use super::Checker;
use crate::path;
use crate::path::mapping::mapping;
use crate::registry::definition::Value;
use crate::registry::diagnostic::Diagnostic;
use crate::shape;
use crate::spec::snapshot::*;

impl Checker<'_> {
    pub(super) fn two_phase(&mut self) {
        match &self.spec.detail {
            None if self.spec.operation == Operation::Update => {
                let message = format!("endpoint `{}` cannot be refreshed by id", self.spec.endpoint);
                let hint = "add `update: { endpoint: .., id_batch_size: .. }` with an endpoint of role detail";
                self.error("update_needs_detail", "update", message, hint);
            }
            None => {}
            Some(detail) => {
                let uses_ids = |text: &str| text.contains("ids");
                let request = &detail.request;
                let body = request.body.as_ref().map(|body| serde_json::json!(body).to_string()).unwrap_or_default();
                let named = uses_ids(&request.path) || uses_ids(&body);
                if !named && !request.query.iter().any(|(_, template)| uses_ids(template)) {
                    let path = format!("endpoints.{}.request", detail.endpoint);
                    let places = self.context.definition.places();
                    let message = format!("endpoint `{}` is asked for ids but its request names none", detail.endpoint);
                    let mistake = Diagnostic::error("detail_without_ids", &places.file, places.key(&path), message);
                    self.found.push(mistake.hint("use `${ids | join(',')}` in a parameter, the path or the body"));
                }
            }
        }
    }

    /// Items, id and time: without them a record has no identity and no version.
    pub(super) fn response(&mut self) {
        let merged = self.context.merged;
        let said = merged.get("response.updated_at").is_some();
        let detail = self.spec.detail.as_ref();
        let has_time = match detail {
            Some(detail) => detail.response.updated_at.is_some() || self.spec.response.updated_at.is_some(),
            None => self.spec.response.updated_at.is_some(),
        };
        let detail_said = detail.is_some_and(|detail| {
            let response = self.context.definition.endpoint(&detail.endpoint).and_then(|e| e.map("response"));
            response.is_some_and(|response| response.get("updated_at").is_some())
        });
        if !has_time && !said && !detail_said {
            let message = "the response has no `updated_at`, so versions of a record cannot be told apart";
            let hint = "add `response.updated_at`, or write `updated_at: none` where the source gives no time";
            self.error("updated_at_missing", "response.updated_at", message, hint);
        } else if !has_time {
            let window = &self.spec.window;
            if window.client_filter || window.boundary.fractional || self.spec.pagination.kind == PagingKind::Time {
                let message = "records are filtered by time, but the response has none";
                let hint = "add `response.updated_at`, or let the source filter";
                self.error("filter_without_time", "response.updated_at", message, hint);
            } else {
                let message = "records carry no time; a changed content counts as the newer version";
                self.warn("no_updated_at", "response.updated_at", message);
            }
        }
    }

    pub(super) fn paths(&mut self) {
        let spec = self.spec;
        let base = format!("endpoints.{}", spec.endpoint);
        self.paths_of(&spec.response, &base);
        if let Some(detail) = &spec.detail {
            self.paths_of(&detail.response, &format!("endpoints.{}", detail.endpoint));
        }
        let next = spec.pagination.next_token.as_deref().or(spec.pagination.next_url.as_deref());
        if let Some(next) = next.filter(|next| *next != "link_header") {
            self.path(&format!("{base}.pagination.next"), next, spec.response.format);
        }
        let own = match self.context.definition.endpoint(&spec.endpoint).and_then(|map| map.get("errors")) {
            Some(Value::List(rules)) => rules.len(),
            _ => 0,
        };
        for (at, rule) in spec.errors.iter().enumerate() {
            let path = match at.checked_sub(own) {
                None => format!("{base}.errors.{at}.when.path"),
                Some(at) => format!("defaults.errors.{at}.when.path"),
            };
            if let Some(text) = &rule.when.path {
                self.path(&path, text, spec.response.format);
            }
        }
    }

    fn paths_of(&mut self, response: &ResponseSpec, base: &str) {
        let format = response.format;
        for (name, list) in [("items", &response.items), ("id", &response.id), ("hash_exclude", &response.hash_exclude)]
        {
            for (at, text) in list.iter().enumerate() {
                self.path(&format!("{base}.response.{name}.{at}"), text, format);
            }
        }
        for (name, text) in [
            ("updated_at", &response.updated_at),
            ("version", &response.version),
            ("deleted", &response.deleted),
            ("total", &response.total),
            ("has_more", &response.has_more),
        ] {
            if let Some(text) = text {
                self.path(&format!("{base}.response.{name}"), text, format);
            }
        }
        for field in &response.fields {
            self.path(&format!("{base}.fields.{}.path", field.name), &field.path, format);
        }
        self.fields(response, base);
        self.pointers(response, base);
    }

    /// Pointers are read from mapped fields.
    fn pointers(&mut self, response: &ResponseSpec, base: &str) {
        let places = self.context.definition.places();
        for (key, named) in [("merged_into", &response.merged_into), ("signals", &response.signals)] {
            let Some(named) = named else { continue };
            if response.fields.iter().any(|field| field.name == *named) {
                continue;
            }
            let path = format!("{base}.response.{key}");
            let message = format!("`{key}` names `{named}`, which is no field of this endpoint");
            let mistake = Diagnostic::error("pointer_unmapped", &places.file, places.value(&path), message);
            let names = response.fields.iter().map(|field| field.name.as_str());
            self.found.push(mistake.found(named).suggest(named, names));
        }
    }

    /// Whether the names of fields make a tree, and the shape that was promised.
    fn fields(&mut self, response: &ResponseSpec, base: &str) {
        let (definition, name) = (self.context.definition, base.trim_start_matches("endpoints."));
        let places = definition.places();
        let at = |field: &str| places.key(&format!("{base}.fields.{field}"));
        for wrong in mapping(&response.fields, response.format).err().into_iter().flatten() {
            let mistake = Diagnostic::error("bad_mapping", &places.file, at(&wrong.field), wrong.message);
            self.found.push(mistake.found(wrong.field).hint(wrong.hint));
        }
        let shape = definition.endpoint(name).and_then(|endpoint| endpoint.map("response")?.text("shape"));
        if shape != Some("BIBLIOGRAPHIC") {
            return;
        }
        for field in &response.fields {
            if let Some(wrong) = shape::check(field, response.format) {
                let mistake = Diagnostic::error(wrong.code, &places.file, at(&field.name), wrong.message);
                self.found.push(mistake.found(&field.name).hint(wrong.hint));
            }
        }
    }

    fn path(&mut self, definition_path: &str, text: &str, format: Format) {
        if let Err(error) = path::check(text, format) {
            let places = self.context.definition.places();
            let at = places.inside(definition_path, text, error.at.start);
            self.found.push(Diagnostic::error("bad_path", &places.file, at, error.message).found(text));
        }
    }
}
