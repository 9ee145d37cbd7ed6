//! OAI-PMH: selective harvesting with inclusive ends, tombstones, and a resumption token that carries the whole position,
//! so that any server could continue the list. Errors come with status 200. Three servers are imitated: a plain one
//! (also that of PMC), that of arXiv and that of DOAJ; a situation of theirs switches to them.

use std::collections::{BTreeSet, HashMap};

use crate::content::xml_text;
use crate::moment::{DAY_US, SECOND_US, denoted, floor};
use crate::provider::{Kind, Provider, Rate, Reply, origin};
use crate::providers::oai_token::{Style, Token, midnight_after};
use crate::providers::oai_xml::{envelope, identify};
use crate::request::{SimAnswer, SimRequest};
use crate::truth::Truth;

pub(super) const XML: &str = "text/xml; charset=UTF-8";
/// Records on a page; the real ones send 2,000 (arXiv) and 300 (DOAJ), which small truths would never fill.
const PAGE: usize = 100;
const PAGE_SMALL: usize = 10;
const PAGE_SCALED: usize = 50;
const ARGUMENTS: [&str; 7] = ["verb", "metadataPrefix", "from", "until", "set", "resumptionToken", "identifier"];
/// Requests that meet an error which is kept.
const KEPT_ERRORS: usize = 2;
/// 2005-09-16, before which arXiv has nothing.
const ARXIV_EARLIEST_US: i64 = 1_126_828_800 * SECOND_US;
/// How long DOAJ holds records back from callers who do not pay.
const DOAJ_DELAY_US: i64 = 30 * DAY_US;

/// The provider.
pub struct OaiPmh {
    pub(super) truth: Truth,
    pub(super) style: Style,
    pub(super) token_life_us: i64,
    pub(super) page: usize,
    pub(super) with_list_size: bool,
    /// Tokens issued before this are refused.
    refuse_before: i64,
    pub(super) list_count: u64,
    /// What is switched on, by id.
    pub(super) on: BTreeSet<&'static str>,
    /// AO-5: errors by request, until the midnight they are kept to.
    kept_errors: HashMap<String, i64>,
    kept_count: usize,
}

/// An error of the protocol: its code, its text and the situation it is a case of.
pub(super) struct Fault {
    pub code: &'static str,
    pub text: String,
    pub situation: Option<&'static str>,
}

impl Fault {
    pub fn new(code: &'static str, text: &str) -> Fault {
        Fault { code, text: text.to_owned(), situation: None }
    }

    pub fn of(self, situation: &'static str) -> Fault {
        Fault { situation: Some(situation), ..self }
    }

    fn reply(self, request: &SimRequest, now_us: i64) -> Reply {
        let error = format!("<error code=\"{}\">{}</error>", self.code, xml_text(&self.text));
        let mut answer = SimAnswer::new(200, XML, envelope(request, now_us, &error));
        answer.fired.extend(self.situation);
        Reply::bare(answer)
    }
}

impl OaiPmh {
    /// Serves a truth under `/oai-pmh/oai`; tokens live one day.
    pub fn new(truth: Truth) -> Self {
        Self {
            truth,
            style: Style::Plain,
            token_life_us: DAY_US,
            page: PAGE,
            with_list_size: true,
            refuse_before: i64::MIN,
            list_count: 0,
            on: BTreeSet::new(),
            kept_errors: HashMap::new(),
            kept_count: 0,
        }
    }

    pub(super) fn is_on(&self, situation: &str) -> bool {
        self.on.contains(situation)
    }

    fn imitate(&mut self, style: Style) {
        self.style = style;
        self.page = PAGE_SCALED;
        self.with_list_size = style != Style::Arxiv;
    }

    /// Where the list that the arguments describe begins.
    pub(super) fn begin(&self, request: &SimRequest, now_us: i64) -> Result<Token, Fault> {
        let bad = |text: &str| Fault::new("badArgument", text);
        let prefix = request.param("metadataPrefix").ok_or_else(|| bad("metadataPrefix is required"))?;
        let listed = request.param("verb") == Some("ListIdentifiers");
        if !(prefix == "oai_dc" || listed && prefix == "pmc") {
            return Err(Fault::new("cannotDisseminateFormat", &format!("{prefix} is not supported")));
        }
        let span = |name: &str| {
            let read = |text| denoted(text).ok_or_else(|| bad(&format!("{name} is not a valid date")));
            request.param(name).map(read).transpose()
        };
        let (from, until) = (span("from")?, span("until")?);
        let written = |name: &str| request.param(name).map(str::len);
        if from.is_some() && until.is_some() && written("from") != written("until") {
            return Err(bad("from and until have different granularity"));
        }
        let (from, mut to) = (from.map_or(i64::MIN, |span| span.0), until.map_or(i64::MAX, |span| span.1));
        if from >= to {
            return Err(bad("from is later than until").of("PO-7"));
        }
        match self.style {
            Style::Arxiv => self.check_days(request, from, to, now_us)?,
            Style::Doaj => to = self.held_back(from, to, now_us)?,
            Style::Plain => {}
        }
        let (place, set) = (self.style.start(from, to), request.param("set").map(str::to_owned));
        Ok(Token { issued_at: now_us, from, to, place, served: 0, set, prefix: prefix.to_owned() })
    }

