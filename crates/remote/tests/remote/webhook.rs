//! A webhook that checks signatures, fails, and refuses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::Publisher;
use patra_core::record::ChangeKind;
use patra_core::time::Span;
use patra_remote::{WebhookPublisher, WebhookSettings};
use secrecy::SecretString;
use sha2::Sha256;

use crate::support::{RealClock, with_tls};

const SECRET: &str = "shared";

fn message(number: u32) -> Message {
    let body = format!("{{\"number\":{number}}}");
    Message {
        row: Id(i64::from(number)),
        event_id: Hash32::of(body.as_bytes()),
        message_id: number.to_string(),
        provenance: "crossref".into(),
        entity: "works".into(),
        change: ChangeKind::Created,
        body: body.into(),
    }
}

fn signed(headers: &HeaderMap, body: &[u8]) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(text("Patra-Timestamp").as_bytes());
    mac.update(b".");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    text("Patra-Signature") == format!("v1={hex}") && text("Patra-Event-Id") == Hash32::of(body).to_string()
}

/// Serves `answer`, which is told how many requests came before; the address, and the bodies that were taken.
async fn serve(answer: impl Fn(u32, &[u8]) -> u16 + Clone + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<Bytes>>>) {
    let (seen, taken) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let kept = taken.clone();
    let hook = post(move |headers: HeaderMap, body: Bytes| async move {
        assert!(signed(&headers, &body), "the signature must fit");
        let status = answer(seen.fetch_add(1, Ordering::SeqCst), &body);
        if status == 200 {
            kept.lock().unwrap().push(body);
        }
        StatusCode::from_u16(status).unwrap()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/hook", hook)).await });
    (address, taken)
}

fn publisher(address: &str) -> WebhookPublisher {
    with_tls();
    let mut settings = WebhookSettings::new(address.parse().unwrap(), SecretString::from(SECRET));
    settings.first_wait = Span::from_millis(5);
    WebhookPublisher::new(settings, RealClock::start()).unwrap()
}

#[tokio::test]
async fn events_are_signed_and_tried_again_until_they_are_taken() {
    let (address, taken) = serve(|seen, _| if seen % 2 == 0 { 503 } else { 200 }).await;
    let messages: Vec<Message> = (0..1).map(message).collect();
    assert_eq!(publisher(&address).publish(&messages).await, [Delivery::Acked]);
    assert_eq!(taken.lock().unwrap().len(), 1);
    let messages: Vec<Message> = (0..40).map(message).collect();
    let (address, taken) = serve(|_, _| 200).await;
    assert!(publisher(&address).publish(&messages).await.iter().all(|one| *one == Delivery::Acked));
    assert_eq!(taken.lock().unwrap().len(), 40);
}

#[tokio::test]
async fn a_refused_event_is_told_apart_from_a_webhook_that_is_down() {
    let (address, _) = serve(|_, body| if body.ends_with(b":1}") { 422 } else { 200 }).await;
    let messages: Vec<Message> = (0..3).map(message).collect();
    let verdicts = publisher(&address).publish(&messages).await;
    assert!(matches!(verdicts[..], [Delivery::Acked, Delivery::Refused { .. }, Delivery::Acked]), "{verdicts:?}");
    for status in [302, 401, 404, 429, 500] {
        let (address, _) = serve(move |_, _| status).await;
        let verdicts = publisher(&address).publish(&messages).await;
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Delivery::NotNow { .. })), "{status}: {verdicts:?}");
    }
    let verdicts = publisher("http://127.0.0.1:1/?key=canary").publish(&messages).await;
    assert!(!format!("{verdicts:?}").contains("canary"), "{verdicts:?}");
    assert!(matches!(verdicts[0], Delivery::NotNow { .. }));
}
