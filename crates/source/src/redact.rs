//! Takes secrets out of everything that is kept or shown.
//!
//! Servers echo keys in next links, bodies and error pages, in many spellings. A [`Redactor`] knows the forms a
//! value can take: as it is, percent-encoded, in base64 (alone or inside a longer text), in hex, and escaped for
//! JSON. In tokens and URLs the marker [`CREDENTIAL`] stands for the value, so the next request can put it back.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::spec::errors::FetchError;
use regex::bytes::Regex;
use url::Url;

use crate::encode::{base64, hex, percent};

/// Stands where a secret was.
pub const CREDENTIAL: &str = "[credential]";
/// Values shorter than this are not searched for; they would match everywhere.
pub const SECRET_BYTES_MIN: usize = 4;
/// Redactors kept in memory.
const REDACTORS_MAX: usize = 64;
/// Longest text of the source that goes into an error.
const EXCERPT_CHARS: usize = 200;

/// Finds the secrets of one request.
#[derive(Clone, Default)]
pub struct Redactor {
    forms: Option<Regex>,
}

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Redactor {
        let mut forms: Vec<String> = secrets.into_iter().flat_map(forms_of).collect();
        // The longest form first, so that no tail of a secret is left behind.
        forms.sort_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        forms.dedup();
        if forms.is_empty() {
            return Redactor { forms: None };
        }
        let pattern: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
        let built = regex::bytes::RegexBuilder::new(&pattern.join("|")).unicode(false).size_limit(64 << 20).build();
        Redactor { forms: Some(built.expect("escaped literals are a valid pattern")) }
    }

    /// A shared copy where there is nothing to redact.
    pub fn bytes(&self, body: &Bytes) -> Bytes {
        match &self.forms {
            Some(forms) if forms.is_match(body) => {
                Bytes::from(forms.replace_all(body, CREDENTIAL.as_bytes()).into_owned())
            }
            _ => body.clone(),
        }
    }

    pub fn text(&self, text: &str) -> String {
        match &self.forms {
            Some(forms) => {
                String::from_utf8_lossy(&forms.replace_all(text.as_bytes(), CREDENTIAL.as_bytes())).into_owned()
            }
            None => text.to_owned(),
        }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.forms.as_ref().is_some_and(|forms| forms.is_match(text.as_bytes()))
    }

    pub fn json(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (self.text(&key), self.json(value))).collect(),
            other => other,
        }
    }

    /// The beginning of what a source said, on one line, without secrets and control characters.
    pub fn excerpt(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(&body[..body.len().min(4096)]).into_owned();
        one_line(&self.text(&text))
    }

    pub fn error(&self, error: FetchError) -> FetchError {
        let text = |message: String| one_line_of(self.text(&message), 1000);
        match error {
            FetchError::Connect { message } => FetchError::Connect { message: text(message) },
            FetchError::Lost { message } => FetchError::Lost { message: text(message) },
            FetchError::Status { status, message, retry_after } => {
                FetchError::Status { status, message: text(message), retry_after }
            }
            FetchError::Body { fault, message } => FetchError::Body { fault, message: text(message) },
            FetchError::Rule { action, status, message, retry_after } => {
                FetchError::Rule { action, status, message: text(message), retry_after }
            }
            FetchError::TooLarge { message } => FetchError::TooLarge { message: text(message) },
            FetchError::Foreign { message } => FetchError::Foreign { message: text(message) },
            FetchError::Request { message } => FetchError::Request { message: text(message) },
            FetchError::Auth { message } => FetchError::Auth { message: text(message) },
        }
    }
}

/// Redactors by the secrets they know; building one costs more than using it.
#[derive(Default)]
pub struct Redactors {
    kept: Mutex<Vec<(Hash32, Redactor)>>,
}

impl Redactors {
    pub fn get<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) -> Redactor {
        let secrets: Vec<&str> = secrets.into_iter().collect();
        let parts: Vec<&[u8]> = secrets.iter().map(|secret| secret.as_bytes()).collect();
        let key = Hash32::of_parts(&parts);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, redactor)) = kept.iter().find(|(known, _)| *known == key) {
            return redactor.clone();
        }
        let redactor = Redactor::new(secrets);
        if kept.len() >= REDACTORS_MAX {
            kept.remove(0);
        }
        kept.push((key, redactor.clone()));
        redactor
    }
}

fn one_line(text: &str) -> String {
    one_line_of(text.to_owned(), EXCERPT_CHARS)
}

