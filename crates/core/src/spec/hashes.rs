//! The keys of the ledger: which hash covers what.
//!
//! | Hash | Changes with | Does not change with |
//! |---|---|---|
//! | `expr_proto_hash` | query, parameters, watermark key, boundary, order, request templates that select | mapping, page size, rate |
//! | `expr_hash` | the above and the slice's bounds | |
//! | `mapping_hash` | how an answer becomes records | what is asked |
//! | `spec_fingerprint` | anything in the spec, warnings included | |
//! | `slice_signature_hash` | source, endpoint, operation, `expr_hash`, slice | its budget and telemetry |

use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use crate::hash::Hash32;
use crate::spec::snapshot::{BodySpec, Operation, RequestSpec, ResponseSpec, SpecSnapshot};

/// Variables that choose records; a template with none of them only says how they are handed over.
const SELECTING: [&str; 5] = ["window.", "expr.", "params.", "part.", "as_of"];

/// What is asked of the source, without the bounds of a slice.
pub fn expr_proto_hash(spec: &SpecSnapshot) -> Hash32 {
    Hash32::of_json(&expr_proto(spec))
}

/// The value that [`expr_proto_hash`] covers; kept in the plan as `expr_proto_snapshot`.
pub fn expr_proto(spec: &SpecSnapshot) -> Json {
    let mut proto = json!({
        "q": spec.expr.q,
        "params": spec.expr.params,
        "watermark_key": spec.window.key,
        "boundary": spec.window.boundary,
        "order": spec.window.ordered,
        "updated_since": spec.window.updated_since,
        "request": selecting_request(&spec.request),
    });
    // Only where there is one, so that what was harvested without a query keeps its namespace.
    if let (Some(query), Some(object)) = (&spec.expr.query, proto.as_object_mut()) {
        object.insert("query".into(), json!(query));
    }
    proto
}

fn selecting_request(request: &RequestSpec) -> Json {
    // Order of parameters selects nothing, so they are compared as a map.
    let pairs = |pairs: &[(String, String)]| -> Map<String, Json> {
        let selecting = pairs.iter().filter(|(_, template)| selects(template));
        selecting.map(|(name, template)| (name.clone(), template.as_str().into())).collect()
    };
    let body = request.body.as_ref().map(|body| match body {
        BodySpec::Form { fields } => Json::Object(pairs(fields)),
        BodySpec::Json { template } => template.clone(),
    });
    json!({ "method": request.method, "path": request.path, "query": pairs(&request.query), "body": body })
}

/// A plain text always selects (`db: pubmed`); a template does when it names a selecting variable.
fn selects(template: &str) -> bool {
    !template.contains("${") || SELECTING.iter().any(|variable| template.contains(variable))
}

/// The expression with a slice bound in; `bounds` is the slice's `bounds` object.
pub fn expr_hash(proto: Hash32, bounds: &Json) -> Hash32 {
    Hash32::of_parts(&[proto.bytes(), Hash32::of_json(bounds).bytes()])
}

/// How an answer becomes records.
pub fn mapping_hash(spec: &SpecSnapshot) -> Hash32 {
    let detail = spec.detail.as_ref().map(|detail| mapping(&detail.response));
    Hash32::of_json(&json!({ "search": mapping(&spec.response), "detail": detail }))
}

fn mapping(response: &ResponseSpec) -> Json {
    json!({
        "format": response.format,
        "namespaces": response.namespaces,
        "items": response.items,
        "id": response.id,
        "updated_at": response.updated_at,
        "time": response.time,
        "version": response.version,
        "deleted": response.deleted,
        "hash_exclude": response.hash_exclude,
        "fields": response.fields,
    })
}

/// The name of a spec: its canonical form, warnings included.
pub fn spec_fingerprint(spec: &SpecSnapshot) -> Hash32 {
    Hash32::of_json(&json!(spec))
}

