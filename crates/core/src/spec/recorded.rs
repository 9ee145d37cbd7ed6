//! The shipped definitions read the recorded answers of the real services.
//!
//! The recordings belong to their origins and are not part of the project; without them there is nothing to test.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::tests::compiled;
use crate::spec::snapshot::{Operation, ResponseSpec};

fn recordings() -> Option<PathBuf> {
    let folder = std::env::var_os("PATRA_FIXTURES").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = folder.unwrap_or(beside);
    let found = folder.join("index.jsonl").is_file();
    if !found {
        eprintln!("no recorded answers at {}: skipped", folder.display());
    }
    found.then_some(folder)
}

/// Values at a path, its pipes left out.
fn values<'a>(path: &str, json: &'a Json) -> Vec<&'a Json> {
    let path = path.split(" | ").next().unwrap_or(path);
    jsonpath_rfc9535::query_values(path, json).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(response: &ResponseSpec, page: &Json) -> (usize, Option<String>) {
    let items: Vec<&Json> = response.items.iter().flat_map(|path| values(path, page)).collect();
    for item in &items {
        for path in response.id.iter().chain(&response.updated_at) {
            assert!(values(path, item).first().is_some_and(|value| !value.is_null()), "{path} of {item}");
        }
    }
    let total = response.total.as_deref().and_then(|path| values(path, page).first().map(|total| total.to_string()));
    (items.len(), total)
}

#[test]
fn items_ids_times_and_totals_of_recorded_pages_are_found() {
    let Some(folder) = recordings() else { return };
    for (source, name) in [
        ("crossref", "seq-works-cursor-widget-p01"),
        ("crossref", "filter-from-until-index-date"),
        ("crossref", "large-1000-works-update-date"),
        ("datacite", "cursor-first-page-client"),
        ("datacite", "cursor-first-page-year2016"),
        ("doaj", "search-articles-2026"),
        ("doaj", "search-articles-sorted-30"),
        ("pubmed", "esearch-json-pmc"),
    ] {
        let Ok(body) = std::fs::read(folder.join(source).join(name).join("body.json")) else {
            eprintln!("{source}/{name} is not JSON or not recorded: skipped");
            continue;
        };
        let page: Json = serde_json::from_slice(&body).unwrap();
        let spec = compiled(source, Operation::Harvest).spec;
        let (items, total) = read(&spec.response, &page);
        assert!(items > 0, "{source}/{name} has no items");
        assert!(total.is_some(), "{source}/{name} has no total");
    }
}

#[test]
fn the_next_page_of_recorded_pages_is_found() {
    let Some(folder) = recordings() else { return };
    for (source, name) in [("crossref", "seq-works-cursor-widget-p01"), ("datacite", "cursor-first-page-client")] {
        let body = std::fs::read(folder.join(source).join(name).join("body.json")).unwrap();
        let page: Json = serde_json::from_slice(&body).unwrap();
        let pagination = compiled(source, Operation::Harvest).spec.pagination;
        let next = pagination.next_token.or(pagination.next_url).unwrap();
        assert!(values(&next, &page)[0].is_string(), "{source}/{name}");
    }
}
