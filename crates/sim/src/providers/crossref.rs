//! Crossref works: inclusive `filter` dates at the precision written, and a cursor that is one string for the whole walk
//! while the server keeps the position. Asking twice moves on; a cursor lives five minutes; the end is an empty page.

use std::collections::HashMap;

use crate::content::{Work, json_text};
use crate::moment::{DAY_US, MINUTE_US, SECOND_US, denoted};
use crate::provider::{Provider, Rate, Reply, join_payloads, number};
use crate::providers::crossref_json::title_text;
use crate::request::{SimAnswer, SimRequest};
use crate::rng::Rng;
use crate::timeline::Key;
use crate::truth::Truth;

const JSON: &str = "application/json";
const ROWS_MAX: usize = 1000;
const OFFSET_MAX: usize = 10_000;
/// Works of a whole day that are too many for one walk; 1.6 million in the real one.
const CROWD: usize = 200;
const CURSOR_LIFE_US: i64 = 5 * MINUTE_US;
const PARAMETERS: [&str; 11] =
    ["filter", "rows", "cursor", "offset", "query", "mailto", "select", "sort", "order", "facet", "query.title"];

/// The provider and its open cursors.
pub struct Crossref {
    truth: Truth,
    cursors: HashMap<String, Walk>,
    cursor_life_us: i64,
    cursor_count: u64,
    answer_count: u64,
    /// CR-1: the second page of every third walk finds its cursor gone.
    forget_cursors: bool,
    /// CR-5: pages above 200 rows time out.
    slow_pages: bool,
    /// CR-6: the limit header changes from call to call.
    moving_limit: bool,
    /// CR-8: so many works in one query count as a whole day of them.
    crowd: Option<usize>,
}

/// One server-side cursor.
struct Walk {
    search: Search,
    next: Key,
    used_at: i64,
    page_count: u32,
    number: u64,
}

/// What is searched: `[from, to)` on the index date and a part of the title.
#[derive(Clone)]
struct Search {
    from: i64,
    to: i64,
    title_part: Option<String>,
}

impl Crossref {
    /// Serves a truth under `/crossref/works`.
    pub fn new(truth: Truth) -> Self {
        Self {
            truth,
            cursors: HashMap::new(),
            cursor_life_us: CURSOR_LIFE_US,
            cursor_count: 0,
            answer_count: 0,
            forget_cursors: false,
            slow_pages: false,
            moving_limit: false,
            crowd: None,
        }
    }

    fn works(&mut self, request: &SimRequest, now_us: i64) -> Result<Reply, SimAnswer> {
        let unknown = request.query.iter().find(|(name, _)| !PARAMETERS.contains(&name.as_str()));
        if let Some((name, _)) = unknown {
            return Err(invalid("parameter-not-allowed", name, &format!("This route does not support {name}")));
        }
        let rows = number(request, "rows", 20).filter(|rows| *rows <= ROWS_MAX).ok_or_else(|| {
            let value = request.param("rows").unwrap_or_default();
            invalid(
                "integer-not-valid",
                value,
                "Integer specified as rows must be a positive integer less than or equal to 1000.",
            )
        })?;
        if self.slow_pages && rows > 200 {
            return Err(gateway_timeout().fires("CR-5"));
        }
        match request.param("cursor") {
            Some(cursor) => self.cursor_page(request, cursor, rows, now_us),
            None => self.offset_page(request, rows),
        }
    }

    fn offset_page(&self, request: &SimRequest, rows: usize) -> Result<Reply, SimAnswer> {
        let search = Search::read(request)?;
        let offset = number(request, "offset", 0).filter(|offset| *offset <= OFFSET_MAX).ok_or_else(|| {
            invalid("integer-not-valid", request.param("offset").unwrap_or_default(), "Offset must be at most 10000.")
        })?;
        let page = match search.title_part {
            None => self.truth.page_at(search.from, search.to, offset, rows),
            Some(_) => self.matching(&search, (search.from, 0)).skip(offset).take(rows).map(|key| key.1).collect(),
        };
        Ok(self.list(&search, &page, None))
    }

