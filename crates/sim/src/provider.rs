//! What every simulated provider can do. A provider answers honestly; limits, faults, mutations and the log are added around
//! it by the world, so that each can be switched without touching the provider.

use crate::request::{SimAnswer, SimRequest};
use crate::truth::Truth;

/// One simulated provider.
pub trait Provider: Send {
    /// The source's name.
    fn source(&self) -> &str;

    /// The honest answer to a request, with what the served log wants to know about it.
    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply;

    /// The honest answer alone.
    fn answer(&mut self, request: &SimRequest, now_us: i64) -> SimAnswer {
        self.reply(request, now_us).answer
    }

    /// Search or detail, decided before the request is answered.
    fn kind(&self, _request: &SimRequest) -> Kind {
        Kind::Search
    }

    /// The declared limit for this caller.
    fn rate(&self, request: &SimRequest) -> Rate;

    /// The provider's own answer to a caller above the limit, with or without a `Retry-After` value.
    fn throttled(&self, request: &SimRequest, retry_after: Option<String>, now_us: i64) -> SimAnswer;

    /// The provider's own way to fail under a success status, or the nearest it has.
    fn error_body(&self, request: &SimRequest, now_us: i64) -> SimAnswer;

    /// Makes every open cursor invalid; false when the provider's cursors cannot expire.
    fn expire_cursors(&mut self, _now_us: i64) -> bool {
        false
    }

    /// Switches a provider-specific situation on; false when it is not known here.
    fn enable(&mut self, _scenario: &'static str) -> bool {
        false
    }

    /// Sets the largest number of results that one query serves; false when it has no such cap.
    fn set_cap(&mut self, _cap: usize) -> bool {
        false
    }

    /// Sets how long an unused cursor lives; false when cursors do not expire here.
    fn set_cursor_life(&mut self, _life_us: i64) -> bool {
        false
    }

    fn truth(&self) -> &Truth;
    fn truth_mut(&mut self) -> &mut Truth;
}

/// An answer and what was in it.
#[derive(Debug, Clone)]
pub struct Reply {
    pub answer: SimAnswer,
    /// (record, version) in the order served.
    pub items: Vec<(u32, u32)>,
    pub token: Option<String>,
}

impl Reply {
    /// An answer without records.
    pub fn bare(answer: SimAnswer) -> Self {
        Self { answer, items: Vec::new(), token: None }
    }

    /// The same reply with the token that the request carried.
    #[must_use]
    pub fn with_token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(str::to_owned);
        self
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Search,
    Detail,
}

/// At most `limit` requests in any span of `per_us`, at most `concurrency` of them open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub limit: u32,
    pub per_us: i64,
    pub concurrency: u32,
}

/// The page of records, each in its exact bytes, joined by `between`.
pub(crate) fn join_payloads(truth: &Truth, page: &[u32], between: &str) -> (String, Vec<(u32, u32)>) {
    let mut text = String::new();
    let mut items = Vec::with_capacity(page.len());
    for index in page {
        let (Some(face), Some(payload)) = (truth.face(*index), truth.current_payload(*index)) else {
            continue;
        };
        if !items.is_empty() {
            text.push_str(between);
        }
        text.push_str(&String::from_utf8_lossy(&payload));
        items.push((*index, face.version));
    }
    (text, items)
}

/// A number parameter: absent gives the default, unreadable gives nothing.
pub(crate) fn number(request: &SimRequest, name: &str, default: usize) -> Option<usize> {
    request.param(name).map_or(Some(default), |text| text.trim().parse().ok())
}

/// Where the caller reached us, for links in answers.
pub(crate) fn origin(request: &SimRequest) -> String {
    format!("http://{}", request.header("host").unwrap_or("provider.invalid"))
}
