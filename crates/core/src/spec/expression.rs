//! The query of a trigger becomes part of the spec: written in the source's words, its rest kept as a filter.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::query::{
    Answer, Codes, Expr, Field, Lack, Mapped, Query, QueryError, Rules, codes_of, eval, render, undecidable,
};
use crate::registry::{At, Diagnostic};
use crate::spec::overrides::TriggerOverrides;
use crate::spec::snapshot::{BodySpec, FORMAT_QUERY, FieldSpec, Method, RequestSpec, SpecSnapshot};

/// A query of the neutral language as it was compiled for this source; see [`crate::query`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuerySpec {
    /// The normal form.
    pub text: String,
    /// Conditions by parameter, where the source takes them so.
    pub terms: BTreeMap<String, String>,
    /// What records must still be asked, in the neutral language; null where the source says it all.
    pub filter: Option<String>,
    /// The source's words for the codes that the filter compares.
    pub codes: BTreeMap<String, BTreeMap<String, String>>,
}

/// Longest query in a URL; servers cut or refuse request lines of 8 KB.
const URL_BYTES_MAX: usize = 6_000;

/// Puts the query into the spec; returns what is left to us, as warnings.
pub(super) fn apply(
    spec: &mut SpecSnapshot,
    rules: &Rules,
    overrides: &TriggerOverrides,
    mistakes: &mut Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let Some(text) = &overrides.query else { return Vec::new() };
    if overrides.q.is_some() {
        let hint = "keep either the neutral query or the one in the source's own words";
        mistakes.push(wrong("query_twice", "a query is given in two languages").hint(hint));
        return Vec::new();
    }
    match Query::parse(text) {
        Ok(query) => place(spec, rules, &query, mistakes),
        Err(error) => {
            mistakes.push(error.diagnostic());
            Vec::new()
        }
    }
}

fn place(spec: &mut SpecSnapshot, rules: &Rules, query: &Query, mistakes: &mut Vec<Diagnostic>) -> Vec<Diagnostic> {
    let rendered = render(query, rules);
    let mapped = mapped(spec);
    if let Some(filter) = &rendered.filter {
        let fields = undecidable(filter, rules, &mapped);
        if !fields.is_empty() {
            mistakes.push(refusal(spec, &rendered.lacks, &fields));
            return Vec::new();
        }
    }
    let bytes = rendered.q.as_ref().map_or(0, String::len) + rendered.terms.values().map(String::len).sum::<usize>();
    if spec.request.method == Method::Get && bytes > URL_BYTES_MAX {
        let message = format!("written for `{}` the query has {bytes} bytes, too many for a URL", spec.provenance);
        mistakes.push(wrong("query_too_long", &message).hint("ask in several queries"));
        return Vec::new();
    }
    if rendered.q.is_some() && !takes_text(&spec.request) {
        let message = format!("`{}` has rules for queries, but no template uses `expr.q`", spec.endpoint);
        mistakes.push(wrong("query_unsupported", &message).hint("write `${expr.q}` into a parameter of the request"));
        return Vec::new();
    }
    let everything = rendered.q.is_none() && rendered.terms.is_empty();
    let warnings = match &rendered.filter {
        Some(filter) if everything => {
            vec![format!("nothing of the query can be sent: everything is read and filtered by `{filter}`")]
        }
        Some(filter) => vec![format!("the source finds more than asked: records are filtered by `{filter}`")],
        None => Vec::new(),
    };
    let codes = rendered.filter.as_ref().map(|filter| codes_of(filter, rules)).unwrap_or_default();
    for name in rendered.terms.keys() {
        take_in(&mut spec.request, name, &rules.and);
    }
    spec.format = FORMAT_QUERY;
    spec.expr.q = rendered.q;
    spec.expr.query = Some(QuerySpec {
        text: query.to_string(),
        terms: rendered.terms,
        filter: rendered.filter.map(|filter| filter.to_string()),
        codes: codes.into_iter().map(|(field, codes)| (field.name().to_owned(), codes)).collect(),
    });
    warnings
        .into_iter()
        .map(|message| Diagnostic::warning("query_filtered", "--query", At::default(), message))
        .collect()
}

/// The fields of the language that records of this spec show.
pub fn mapped(spec: &SpecSnapshot) -> BTreeSet<Field> {
    let fields: &[FieldSpec] = spec.detail.as_ref().map_or(&spec.response.fields, |detail| &detail.response.fields);
    Field::all().filter(|field| field.is_shown_by(fields.iter().map(|mapped| mapped.name.as_str()))).collect()
}

/// The parameter also carries the conditions of the query; values never become part of a template.
fn take_in(request: &mut RequestSpec, name: &str, and: &str) {
    let term = format!("${{expr.terms['{name}']}}");
    let params = match &mut request.body {
        Some(BodySpec::Form { fields }) => fields,
        _ => &mut request.query,
    };
    match params.iter_mut().find(|(known, _)| known == name) {
        Some((_, template)) => *template = format!("{template}{and}{term}"),
        None => params.push((name.to_owned(), term)),
    }
}

/// Some template of the request takes the text of the query.
fn takes_text(request: &RequestSpec) -> bool {
    let used = |template: &str| template.contains("expr.q");
    let in_body = match &request.body {
        Some(BodySpec::Form { fields }) => fields.iter().any(|(_, template)| used(template)),
        Some(BodySpec::Json { template }) => used(&template.to_string()),
        None => false,
    };
    in_body || used(&request.path) || request.query.iter().chain(&request.headers).any(|(_, template)| used(template))
}

fn refusal(spec: &SpecSnapshot, lacks: &[Lack], fields: &BTreeSet<Field>) -> Diagnostic {
    let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    let names = names.join(", ");
    let reasons: Vec<String> = lacks.iter().map(|lack| format!("{}: {}", lack.condition, lack.reason)).collect();
    let message = format!(
        "`{}` cannot answer this query: it does not say it all, and its records do not show {names}, so they cannot be filtered ({})",
        spec.provenance,
        reasons.join("; ")
    );
    wrong("query_refused", &message).hint(format!("leave out {names}, or ask another source (`patra query explain`)"))
}

fn wrong(code: &'static str, message: &str) -> Diagnostic {
    Diagnostic::error(code, "--query", At::default(), message)
}

/// The filter of a spec as the executor uses it.
#[derive(Debug)]
pub struct RecordFilter {
    expr: Expr,
    codes: Codes,
}

impl RecordFilter {
    /// The filter of a spec, where it has one.
    pub fn of(spec: &SpecSnapshot) -> Result<Option<RecordFilter>, QueryError> {
        let Some(query) = &spec.expr.query else { return Ok(None) };
        let Some(filter) = &query.filter else { return Ok(None) };
        let named = |(name, codes): (&String, &BTreeMap<String, String>)| {
            Field::named(name).map(|field| (field, codes.clone()))
        };
        let expr = Query::parse(filter)?.expr().clone();
        Ok(Some(RecordFilter { expr, codes: query.codes.iter().filter_map(named).collect() }))
    }

    /// What a record's mapped fields answer.
    pub fn ask(&self, fields: &str) -> Answer {
        eval(&self.expr, &Mapped::read(fields), &self.codes)
    }
}
