//! PubMed E-utilities: a search that gives ids and a detail request that gives XML. Days are those of New York, both ends are
//! inclusive, and one query reaches only so many results, whatever its count says.

use std::collections::BTreeSet;

use crate::moment::SECOND_US;
use crate::provider::{Kind, Provider, Rate, Reply, join_payloads};
use crate::providers::pubmed_search::{History, search_error};
use crate::providers::pubmed_xml::{self, is_book};
use crate::request::{SimAnswer, SimRequest};
use crate::truth::Truth;

const XML: &str = "text/xml; charset=UTF-8";
const IDS_PER_GET_MAX: usize = 400;
const NO_IDS: &str = "ID list is empty! Possibly it has no correct IDs.";
const EXCEPTION: &str = "NCBI C++ Exception: Error: CEFetchPApplication::proxy_stream()";

/// The provider.
pub struct PubMed {
    pub(super) truth: Truth,
    pub(super) cap: usize,
    pub(super) search_count: u64,
    detail_count: u64,
    /// Kept result sets.
    pub(super) history: History,
    /// What is switched on, by id.
    on: BTreeSet<&'static str>,
}

impl PubMed {
    /// Serves a truth under `/pubmed/entrez/eutils/`.
    pub fn new(truth: Truth) -> Self {
        let history = History::default();
        Self { truth, cap: 9_999, search_count: 0, detail_count: 0, history, on: BTreeSet::new() }
    }

    pub(super) fn is_on(&self, situation: &str) -> bool {
        self.on.contains(situation)
    }

    fn fetch(&mut self, request: &SimRequest, form: &[(String, String)]) -> Reply {
        self.detail_count += 1;
        let ids: Vec<&str> = form
            .iter()
            .filter(|(name, _)| name == "id")
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .filter(|id| !id.is_empty())
            .collect();
        if request.method != "POST" && ids.len() > IDS_PER_GET_MAX {
            return Reply::bare(SimAnswer::new(
                414,
                "text/html",
                "<html><body><h1>414 Request-URI Too Large</h1></body></html>",
            ));
        }
        if self.is_on("PM-4a") && self.detail_count.is_multiple_of(4) {
            let upstream = "Error occurred: proxy_stream(): upstream answered 502 Bad Gateway: Failed to connect to PubOne service";
            return Reply::bare(fetch_error(upstream).fires("PM-4a"));
        }
        if ids.is_empty() || ids.iter().any(|id| !id.bytes().all(|byte| byte.is_ascii_digit())) {
            return Reply::bare(fetch_error(NO_IDS).fires("PM-4b"));
        }
        let served: Vec<u32> = ids.iter().filter_map(|id| self.detail_of(id)).collect();
        if self.is_on("PM-11") && served.len() < ids.len() {
            return Reply::bare(fetch_error(NO_IDS).fires("PM-11"));
        }
        let (articles, items) = join_payloads(&self.truth, &served, "");
        let body = format!("{}<PubmedArticleSet>{articles}</PubmedArticleSet>", pubmed_xml::PROLOG);
        if self.is_on("PM-6") && self.detail_count.is_multiple_of(5) {
            return Reply::bare(spoilt(self.detail_count / 5, &body).fires("PM-6"));
        }
        let odd = served.len() < ids.len() || served.iter().any(|index| is_book(self.truth.id(*index)));
        Reply { answer: SimAnswer::new(200, XML, body).fires_if(odd, "PM-5"), items, token: None }
    }

    fn detail_of(&self, id: &str) -> Option<u32> {
        let index = self.truth.find(id)?;
        self.truth.face(index).filter(|face| !face.deleted && !face.detail_missing).map(|face| face.index)
    }
}

impl Provider for PubMed {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        let form = request.form();
        let mut reply = match request.path.as_str() {
            "/pubmed/entrez/eutils/esearch.fcgi" => self.search(&form).unwrap_or_else(Reply::bare),
            "/pubmed/entrez/eutils/efetch.fcgi" => self.fetch(request, &form),
            _ => Reply::bare(SimAnswer::new(404, "text/html", "<html><body><h1>Not Found</h1></body></html>")),
        };
        reply.answer = reply.answer.with("x-ratelimit-limit", self.rate(request).limit.to_string());
        reply
    }

    fn kind(&self, request: &SimRequest) -> Kind {
        if request.path.ends_with("efetch.fcgi") { Kind::Detail } else { Kind::Search }
    }

    fn rate(&self, request: &SimRequest) -> Rate {
        let keyed = request.form().iter().any(|(name, _)| name == "api_key");
        Rate { limit: if keyed { 10 } else { 3 }, per_us: SECOND_US, concurrency: 3 }
    }

    fn throttled(&self, request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let limit = self.rate(request).limit;
        let body = format!(
            "{{\"error\":\"API rate limit exceeded\",\"api-key\":\"192.0.2.7\",\"count\":\"{}\",\"limit\":\"{limit}\"}}",
            limit + 1
        );
        let answer = SimAnswer::new(429, "application/json", body)
            .with("x-ratelimit-limit", limit.to_string())
            .with("x-ratelimit-remaining", "0");
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, request: &SimRequest, _now_us: i64) -> SimAnswer {
        match self.kind(request) {
            Kind::Search => search_error("Search Backend failed: Database is not supported: pubmed"),
            Kind::Detail => SimAnswer { status: 200, ..fetch_error(EXCEPTION) },
        }
    }

    fn enable(&mut self, scenario: &'static str) -> bool {
        let known = matches!(scenario, "PM-4a" | "PM-6" | "PM-7" | "PM-11");
        if known {
            self.on.insert(scenario);
        }
        known
    }

    fn set_cap(&mut self, cap: usize) -> bool {
        self.cap = cap.max(1);
        true
    }

    fn truth(&self) -> &Truth {
        &self.truth
    }

    fn truth_mut(&mut self) -> &mut Truth {
        &mut self.truth
    }
}

/// A success that is none: the prolog alone, a record cut in the middle, or the trace of an exception.
fn spoilt(turn: u64, body: &str) -> SimAnswer {
    match turn % 3 {
        0 => SimAnswer { status: 200, ..fetch_error(EXCEPTION) },
        1 => SimAnswer::new(200, XML, pubmed_xml::PROLOG),
        _ => SimAnswer::new(200, XML, String::from_utf8_lossy(&body.as_bytes()[..body.len() / 2]).into_owned()),
    }
}

fn fetch_error(message: &str) -> SimAnswer {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\n<!DOCTYPE eEfetchResult PUBLIC \"-//NLM//DTD efetch 20131226//EN\" \"https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20131226/efetch.dtd\">\n<eFetchResult>\n\t<ERROR>{message}</ERROR>\n</eFetchResult>\n"
    );
    SimAnswer::new(400, XML, body)
}
