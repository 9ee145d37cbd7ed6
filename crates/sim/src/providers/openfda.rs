//! openFDA drug events: `skip` and `limit` up to a fixed reach, inclusive UTC days, and a 404 where others would give an empty
//! list. Without `skip`, full pages carry a `Link` to the next one, also when nothing follows.

use crate::content::{Work, json_list, json_text};
use crate::moment::{MINUTE_US, civil_in};
use crate::provider::{Provider, Rate, Reply, join_payloads, number, origin};
use crate::range::{RangeFault, range_of};
use crate::request::{SimAnswer, SimRequest, encode_query};
use crate::timeline::Key;
use crate::truth::{Face, Truth};

const JSON: &str = "application/json; charset=utf-8";
const LIMIT_MAX: usize = 1000;

/// The provider.
pub struct OpenFda {
    truth: Truth,
    /// The largest `skip`.
    cap: usize,
}

impl OpenFda {
    /// Serves a truth under `/openfda/drug/event.json`.
    pub fn new(truth: Truth) -> Self {
        Self { truth, cap: 25_000 }
    }

    fn list(&self, request: &SimRequest, now_us: i64) -> Result<Reply, SimAnswer> {
        let (from, to) = match request.param("search").map(|text| range_of(text, "receiptdate")) {
            None => (i64::MIN, i64::MAX),
            Some(Ok(span)) => span,
            Some(Err(RangeFault::Absent)) => {
                return Err(error(404, "NOT_FOUND", "No matches found!"));
            }
            Some(Err(_)) => return Err(error(400, "BAD_REQUEST", "Search not supported").fires("FD-6")),
        };
        let bad = |text: &str| error(400, "BAD_REQUEST", text);
        let limit = number(request, "limit", 1).filter(|limit| (1..=LIMIT_MAX).contains(limit)).ok_or_else(|| {
            bad("Limit cannot exceed 1000 results for search requests. Use the skip param to get additional results.")
        })?;
        let skip = number(request, "skip", 0)
            .filter(|skip| *skip <= self.cap)
            .ok_or_else(|| bad(&format!("Skip value must {} or less.", self.cap)).fires("FD-2"))?;
        let after = request.param("search_after");
        if after.is_some() && request.param("skip").is_some() {
            return Err(bad("skip and search_after cannot be combined"));
        }
        let page = match after {
            Some(text) => {
                let key = position(text).ok_or_else(|| bad("search_after is not valid"))?;
                self.truth.page_from(key.max((from, 0)), to, limit)
            }
            None => self.truth.page_at(from, to, skip, limit),
        };
        if page.is_empty() {
            let none = error(404, "NOT_FOUND", "No matches found!");
            return Err(none.fires(if after.is_some() { "FD-5" } else { "FD-1" }));
        }
        let (results, items) = join_payloads(&self.truth, &page, ",");
        let total = self.truth.count(from, to);
        let body = format!(
            "{{\"meta\":{{\"disclaimer\":\"Simulated data.\",\"terms\":\"https://open.fda.gov/terms/\",\"license\":\"https://open.fda.gov/license/\",\
             \"last_updated\":\"{}\",\"results\":{{\"skip\":{skip},\"limit\":{limit},\"total\":{total}}}}},\"results\":[{results}]}}",
            civil_in(now_us, &jiff::tz::TimeZone::UTC).strftime("%Y-%m-%d")
        );
        let mut answer = SimAnswer::new(200, JSON, body);
        if request.param("skip").is_none() && page.len() == limit {
            answer = answer.with("link", self.next_link(request, &page));
        }
        let token = after.map(str::to_owned).or_else(|| (skip > 0).then(|| skip.to_string()));
        Ok(Reply { answer, items, token })
    }

    fn next_link(&self, request: &SimRequest, page: &[u32]) -> String {
        let last = page
            .last()
            .and_then(|index| self.truth.face(*index))
            .map_or((0, 0), |face| (face.updated_at, face.index + 1));
        let mut parameters: Vec<(String, String)> =
            request.query.iter().filter(|(name, _)| name != "search_after").cloned().collect();
        parameters.push(("search_after".to_owned(), format!("0={};1={}", last.0, last.1)));
        format!("<{}/openfda/drug/event.json?{}>; rel=\"next\"", origin(request), encode_query(&parameters))
    }
}

impl Provider for OpenFda {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        if request.path != "/openfda/drug/event.json" {
            return Reply::bare(error(404, "NOT_FOUND", "No such dataset"));
        }
        let token = request.param("search_after").or_else(|| request.param("skip")).filter(|text| *text != "0");
        self.list(request, now_us).unwrap_or_else(|answer| Reply::bare(answer).with_token(token))
    }

    fn rate(&self, _request: &SimRequest) -> Rate {
        Rate { limit: 240, per_us: MINUTE_US, concurrency: 2 }
    }

    fn throttled(&self, _request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let answer = error(
            429,
            "OVER_RATE_LIMIT",
            "You have exceeded your rate limit. Try again later or contact us at https://api.fda.gov/contact/ for assistance",
        );
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, _request: &SimRequest, _now_us: i64) -> SimAnswer {
        error(200, "SERVER_ERROR", "Check your request and try again")
    }

    fn set_cap(&mut self, cap: usize) -> bool {
        self.cap = cap;
        true
    }

    fn truth(&self) -> &Truth {
        &self.truth
    }

    fn truth_mut(&mut self) -> &mut Truth {
        &mut self.truth
    }
}

/// One report as it stands in `results`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    let day = |at: i64| civil_in(at, &jiff::tz::TimeZone::UTC).strftime("%Y%m%d").to_string();
    let reactions = json_list(work.keywords.iter().map(|word| {
        format!(
            "{{\"reactionmeddraversionpt\":\"27.1\",\"reactionmeddrapt\":{},\"reactionoutcome\":\"6\"}}",
            json_text(word)
        )
    }));
    let drugs = json_list(work.authors.iter().map(|author| {
        format!(
            "{{\"drugcharacterization\":\"1\",\"medicinalproduct\":{},\"drugdosagetext\":{}}}",
            json_text(&author.family.to_uppercase()),
            json_text(&work.plain_title())
        )
    }));
    format!(
        "{{\"safetyreportid\":{id},\"safetyreportversion\":\"{version}\",\"receivedate\":\"{created}\",\"receiptdate\":\"{updated}\",\"receiptdateformat\":\"102\",\
         \"serious\":\"1\",\"primarysourcecountry\":\"GB\",\"companynumb\":\"SIM-{id_number}\",\"patient\":{{\"patientsex\":\"2\",\"reaction\":{reactions},\
         \"drug\":{drugs},\"summary\":{{\"narrativeincludeclinical\":{summary}}}}}}}",
        id = json_text(face.id),
        version = face.content,
        created = day(face.created_at),
        updated = day(face.updated_at),
        id_number = work.first_page,
        summary = json_text(&work.summary),
    )
}

fn position(text: &str) -> Option<Key> {
    let (at, index) = text.strip_prefix("0=")?.split_once(";1=")?;
    Some((at.parse().ok()?, index.parse().ok()?))
}

fn error(status: u16, code: &str, message: &str) -> SimAnswer {
    SimAnswer::new(status, JSON, format!("{{\"error\":{{\"code\":\"{code}\",\"message\":{}}}}}", json_text(message)))
}
