//! What goes into a provider and what comes out: one request, one answer, no network.
//!
//! The same two types serve the in-process transport and the real HTTP server.

use url::form_urlencoded;

/// One request as a provider sees it: path and query percent-decoded, header names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimRequest {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// One answer; `delay_us` is how long the provider takes, `cut` how the connection fails, if it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub delay_us: i64,
    pub cut: Option<Cut>,
    /// Situations that this answer is a case of, by their ids.
    pub fired: Vec<&'static str>,
}

/// A connection that ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection closes after n body bytes although `Content-Length` announced all.
    AfterBytes(usize),
    /// The connection closes before any answer.
    Reset,
}

impl SimRequest {
    /// Decodes `/path?query`; an unreadable escape stays as it was written.
    pub fn from_url(method: &str, path_and_query: &str, headers: Vec<(String, String)>, body: Vec<u8>) -> Self {
        let without_fragment = path_and_query.split('#').next().unwrap_or_default();
        let (path, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        Self {
            method: method.to_ascii_uppercase(),
            path: percent_decode(path),
            query: parse_query(query),
            headers: headers.into_iter().map(lower).collect(),
            body,
        }
    }

    /// A plain GET without headers.
    pub fn get(path_and_query: &str) -> Self {
        Self::from_url("GET", path_and_query, Vec::new(), Vec::new())
    }

    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    /// The first value of a header; the name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }

    /// Query parameters, followed by those of a form body.
    pub fn form(&self) -> Vec<(String, String)> {
        let mut all = self.query.clone();
        if self.method == "POST" {
            all.extend(form_urlencoded::parse(&self.body).into_owned());
        }
        all
    }

    /// Path and query, encoded again in one canonical way, for the served log.
    pub fn path_query(&self) -> String {
        let mut text = percent_encode_path(&self.path);
        if !self.query.is_empty() {
            text.push('?');
            text.push_str(&encode_query(&self.query));
        }
        text
    }
}

impl SimAnswer {
    /// An answer with a content type and a body.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { status, headers, body: body.into(), delay_us: 0, cut: None, fired: Vec::new() }
    }

    /// The same answer with one header more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same answer, counted as a case of a situation.
    #[must_use]
    pub fn fires(mut self, situation: &'static str) -> Self {
        self.fired.push(situation);
        self
    }

    /// The same answer, counted as a case of a situation when the condition holds.
    #[must_use]
    pub fn fires_if(self, holds: bool, situation: &'static str) -> Self {
        if holds { self.fires(situation) } else { self }
    }

    /// The first value of a header; the name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }
}

/// Reads a query string.
pub fn parse_query(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Writes parameters as a query string.
pub fn encode_query(parameters: &[(String, String)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}

/// Percent-encodes everything in a path but unreserved characters and slashes.
pub fn percent_encode_path(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(byte as char),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let value =
            escape.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_decoded_in_order_and_encoded_back() {
        let request =
            SimRequest::from_url("get", "/a%2Fb/x%20%C3%A9?q=1+2&c=%2B&q=z", vec![("X-A".into(), "1".into())], vec![]);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/a/b/x é"));
        assert_eq!((request.param("q"), request.param("c")), (Some("1 2"), Some("+")));
        assert_eq!(request.header("x-a"), Some("1"));
        assert_eq!(request.query[2], ("q".to_owned(), "z".to_owned()));
        assert_eq!(SimRequest::get(&request.path_query()).query, request.query);
    }

    #[test]
    fn a_broken_escape_stays_as_written() {
        assert_eq!(SimRequest::get("/100%/%zz").path, "/100%/%zz");
    }
}
