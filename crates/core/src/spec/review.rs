//! A definition looked at as a whole: does every endpoint that searches compile?

use std::collections::BTreeSet;

use crate::registry::definition::{Definition, role};
use crate::registry::diagnostic::{Diagnostic, Severity};
use crate::spec::compile::compile;
use crate::spec::overrides::TriggerOverrides;
use crate::spec::snapshot::{Operation, SpecSnapshot};

/// What keeps an endpoint from being read by windows, but not from refreshing known records.
const ONLY_UPDATE: [&str; 4] = ["harvest_unfiltered", "watermark_missing", "origin_missing", "pagination_missing"];

/// As a deployment with every secret and a contact would compile it.
fn fully_equipped(definition: &Definition) -> TriggerOverrides {
    TriggerOverrides {
        contact: Some("contact@example.org".into()),
        credentials: Some(definition.credentials().map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>()),
        ..TriggerOverrides::default()
    }
}

/// Every spec that the definition compiles into: each endpoint that searches, as a harvest and as a refresh.
pub fn specs_of(definition: &Definition) -> Vec<SpecSnapshot> {
    let overrides = fully_equipped(definition);
    let searching = definition.endpoints().filter(|(_, endpoint)| role(endpoint) == "SEARCH");
    searching
        .flat_map(|(name, _)| [Operation::Harvest, Operation::Update].map(|operation| (name, operation)))
        .filter_map(|(name, operation)| compile(definition, Some(name), operation, &overrides, 0, "stable").ok())
        .map(|compiled| compiled.spec)
        .collect()
}

/// Mistakes and degradations of all endpoints.
pub fn check_definition(definition: &Definition) -> Vec<Diagnostic> {
    let overrides = fully_equipped(definition);
    let compile = |name: &str, operation| compile(definition, Some(name), operation, &overrides, 0, "stable");
    let mut found: Vec<Diagnostic> = Vec::new();
    for (name, _) in definition.endpoints().filter(|(_, endpoint)| role(endpoint) == "SEARCH") {
        match compile(name, Operation::Harvest) {
            Ok(compiled) => found.extend(compiled.warnings),
            Err(mut mistakes) => {
                let windows_only = mistakes.iter().all(|mistake| ONLY_UPDATE.contains(&mistake.code));
                if windows_only && compile(name, Operation::Update).is_ok() {
                    mistakes.iter_mut().for_each(|mistake| mistake.severity = Severity::Warning);
                }
                found.extend(mistakes);
            }
        }
    }
    found.extend(unused_details(definition));
    found.sort_by(|left, right| (left.line, left.column, left.code).cmp(&(right.line, right.column, right.code)));
    found.dedup();
    found
}

fn unused_details(definition: &Definition) -> Vec<Diagnostic> {
    let asked: BTreeSet<&str> = definition
        .endpoints()
        .flat_map(|(_, endpoint)| ["detail", "update"].map(|key| endpoint.map(key)))
        .filter_map(|detail| detail.and_then(|detail| detail.text("endpoint")))
        .collect();
    let places = definition.places();
    definition
        .endpoints()
        .filter(|(name, endpoint)| role(endpoint) == "DETAIL" && !asked.contains(name))
        .map(|(name, _)| {
            let at = places.key(&format!("endpoints.{name}"));
            let message = format!("no endpoint asks `{name}` for details");
            Diagnostic::warning("unused_endpoint", &places.file, at, message)
        })
        .collect()
}
