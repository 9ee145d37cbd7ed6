//! What a failed request means: the source's own rules first, then the built-in taxonomy.
//!
//! [`classify`] is total; the class alone decides whether to retry, wait, start a new pass, split or stop.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One line of a definition's `errors` list. All conditions given must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRule {
    pub when: ErrorMatch,
    pub then: ErrorAction,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorMatch {
    pub status: Vec<u16>,
    /// Prefix of the media type, e.g. `text/html`.
    pub content_type: Option<String>,
    /// `Name` (present) or `Name: text` (contains).
    pub header: Option<String>,
    /// A path that must give a value in the decoded body.
    pub path: Option<String>,
    /// Regular expression over the first 64 KiB of the body.
    pub body: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorAction {
    Retry,
    /// Zero hits: a success without items.
    Empty,
    Permanent,
    Quota,
    Auth,
    CursorExpired,
    Split,
    Skip,
}

/// The four levels of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorLevel {
    L1,
    L2,
    L3,
    L4,
}

/// Why a page could not be had. Texts are already redacted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FetchError {
    /// No connection, DNS, TLS: the request surely did not reach the source.
    #[error("cannot reach the source: {message}")]
    Connect { message: String },
    /// The request may have been answered, but the answer was lost: time-out, reset, cut body.
    #[error("the answer was lost: {message}")]
    Lost { message: String },
    /// A complete answer with an error status.
    #[error("the source answered {status}: {message}")]
    Status { status: u16, message: String, retry_after: Option<Timestamp> },
    /// A complete answer with status 2xx that is not a page: HTML, an error body, malformed text.
    #[error("the answer is not a page ({}): {message}", fault.label())]
    Body { fault: BodyFault, message: String },
    /// A rule of the definition matched.
    #[error("{message} (rule: {action:?})")]
    Rule { action: ErrorAction, status: u16, message: String, retry_after: Option<Timestamp> },
    /// Over a limit on size, ratio, depth or time.
    #[error("the answer is too large: {message}")]
    TooLarge { message: String },
    /// The next URL or a redirect left the source's origin, or an address is not allowed.
    #[error("refused to ask {message}")]
    Foreign { message: String },
    /// The request cannot be written: template, secret or URL.
    #[error("cannot write the request: {message}")]
    Request { message: String },
    /// A secret is missing, or the token endpoint refused us.
    #[error("not authorised: {message}")]
    Auth { message: String },
}

impl FetchError {
    /// The source says that there is nothing under what was asked for.
    pub fn says_absent(&self) -> bool {
        matches!(self, FetchError::Status { status: 404 | 410, .. } | FetchError::Rule { status: 404 | 410, .. })
    }
}

/// In which way an answer with status 2xx is not a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BodyFault {
    /// A web page instead of data: a login, a maintenance notice, a proxy.
    Html,
    /// Readable, but nothing where items belong: most often the source's own error under a success status.
    ErrorBody,
    Empty,
    /// It ends in the middle.
    Short,
    Malformed,
}

impl BodyFault {
    pub const fn label(self) -> &'static str {
        match self {
            BodyFault::Html => "HTML",
            BodyFault::ErrorBody => "ERROR_BODY",
            BodyFault::Empty => "EMPTY_BODY",
            BodyFault::Short => "SHORT_BODY",
            BodyFault::Malformed => "MALFORMED",
        }
    }
}

impl FetchError {
    /// What went wrong, from a closed set: a metric label that tells apart what has the same class.
    pub const fn label(&self) -> &'static str {
        match self {
            FetchError::Connect { .. } => "CONNECT",
            FetchError::Lost { .. } => "LOST",
            FetchError::Status { status: 429, .. } => "STATUS_429",
            FetchError::Status { status: 500..=599, .. } => "STATUS_5XX",
            FetchError::Status { status: 400..=499, .. } => "STATUS_4XX",
            FetchError::Status { .. } => "STATUS_OTHER",
            FetchError::Body { fault, .. } => fault.label(),
            FetchError::Rule { .. } => "RULE",
            FetchError::TooLarge { .. } => "TOO_LARGE",
            FetchError::Foreign { .. } => "FOREIGN",
            FetchError::Request { .. } => "REQUEST",
            FetchError::Auth { .. } => "AUTH",
        }
    }
}

/// What to do about a failure; also the metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorClass {
    /// Ask again, same position. `lost`: the answer may have been given, which a cursor that cannot be asked twice does not survive.
    Transient { lost: bool },
    /// Slow down, not before the time given.
    Throttled { until: Option<Timestamp> },
    /// The budget is empty: park the source.
    Quota { until: Option<Timestamp> },
    /// Zero hits.
    Empty,
    /// The position is no longer known: a new pass.
    CursorExpired,
    /// The window is too much for the source: split it.
    Split,
    /// Leave this page out (declared by a rule).
    Skip,
    /// Asking again gives the same: this slice fails.
    Denied,
    /// The body is larger than allowed.
    TooLarge,
    /// A next URL or redirect to another origin.
    ForeignNext,
    /// Credentials or configuration: a person must act.
    Fatal,
}