    fn cursor_page(
        &mut self,
        request: &SimRequest,
        cursor: &str,
        rows: usize,
        now_us: i64,
    ) -> Result<Reply, SimAnswer> {
        if request.param("offset").is_some() {
            return Err(invalid("parameter-not-allowed", "offset", "Cursor cannot be combined with offset or sample"));
        }
        let life_us = self.cursor_life_us;
        self.cursors.retain(|_, walk| now_us - walk.used_at <= life_us);
        let name = if cursor == "*" { self.open_cursor(Search::read(request)?, now_us) } else { cursor.to_owned() };
        let forget = self.forget_cursors;
        let lost = |walk: &Walk| forget && walk.page_count == 1 && walk.number % 3 == 1;
        if self.cursors.get(&name).is_none_or(lost) {
            let known = self.cursors.remove(&name).is_some();
            return Err(cursor_invalid(cursor).fires_if(known, "CR-1"));
        }
        let Some(walk) = self.cursors.get(&name) else {
            return Err(cursor_invalid(cursor));
        };
        let search = walk.search.clone();
        let keys: Vec<Key> = self.matching(&search, walk.next).take(rows).collect();
        let page: Vec<u32> = keys.iter().map(|key| key.1).collect();
        let mut reply = self.list(&search, &page, Some(&name)).with_token((cursor != "*").then_some(cursor));
        let arrived = cursor.contains(['+', '/']);
        reply.answer = reply.answer.fires_if(arrived, "CR-2").fires_if(page.is_empty() && cursor != "*", "CR-3");
        if let Some(walk) = self.cursors.get_mut(&name) {
            walk.used_at = now_us;
            walk.page_count += 1;
            if let Some(last) = keys.last() {
                walk.next = (last.0, last.1 + 1);
            }
        }
        Ok(reply)
    }

    /// Cursor text as the real one: long, with `+`, `/` and `=`, so that it must be encoded.
    fn open_cursor(&mut self, search: Search, now_us: i64) -> String {
        self.cursor_count += 1;
        let mut rng = Rng::for_parts(self.truth.seed, &[0xC0, self.cursor_count]);
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let noise: String = (0..60).map(|_| char::from(*rng.pick(letters))).collect();
        let name = format!("DnF1ZXJ5VGhlbkZldGNo+{noise}/{}==", self.cursor_count);
        let next = (search.from, 0);
        self.cursors
            .insert(name.clone(), Walk { search, next, used_at: now_us, page_count: 0, number: self.cursor_count });
        name
    }

    fn matching<'a>(&'a self, search: &'a Search, from: Key) -> impl Iterator<Item = Key> + 'a {
        self.truth.keys_from(from, search.to).filter(|key| {
            let Some(part) = &search.title_part else {
                return true;
            };
            let face = self.truth.face(key.1);
            face.is_some_and(|face| {
                title_text(&Work::make(self.truth.seed, face.id, face.content)).to_lowercase().contains(part)
            })
        })
    }

    fn list(&self, search: &Search, page: &[u32], cursor: Option<&str>) -> Reply {
        let total = match search.title_part {
            None => self.truth.count(search.from, search.to),
            Some(_) => self.matching(search, (search.from, 0)).count(),
        };
        let (items, served) = join_payloads(&self.truth, page, ",");
        let next = cursor.map(|name| format!("\"next-cursor\":{},", json_text(name))).unwrap_or_default();
        let body = format!(
            "{{\"status\":\"ok\",\"message-type\":\"work-list\",\"message-version\":\"1.0.0\",\"message\":{{\"facets\":{{}},{next}\
             \"total-results\":{total},\"items\":[{items}],\"items-per-page\":{},\"query\":{{\"start-index\":0,\"search-terms\":null}}}}}}",
            page.len()
        );
        let odd =
            |index: &u32| self.truth.id(*index).contains(|letter: char| "<>#;%".contains(letter) || !letter.is_ascii());
        let whole_day = search.to.saturating_sub(search.from) >= DAY_US;
        let answer = SimAnswer::new(200, JSON, body)
            .fires_if(page.iter().any(odd), "CR-7")
            .fires_if(whole_day && self.crowd.is_some_and(|crowd| total > crowd), "CR-8");
        Reply { answer, items: served, token: None }
    }

    fn with_limit_headers(&self, request: &SimRequest, answer: SimAnswer) -> SimAnswer {
        let rate = self.rate(request);
        let moved = if self.moving_limit { (self.answer_count % 3) as u32 } else { 0 };
        answer
            .with("x-rate-limit-limit", (rate.limit.saturating_sub(moved)).max(1).to_string())
            .with("x-rate-limit-interval", format!("{}s", (rate.per_us / SECOND_US).max(1)))
            .with("x-concurrency-limit", rate.concurrency.to_string())
            .with("x-api-pool", if polite(request) { "polite" } else { "public" })
    }
}

