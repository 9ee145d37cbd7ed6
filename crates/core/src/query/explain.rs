//! What a source makes of a query: what it is sent, what it cannot say, what is filtered by us, or why it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::render::{Lack, render, undecidable};
use super::{Query, Rules};
use crate::page::{PageAsk, PageStep, Position};
use crate::registry::Definition;
use crate::registry::definition::role;
use crate::spec::expression::mapped;
use crate::spec::snapshot::{BodySpec, Operation, SpecSnapshot};
use crate::spec::{TriggerOverrides, compile};
use crate::template::{Context, Template};
use crate::time::Timestamp;
use crate::window::Window;

/// How well a source answers a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The source finds what is asked for.
    Exact,
    /// The source finds more; records are filtered by us.
    Filtered,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub source: String,
    pub endpoint: String,
    pub verdict: Verdict,
    /// Parameters of a first request that carry the query, in its order.
    pub sent: Vec<(String, String)>,
    /// What the source cannot say as it is meant.
    pub lacks: Vec<Lack>,
    /// What records are asked by us; those that do not show a field of it are kept.
    pub filter: Option<String>,
    /// Why it is refused.
    pub reason: Option<String>,
}

/// What the first searching endpoint of a definition makes of a query.
pub fn explain(definition: &Definition, query: &Query) -> Explanation {
    let (rules, _) = Rules::of(definition);
    let rendered = render(query, &rules);
    let endpoint = definition.endpoints().find(|(_, endpoint)| role(endpoint) == "SEARCH").map(|(name, _)| name);
    let mut explanation = Explanation {
        source: definition.source().to_owned(),
        endpoint: endpoint.unwrap_or_default().to_owned(),
        verdict: if rendered.filter.is_some() { Verdict::Filtered } else { Verdict::Exact },
        sent: Vec::new(),
        lacks: rendered.lacks,
        filter: rendered.filter.as_ref().map(ToString::to_string),
        reason: None,
    };
    let overrides = TriggerOverrides { query: Some(query.to_string()), ..equipped(definition) };
    let plain = compile(definition, endpoint, Operation::Harvest, &equipped(definition), 0, "stable");
    if let (Some(filter), Ok(plain)) = (&rendered.filter, &plain) {
        let fields = undecidable(filter, &rules, &mapped(&plain.spec));
        if !fields.is_empty() {
            let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
            let reason = format!("records of {} cannot be filtered by {}", definition.source(), names.join(", "));
            return Explanation { verdict: Verdict::Refused, reason: Some(reason), ..explanation };
        }
    }
    match compile(definition, endpoint, Operation::Harvest, &overrides, 0, "stable") {
        Ok(compiled) => explanation.sent = sent(compiled.spec),
        Err(mistakes) => {
            explanation.verdict = Verdict::Refused;
            explanation.reason = mistakes.first().map(|mistake| mistake.message.clone());
        }
    }
    explanation
}

/// As a deployment with every secret and a contact would ask.
fn equipped(definition: &Definition) -> TriggerOverrides {
    TriggerOverrides {
        contact: Some("contact@example.org".into()),
        credentials: Some(definition.credentials().map(|(name, _)| name.to_owned()).collect()),
        ..TriggerOverrides::default()
    }
}

/// The parameters that carry the query, as the first request of the first window has them.
fn sent(spec: SpecSnapshot) -> Vec<(String, String)> {
    let origin = spec.window.origin;
    let end = origin.plus(spec.window.slice).min(Timestamp::MAX);
    let Some(window) = Window::new(origin, end) else { return Vec::new() };
    let spec = Arc::new(spec);
    let step = PageStep::Search { position: Position::Offset(0), size: spec.pagination.size };
    let correlation = String::new();
    let ask = PageAsk { spec: spec.clone(), window, part: None, as_of: end, step, received: 0, correlation };
    let Ok(context) = Context::new(&ask) else { return Vec::new() };
    let form: &[(String, String)] = match &spec.request.body {
        Some(BodySpec::Form { fields }) => fields,
        _ => &[],
    };
    let path = ("path".to_owned(), spec.request.path.clone());
    let carrying = [&path].into_iter().chain(&spec.request.query).chain(form);
    carrying
        .filter(|(_, template)| template.contains("expr.q") || template.contains("expr.terms"))
        .filter_map(|(name, template)| {
            let value = Template::parse(template).ok()?.render(&context).ok()??;
            Some((name.clone(), value))
        })
        .collect()
}

/// What each field can do at a source, for the table of the documentation.
pub fn abilities(rules: &Rules) -> BTreeMap<super::Field, String> {
    let ability = |field: super::Field| match rules.fields.get(&field) {
        _ if rules.refused.contains(&field) => "refused".to_owned(),
        Some(rule) if !rule.unsupported => match (rule.can("WIDER"), rule.can("PREFIX") && rules.prefix.is_some()) {
            (true, _) => "wider".to_owned(),
            (false, true) => "yes, prefix".to_owned(),
            (false, false) => "yes".to_owned(),
        },
        _ => "filter".to_owned(),
    };
    super::Field::all().map(|field| (field, ability(field))).collect()
}
