//! Defaults that follow from other values: page size from the source's cap, alignment from the grain, and so on.

use serde_json::json;

use crate::calendar::Align;
use crate::spec::merge::Merged;
use crate::spec::snapshot::Operation;
use crate::time::Span;

/// Of the largest page that a provider serves, where a definition does not say more.
pub const PAGE_SHARE_PERCENT: u64 = 70;
const PAGE_SIZE: u64 = 100;
const LOOKBACK: Span = Span::HOUR;
const HASH_BUCKETS: u32 = 128;

/// Fills in everything that nobody has set.
pub(super) fn derive(merged: &mut Merged, endpoint: &str, operation: Operation) {
    merged.derive("entity", endpoint.into(), "the endpoint's name");
    merged.derive("priority", priority(operation).into(), "of the operation");
    derive_namespace(merged, operation);
    if operation == Operation::Update {
        // A refresh asks for known ids: a source that cannot be searched needs no pages and no windows.
        merged.derive("pagination.type", "OFFSET".into(), "not used by a refresh");
        merged.derive("window.key", "checked_at".into(), "not used by a refresh");
        merged.derive("window.origin", "1970-01-01T00:00:00Z".into(), "not used by a refresh");
    }
    derive_pagination(merged);
    derive_window(merged);
    derive_rate(merged);
}

fn priority(operation: Operation) -> u8 {
    match operation {
        Operation::Harvest => 3,
        Operation::Update => 5,
        Operation::Backfill => 7,
    }
}

/// Only the harvest has a watermark to share; the others keep to their own campaign whatever the endpoint says.
fn derive_namespace(merged: &mut Merged, operation: Operation) {
    use crate::spec::origin::Level;
    let by_trigger = merged.leaves.get("namespace").is_some_and(|leaf| leaf.origin.level == Level::Trigger);
    if operation != Operation::Harvest && !by_trigger {
        merged.leaves.remove("namespace");
    }
    let scope = if operation == Operation::Harvest { "EXPR" } else { "CUSTOM" };
    merged.derive("namespace", scope.into(), "of the operation");
}

fn derive_pagination(merged: &mut Merged) {
    let size = match merged.number("pagination.size_max") {
        Some(cap) => (cap * PAGE_SHARE_PERCENT / 100).max(1),
        None => PAGE_SIZE,
    };
    merged.derive("pagination.size", size.into(), "70 % of size_max, else 100");
    let size = merged.number("pagination.size").unwrap_or(size);
    let kind = merged.text("pagination.type").unwrap_or_default().to_owned();
    let overlap = if kind == "OFFSET" { size.div_ceil(20).max(1) } else { 0 };
    merged.derive("pagination.overlap", overlap.into(), "5 % of a page, at least 1, for offsets");
    merged.derive("pagination.base", 1.into(), "pages count from one");
    if let Some(cap) = merged.number("pagination.result_cap") {
        merged.derive("pagination.max_per_slice", (cap * 9 / 10).max(1).into(), "90 % of result_cap");
    }
    let mut stop = Vec::new();
    for (holds, rule) in [
        (merged.get("response.has_more").is_some(), "has_more"),
        (kind == "TOKEN", "no_token"),
        (kind == "URL", "no_url"),
        (matches!(kind.as_str(), "OFFSET" | "PAGE") && merged.get("response.total").is_some(), "count_reached"),
        (true, "empty_page"),
    ] {
        if holds {
            stop.push(rule);
        }
    }
    merged.derive("pagination.stop", json!(stop), "of the kind of paging");
}

fn derive_window(merged: &mut Merged) {
    let kind = merged.text("window.boundary.kind").unwrap_or_default().to_owned();
    let grain = if kind == "DAY_INCL" { Span::DAY } else { Span::SECOND };
    merged.derive("window.boundary.grain", text(grain), "of the boundary class");
    let grain = span(merged, "window.boundary.grain", grain);
    let align = [Align::Day, Align::Hour].into_iter().find(|align| grain.micros() % align.span().micros() == 0);
    let align = align.unwrap_or(Align::Minute);
    merged.derive("window.align", json!(align), "of the grain");
    let align = merged.get("window.align").and_then(|json| serde_json::from_value(json.clone()).ok()).unwrap_or(align);
    let narrowest = grain.max(align.span());
    merged.derive("window.min", text(narrowest), "of grain and alignment");
    let narrowest = span(merged, "window.min", narrowest);
    merged.derive("window.slice", text(narrowest.max(Span::DAY)), "one day");
    let slice = span(merged, "window.slice", narrowest);
    merged.derive("window.max", text(slice.max(Span::DAY)), "of the slice, at least one day");
    merged.derive("window.lookback", text(LOOKBACK.max(grain)), "one hour, at least the grain");
    let filter = matches!(kind.as_str(), "FROM_ONLY" | "NONE");
    merged.derive("window.client_filter", filter.into(), "of the boundary class");
    if merged.text("window.second_key.type") == Some("hash_bucket") {
        merged.derive("window.second_key.buckets", HASH_BUCKETS.into(), "built in");
    }
}

/// All windows of the rate in one list; 1 per second where nobody names a limit.
fn derive_rate(merged: &mut Merged) {
    let mut windows = Vec::new();
    let mut origin = None;
    for (key, per) in [("per_second", "PT1S"), ("per_minute", "PT1M"), ("per_hour", "PT1H"), ("per_day", "P1D")] {
        if let Some(leaf) = merged.leaves.remove(&format!("rate.{key}")) {
            windows.push(json!({ "requests": leaf.json, "per": per }));
            origin = origin.or(Some(leaf));
        }
    }
    if let Some(leaf) = merged.leaves.remove("rate.windows") {
        windows.extend(leaf.json.as_array().cloned().unwrap_or_default());
        origin = origin.or(Some(leaf));
    }
    match origin {
        Some(leaf) => merged.put("rate.windows", windows.into(), leaf.origin, leaf.path),
        None => {
            merged.derive("rate.windows", json!([{ "requests": 1, "per": "PT1S" }]), "built in");
            merged.derive("rate.unknown", true.into(), "nobody names a limit");
        }
    }
}

fn span(merged: &Merged, path: &str, otherwise: Span) -> Span {
    merged.text(path).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn text(span: Span) -> serde_json::Value {
    span.to_string().into()
}
