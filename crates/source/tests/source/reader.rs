//! The reader's verdicts: rules, statuses, hints, digests, next pages.

use patra_core::page::{Page, Position};
use patra_core::ports::{HttpAnswer, Source, TransportError};
use patra_core::spec::errors::{BodyFault, ErrorAction, FetchError};
use serde_json::{Value, json};

use crate::testspec::{answer, ask, bench, first, json_answer, spec};

async fn fetch(overrides: Value, answer: Result<HttpAnswer, TransportError>) -> Result<Page, FetchError> {
    bench(vec![answer]).reader.fetch(&first(spec(overrides))).await
}

fn at(text: &str) -> Option<patra_core::time::Timestamp> {
    Some(text.parse().unwrap())
}

#[tokio::test]
async fn a_page_carries_what_the_source_said() {
    let headers = [
        ("content-type", "application/json"),
        ("date", "Mon, 05 Jan 2026 00:00:07 GMT"),
        ("x-rate-limit-limit", "50"),
        ("x-rate-limit-remaining", "49"),
    ];
    let body = r#"{"items":[{"id":"a"},{}],"total":9,"next":"t2"}"#;
    let page = fetch(json!({}), answer(200, &headers, body)).await.unwrap();
    assert_eq!((page.item_count(), page.items.len(), page.total), (2, 1, Some(9)));
    assert_eq!(page.next_token.as_deref(), Some("t2"));
    assert_eq!(page.source_date, at("2026-01-05T00:00:07Z"));
    assert_eq!((page.rate.limit, page.rate.remaining), (Some(50), Some(49)));
    assert_eq!(page.response_hash, patra_core::hash::Hash32::of(body.as_bytes()));
    let request = json!({"method": "GET", "urlTemplate": "https://api.example.org/v1/works",
        "query": {"q": "${expr.q}", "from": "${window.from | date('%Y-%m-%d')}", "rows": "${page.size}",
            "cursor": "${page.token}", "mailto": "${identity.contact}"},
        "headers": ["Accept: application/json"]});
    assert_eq!(page.request_digest, request);
    assert_eq!(page.response_digest["headerHints"]["rateLimitRemaining"], 49);
    assert_eq!(page.response_digest["itemsPath"], "$.items[*]");
    assert_eq!(page.response_digest["sample"], format!("sha256:{}", page.response_hash));
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let rules = json!({"errors": [
        {"when": {"status": [400], "body": "(?i)cursor"}, "then": "cursor_expired"},
        {"when": {"status": [404]}, "then": "empty"},
        {"when": {"path": "$.esearchresult.ERROR"}, "then": "retry"},
        {"when": {"content_type": "text/html", "status": [200]}, "then": "retry"},
        {"when": {"header": "X-Block: Forever"}, "then": "permanent"},
        {"when": {"header": "X-Plan"}, "then": "quota"},
        {"when": {"status": [429], "path": "$.error"}, "then": "quota"},
    ]});
    let retry_after = [("retry-after", "60")];
    for (given, want) in [
        (answer(400, &[], "bad CURSOR"), ErrorAction::CursorExpired),
        (json_answer(json!({"esearchresult": {"ERROR": "Search Backend failed"}})), ErrorAction::Retry),
        (answer(200, &[("content-type", "text/html; charset=x")], "<html>"), ErrorAction::Retry),
        (answer(200, &[("x-block", "wait forever")], "{}"), ErrorAction::Permanent),
        (answer(500, &[("x-plan", "free")], "{}"), ErrorAction::Quota),
        (answer(429, &retry_after, r#"{"error":"plan"}"#), ErrorAction::Quota),
    ] {
        match fetch(rules.clone(), given).await {
            Err(FetchError::Rule { action, .. }) => assert_eq!(action, want),
            other => panic!("{want:?}: {other:?}"),
        }
    }
    let empty = fetch(rules.clone(), answer(404, &[], "Not found")).await.unwrap();
    assert_eq!((empty.items.len(), empty.total, empty.status), (0, Some(0), 404));
    let spared = fetch(rules, json_answer(json!({"items": [], "esearchresult": {"ERROR": ""}}))).await;
    assert!(spared.is_ok(), "an empty text is no error: {spared:?}");
}

#[tokio::test]
async fn statuses_and_bodies_that_are_no_page_are_errors() {
    let throttled = fetch(json!({}), answer(429, &[("retry-after", "120")], "<html>slow\r\ndown</html>")).await;
    match throttled {
        Err(FetchError::Status { status: 429, message, retry_after }) => {
            assert_eq!(retry_after, at("2026-01-05T00:02:00Z"));
            assert_eq!(message, "<html>slow down</html>");
        }
        other => panic!("{other:?}"),
    }
    let status = |result: Result<Page, FetchError>| match result {
        Err(FetchError::Status { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(status(fetch(json!({}), answer(500, &[], "")).await), 500);
    assert_eq!(status(fetch(json!({}), answer(302, &[("location", "/x")], "")).await), 302);
    for (body, want) in [
        ("<!DOCTYPE html><html></html>", BodyFault::Html),
        ("  <HTML>", BodyFault::Html),
        ("", BodyFault::Empty),
        (" \n", BodyFault::Empty),
        ("Resource not found.", BodyFault::Malformed),
        (r#"{"status":"error"}"#, BodyFault::ErrorBody),
        (r#"{"items": [{"id":"#, BodyFault::Short),
    ] {
        let result = fetch(json!({}), answer(200, &[("content-type", "application/json")], body)).await;
        assert!(matches!(&result, Err(FetchError::Body { fault, .. }) if *fault == want), "{body}: {result:?}");
    }
    for (error, want) in [
        (TransportError::Connect("c".into()), FetchError::Connect { message: "c".into() }),
        (TransportError::Lost("l".into()), FetchError::Lost { message: "l".into() }),
        (TransportError::TooLarge("t".into()), FetchError::TooLarge { message: "t".into() }),
        (TransportError::Foreign("f".into()), FetchError::Foreign { message: "f".into() }),
    ] {
        assert_eq!(fetch(json!({}), Err(error)).await.unwrap_err(), want);
    }
}

fn url_paging() -> Value {
    json!({"pagination": {"type": "URL", "next_token": null, "next_url": "$.links.next", "initial": "1"},
        "request": {"query": [["page[cursor]", "${page.token}"], ["sort", "created"], ["q", "${expr.q}"],
            ["mailto", "${identity.contact}"]]}})
}

#[tokio::test]
async fn a_next_url_is_merged_stored_and_followed() {
    let next = "https://api.example.org/v1/works?page%5Bcursor%5D=abc&q=heart+failure&mailto=ops%40example.org";
    let bench = bench(vec![
        json_answer(json!({"items": [{"id": "a"}], "links": {"next": next}})),
        json_answer(json!({"items": [], "links": {}})),
    ]);
    let one = bench.reader.fetch(&ask(spec(url_paging()), Position::Url(None))).await.unwrap();
    let stored = "/v1/works?page%5Bcursor%5D=abc&q=heart%20failure&sort=created";
    assert_eq!(one.next_url.as_deref(), Some(stored));
    let two = bench.reader.fetch(&ask(spec(url_paging()), Position::Url(one.next_url))).await.unwrap();
    assert_eq!(two.next_url, None);
    let urls = bench.script.urls();
    assert_eq!(
        urls[0],
        "https://api.example.org/v1/works?page%5Bcursor%5D=1&sort=created&q=heart%20failure&mailto=ops%40example.org"
    );
    assert_eq!(urls[1], format!("https://api.example.org{stored}&mailto=ops%40example.org"));
}

#[tokio::test]
async fn the_link_header_gives_the_next_url() {
    let mut overrides = url_paging();
    overrides["pagination"]["next_url"] = "link_header".into();
    let header = [("link", r#"<https://api.example.org/v1/works?search_after=5>; rel="next""#)];
    let bench = bench(vec![answer(200, &header, r#"{"items":[]}"#)]);
    let page = bench.reader.fetch(&ask(spec(overrides), Position::Url(None))).await.unwrap();
    assert_eq!(page.next_url.as_deref(), Some("/v1/works?search_after=5&sort=created&q=heart%20failure"));
}

#[tokio::test]
async fn a_kept_body_is_decoded_again_without_a_request() {
    let bench = bench(vec![json_answer(json!({"items": [{"id": "a"}], "total": 1}))]);
    let ask = first(spec(json!({})));
    let page = bench.reader.fetch(&ask).await.unwrap();
    let again = bench.reader.replay(&ask, page.body.clone()).unwrap();
    assert_eq!(again.items, page.items);
    assert_eq!(bench.script.urls().len(), 1);
}
