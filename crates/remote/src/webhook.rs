//! Events to an HTTP webhook: one POST per event, signed, tried again.
//!
//! A round holds at most one version of a record, so its requests may overlap. Only an answer 2xx means that the other
//! side has the event. The first failure ends the round: the relay comes back later, longer each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use patra_core::outbox::{Delivery, Message};
use patra_core::ports::{Clock, Publisher};
use patra_core::time::Span;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use url::Url;

/// Requests on the way at once.
const IN_FLIGHT: usize = 16;
/// Longest Retry-After that is waited for inside of a round.
const WAIT_MAX: Span = Span::from_seconds(5);

#[derive(Clone, Debug)]
pub struct WebhookSettings {
    pub url: Url,
    pub secret: SecretString,
    pub timeout: Span,
    pub tries: u32,
    pub first_wait: Span,
}

impl WebhookSettings {
    pub fn new(url: Url, secret: SecretString) -> WebhookSettings {
        let timeout = Span::from_seconds(10);
        WebhookSettings { url, secret, timeout, tries: 3, first_wait: Span::from_millis(200) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("a webhook is an http or https address, not {scheme}")]
    Scheme { scheme: String },
    #[error("the HTTP client cannot be made: {message}")]
    Client { message: String },
}

pub struct WebhookPublisher {
    client: reqwest::Client,
    settings: WebhookSettings,
    clock: Arc<dyn Clock>,
}

/// An answer that does not settle the matter.
struct Again {
    reason: String,
    after: Option<Span>,
}

impl WebhookPublisher {
    pub fn new(settings: WebhookSettings, clock: Arc<dyn Clock>) -> Result<WebhookPublisher, WebhookError> {
        if !matches!(settings.url.scheme(), "http" | "https") {
            return Err(WebhookError::Scheme { scheme: settings.url.scheme().to_owned() });
        }
        // A redirect would carry the event and its signature to someone nobody has named.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(settings.timeout.to_std())
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| WebhookError::Client { message: error.without_url().to_string() })?;
        Ok(WebhookPublisher { client, settings, clock })
    }

    async fn tell(&self, message: &Message, down: &AtomicBool) -> Delivery {
        let mut wait = self.settings.first_wait;
        let mut reason = "an earlier event was not taken".to_owned();
        for tried in 1..=self.settings.tries.max(1) {
            if down.load(Ordering::Relaxed) {
                return Delivery::NotNow { reason };
            }
            let again = match self.post(message).await {
                Ok(delivery) => return delivery,
                Err(again) => again,
            };
            reason = again.reason;
            let pause = again.after.unwrap_or(wait);
            if tried == self.settings.tries || pause > WAIT_MAX {
                break;
            }
            self.clock.sleep(pause).await;
            wait = wait.times(2);
        }
        down.store(true, Ordering::Relaxed);
        Delivery::NotNow { reason }
    }

    async fn post(&self, message: &Message) -> Result<Delivery, Again> {
        let timestamp = (self.clock.now().micros() / 1_000_000).to_string();
        let signature = sign(&self.settings.secret, &timestamp, &message.body);
        let request = self
            .client
            .post(self.settings.url.clone())
            .header("Content-Type", "application/json")
            .header("Patra-Event-Id", message.event_id.to_string())
            .header("Patra-Timestamp", &timestamp)
            .header("Patra-Signature", format!("v1={signature}"))
            .body(message.body.clone());
        // The address may carry a key (S-32).
        let lost = |error: reqwest::Error| Again { reason: error.without_url().to_string(), after: None };
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(Delivery::Acked);
        }
        if refuses_for_good(status) {
            return Ok(Delivery::Refused { reason: format!("the webhook refused the event with {}", status.as_u16()) });
        }
        let seconds = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Again {
            reason: format!("the webhook answered {}", status.as_u16()),
            after: seconds.map(Span::from_seconds),
        })
    }
}

/// What the event itself is to blame for. A wrong address or a missing right is the webhook's, and nothing is parked.
fn refuses_for_good(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 413 | 415 | 422)
}

/// HMAC-SHA256 of `<timestamp>.<body>` in hex.
fn sign(secret: &SecretString, timestamp: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes());
    let mut mac = mac.expect("HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[async_trait]
impl Publisher for WebhookPublisher {
    async fn publish(&self, messages: &[Message]) -> Vec<Delivery> {
        let down = AtomicBool::new(false);
        let posts: Vec<_> = messages.iter().map(|message| self.tell(message, &down)).collect();
        futures::stream::iter(posts).buffered(IN_FLIGHT).collect().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_other_programs_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac topsecret
        let signed = sign(&SecretString::from("topsecret"), "1700000000", br#"{"a":1}"#);
        assert_eq!(signed, "6a939b0c71853d606167625a15168ee9188c6a511c773ef4f42d307f3849e50f");
    }
}
