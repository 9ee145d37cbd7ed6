//! Credentials in every place, and OAuth2 tokens.

use std::sync::atomic::Ordering;

use patra_core::ports::Source;
use patra_core::spec::errors::FetchError;
use patra_core::time::Span;
use serde_json::{Value, json};

use crate::testspec::{SECRET, answer, bench, first, json_answer, spec};

fn page() -> Value {
    json!({"items": []})
}

fn post_form() -> Value {
    json!({"method": "POST", "query": [], "body": {"type": "form", "fields": [["a", "1"]]}})
}

#[tokio::test]
async fn keys_go_where_the_definition_says() {
    let api_key = |place: &str, prefix: &str| json!({"type": "API_KEY", "credential": "c", "secret": "env:KEY", "place": place, "name": "X-Key", "prefix": prefix});
    let bench = bench((0..7).map(|_| json_answer(page())).collect());
    for auth in [
        json!({"auth": api_key("HEADER", "Bearer ")}),
        json!({"auth": api_key("QUERY", "")}),
        json!({"auth": api_key("BODY", ""), "request": post_form()}),
        json!({"auth": {"type": "BEARER", "credential": "c", "secret": "env:KEY"}}),
        json!({"auth": {"type": "BASIC", "credential": "c", "user": "me", "password": "env:PASS"}}),
        json!({"auth": {"type": "CUSTOM", "credential": "c", "hook": "hmac_sha256", "secret": "env:KEY",
            "place": "HEADER", "name": "X-Sig", "options": {"prefix": "v1="}}}),
    ] {
        bench.reader.fetch(&first(spec(auth))).await.unwrap();
    }
    let asked = bench.script.asked.lock().unwrap();
    let header = |at: usize, name: &str| {
        asked[at].headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    assert_eq!(header(0, "X-Key"), format!("Bearer {SECRET}"));
    assert!(asked[1].url.ends_with("&X-Key=s3cr3t%2FCa%2Bnary%3D%3D"));
    assert_eq!(asked[2].body.as_deref(), Some(&b"a=1&X-Key=s3cr3t%2FCa%2Bnary%3D%3D"[..]));
    assert_eq!(header(3, "Authorization"), format!("Bearer {SECRET}"));
    assert_eq!(header(4, "Authorization"), "Basic bWU6cEBzczp3b3JkLzE=");
    assert!(header(5, "X-Sig").starts_with("v1=") && header(5, "X-Sig").len() == 67);
    assert_eq!(header(5, "X-Timestamp"), "1767571200");
}

#[tokio::test]
async fn a_missing_secret_or_hook_is_no_request() {
    let bench = bench(vec![json_answer(page())]);
    for auth in [
        json!({"auth": {"type": "BEARER", "credential": "c", "secret": "env:NOT_THERE"}}),
        json!({"auth": {"type": "CUSTOM", "credential": "c", "hook": "rot13", "secret": "env:KEY", "place": "HEADER",
            "name": "X", "options": {}}}),
    ] {
        let refused = bench.reader.fetch(&first(spec(auth))).await.unwrap_err();
        assert!(matches!(refused, FetchError::Auth { .. }), "{refused:?}");
    }
    assert!(bench.script.urls().is_empty());
}

fn oauth() -> Value {
    json!({"auth": {"type": "OAUTH2", "credential": "c", "token_url": "https://login.example.org/token",
        "client_id": "env:ID", "client_secret": "env:KEY", "scope": "read", "refresh_before": "PT60S"}})
}

#[tokio::test]
async fn a_token_is_asked_for_once_kept_and_refreshed_before_it_ends() {
    let token = |value: &str| json_answer(json!({"access_token": value, "expires_in": 3600}));
    let bench = bench(vec![
        token("token-one"),
        json_answer(page()),
        json_answer(page()),
        token("token-two"),
        json_answer(json!({"items": [{"id": "a", "title": "echo token-two"}]})),
    ]);
    let spec = spec(oauth());
    bench.reader.fetch(&first(spec.clone())).await.unwrap();
    bench.reader.fetch(&first(spec.clone())).await.unwrap();
    bench.clock.advance(Span::from_seconds(3541));
    let page = bench.reader.fetch(&first(spec)).await.unwrap();
    assert!(!page.items[0].fields.contains("token-two"), "a token is a secret too");
    let asked = bench.script.asked.lock().unwrap();
    let body = String::from_utf8(asked[0].body.clone().unwrap().to_vec()).unwrap();
    assert_eq!(
        body,
        "grant_type=client_credentials&client_id=client-7&client_secret=s3cr3t%2FCa%2Bnary%3D%3D&scope=read"
    );
    for (at, token) in [(1, "token-one"), (2, "token-one"), (4, "token-two")] {
        assert!(asked[at].headers.contains(&("Authorization".into(), format!("Bearer {token}"))), "{at}");
    }
    assert_eq!(bench.gate.acquired.load(Ordering::SeqCst), 2, "each request for a token passes the gate");
}

#[tokio::test]
async fn a_refused_client_is_fatal_and_a_refused_token_is_forgotten() {
    let refused = bench(vec![answer(401, &[], format!("bad secret {SECRET}"))]);
    let error = refused.reader.fetch(&first(spec(oauth()))).await.unwrap_err();
    assert!(matches!(error, FetchError::Auth { .. }) && !error.to_string().contains(SECRET), "{error}");
    let busy = bench(vec![answer(503, &[("retry-after", "5")], "")]);
    let error = busy.reader.fetch(&first(spec(oauth()))).await.unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 503, .. }), "{error}");
    let token = |value: &str| json_answer(json!({"access_token": value}));
    let revoked = bench(vec![token("token-one"), answer(401, &[], ""), token("token-two"), json_answer(page())]);
    assert!(revoked.reader.fetch(&first(spec(oauth()))).await.is_err());
    assert!(revoked.reader.fetch(&first(spec(oauth()))).await.is_ok());
    assert_eq!(revoked.script.urls().len(), 4);
}

#[tokio::test]
async fn tokens_are_refreshed_by_one_and_awaited_by_the_others() {
    let mut answers = vec![json_answer(json!({"access_token": "token-one", "expires_in": 3600}))];
    answers.extend((0..8).map(|_| json_answer(page())));
    let bench = bench(answers);
    let asks: Vec<_> = (0..8).map(|_| first(spec(oauth()))).collect();
    let results = futures::future::join_all(asks.iter().map(|ask| bench.reader.fetch(ask))).await;
    assert!(results.iter().all(Result::is_ok));
    let tokens = bench.script.urls().iter().filter(|url| url.contains("login")).count();
    assert_eq!(tokens, 1);
}
