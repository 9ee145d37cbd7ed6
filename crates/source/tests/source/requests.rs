//! What is sent: every part encoded for its place, nothing that leaves the base path or splits a header.

use patra_core::page::{PageStep, Position};
use patra_core::ports::Source;
use patra_core::spec::errors::FetchError;
use serde_json::json;

use crate::testspec::{ask, bench, first, json_answer, spec};

fn page() -> serde_json::Value {
    json!({"items": [], "total": 0})
}

async fn url_of(overrides: serde_json::Value, position: Position) -> Result<String, FetchError> {
    let bench = bench(vec![json_answer(page())]);
    bench.reader.fetch(&ask(spec(overrides), position)).await?;
    Ok(bench.script.urls().remove(0))
}

#[tokio::test]
async fn a_request_carries_encoded_parameters_and_our_headers() {
    let bench = bench(vec![json_answer(page())]);
    bench.reader.fetch(&ask(spec(json!({})), Position::Token(Some("a+b/=".into())))).await.unwrap();
    let asked = bench.script.asked.lock().unwrap()[0].clone();
    assert_eq!(
        asked.url,
        "https://api.example.org/v1/works?q=heart%20failure&from=2026-01-01&rows=2&cursor=a%2Bb%2F%3D&mailto=ops%40example.org"
    );
    for (name, value) in [
        ("User-Agent", "PatraIngest/0.1 (mailto:ops@example.org)"),
        ("X-Ingest-Correlation-Id", "corr-1"),
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ] {
        assert!(asked.headers.contains(&(name.into(), value.into())), "{name}");
    }
}

#[tokio::test]
async fn a_null_drops_its_parameter() {
    let url = url_of(json!({"expr": {"q": null}}), Position::Token(None)).await.unwrap();
    assert_eq!(url, "https://api.example.org/v1/works?from=2026-01-01&rows=2&mailto=ops%40example.org");
}

#[tokio::test]
async fn positions_reach_the_path_and_the_query() {
    let request =
        json!({"request": {"path": "/details/biorxiv/${window.from | date('%F')}/${page.offset}", "query": []}});
    let url = url_of(request, Position::Offset(60)).await.unwrap();
    assert_eq!(url, "https://api.example.org/v1/details/biorxiv/2026-01-01/60");
    let request = json!({"request": {"query": [["page[number]", "${page.number}"]]}});
    assert!(url_of(request, Position::Page(3)).await.unwrap().ends_with("/works?page%5Bnumber%5D=3"));
    let request = json!({"request": {"query": [["since", "${page.since | epoch_s}"]]}});
    let since = Position::Since("2026-01-01T00:00:01Z".parse().unwrap());
    assert!(url_of(request, since).await.unwrap().ends_with("since=1767225601"));
}

#[tokio::test]
async fn a_path_value_cannot_leave_the_base_path_s9() {
    let with = |value: &str| json!({"request": {"path": "/works/${params.id}", "query": []}, "expr": {"params": {"id": value}}});
    for (value, want) in [
        ("10.1000/a<b>#c?d", "https://api.example.org/v1/works/10.1000%2Fa%3Cb%3E%23c%3Fd"),
        ("a..b", "https://api.example.org/v1/works/a..b"),
        ("a%2e%2e", "https://api.example.org/v1/works/a%252e%252e"),
    ] {
        assert_eq!(url_of(with(value), Position::Token(None)).await.unwrap(), want);
    }
    for value in ["..", ".", "../admin", "a/../../admin", "..\\admin", "x/.."] {
        let refused = url_of(with(value), Position::Token(None)).await.unwrap_err();
        assert!(matches!(refused, FetchError::Request { .. }), "{value}: {refused:?}");
    }
    for path in ["/works/../admin", "/works/%2e%2e/admin", "/works?x=1", "/a#b", "/a\\b"] {
        let refused = url_of(json!({"request": {"path": path, "query": []}}), Position::Token(None)).await;
        assert!(refused.is_err(), "{path}");
    }
}

#[tokio::test]
async fn a_header_value_cannot_begin_another_header_s9() {
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\u{7f}b", "a\u{85}b"] {
        let overrides = json!({"request": {"headers": [["X-Q", "${expr.q}"]]}, "expr": {"q": value}});
        let refused = url_of(overrides, Position::Token(None)).await.unwrap_err();
        assert!(matches!(refused, FetchError::Request { .. }), "{refused:?}");
        assert!(!refused.to_string().contains("Evil"));
    }
    let fine = json!({"request": {"headers": [["X-Q", "${expr.q}"]]}, "expr": {"q": "a b"}});
    assert!(url_of(fine, Position::Token(None)).await.is_ok(), "the positive control");
}

#[tokio::test]
async fn bodies_are_forms_or_json_and_a_get_has_none() {
    let bench = bench(vec![json_answer(page()), json_answer(page())]);
    let form = json!({"request": {"method": "POST", "query": [], "body": {"type": "form",
        "fields": [["id", "${expr.q}"], ["none", "${page.since}"]]}}});
    bench.reader.fetch(&first(spec(form))).await.unwrap();
    let body = json!({"request": {"method": "POST", "query": [], "body": {"type": "json", "template":
        {"size": "${page.size}", "list": ["${page.number}", "x"], "q": "a ${expr.q}", "none": "${page.since}", "flag": true}}}});
    bench.reader.fetch(&first(spec(body))).await.unwrap();
    let asked = bench.script.asked.lock().unwrap().clone();
    assert_eq!(asked[0].body.as_deref(), Some(&b"id=heart%20failure"[..]));
    let json: serde_json::Value = serde_json::from_slice(asked[1].body.as_deref().unwrap()).unwrap();
    assert_eq!(json, json!({"size": 2, "list": ["x"], "q": "a heart failure", "flag": true}));
    assert!(asked[1].headers.contains(&("Content-Type".into(), "application/json".into())));
    let get = json!({"request": {"method": "GET", "body": {"type": "form", "fields": []}}});
    assert!(matches!(url_of(get, Position::Token(None)).await, Err(FetchError::Request { .. })));
}

#[tokio::test]
async fn a_detail_request_asks_for_ids() {
    let detail = json!({"detail": {"endpoint": "fetch", "id_batch_size": 200, "errors": [],
        "request": {"method": "POST", "path": "/fetch", "query": [], "headers": [], "body": {"type": "form",
            "fields": [["id", "${ids | join(',')}"]]}},
        "response": {"format": "JSON", "namespaces": {}, "items": ["$.data[*]"], "id": ["$.id"], "updated_at": null,
            "time": {"kind": "iso", "zone": "UTC"}, "version": null, "deleted": null, "total": null,
            "total_tolerance": 0.0, "has_more": null, "hash_exclude": [], "fields": []}}});
    let bench = bench(vec![json_answer(json!({"data": [{"id": "1"}, null, {"id": "2"}]}))]);
    let mut ask = first(spec(detail));
    ask.step = PageStep::Detail { ids: vec!["1".into(), "9".into(), "2".into()] };
    let page = bench.reader.fetch(&ask).await.unwrap();
    assert_eq!((page.items.len(), page.bad.len()), (2, 0), "a null stands for an id that is not there");
    assert_eq!(bench.script.asked.lock().unwrap()[0].body.as_deref(), Some(&b"id=1%2C9%2C2"[..]));
    let mut none = first(spec(json!({})));
    none.step = PageStep::Detail { ids: vec!["1".into()] };
    assert!(matches!(bench.reader.fetch(&none).await, Err(FetchError::Request { .. })));
}
