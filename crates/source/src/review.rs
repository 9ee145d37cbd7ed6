//! Everything in a spec that no program can be made of, each with its place.
//!
//! [`Program::compile`] stops at the first mistake, because a run needs none. A person who writes a definition wants
//! all of them at once, and where they stand.

use patra_core::spec::errors::ErrorRule;
use patra_core::spec::snapshot::{PaginationSpec, ResponseSpec, SpecSnapshot};

use crate::decode::{Around, Probe, ResponseProgram};
use crate::program::{Program, RuleProgram};

/// A part of a spec that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The endpoint it belongs to: the one that searches, or the one asked for details.
    pub endpoint: String,
    /// Below that endpoint in the definition, e.g. `response.items`, `fields.title`.
    pub path: String,
    pub message: String,
}

/// All mistakes of both phases; empty exactly when the program compiles.
pub fn review(spec: &SpecSnapshot) -> Vec<Mistake> {
    let mut found = Review { endpoint: spec.endpoint.clone(), found: Vec::new() };
    found.paging(&spec.pagination, &spec.response);
    found.response(&spec.response);
    found.rules(&spec.errors, &spec.response);
    if let Some(detail) = &spec.detail {
        found.endpoint.clone_from(&detail.endpoint);
        found.response(&detail.response);
        found.rules(&detail.errors, &detail.response);
    }
    if found.found.is_empty()
        && let Err(message) = Program::compile(spec)
    {
        found.endpoint.clone_from(&spec.endpoint);
        found.push("request", message);
    }
    found.found
}

struct Review {
    endpoint: String,
    found: Vec<Mistake>,
}

impl Review {
    fn push(&mut self, path: &str, message: String) {
        self.found.push(Mistake { endpoint: self.endpoint.clone(), path: path.to_owned(), message });
    }

    fn probe(&mut self, at: &str, path: &str, response: &ResponseSpec) {
        if let Err(message) = Probe::compile(path, response.format, &response.namespaces) {
            self.push(at, message);
        }
    }

    fn paging(&mut self, paging: &PaginationSpec, response: &ResponseSpec) {
        let next = paging.next_token.iter().chain(paging.next_url.iter().filter(|url| *url != "link_header"));
        for path in next {
            self.probe("pagination.next", path, response);
        }
    }

    fn response(&mut self, response: &ResponseSpec) {
        let single = [
            ("response.total", &response.total),
            ("response.has_more", &response.has_more),
            ("response.updated_at", &response.updated_at),
            ("response.version", &response.version),
            ("response.deleted", &response.deleted),
        ];
        for (at, path) in single {
            path.iter().for_each(|path| self.probe(at, path, response));
        }
        response.id.iter().for_each(|path| self.probe("response.id", path, response));
        for field in &response.fields {
            self.probe(&format!("fields.{}.path", field.name), &field.path, response);
        }
        for (at, only) in [
            ("response.items", ResponseSpec { items: response.items.clone(), ..bare(response) }),
            ("response.hash_exclude", ResponseSpec { hash_exclude: response.hash_exclude.clone(), ..bare(response) }),
        ] {
            if let Err(message) = ResponseProgram::compile(&only, Around::default()) {
                self.push(at, message);
            }
        }
    }

    fn rules(&mut self, rules: &[ErrorRule], response: &ResponseSpec) {
        for rule in rules {
            if let Err(message) = RuleProgram::compile(rule, response.format, &response.namespaces) {
                self.push("errors", message);
            }
        }
    }
}

/// The response without any path.
fn bare(response: &ResponseSpec) -> ResponseSpec {
    ResponseSpec {
        items: Vec::new(),
        id: Vec::new(),
        updated_at: None,
        version: None,
        deleted: None,
        total: None,
        has_more: None,
        hash_exclude: Vec::new(),
        fields: Vec::new(),
        ..response.clone()
    }
}
