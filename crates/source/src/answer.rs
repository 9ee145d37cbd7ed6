//! Is a whole answer a page? The definition's rules first, then the status, then a look at the body.

use patra_core::ports::HttpAnswer;
use patra_core::spec::errors::{BodyFault, ErrorAction, FetchError};
use patra_core::spec::snapshot::Format;
use patra_core::time::Timestamp;

use crate::program::{Phase, RuleProgram};
use crate::rate::{header, retry_after};
use crate::redact::Redactor;

/// How much of a body a pattern is matched against.
const PATTERN_BYTES: usize = 64 * 1024;

/// What an answer turned out to be.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Page,
    /// A rule says that there are no hits.
    Empty,
}

/// Judges a whole answer; texts of errors are redacted.
pub fn judge(phase: &Phase, answer: &HttpAnswer, redactor: &Redactor, now: Timestamp) -> Result<Verdict, FetchError> {
    let retry_after = retry_after(&answer.headers, now);
    if let Some(rule) = phase.rules.iter().find(|rule| rule.matches(answer)) {
        if rule.action == ErrorAction::Empty {
            return Ok(Verdict::Empty);
        }
        let found = rule.found(answer).map(|found| format!("{}: ", redactor.excerpt(&found))).unwrap_or_default();
        let message = format!("status {}: {found}{}", answer.status, redactor.excerpt(&answer.body));
        return Err(FetchError::Rule { action: rule.action, status: answer.status, message, retry_after });
    }
    if !(200..300).contains(&answer.status) {
        let message = redactor.excerpt(&answer.body);
        return Err(FetchError::Status { status: answer.status, message, retry_after });
    }
    let format = phase.response.format;
    if is_html(&answer.body, format) {
        let message = format!("markup instead of {}: {}", name_of(format), redactor.excerpt(&answer.body));
        return Err(FetchError::Body { fault: BodyFault::Html, message });
    }
    if answer.body.iter().all(u8::is_ascii_whitespace) {
        return Err(FetchError::Body { fault: BodyFault::Empty, message: "the body is empty".to_owned() });
    }
    Ok(Verdict::Page)
}

impl RuleProgram {
    /// What the rule was written for, in the source's own words; the beginning of a body seldom says it.
    fn found(&self, answer: &HttpAnswer) -> Option<Vec<u8>> {
        let head = &answer.body[..answer.body.len().min(PATTERN_BYTES)];
        if let Some(pattern) = &self.body {
            return pattern.find(head).map(|found| found.as_bytes().to_vec());
        }
        let value = self.path.as_ref()?.value(&answer.body, header(&answer.headers, "content-type"))?;
        value.as_str().map(|text| text.as_bytes().to_vec())
    }

    /// All conditions given hold; the cheap ones are looked at first.
    fn matches(&self, answer: &HttpAnswer) -> bool {
        let content_type = || header(&answer.headers, "content-type");
        if !self.status.is_empty() && !self.status.contains(&answer.status) {
            return false;
        }
        if let Some(wanted) = &self.content_type
            && !content_type().is_some_and(|found| found.to_lowercase().starts_with(wanted.as_str()))
        {
            return false;
        }
        if let Some((name, text)) = &self.header {
            let holds = header(&answer.headers, name)
                .is_some_and(|value| text.as_deref().is_none_or(|text| value.to_lowercase().contains(text)));
            if !holds {
                return false;
            }
        }
        if let Some(pattern) = &self.body
            && !pattern.is_match(&answer.body[..answer.body.len().min(PATTERN_BYTES)])
        {
            return false;
        }
        self.path.as_ref().is_none_or(|probe| probe.value(&answer.body, content_type()).is_some())
    }
}

/// Whether a body is a web page, whatever its label says.
fn is_html(body: &[u8], format: Format) -> bool {
    let head = &body[..body.len().min(1024)];
    let head = String::from_utf8_lossy(head).to_lowercase();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    match format {
        Format::Json => head.starts_with('<'),
        Format::Xml => {
            let after =
                head.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")).map_or(head, |(_, rest)| rest);
            let after = after.trim_start();
            after.starts_with("<!doctype html") || after.starts_with("<html")
        }
    }
}

fn name_of(format: Format) -> &'static str {
    match format {
        Format::Json => "JSON",
        Format::Xml => "XML",
    }
}