impl ErrorClass {
    pub fn level(self) -> ErrorLevel {
        match self {
            ErrorClass::Transient { .. } | ErrorClass::Throttled { .. } | ErrorClass::Quota { .. } => ErrorLevel::L1,
            ErrorClass::Empty | ErrorClass::CursorExpired | ErrorClass::Split | ErrorClass::Skip => ErrorLevel::L1,
            ErrorClass::Denied | ErrorClass::TooLarge | ErrorClass::ForeignNext => ErrorLevel::L2,
            ErrorClass::Fatal => ErrorLevel::L4,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Transient { .. } => "TRANSIENT",
            ErrorClass::Throttled { .. } => "THROTTLED",
            ErrorClass::Quota { .. } => "QUOTA",
            ErrorClass::Empty => "EMPTY",
            ErrorClass::CursorExpired => "CURSOR_EXPIRED",
            ErrorClass::Split => "SPLIT",
            ErrorClass::Skip => "SKIP",
            ErrorClass::Denied => "DENIED",
            ErrorClass::TooLarge => "TOO_LARGE",
            ErrorClass::ForeignNext => "FOREIGN_NEXT",
            ErrorClass::Fatal => "FATAL",
        }
    }
}

/// The whole taxonomy. `extra_retry` are the statuses a source declares as transient.
pub fn classify(error: &FetchError, extra_retry: &[u16]) -> ErrorClass {
    match error {
        FetchError::Connect { .. } => ErrorClass::Transient { lost: false },
        FetchError::Lost { .. } => ErrorClass::Transient { lost: true },
        FetchError::Body { .. } => ErrorClass::Transient { lost: true },
        FetchError::Status { status, retry_after, .. } => classify_status(*status, *retry_after, extra_retry),
        FetchError::Rule { action, status, retry_after, .. } => classify_rule(*action, *status, *retry_after),
        FetchError::TooLarge { .. } => ErrorClass::TooLarge,
        FetchError::Foreign { .. } => ErrorClass::ForeignNext,
        FetchError::Request { .. } => ErrorClass::Denied,
        FetchError::Auth { .. } => ErrorClass::Fatal,
    }
}

fn classify_status(status: u16, retry_after: Option<Timestamp>, extra_retry: &[u16]) -> ErrorClass {
    match status {
        429 => ErrorClass::Throttled { until: retry_after },
        503 if retry_after.is_some() => ErrorClass::Throttled { until: retry_after },
        408 | 500..=599 => ErrorClass::Transient { lost: false },
        401 | 407 => ErrorClass::Fatal,
        other if extra_retry.contains(&other) => ErrorClass::Transient { lost: false },
        _ => ErrorClass::Denied,
    }
}

fn classify_rule(action: ErrorAction, status: u16, retry_after: Option<Timestamp>) -> ErrorClass {
    match action {
        ErrorAction::Retry if status == 429 || retry_after.is_some() => ErrorClass::Throttled { until: retry_after },
        // A page that was answered with 200 has moved a server-side cursor on, whatever its body says.
        ErrorAction::Retry => ErrorClass::Transient { lost: (200..300).contains(&status) },
        ErrorAction::Empty => ErrorClass::Empty,
        ErrorAction::Permanent => ErrorClass::Denied,
        ErrorAction::Quota => ErrorClass::Quota { until: retry_after },
        ErrorAction::Auth => ErrorClass::Fatal,
        ErrorAction::CursorExpired => ErrorClass::CursorExpired,
        ErrorAction::Split => ErrorClass::Split,
        ErrorAction::Skip => ErrorClass::Skip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<Timestamp>) -> FetchError {
        FetchError::Status { status, message: String::new(), retry_after }
    }

    #[test]
    fn every_status_has_a_class() {
        let later = Some(Timestamp::from_seconds(9));
        for (error, want) in [
            (status(429, None), ErrorClass::Throttled { until: None }),
            (status(503, later), ErrorClass::Throttled { until: later }),
            (status(503, None), ErrorClass::Transient { lost: false }),
            (status(500, None), ErrorClass::Transient { lost: false }),
            (status(408, None), ErrorClass::Transient { lost: false }),
            (status(401, None), ErrorClass::Fatal),
            (status(404, None), ErrorClass::Denied),
            (status(423, None), ErrorClass::Transient { lost: false }),
            (status(302, None), ErrorClass::Denied),
        ] {
            assert_eq!(classify(&error, &[423]), want, "{error}");
        }
    }

    #[test]
    fn a_lost_answer_is_told_from_one_that_was_never_given() {
        let lost = FetchError::Lost { message: "cut".into() };
        let refused = FetchError::Connect { message: "refused".into() };
        assert_eq!(classify(&lost, &[]), ErrorClass::Transient { lost: true });
        assert_eq!(classify(&refused, &[]), ErrorClass::Transient { lost: false });
    }
}
