//! Credentials: resolved at each request, placed in the draft, and remembered so that they can be redacted.

mod oauth;
mod sign;

use std::sync::Arc;

use patra_core::ports::{Clock, Secrets};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{AuthSpec, Place, SpecSnapshot};
use secrecy::{ExposeSecret, SecretString};

pub use oauth::{TokenSend, Tokens};
pub use sign::string_to_sign;

use crate::encode::base64;
use crate::redact::CREDENTIAL;
use crate::request::{Draft, DraftBody};

/// The secrets of one request.
#[derive(Default)]
pub struct Credentials {
    values: Vec<SecretString>,
    /// Names of query parameters that carry them.
    pub names: Vec<String>,
}

impl Credentials {
    /// Resolves what a spec needs, before anything is rendered: a missing secret is no request.
    pub fn resolve(auth: &AuthSpec, secrets: &dyn Secrets) -> Result<Credentials, FetchError> {
        let resolve = |reference: &str| secrets.resolve(reference).map_err(|message| FetchError::Auth { message });
        let mut names = Vec::new();
        let values = match auth {
            AuthSpec::None => Vec::new(),
            AuthSpec::ApiKey { secret, place, name, .. } => {
                if *place == Place::Query {
                    names.push(name.clone());
                }
                vec![resolve(secret)?]
            }
            AuthSpec::Bearer { secret, .. } => vec![resolve(secret)?],
            AuthSpec::Custom { secret, place, name, .. } => {
                if *place == Place::Query {
                    names.push(name.clone());
                }
                vec![resolve(secret)?]
            }
            AuthSpec::Basic { user, password, .. } => {
                // The user may be a plain name; it is a secret only where it is a reference.
                let user = match user.split_once(':') {
                    Some(("env" | "file", _)) => Some(resolve(user)?),
                    _ => None,
                };
                let password = resolve(password)?;
                std::iter::once(password).chain(user).collect()
            }
            AuthSpec::Oauth2 { client_id, client_secret, .. } => vec![resolve(client_secret)?, resolve(client_id)?],
        };
        Ok(Credentials { values, names })
    }

    pub fn exposed(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| value.expose_secret())
    }

    /// Puts the value back where the marker stands in a stored token.
    pub fn reveal(&self, text: &str) -> String {
        match self.values.first() {
            Some(value) => text.replace(CREDENTIAL, value.expose_secret()),
            None => text.to_owned(),
        }
    }

    fn first(&self) -> &str {
        self.values.first().map_or("", |value| value.expose_secret())
    }

    fn second(&self) -> Option<&str> {
        self.values.get(1).map(|value| value.expose_secret())
    }

    pub fn remember(&mut self, value: SecretString) {
        self.values.push(value);
    }
}

/// Places credentials; asks for tokens through the given sender.
pub struct Authoriser {
    pub tokens: Tokens,
    pub clock: Arc<dyn Clock>,
}

impl Authoriser {
    /// Adds the credentials to a draft. What is newly learned (a token) is added to `credentials`.
    pub async fn authorise(
        &self,
        spec: &SpecSnapshot,
        draft: &mut Draft,
        credentials: &mut Credentials,
        send: &dyn TokenSend,
    ) -> Result<(), FetchError> {
        let wrong = |message: String| FetchError::Request { message };
        match &spec.auth {
            AuthSpec::None => {}
            AuthSpec::ApiKey { place, name, prefix, .. } => {
                let value = format!("{prefix}{}", credentials.first());
                put(draft, *place, name, value).map_err(wrong)?;
            }
            AuthSpec::Bearer { .. } => set_header(draft, "Authorization", format!("Bearer {}", credentials.first())),
            AuthSpec::Basic { user, .. } => {
                let pair = format!("{}:{}", credentials.second().unwrap_or(user), credentials.first());
                set_header(draft, "Authorization", format!("Basic {}", base64(pair.as_bytes())));
            }
            AuthSpec::Oauth2 { .. } => {
                let id = credentials.second().unwrap_or_default().to_owned();
                let token = self.tokens.get(spec, &id, credentials.first(), send, &*self.clock).await?;
                set_header(draft, "Authorization", format!("Bearer {}", token.expose_secret()));
                credentials.remember(token);
            }
            AuthSpec::Custom { hook, place, name, options, .. } if hook == "hmac_sha256" => {
                let now = self.clock.now();
                sign::hmac_sha256(draft, credentials.first(), *place, name, options, now).map_err(wrong)?;
            }
            AuthSpec::Custom { hook, .. } => {
                return Err(FetchError::Auth { message: format!("there is no signing hook `{hook}`") });
            }
        }
        Ok(())
    }
}

fn put(draft: &mut Draft, place: Place, name: &str, value: String) -> Result<(), String> {
    match place {
        Place::Header => set_header(draft, name, value),
        Place::Query => {
            draft.query.retain(|(known, _)| known != name);
            draft.query.push((name.to_owned(), value));
        }
        Place::Body => match &mut draft.body {
            Some(DraftBody::Form(fields)) => fields.push((name.to_owned(), value)),
            Some(DraftBody::Json(serde_json::Value::Object(map))) => {
                map.insert(name.to_owned(), value.into());
            }
            _ => return Err("the credential goes into the body, but the request has no form and no object".to_owned()),
        },
    }
    Ok(())
}

fn set_header(draft: &mut Draft, name: &str, value: String) {
    draft.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    draft.headers.push((name.to_owned(), value));
}
