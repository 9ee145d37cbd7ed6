//! Hostile sources, each with the same input where the guard does not apply.

use std::sync::atomic::Ordering;

use patra_core::page::Position;
use patra_core::ports::Source;
use patra_core::spec::errors::FetchError;
use serde_json::{Value, json};

use crate::testspec::{SECRET, answer, ask, bench, first, json_answer, spec};

fn url_paging() -> Value {
    json!({"pagination": {"type": "URL", "next_token": null, "next_url": "$.next"}})
}

#[tokio::test]
async fn a_next_url_on_another_origin_is_refused_and_not_asked_s1() {
    for next in [
        "http://api.example.org/v1/x",
        "https://evil.example/x",
        "https://api.example.org:444/x",
        "//evil.example/x",
        "https://u:p@api.example.org/x",
    ] {
        let bench = bench(vec![json_answer(json!({"items": [], "next": next}))]);
        let refused = bench.reader.fetch(&ask(spec(url_paging()), Position::Url(None))).await.unwrap_err();
        assert!(matches!(refused, FetchError::Foreign { .. }), "{next}: {refused:?}");
        assert_eq!(bench.script.urls().len(), 1);
    }
    let bench = bench(vec![json_answer(json!({"items": [], "next": "https://api.example.org/x"}))]);
    assert!(bench.reader.fetch(&ask(spec(url_paging()), Position::Url(None))).await.is_ok(), "the positive control");
}

#[tokio::test]
async fn a_stored_position_cannot_name_another_host_s1() {
    for position in ["https://evil.example/x", "//evil.example/x", "\\\\evil.example", "/\\evil.example/x", "x"] {
        let bench = bench(vec![json_answer(json!({"items": []}))]);
        let refused = bench.reader.fetch(&ask(spec(url_paging()), Position::Url(Some(position.into())))).await;
        assert!(matches!(refused, Err(FetchError::Request { .. })), "{position}: {refused:?}");
        assert!(bench.script.urls().is_empty());
    }
}

fn redirecting(redirects: u8) -> Value {
    json!({"http": {"redirects": redirects}})
}

#[tokio::test]
async fn redirects_stay_on_the_origin_and_end_s2() {
    let to = |target: &str| answer(302, &[("location", target)], "");
    for target in
        ["https://evil.example/x", "http://api.example.org/v1/x", "https://api.example.org:444/", "//evil.example/"]
    {
        let bench = bench(vec![to(target), json_answer(json!({"items": []}))]);
        let refused = bench.reader.fetch(&first(spec(redirecting(3)))).await.unwrap_err();
        assert!(matches!(refused, FetchError::Foreign { .. }), "{target}: {refused:?}");
        assert_eq!(bench.script.urls().len(), 1);
    }
    let bench = bench(vec![to("/a"), to("/b"), to("/c"), to("/d"), json_answer(json!({"items": []}))]);
    let refused = bench.reader.fetch(&first(spec(redirecting(9)))).await.unwrap_err();
    assert!(matches!(refused, FetchError::Foreign { .. }), "{refused:?}");
    assert_eq!(bench.script.urls().len(), 4, "the request and three hops");
}

#[tokio::test]
async fn a_redirect_on_the_origin_is_followed_past_the_gate_s3() {
    let bench = bench(vec![answer(301, &[("location", "/v2/works")], ""), json_answer(json!({"items": []}))]);
    bench.reader.fetch(&first(spec(redirecting(1)))).await.unwrap();
    let urls = bench.script.urls();
    assert!(urls[1].starts_with("https://api.example.org/v2/works?q=heart%20failure"), "{}", urls[1]);
    assert_eq!(bench.gate.acquired.load(Ordering::SeqCst), 1);
    assert_eq!(bench.gate.signals.lock().unwrap().len(), 1);
    assert_eq!(bench.gate.concurrency.load(Ordering::SeqCst), 2, "it runs in the place of the held permit");
}

fn key_in_query() -> Value {
    let mut overrides = url_paging();
    overrides["auth"] = json!({"type": "API_KEY", "credential": "main", "secret": "env:KEY", "place": "QUERY",
        "name": "api_key", "prefix": ""});
    overrides
}

fn holds_secret(text: &str) -> bool {
    let lower = text.to_lowercase();
    [
        SECRET,
        "s3cr3t%2FCa%2Bnary%3D%3D",
        "s3cr3t\\/Ca+nary",
        "czNjcjN0L0NhK25hcnk9P",
        "7333637233742f43612b6e6172793d3d",
    ]
    .iter()
    .any(|form| lower.contains(&form.to_lowercase()))
}

