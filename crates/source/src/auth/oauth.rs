//! OAuth2 client credentials: one token per client, kept until shortly before it ends.
//!
//! Refreshes are single flight: whoever finds the token stale holds the client's lock while it asks, and the others
//! wait for its answer. The request for a token goes through the same gate and transport as any other. Client id
//! and secret are sent as form fields, which the literature APIs document.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::ports::{Clock, HttpAnswer, HttpRequest};
use patra_core::spec::errors::{BodyFault, FetchError};
use patra_core::spec::snapshot::{AuthSpec, Method, SpecSnapshot};
use patra_core::time::{Span, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use crate::encode::pairs;
use crate::rate::retry_after;
use crate::redact::Redactor;

/// Life of a token whose answer does not say.
const LIFE_DEFAULT: i64 = 300;
/// Clients whose tokens are kept.
const CLIENTS_MAX: usize = 256;

/// Sends the request for a token, past the gate.
#[async_trait]
pub trait TokenSend: Send + Sync {
    async fn send_token(&self, spec: &SpecSnapshot, request: HttpRequest) -> Result<HttpAnswer, FetchError>;
}

#[derive(Clone)]
struct Token {
    value: SecretString,
    refresh_at: Timestamp,
}

type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

/// Tokens by client.
#[derive(Default)]
pub struct Tokens {
    slots: Mutex<HashMap<Hash32, Slot>>,
}

impl Tokens {
    /// The client's token, asked for anew when it is about to end.
    pub async fn get(
        &self,
        spec: &SpecSnapshot,
        id: &str,
        secret: &str,
        send: &dyn TokenSend,
        clock: &dyn Clock,
    ) -> Result<SecretString, FetchError> {
        let AuthSpec::Oauth2 { token_url, scope, refresh_before, .. } = &spec.auth else {
            return Err(FetchError::Request { message: "not an OAuth2 source".to_owned() });
        };
        let slot = self.slot(spec, id, secret);
        let mut held = slot.lock().await;
        if let Some(token) = held.as_ref().filter(|token| clock.now() < token.refresh_at) {
            return Ok(token.value.clone());
        }
        let asked_at = clock.now();
        let answer = send.send_token(spec, request(token_url, id, secret, scope.as_deref())).await?;
        let redactor = Redactor::new([secret, id]);
        let token = read(&answer, asked_at, *refresh_before, &redactor)?;
        let value = token.value.clone();
        *held = Some(token);
        Ok(value)
    }

    /// Drops a token that the source refused, unless it has been replaced meanwhile.
    pub async fn forget(&self, spec: &SpecSnapshot, id: &str, secret: &str, refused: &str) {
        let slot = self.slot(spec, id, secret);
        let mut held = slot.lock().await;
        if held.as_ref().is_some_and(|token| token.value.expose_secret() == refused) {
            *held = None;
        }
    }

    /// A rotated secret is another client, so an old token is not used with it.
    fn slot(&self, spec: &SpecSnapshot, id: &str, secret: &str) -> Slot {
        let url = match &spec.auth {
            AuthSpec::Oauth2 { token_url, .. } => token_url.as_str(),
            _ => "",
        };
        let key = Hash32::of_parts(&[url.as_bytes(), id.as_bytes(), secret.as_bytes()]);
        let mut slots = self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if slots.len() >= CLIENTS_MAX {
            // Slots in use are held by someone; the others are only a request away.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(key).or_default().clone()
    }
}

fn request(token_url: &str, id: &str, secret: &str, scope: Option<&str>) -> HttpRequest {
    let mut fields = vec![
        ("grant_type".to_owned(), "client_credentials".to_owned()),
        ("client_id".to_owned(), id.to_owned()),
        ("client_secret".to_owned(), secret.to_owned()),
    ];
    fields.extend(scope.map(|scope| ("scope".to_owned(), scope.to_owned())));
    HttpRequest {
        method: Method::Post,
        url: token_url.to_owned(),
        headers: vec![
            ("Accept".to_owned(), "application/json".to_owned()),
            ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
        ],
        body: Some(Bytes::from(pairs(&fields))),
    }
}

fn read(answer: &HttpAnswer, now: Timestamp, refresh_before: Span, redactor: &Redactor) -> Result<Token, FetchError> {
    if matches!(answer.status, 400 | 401 | 403) {
        let message = format!("the token endpoint answered {}: {}", answer.status, redactor.excerpt(&answer.body));
        return Err(FetchError::Auth { message });
    }
    if answer.status != 200 {
        let message = format!("token endpoint: {}", redactor.excerpt(&answer.body));
        return Err(FetchError::Status {
            status: answer.status,
            message,
            retry_after: retry_after(&answer.headers, now),
        });
    }
    let no_token =
        || FetchError::Body { fault: BodyFault::ErrorBody, message: "the token endpoint gave no token".to_owned() };
    let value: serde_json::Value = serde_json::from_slice(&answer.body).map_err(|_| no_token())?;
    let token = value["access_token"].as_str().filter(|token| !token.is_empty()).ok_or_else(no_token)?;
    let life = value["expires_in"].as_i64().or_else(|| value["expires_in"].as_str()?.parse().ok());
    let life = Span::from_seconds(life.unwrap_or(LIFE_DEFAULT).clamp(1, 365 * 86_400));
    // A token that lives shorter than the margin is still used for half its life.
    let margin = Span::from_micros(refresh_before.micros().min(life.micros() / 2));
    Ok(Token { value: SecretString::from(token.to_owned()), refresh_at: now.plus(life).minus(margin) })
}