/// One event is one line: control and direction characters become blanks.
fn one_line_of(text: String, chars: usize) -> String {
    let hidden = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let line: String = text.chars().map(|letter| if hidden(letter) { ' ' } else { letter }).collect();
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(chars) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

fn forms_of(secret: &str) -> Vec<String> {
    if secret.len() < SECRET_BYTES_MIN {
        return Vec::new();
    }
    let encoded = percent(secret);
    let lower = lower_escapes(&encoded);
    let json = serde_json::Value::from(secret).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let mut forms = vec![
        secret.to_owned(),
        encoded.replace("%20", "+"),
        percent(&encoded),
        encoded,
        lower,
        json.replace('/', "\\/"),
        html_safe(&json),
        json,
        hex(secret.as_bytes()),
        hex(secret.as_bytes()).to_uppercase(),
        secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
    ];
    forms.extend(base64_forms(secret));
    forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
    forms
}

/// Base64 of the value wherever it begins inside a longer text: the letters that depend on it alone.
fn base64_forms(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for lead in 0..3usize {
        let padded: Vec<u8> = std::iter::repeat_n(0, lead).chain(secret.bytes()).collect();
        let encoded = base64(&padded);
        let start = (lead * 8).div_ceil(6);
        let end = padded.len() * 8 / 6;
        if end > start + 4 {
            let core = &encoded[start..end];
            forms.push(core.to_owned());
            forms.push(core.replace('+', "-").replace('/', "_"));
            forms.push(percent(core));
        }
    }
    forms
}

fn lower_escapes(encoded: &str) -> String {
    let mut lower = String::with_capacity(encoded.len());
    let mut left = 0;
    for letter in encoded.chars() {
        lower.push(if left > 0 { letter.to_ascii_lowercase() } else { letter });
        left = if letter == '%' { 2 } else { usize::saturating_sub(left, 1) };
    }
    lower
}

/// Escapes that encoders safe for HTML use inside JSON.
fn html_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '&' | '<' | '>' | '\'' | '=' | '+' => safe.push_str(&format!("\\u{:04x}", letter as u32)),
            other if !other.is_ascii() => {
                let mut units = [0; 2];
                other.encode_utf16(&mut units).iter().for_each(|unit| safe.push_str(&format!("\\u{unit:04x}")));
            }
            other => safe.push(other),
        }
    }
    safe
}

/// A URL that can be shown: no user, no password, no query values but those of known harmless names.
#[derive(Clone)]
pub struct SafeUrl {
    url: Url,
    hidden: Vec<String>,
}

impl SafeUrl {
    /// `hidden` are the names of query parameters that carry credentials.
    pub fn new(url: Url, hidden: Vec<String>) -> SafeUrl {
        SafeUrl { url, hidden }
    }

    /// A URL written as text; `None` if it is none.
    pub fn of(text: &str, hidden: Vec<String>) -> Option<SafeUrl> {
        Some(SafeUrl::new(Url::parse(text).ok()?, hidden))
    }
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KNOWN: [&str; 8] = ["api_key", "apikey", "api-key", "key", "token", "access_token", "email", "mailto"];
        write!(f, "{}{}", self.url.origin().ascii_serialization(), self.url.path())?;
        for (at, (name, value)) in self.url.query_pairs().enumerate() {
            let secret =
                KNOWN.contains(&name.to_lowercase().as_str()) || self.hidden.iter().any(|hidden| *hidden == name);
            let value = if secret { "***".to_owned() } else { percent(&value) };
            write!(f, "{}{}={value}", if at == 0 { '?' } else { '&' }, percent(&name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "k3y/with+signs&\"ü=";

    #[test]
    fn every_form_of_a_secret_is_found() {
        let redactor = Redactor::new([SECRET]);
        let basic = base64(format!("user:{SECRET}").as_bytes());
        let basic2 = base64(format!("us:{SECRET}x").as_bytes());
        let basic3 = base64(format!("u:{SECRET}xy").as_bytes());
        let json = serde_json::json!({ "key": SECRET }).to_string();
        for text in [
            SECRET.to_owned(),
            percent(SECRET),
            lower_escapes(&percent(SECRET)),
            percent(&percent(SECRET)),
            hex(SECRET.as_bytes()),
            hex(SECRET.as_bytes()).to_uppercase(),
            basic,
            basic2,
            basic3,
            json.replace('/', "\\/"),
            json,
            "k3y/with\\u002bsigns\\u0026\\\"\\u00fc\\u003d".to_owned(),
        ] {
            let around = format!("before {text} after");
            let clean = redactor.text(&around);
            assert!(clean.contains(CREDENTIAL), "{text} -> {clean}");
            assert!(!clean.contains("with"), "{text} -> {clean}");
            assert_eq!(&redactor.bytes(&Bytes::from(around.clone()))[..], clean.as_bytes());
            assert_eq!(Redactor::default().text(&around), around, "without the guard the secret gets through");
        }
    }

    #[test]
    fn a_body_without_secrets_is_not_copied() {
        let body = Bytes::from_static(b"{\"a\":1}");
        assert_eq!(Redactor::new([SECRET]).bytes(&body).as_ptr(), body.as_ptr());
    }

    #[test]
    fn excerpts_are_one_short_line() {
        let redactor = Redactor::new(["secret-value"]);
        let excerpt = redactor.excerpt(b"a\r\n\x1b[31m secret-value \xe2\x80\xae b");
        assert_eq!(excerpt, format!("a [31m {CREDENTIAL} b"));
        assert!(redactor.excerpt(&[b'x'; 5000]).len() < 210);
    }

    #[test]
    fn a_url_is_shown_without_credentials() {
        let url = Url::parse("https://user:pass@api.example.org/a?q=x&api_key=K&secretly=S&mailto=m").unwrap();
        let shown = SafeUrl::new(url, vec!["secretly".into()]).to_string();
        assert_eq!(shown, "https://api.example.org/a?q=x&api_key=***&secretly=***&mailto=***");
    }
}