#[tokio::test]
async fn an_echoed_key_is_nowhere_and_the_next_request_still_works_s31() {
    let next = "https://api.example.org/v1/works?cursor=2&api_key=s3cr3t%2FCa%2Bnary%3D%3D";
    let body = json!({"items": [{"id": "a", "title": format!("key {SECRET}"), "b64": "czNjcjN0L0NhK25hcnk9PQ==",
        "hex": "7333637233742f43612b6e6172793d3d"}], "next": next});
    let bench = bench(vec![json_answer(body), json_answer(json!({"items": []}))]);
    let page = bench.reader.fetch(&ask(spec(key_in_query()), Position::Url(None))).await.unwrap();
    assert!(!holds_secret(&format!("{page:?}")), "{page:?}");
    assert!(!holds_secret(&String::from_utf8_lossy(&page.body)));
    assert!(!holds_secret(&String::from_utf8_lossy(&page.items[0].payload)));
    assert!(page.items[0].fields.contains("[credential]"));
    let first_url = bench.script.urls().remove(0);
    assert!(holds_secret(&first_url), "the positive control: the key is sent");
    bench.reader.fetch(&ask(spec(key_in_query()), Position::Url(page.next_url))).await.unwrap();
    let second = bench.script.urls().remove(1);
    assert_eq!(second.matches("api_key=").count(), 1, "{second}");
    assert!(second.contains("cursor=2") && holds_secret(&second), "{second}");
}

#[tokio::test]
async fn a_token_that_holds_the_key_is_stored_without_and_sent_with_it_s31() {
    let mut overrides = key_in_query();
    overrides["pagination"] = json!({});
    let bench = bench(vec![
        json_answer(json!({"items": [], "next": format!("page2|{SECRET}|x")})),
        json_answer(json!({"items": []})),
    ]);
    let page = bench.reader.fetch(&first(spec(overrides.clone()))).await.unwrap();
    assert_eq!(page.next_token.as_deref(), Some("page2|[credential]|x"));
    bench.reader.fetch(&ask(spec(overrides), Position::Token(page.next_token))).await.unwrap();
    assert!(
        bench.script.urls()[1].contains("cursor=page2%7Cs3cr3t%2FCa%2Bnary%3D%3D%7Cx"),
        "{}",
        bench.script.urls()[1]
    );
}

#[tokio::test]
async fn error_texts_hold_no_key_s31_s32() {
    let echo = format!("bad key {SECRET} / s3cr3t%2FCa%2Bnary%3D%3D");
    for given in [
        answer(403, &[], echo.clone()),
        answer(500, &[], echo.clone()),
        answer(200, &[], format!("<html>{echo}")),
        Err(patra_core::ports::TransportError::Connect(format!("https://x/?api_key={SECRET}"))),
        json_answer(json!({"items": [], "next": format!("https://{}.evil.example/", "s3cr3t")})),
    ] {
        let bench = bench(vec![given]);
        let error = bench.reader.fetch(&ask(spec(key_in_query()), Position::Url(None))).await.unwrap_err();
        assert!(!holds_secret(&error.to_string()) && !holds_secret(&format!("{error:?}")), "{error}");
    }
}

#[tokio::test]
async fn a_rotated_key_counts_at_the_next_request_s34() {
    let bench = bench(vec![json_answer(json!({"items": []})), json_answer(json!({"items": []}))]);
    let spec = key_in_query();
    bench.reader.fetch(&ask(crate::testspec::spec(spec.clone()), Position::Url(None))).await.unwrap();
    bench.secrets.0.lock().unwrap().insert("env:KEY".into(), "rotated-value".into());
    bench.reader.fetch(&ask(crate::testspec::spec(spec), Position::Url(None))).await.unwrap();
    let urls = bench.script.urls();
    assert!(urls[1].contains("api_key=rotated-value") && !holds_secret(&urls[1]), "{}", urls[1]);
}

#[tokio::test]
async fn patterns_and_paths_from_the_registry_are_bounded_s16() {
    let huge = "(a{1000}){1000}";
    let rules = json!({"errors": [{"when": {"body": huge}, "then": "retry"}]});
    let bench = bench(vec![json_answer(json!({"items": []}))]);
    assert!(matches!(bench.reader.fetch(&first(spec(rules))).await, Err(FetchError::Request { .. })));
    let slow = json!({"errors": [{"when": {"body": "(a|a)*$"}, "then": "retry"}]});
    let body = format!("{{\"items\":[],\"x\":\"{}\"}}", "a".repeat(1_000_000));
    let given = crate::testspec::bench(vec![answer(200, &[], body)]);
    let _ = given.reader.fetch(&first(spec(slow))).await;
    let deep = format!("$.a{}", "[?@.a".repeat(5000));
    let paths = json!({"response": {"id": [deep]}});
    assert!(matches!(bench.reader.fetch(&first(spec(paths))).await, Err(FetchError::Request { .. })));
    assert!(bench.script.urls().is_empty());
}
