//! OAI-PMH: selective harvesting with inclusive seconds, tombstones, and a resumption token that carries the whole position,
//! so that any server could continue the list. Errors come with status 200.

use crate::content::xml_text;
use crate::moment::{DAY_US, SECOND_US, denoted, iso_seconds};
use crate::provider::{Provider, Rate, Reply, join_payloads, origin};
use crate::providers::oai_xml::{envelope, identify};
use crate::request::{SimAnswer, SimRequest};
use crate::timeline::Key;
use crate::truth::Truth;

const XML: &str = "text/xml; charset=UTF-8";
const PAGE: usize = 100;
const ARGUMENTS: [&str; 6] = ["verb", "metadataPrefix", "from", "until", "set", "resumptionToken"];

/// The provider.
pub struct OaiPmh {
    truth: Truth,
    token_life_us: i64,
    page: usize,
    with_list_size: bool,
    /// Tokens issued before this are refused.
    refuse_before: i64,
    list_count: u64,
    /// PO-9: now and then a page holds a control character that XML forbids.
    bad_letters: bool,
    /// PO-10: now and then the token of a page is the one it was asked with.
    repeat_token: bool,
}

/// A position in a list, as the token spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    issued_at: i64,
    from: i64,
    to: i64,
    after: Key,
    served: usize,
}

impl OaiPmh {
    /// Serves a truth under `/oai-pmh/oai`; tokens live one day.
    pub fn new(truth: Truth) -> Self {
        Self {
            truth,
            token_life_us: DAY_US,
            page: PAGE,
            with_list_size: true,
            refuse_before: i64::MIN,
            list_count: 0,
            bad_letters: false,
            repeat_token: false,
        }
    }

    fn list(&mut self, request: &SimRequest, now_us: i64) -> Result<Reply, (&'static str, String)> {
        self.list_count += 1;
        let asked = request.param("resumptionToken");
        let position = match asked {
            Some(text) => self.resume(request, text, now_us)?,
            None => self.begin(request, now_us)?,
        };
        let page = self.truth.page_from(position.after, position.to, self.page);
        if page.is_empty() && asked.is_none() {
            return Err(("noRecordsMatch", "No records match the request".to_owned()));
        }
        let (mut records, items) = join_payloads(&self.truth, &page, "");
        let next = self.next_position(&position, &page, now_us);
        let mut token = self.token_element(&position, next.as_ref(), asked.is_some());
        if self.repeat_token && self.list_count.is_multiple_of(5) && next.is_some() {
            token = asked.map_or(token, |text| format!("<resumptionToken>{}</resumptionToken>", xml_text(text)));
        }
        if self.bad_letters && self.list_count.is_multiple_of(4) {
            records = records.replacen("</dc:title>", "\u{1}</dc:title>", 1);
        }
        let body = envelope(request, now_us, &format!("<ListRecords>{records}{token}</ListRecords>"));
        Ok(Reply { answer: SimAnswer::new(200, XML, body), items, token: asked.map(str::to_owned) })
    }

    fn begin(&self, request: &SimRequest, now_us: i64) -> Result<Token, (&'static str, String)> {
        let bad = |text: &str| ("badArgument", text.to_owned());
        match request.param("metadataPrefix") {
            None => return Err(bad("metadataPrefix is required")),
            Some("oai_dc") => {}
            Some(other) => {
                return Err(("cannotDisseminateFormat", format!("{other} is not supported")));
            }
        }
        let from = request
            .param("from")
            .map(|text| denoted(text).ok_or_else(|| bad("from is not a valid date")))
            .transpose()?;
        let until = request
            .param("until")
            .map(|text| denoted(text).ok_or_else(|| bad("until is not a valid date")))
            .transpose()?;
        let written = |name: &str| request.param(name).map(str::len);
        if from.is_some() && until.is_some() && written("from") != written("until") {
            return Err(bad("from and until have different granularity"));
        }
        let (from, to) = (from.map_or(i64::MIN, |span| span.0), until.map_or(i64::MAX, |span| span.1));
        if from >= to {
            return Err(bad("from is later than until"));
        }
        Ok(Token { issued_at: now_us, from, to, after: (from, 0), served: 0 })
    }

    fn resume(&self, request: &SimRequest, text: &str, now_us: i64) -> Result<Token, (&'static str, String)> {
        let extra = request.query.iter().any(|(name, _)| name != "verb" && name != "resumptionToken");
        if extra {
            return Err(("badArgument", "resumptionToken is an exclusive argument".to_owned()));
        }
        let refused = || ("badResumptionToken", "This resumptionToken is invalid or has expired".to_owned());
        let token = Token::read(text).ok_or_else(refused)?;
        let expired = now_us - token.issued_at > self.token_life_us || token.issued_at < self.refuse_before;
        if expired { Err(refused()) } else { Ok(token) }
    }

