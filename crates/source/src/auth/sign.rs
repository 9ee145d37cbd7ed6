//! The signing hook `hmac_sha256`.
//!
//! The string to sign has five lines, joined with a line feed and without one at the end:
//!
//! ```text
//! GET
//! /v1/works
//! a=1&b=%5Bx%5D
//! 1767225600
//! e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
//! ```
//! method, path as sent, query as sent (the signature itself not in it), seconds since 1970, and the SHA-256 of the
//! body in lower-case hex (of nothing when there is none). The time is sent in the header named by the option
//! `timestamp_header` (`X-Timestamp`). Option `encoding` is `hex` (default) or `base64`, option `prefix` goes in
//! front of the signature.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use patra_core::hash::Hash32;
use patra_core::spec::snapshot::{Method, Place};
use patra_core::time::Timestamp;
use sha2::Sha256;

use crate::encode::{base64, hex, pairs};
use crate::request::{Draft, DraftBody};

pub fn hmac_sha256(
    draft: &mut Draft,
    key: &str,
    place: Place,
    name: &str,
    options: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<(), String> {
    let option = |key: &str, default: &str| options.get(key).map_or(default, String::as_str).to_owned();
    let seconds = now.micros().div_euclid(1_000_000);
    let text = string_to_sign(draft, seconds);
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_err(|_| "the signing key is unusable".to_owned())?;
    mac.update(text.as_bytes());
    let code = mac.finalize().into_bytes();
    let signature = match option("encoding", "hex").as_str() {
        "hex" => hex(&code),
        "base64" => base64(&code),
        other => return Err(format!("signing: `{other}` is not an encoding (hex, base64)")),
    };
    super::set_header(draft, &option("timestamp_header", "X-Timestamp"), seconds.to_string());
    match place {
        Place::Body => Err("a signature over the body cannot stand in it".to_owned()),
        place => super::put(draft, place, name, format!("{}{signature}", option("prefix", ""))),
    }
}

/// The text that is signed.
pub fn string_to_sign(draft: &Draft, seconds: i64) -> String {
    let method = match draft.method {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let body = match &draft.body {
        None => String::new(),
        Some(DraftBody::Form(fields)) => pairs(fields),
        Some(DraftBody::Json(value)) => value.to_string(),
    };
    let digest = Hash32::of(body.as_bytes());
    format!("{method}\n{}\n{}\n{seconds}\n{digest}", draft.url.path(), pairs(&draft.query))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn the_signature_covers_the_documented_string() {
        let mut draft = Draft {
            method: Method::Get,
            url: Url::parse("https://api.example.org/v1/works").unwrap(),
            query: vec![("a".into(), "1".into()), ("b".into(), "[x]".into())],
            headers: Vec::new(),
            body: None,
            paging: Vec::new(),
            personal: Vec::new(),
        };
        assert_eq!(
            string_to_sign(&draft, 1767225600),
            "GET\n/v1/works\na=1&b=%5Bx%5D\n1767225600\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let now = Timestamp::from_seconds(1767225600);
        hmac_sha256(&mut draft, "key", Place::Header, "X-Signature", &BTreeMap::new(), now).unwrap();
        let signature = &draft.headers.iter().find(|(name, _)| name == "X-Signature").unwrap().1;
        assert_eq!(signature.len(), 64);
        assert!(draft.headers.contains(&("X-Timestamp".into(), "1767225600".into())));
        let refused = hmac_sha256(&mut draft, "key", Place::Body, "s", &BTreeMap::new(), now);
        assert!(refused.is_err());
    }
}
