//! PubMed E-utilities: a search that gives ids and a detail request that gives XML. Days are those of New York, both ends are
//! inclusive, and one query reaches only so many results, whatever its count says.

use crate::content::json_text;
use crate::moment::{SECOND_US, denoted_in, zone};
use crate::provider::{Kind, Provider, Rate, Reply};
use crate::providers::pubmed_xml;
use crate::request::{SimAnswer, SimRequest};
use crate::truth::Truth;

const JSON: &str = "application/json; charset=UTF-8";
const XML: &str = "text/xml; charset=UTF-8";
const IDS_PER_GET_MAX: usize = 400;

/// The provider.
pub struct PubMed {
    truth: Truth,
    cap: usize,
    detail_count: u64,
    /// PM-4: now and then a detail request fails with 400 around an upstream 502.
    upstream_fails: bool,
    /// PM-6: now and then a detail answer is the prolog alone.
    prolog_only: bool,
    /// PM-11: an id without a record makes the whole detail request fail.
    refuses: bool,
}

impl PubMed {
    /// Serves a truth under `/pubmed/entrez/eutils/`.
    pub fn new(truth: Truth) -> Self {
        Self { truth, cap: 9_999, detail_count: 0, upstream_fails: false, prolog_only: false, refuses: false }
    }

    fn search(&self, form: &[(String, String)]) -> Reply {
        let param = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if param("db").unwrap_or("pubmed") != "pubmed" {
            return search_error("Invalid db name specified");
        }
        let start: usize = param("retstart").and_then(|text| text.parse().ok()).unwrap_or(0);
        let size: usize = param("retmax").and_then(|text| text.parse().ok()).unwrap_or(20).min(self.cap);
        if start >= self.cap {
            let message = format!(
                "Search Backend failed: Exception:\n'retstart' cannot be larger than {}. For PubMed, ESearch can only retrieve the first {} records matching the query.",
                self.cap - 1,
                self.cap
            );
            return search_error(&message);
        }
        let Some((from, to)) = days(param("datetype"), param("mindate"), param("maxdate")) else {
            return search_error("Invalid date range: mindate and maxdate are both needed");
        };
        let term = param("term").unwrap_or_default();
        let mut found = self.found(from, to, id_range(term));
        let total = found.len();
        // Newest numbers first, and never beyond the cap.
        found.reverse();
        let end = start.saturating_add(size).min(self.cap).min(total);
        let page = found.get(start..end).unwrap_or_default();
        let ids: Vec<String> = page.iter().map(|index| format!("\"{}\"", self.truth.id(*index))).collect();
        let body = format!(
            "{{\"header\":{{\"type\":\"esearch\",\"version\":\"0.3\"}},\"esearchresult\":{{\"count\":\"{total}\",\"retmax\":\"{}\",\"retstart\":\"{start}\",\
             \"idlist\":[{}],\"translationset\":[],\"querytranslation\":{}}}}}",
            page.len(),
            ids.join(","),
            json_text(term)
        );
        let version = |index: &u32| self.truth.face(*index).map(|face| (*index, face.version));
        let items = page.iter().filter_map(version).collect();
        let token = (start > 0).then(|| start.to_string());
        Reply { answer: SimAnswer::new(200, JSON, body), items, token }
    }

    /// Records of the days, in rising order of their numbers.
    fn found(&self, from: i64, to: i64, ids: Option<(u64, u64)>) -> Vec<u32> {
        let inside = |index: &u32| {
            let Some((low, high)) = ids else { return true };
            self.truth.id(*index).parse::<u64>().is_ok_and(|id| (low..=high).contains(&id))
        };
        let mut found: Vec<u32> = self.truth.keys_from((from, 0), to).map(|key| key.1).filter(inside).collect();
        found.sort_unstable();
        found
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
        if self.upstream_fails && self.detail_count.is_multiple_of(4) {
            return fetch_error(
                "Error occurred: proxy_stream(): upstream answered 502 Bad Gateway: Failed to connect to PubOne service",
            );
        }
        if ids.is_empty() || ids.iter().any(|id| !id.bytes().all(|byte| byte.is_ascii_digit())) {
            return fetch_error("ID list is empty! Possibly it has no correct IDs.");
        }
        let served: Vec<u32> = ids.iter().filter_map(|id| self.detail_of(id)).collect();
        if self.refuses && served.len() < ids.len() {
            return fetch_error("ID list is empty! Possibly it has no correct IDs.");
        }
        if self.prolog_only && self.detail_count.is_multiple_of(5) {
            return Reply::bare(SimAnswer::new(200, XML, pubmed_xml::PROLOG));
        }
        let (articles, items) = crate::provider::join_payloads(&self.truth, &served, "");
        let body = format!("{}<PubmedArticleSet>{articles}</PubmedArticleSet>", pubmed_xml::PROLOG);
        Reply { answer: SimAnswer::new(200, XML, body), items, token: None }
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
            "/pubmed/entrez/eutils/esearch.fcgi" => self.search(&form),
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
            Kind::Search => search_error("Search Backend failed: Database is not supported: pubmed").answer,
            Kind::Detail => SimAnswer {
                status: 200,
                ..fetch_error("NCBI C++ Exception: Error: CEFetchPApplication::proxy_stream()").answer
            },
        }
    }

    fn enable(&mut self, scenario: &str) -> bool {
        match scenario {
            "PM-4" => self.upstream_fails = true,
            "PM-6" => self.prolog_only = true,
            "PM-11" => self.refuses = true,
            _ => return false,
        }
        true
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

/// Whole days in New York, both ends included; no dates at all means everything.
fn days(datetype: Option<&str>, low: Option<&str>, high: Option<&str>) -> Option<(i64, i64)> {
    let zone = zone("America/New_York");
    match (datetype, low, high) {
        (_, None, None) => Some((i64::MIN, i64::MAX)),
        (None | Some("mdat"), Some(low), Some(high)) => {
            let (from, to) = (denoted_in(low, &zone)?.0, denoted_in(high, &zone)?.1);
            Some((from, to.max(from)))
        }
        _ => None,
    }
}

/// The `1:20000000[uid]` part of a term.
fn id_range(term: &str) -> Option<(u64, u64)> {
    let before = &term[..term.find("[uid]")?];
    let text = before.rsplit(|letter: char| !(letter.is_ascii_digit() || letter == ':')).next()?;
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    Some((low.parse().ok()?, high.parse().ok()?))
}

fn search_error(message: &str) -> Reply {
    let body = format!(
        "{{\"header\":{{\"type\":\"esearch\",\"version\":\"0.3\"}},\"esearchresult\":{{\"ERROR\":{}}}}}",
        json_text(message)
    );
    Reply::bare(SimAnswer::new(200, JSON, body))
}

fn fetch_error(message: &str) -> Reply {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\n<!DOCTYPE eEfetchResult PUBLIC \"-//NLM//DTD efetch 20131226//EN\" \"https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20131226/efetch.dtd\">\n<eFetchResult>\n\t<ERROR>{message}</ERROR>\n</eFetchResult>\n"
    );
    Reply::bare(SimAnswer::new(400, XML, body))
}

#[cfg(test)]
mod tests {
    use super::id_range;

    #[test]
    fn an_id_range_is_read_from_a_term() {
        for (term, want) in [
            ("1:200[uid]", Some((1, 200))),
            ("(cancer) AND 5:9[uid]", Some((5, 9))),
            ("7[uid] AND x", Some((7, 7))),
            ("cancer[title]", None),
        ] {
            assert_eq!(id_range(term), want, "{term}");
        }
    }
}