impl Provider for Crossref {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        self.answer_count += 1;
        if request.path.trim_end_matches('/') != "/crossref/works" {
            return Reply::bare(SimAnswer::new(404, "text/plain", "Resource not found."));
        }
        let mut reply = self.works(request, now_us).unwrap_or_else(Reply::bare);
        reply.answer = self.with_limit_headers(request, reply.answer);
        reply
    }

    fn rate(&self, request: &SimRequest) -> Rate {
        let (limit, concurrency) = if polite(request) { (10, 3) } else { (5, 1) };
        Rate { limit, per_us: SECOND_US, concurrency }
    }

    fn throttled(&self, request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let page = "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n<center><h1>429 Too Many Requests</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
        let answer = SimAnswer::new(429, "text/html", page);
        let answer = self.with_limit_headers(request, answer);
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, request: &SimRequest, _now_us: i64) -> SimAnswer {
        let body = "{\"status\":\"error\",\"message-type\":\"exception\",\"message-version\":\"1.0.0\",\"message\":{\"name\":\"class clojure.lang.ExceptionInfo\",\"description\":\"Response Exception\",\"message\":\"Response Exception\",\"stack\":[]}}";
        self.with_limit_headers(request, SimAnswer::new(200, JSON, body))
    }

    fn expire_cursors(&mut self, _now_us: i64) -> bool {
        let had = !self.cursors.is_empty();
        self.cursors.clear();
        had
    }

    fn enable(&mut self, scenario: &'static str) -> bool {
        match scenario {
            "CR-1" => self.forget_cursors = true,
            "CR-5" => self.slow_pages = true,
            "CR-6" => self.moving_limit = true,
            "CR-8" => self.crowd = Some(CROWD),
            _ => return false,
        }
        true
    }

    fn set_cursor_life(&mut self, life_us: i64) -> bool {
        self.cursor_life_us = life_us;
        true
    }

    fn truth(&self) -> &Truth {
        &self.truth
    }

    fn truth_mut(&mut self) -> &mut Truth {
        &mut self.truth
    }
}

impl Search {
    fn read(request: &SimRequest) -> Result<Search, SimAnswer> {
        let mut search = Search { from: i64::MIN, to: i64::MAX, title_part: None };
        let query = request.param("query").or_else(|| request.param("query.title"));
        search.title_part = query.filter(|text| !text.is_empty()).map(str::to_lowercase);
        for part in request.param("filter").unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once(':').unwrap_or((part, ""));
            let (starts, ends) = denoted(value).ok_or_else(|| {
                invalid("date-not-valid", value, &format!("Date specified for filter '{name}' is not valid"))
            })?;
            match name {
                "from-index-date" => search.from = search.from.max(starts),
                "until-index-date" => search.to = search.to.min(ends),
                _ => return Err(unknown_filter(name)),
            }
        }
        search.to = search.to.max(search.from);
        Ok(search)
    }
}

fn polite(request: &SimRequest) -> bool {
    request.param("mailto").is_some() || request.header("user-agent").is_some_and(|agent| agent.contains("mailto:"))
}

fn invalid(kind: &str, value: &str, message: &str) -> SimAnswer {
    failed(400, "validation-failure", kind, value, message)
}

fn unknown_filter(name: &str) -> SimAnswer {
    let message = format!(
        "Filter '{name}' specified but there is no such filter for this route. Valid filters for this route are: from-index-date, until-index-date"
    );
    invalid("filter-not-available", name, &message)
}

fn cursor_invalid(cursor: &str) -> SimAnswer {
    failed(404, "resource-failure", "cursor-invalid", cursor, "Cursor specified but it is invalid")
}

fn failed(status: u16, message_type: &str, kind: &str, value: &str, message: &str) -> SimAnswer {
    let body = format!(
        "{{\"status\":\"failed\",\"message-type\":\"{message_type}\",\"message\":[{{\"type\":\"{kind}\",\"value\":{},\"message\":{}}}]}}",
        json_text(value),
        json_text(message)
    );
    SimAnswer::new(status, JSON, body)
}

fn gateway_timeout() -> SimAnswer {
    let page = "<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>\r\n<center><h1>504 Gateway Time-out</h1></center>\r\n</body>\r\n</html>\r\n";
    SimAnswer { delay_us: MINUTE_US, ..SimAnswer::new(504, "text/html", page) }
}