    fn next_position(&self, position: &Token, page: &[u32], now_us: i64) -> Option<Token> {
        let last = self.truth.face(*page.last()?)?;
        let after = (last.updated_at, last.index + 1);
        let more = !self.truth.page_from(after, position.to, 1).is_empty();
        more.then(|| Token { issued_at: now_us, after, served: position.served + page.len(), ..*position })
    }

    /// Absent when one page holds all; empty at the end of a longer list.
    fn token_element(&self, position: &Token, next: Option<&Token>, resumed: bool) -> String {
        let size = if self.with_list_size {
            format!(
                " completeListSize=\"{}\" cursor=\"{}\"",
                self.truth.count(position.from, position.to),
                position.served
            )
        } else {
            String::new()
        };
        match next {
            Some(token) => format!(
                "<resumptionToken expirationDate=\"{}\"{size}>{}</resumptionToken>",
                iso_seconds(token.issued_at + self.token_life_us),
                token.write()
            ),
            None if resumed => format!("<resumptionToken{size}/>"),
            None => String::new(),
        }
    }
}

impl Provider for OaiPmh {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        if request.path == "/oai-pmh/oai2" {
            let place = request.path_query().replacen("/oai-pmh/oai2", "/oai-pmh/oai", 1);
            let answer = SimAnswer::new(301, "text/html", "<html><body><h1>Moved Permanently</h1></body></html>");
            return Reply::bare(answer.with("location", format!("{}{place}", origin(request))));
        }
        if request.path.trim_end_matches('/') != "/oai-pmh/oai" {
            return Reply::bare(SimAnswer::new(404, "text/html", "<html><body><h1>Not Found</h1></body></html>"));
        }
        let fault = |(code, text): (&str, String)| {
            let error = format!("<error code=\"{code}\">{}</error>", xml_text(&text));
            Reply::bare(SimAnswer::new(200, XML, envelope(request, now_us, &error)))
        };
        if let Some((name, _)) = request.query.iter().find(|(name, _)| !ARGUMENTS.contains(&name.as_str())) {
            return fault(("badArgument", format!("illegal argument {name}")));
        }
        match request.param("verb") {
            Some("ListRecords") => self
                .list(request, now_us)
                .unwrap_or_else(|error| fault(error).with_token(request.param("resumptionToken"))),
            Some("Identify") => Reply::bare(SimAnswer::new(200, XML, envelope(request, now_us, &identify(request)))),
            _ => fault(("badVerb", "Illegal OAI verb".to_owned())),
        }
    }

    fn rate(&self, _request: &SimRequest) -> Rate {
        Rate { limit: 3, per_us: SECOND_US, concurrency: 1 }
    }

    /// OAI servers throttle with 503 or 429; without a value they give 429 as plain text.
    fn throttled(&self, _request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let answer = SimAnswer::new(429, "text/plain", "Too many requests");
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, request: &SimRequest, now_us: i64) -> SimAnswer {
        let error =
            "<error code=\"internalServerError\">Internal error while reading the index, try again later</error>";
        SimAnswer::new(200, XML, envelope(request, now_us, error))
    }

    fn expire_cursors(&mut self, now_us: i64) -> bool {
        self.refuse_before = now_us;
        true
    }

    fn enable(&mut self, scenario: &str) -> bool {
        match scenario {
            "PO-4" => self.page = 10,
            "PO-9" => self.bad_letters = true,
            "PO-10" => self.repeat_token = true,
            "SIM-OAI-SIZE" => self.with_list_size = false,
            _ => return false,
        }
        true
    }

    fn set_cursor_life(&mut self, life_us: i64) -> bool {
        self.token_life_us = life_us;
        true
    }

    fn truth(&self) -> &Truth {
        &self.truth
    }

    fn truth_mut(&mut self) -> &mut Truth {
        &mut self.truth
    }
}

impl Token {
    fn write(&self) -> String {
        format!("{}!{}!{}!{}!{}!{}!oai_dc", self.issued_at, self.from, self.to, self.after.0, self.after.1, self.served)
    }

    fn read(text: &str) -> Option<Token> {
        let parts: Vec<&str> = text.split('!').collect();
        let [issued_at, from, to, at, index, served, "oai_dc"] = parts[..] else {
            return None;
        };
        Some(Token {
            issued_at: issued_at.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            after: (at.parse().ok()?, index.parse().ok()?),
            served: served.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_the_whole_position() {
        let token = Token { issued_at: 5, from: i64::MIN, to: 9, after: (3, 4), served: 100 };
        assert_eq!(Token::read(&token.write()), Some(token));
        assert_eq!(Token::read("nonsense"), None);
    }
}