/// Equal slices have equal signatures, whatever budget they were given.
pub fn slice_signature_hash(
    provenance: &str,
    endpoint: &str,
    operation: Operation,
    expr_hash: Hash32,
    slice_spec: &Json,
) -> Hash32 {
    let mut slice = slice_spec.clone();
    if let Some(object) = slice.as_object_mut() {
        object.remove("budget");
        object.remove("telemetry");
    }
    let slice = Hash32::of_json(&slice);
    let operation = operation_code(operation);
    Hash32::of_parts(&[
        provenance.as_bytes(),
        endpoint.as_bytes(),
        operation.as_bytes(),
        expr_hash.bytes(),
        slice.bytes(),
    ])
}

/// One task per slice, plan and parameters; a second reading of a window by another plan is another task.
pub fn task_key(slice_signature: Hash32, expr_hash: Hash32, operation: Operation, plan: i64, params: &Json) -> Hash32 {
    Hash32::of_parts(&[
        slice_signature.bytes(),
        expr_hash.bytes(),
        operation_code(operation).as_bytes(),
        plan.to_string().as_bytes(),
        Hash32::of_json(&normalised(params)).bytes(),
    ])
}

/// Without what says nothing: nulls, empty texts, lists and objects.
fn normalised(params: &Json) -> Json {
    match params {
        Json::Object(map) => {
            let kept = map.iter().map(|(key, value)| (key.clone(), normalised(value))).filter(|(_, v)| !is_empty(v));
            Json::Object(kept.collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(normalised).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// One page of one pass of a run; tokens may repeat, so they alone do not tell pages apart.
pub fn batch_key(run: &Uuid, pass: u32, phase: &str, seq: u32, token: Option<&str>) -> Hash32 {
    let token = token.map(|token| format!("={token}")).unwrap_or_default();
    Hash32::of_parts(&[run.as_bytes(), &pass.to_be_bytes(), phase.as_bytes(), &seq.to_be_bytes(), token.as_bytes()])
}

/// The `n`-th step of a cursor, from `prev` to `next`.
pub fn cursor_event_key(namespace: &str, n: u64, prev: Option<&str>, next: &str) -> Hash32 {
    let prev = prev.map(|prev| format!("={prev}")).unwrap_or_default();
    Hash32::of_parts(&[namespace.as_bytes(), &n.to_be_bytes(), prev.as_bytes(), next.as_bytes()])
}

/// The dictionary code of an operation.
pub fn operation_code(operation: Operation) -> &'static str {
    match operation {
        Operation::Harvest => "HARVEST",
        Operation::Backfill => "BACKFILL",
        Operation::Update => "UPDATE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::snapshot::QuerySpec;
    use crate::spec::tests::compiled;
    use crate::time::Span;

    /// A change of the spec, and whether the expression, the mapping and the fingerprint change with it.
    type Change = (&'static str, fn(&mut SpecSnapshot), bool, bool);

    const CHANGES: [Change; 16] = [
        ("query", |spec| spec.expr.q = Some("x".into()), true, false),
        ("neutral query", |spec| spec.expr.query = Some(QuerySpec::default()), true, false),
        (
            "filter",
            |spec| spec.expr.query = Some(QuerySpec { filter: Some("a".into()), ..QuerySpec::default() }),
            true,
            false,
        ),
        ("parameter", |spec| drop(spec.expr.params.insert("set".into(), "a".into())), true, false),
        ("watermark key", |spec| spec.window.key = "created_at".into(), true, false),
        ("grain", |spec| spec.window.boundary.grain = Span::MINUTE, true, false),
        ("zone", |spec| spec.window.boundary.zone = "America/New_York".into(), true, false),
        ("path", |spec| spec.request.path = "/v2/works".into(), true, false),
        ("filter", |spec| spec.request.query[2].1.push('x'), true, false),
        ("page parameter", |spec| spec.request.query[3].1 = "${page.size | default(5)}".into(), false, false),
        ("order of parameters", |spec| spec.request.query.reverse(), false, false),
        ("page size", |spec| spec.pagination.size = 7, false, false),
        ("rate", |spec| spec.rate.burst = 2, false, false),
        ("field", |spec| drop(spec.response.fields.pop()), false, true),
        ("noise", |spec| spec.response.hash_exclude.clear(), false, true),
        ("warning", |spec| spec.warnings.push("w".into()), false, false),
    ];

    #[test]
    fn each_hash_changes_exactly_with_what_it_covers() {
        let spec = compiled("crossref", Operation::Harvest).spec;
        for (name, change, expression, mapped) in CHANGES {
            let mut changed = spec.clone();
            change(&mut changed);
            assert_eq!(expr_proto_hash(&changed) != expr_proto_hash(&spec), expression, "expression: {name}");
            assert_eq!(mapping_hash(&changed) != mapping_hash(&spec), mapped, "mapping: {name}");
            assert_ne!(spec_fingerprint(&changed), spec_fingerprint(&spec), "fingerprint: {name}");
        }
    }

    #[test]
    fn the_mapping_of_a_second_phase_counts() {
        let spec = compiled("pubmed", Operation::Harvest).spec;
        let mut changed = spec.clone();
        changed.detail.as_mut().unwrap().response.fields.clear();
        assert_ne!(mapping_hash(&changed), mapping_hash(&spec));
        assert_eq!(expr_proto_hash(&changed), expr_proto_hash(&spec));
    }

    #[test]
    fn a_slice_is_signed_without_its_budget_and_telemetry() {
        let hash = expr_hash(Hash32::of(b"proto"), &json!({"time": {"from": "a", "to": "b"}}));
        let sign = |operation, slice: Json| slice_signature_hash("crossref", "works", operation, hash, &slice);
        let harvest = Operation::Harvest;
        let signature =
            sign(harvest, json!({"dimension": "TIME", "budget": {"maxRequests": 1}, "telemetry": {"n": 1}}));
        assert_eq!(signature, sign(harvest, json!({"dimension": "TIME", "budget": {"maxRequests": 2}})));
        assert_ne!(signature, sign(harvest, json!({"dimension": "ID"})));
        assert_ne!(signature, sign(Operation::Backfill, json!({"dimension": "TIME"})));
        assert_ne!(hash, expr_hash(Hash32::of(b"proto"), &json!({"time": {"from": "a", "to": "c"}})));
        assert_ne!(hash, expr_hash(Hash32::of(b"other"), &json!({"time": {"from": "a", "to": "b"}})));
    }

    #[test]
    fn a_task_is_one_per_plan_and_empty_parameters_say_nothing() {
        let (signature, hash) = (Hash32::of(b"slice"), Hash32::of(b"expr"));
        let key = |plan, params: Json| task_key(signature, hash, Operation::Harvest, plan, &params);
        assert_eq!(key(1, json!({"b": 1, "a": ""})), key(1, json!({"b": 1.0, "c": null, "d": {}})));
        assert_ne!(key(1, json!({})), key(2, json!({})));
        assert_ne!(key(1, json!({"b": 1})), key(1, json!({"b": 2})));
        assert_ne!(key(1, json!({})), task_key(signature, hash, Operation::Update, 1, &json!({})));
    }

    #[test]
    fn pages_with_the_same_token_and_steps_with_the_same_end_have_their_own_keys() {
        let run = Uuid::from_u128(7);
        let first = batch_key(&run, 1, "search", 0, Some("t"));
        for other in [
            batch_key(&Uuid::from_u128(8), 1, "search", 0, Some("t")),
            batch_key(&run, 2, "search", 0, Some("t")),
            batch_key(&run, 1, "detail", 0, Some("t")),
            batch_key(&run, 1, "search", 1, Some("t")),
            batch_key(&run, 1, "search", 0, Some("u")),
            batch_key(&run, 1, "search", 0, None),
        ] {
            assert_ne!(first, other);
        }
        assert_ne!(batch_key(&run, 1, "search", 0, None), batch_key(&run, 1, "search", 0, Some("")));
        assert_ne!(cursor_event_key("ns", 1, None, "b"), cursor_event_key("ns", 2, None, "b"));
        assert_ne!(cursor_event_key("ns", 1, None, "b"), cursor_event_key("ns", 1, Some("a"), "b"));
        assert_ne!(cursor_event_key("ns", 1, None, "b"), cursor_event_key("other", 1, None, "b"));
    }
}