    /// arXiv reads whole days only, none after tomorrow and none before it began.
    fn check_days(&self, request: &SimRequest, from: i64, to: i64, now_us: i64) -> Result<(), Fault> {
        let bad = |text: &str| Fault::new("badArgument", text);
        let days = ["from", "until"].iter().all(|name| request.param(name).is_none_or(|text| text.len() == 10));
        if !days {
            return Err(bad("dates must be in the form YYYY-MM-DD"));
        }
        if request.param("from").is_some() && from < ARXIV_EARLIEST_US {
            return Err(bad("from date too early"));
        }
        let day_after_tomorrow = floor(now_us, DAY_US) + 2 * DAY_US;
        if request.param("until").is_some() && to > day_after_tomorrow {
            return Err(bad("until date too late").of("AO-6"));
        }
        Ok(())
    }

    /// DOAJ lowers the upper end silently; what is left may be nothing.
    fn held_back(&self, from: i64, to: i64, now_us: i64) -> Result<i64, Fault> {
        let lowered = to.min(now_us - DOAJ_DELAY_US);
        if lowered > from {
            return Ok(lowered);
        }
        let none = Fault::new("noRecordsMatch", "No records match the request");
        Err(if self.truth.count(from, to) > 0 { none.of("DJ-4") } else { none })
    }

    /// Where a token says the list goes on; says too when a token past its announced end was taken.
    pub(super) fn resume(&self, request: &SimRequest, text: &str, now_us: i64) -> Result<(Token, bool), Fault> {
        let extra = request.query.iter().any(|(name, _)| name != "verb" && name != "resumptionToken");
        if extra {
            return Err(Fault::new("badArgument", "resumptionToken is an exclusive argument").of("AO-7"));
        }
        let refused = || Fault::new("badResumptionToken", "This resumptionToken is invalid or has expired");
        let token = self.style.read(text).ok_or_else(refused)?;
        if self.style == Style::Arxiv {
            let late = now_us >= midnight_after(token.issued_at);
            return if late && self.is_on("AO-1a") { Err(refused().of("AO-1a")) } else { Ok((token, late)) };
        }
        let expired = now_us - token.issued_at > self.token_life_us || token.issued_at < self.refuse_before;
        if expired { Err(refused().of("PO-1")) } else { Ok((token, false)) }
    }

    /// AO-5: a few requests fail, and the failure is kept for their address until midnight.
    fn kept_error(&mut self, request: &SimRequest, now_us: i64) -> Option<Reply> {
        if !self.is_on("AO-5") {
            return None;
        }
        let address = request.path_query();
        self.kept_errors.retain(|_, until| *until > now_us);
        if !self.kept_errors.contains_key(&address) {
            if !self.list_count.is_multiple_of(2) || self.kept_count == KEPT_ERRORS {
                return None;
            }
            self.kept_count += 1;
            self.kept_errors.insert(address, midnight_after(now_us));
        }
        let reply = Reply::bare(self.error_body(request, now_us).fires("AO-5"));
        Some(reply.with_token(request.param("resumptionToken")))
    }

    fn moved(&self, request: &SimRequest) -> Reply {
        let place = request.path_query().replacen("/oai-pmh/oai2", "/oai-pmh/oai", 1);
        let answer = SimAnswer::new(301, "text/html", "<html><body><h1>Moved Permanently</h1></body></html>");
        let situation = if self.style == Style::Arxiv { "AO-8" } else { "PO-3" };
        Reply::bare(answer.with("location", format!("{}{place}", origin(request))).fires(situation))
    }
}

impl Provider for OaiPmh {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        if request.path == "/oai-pmh/oai2" {
            return self.moved(request);
        }
        if request.path.trim_end_matches('/') != "/oai-pmh/oai" {
            return Reply::bare(SimAnswer::new(404, "text/html", "<html><body><h1>Not Found</h1></body></html>"));
        }
        if let Some((name, _)) = request.query.iter().find(|(name, _)| !ARGUMENTS.contains(&name.as_str())) {
            return Fault::new("badArgument", &format!("illegal argument {name}")).reply(request, now_us);
        }
        let token = request.param("resumptionToken");
        match request.param("verb") {
            Some("ListRecords" | "ListIdentifiers") => {
                self.list_count += 1;
                if let Some(kept) = self.kept_error(request, now_us) {
                    return kept;
                }
                let listed = self.list(request, now_us);
                listed.unwrap_or_else(|fault| fault.reply(request, now_us).with_token(token))
            }
            Some("GetRecord") => self.record(request, now_us).unwrap_or_else(|fault| fault.reply(request, now_us)),
            Some("Identify") => Reply::bare(SimAnswer::new(200, XML, envelope(request, now_us, &identify(request)))),
            _ => Fault::new("badVerb", "Illegal OAI verb").reply(request, now_us),
        }
    }

    fn kind(&self, request: &SimRequest) -> Kind {
        if request.param("verb") == Some("GetRecord") { Kind::Detail } else { Kind::Search }
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

    fn enable(&mut self, scenario: &'static str) -> bool {
        match scenario {
            "PO-4" => self.page = PAGE_SMALL,
            "SIM-OAI-SIZE" => self.with_list_size = false,
            "AO-1a" | "AO-1b" | "AO-2" | "AO-3" | "AO-5" | "AO-6" | "AO-7" | "AO-8" | "AO-10" => {
                self.imitate(Style::Arxiv);
            }
            "DJ-4" | "DJ-5" | "DJ-6" => self.imitate(Style::Doaj),
            "PO-9" | "PO-10b" => {}
            _ => return false,
        }
        self.on.insert(scenario);
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
