//! DOAJ articles: the Lucene query is part of the path, pages are numbered from 1, and no query reaches beyond its first
//! thousand results, although the `next` link happily points there.

use crate::content::{Work, json_list, json_text};
use crate::moment::{SECOND_US, iso_micros, iso_seconds};
use crate::provider::{Provider, Rate, Reply, join_payloads, number, origin};
use crate::range::{RangeFault, range_of};
use crate::request::{SimAnswer, SimRequest, encode_query, percent_encode_path};
use crate::truth::{Face, Truth};

const JSON: &str = "application/json";
const BASE: &str = "/doaj/api/search/articles/";
const PAGE_SIZE_MAX: usize = 100;

/// The provider.
pub struct Doaj {
    truth: Truth,
    cap: usize,
}

impl Doaj {
    /// Serves a truth under `/doaj/api/search/articles/`.
    pub fn new(truth: Truth) -> Self {
        Self { truth, cap: 1000 }
    }

    fn search(&self, request: &SimRequest, query: &str, now_us: i64) -> Result<Reply, SimAnswer> {
        let wild = query.char_indices().any(|(at, letter)| at > 0 && matches!(letter, '*' | '?' | '~'));
        if wild {
            return Err(bad_request("Query contains disallowed Lucene features").fires("DJ-2"));
        }
        let (from, to) = match range_of(query, "last_updated") {
            Ok(span) => span,
            Err(RangeFault::Absent) => (i64::MIN, i64::MAX),
            Err(_) => return Err(bad_request(&format!("Unable to parse query: {query}")).fires("DJ-10a")),
        };
        let page = number(request, "page", 1)
            .filter(|page| *page > 0)
            .ok_or_else(|| bad_request("page must be a positive number"))?;
        let size = number(request, "pageSize", 10)
            .filter(|size| *size > 0)
            .ok_or_else(|| bad_request("pageSize must be a positive number"))?;
        let size = size.min(PAGE_SIZE_MAX);
        let start = (page - 1).saturating_mul(size);
        if start >= self.cap {
            let refusal = format!("You cannot access results beyond {} records via this API.", self.cap);
            return Err(bad_request(&refusal).fires("DJ-1"));
        }
        let total = self.truth.count(from, to);
        let indexes = self.ordered(request.param("sort"), (from, to), start, size)?;
        let (results, items) = join_payloads(&self.truth, &indexes, ",");
        let links = links(request, query, page, size, total);
        let leads_beyond = !links.is_empty() && page * size >= self.cap;
        let body = format!(
            "{{\"total\":{total},\"page\":{page},\"pageSize\":{size},\"timestamp\":\"{}\",\"query\":{},\"results\":[{results}]{links}}}",
            iso_micros(now_us),
            json_text(query)
        );
        let answer = SimAnswer::new(200, JSON, body).fires_if(leads_beyond, "DJ-3");
        Ok(Reply { answer, items, token: (page > 1).then(|| page.to_string()) })
    }

    fn ordered(&self, sort: Option<&str>, span: (i64, i64), start: usize, size: usize) -> Result<Vec<u32>, SimAnswer> {
        let mut all: Vec<u32> = match sort {
            Some("last_updated:asc") => return Ok(self.truth.page_at(span.0, span.1, start, size)),
            Some("last_updated:desc") => {
                let mut all: Vec<u32> = self.truth.keys_from((span.0, 0), span.1).map(|key| key.1).collect();
                all.reverse();
                all
            }
            Some(other) => return Err(bad_request(&format!("sort not understood: {other}"))),
            None => {
                let mut all: Vec<u32> = self.truth.keys_from((span.0, 0), span.1).map(|key| key.1).collect();
                all.sort_unstable();
                all
            }
        };
        Ok(all.drain(..).skip(start).take(size).collect())
    }
}

impl Provider for Doaj {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        match request.path.strip_prefix(BASE) {
            Some(query) if !query.is_empty() => self.search(request, query, now_us).unwrap_or_else(Reply::bare),
            _ => Reply::bare(SimAnswer::new(404, JSON, "{\"status\":\"not_found\",\"error\":\"Not found\"}")),
        }
    }

    fn rate(&self, _request: &SimRequest) -> Rate {
        // Two a second on average; the proxy queues a few more before it refuses.
        Rate { limit: 5, per_us: 2 * SECOND_US, concurrency: 1 }
    }

    fn throttled(&self, _request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let page = "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n<center><h1>429 Too Many Requests</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
        let answer = SimAnswer::new(429, "text/html", page);
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    /// DOAJ has no error under 200; a failing index gives the same 400 as a bad query.
    fn error_body(&self, _request: &SimRequest, now_us: i64) -> SimAnswer {
        bad_request(&format!("Sorry, there was an unexpected error. (ref: {:032x})", now_us.unsigned_abs()))
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

/// `next` and `last` while the total says there is more, cap or no cap.
fn links(request: &SimRequest, query: &str, page: usize, size: usize, total: usize) -> String {
    if page.saturating_mul(size) >= total {
        return String::new();
    }
    let link = |page: usize| {
        let mut parameters = vec![("page".to_owned(), page.to_string()), ("pageSize".to_owned(), size.to_string())];
        parameters.extend(request.query.iter().filter(|(name, _)| name == "sort").cloned());
        json_text(&format!("{}{BASE}{}?{}", origin(request), percent_encode_path(query), encode_query(&parameters)))
    };
    format!(",\"next\":{},\"last\":{}", link(page + 1), link(total.div_ceil(size)))
}

/// One article as it stands in `results`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    let authors = json_list(
        work.authors
            .iter()
            .map(|author| format!("{{\"name\":{}}}", json_text(&format!("{} {}", author.given, author.family)))),
    );
    format!(
        "{{\"last_updated\":\"{updated}\",\"bibjson\":{{\"identifier\":[{{\"id\":{issn},\"type\":\"eissn\"}},{{\"id\":{doi},\"type\":\"doi\"}}],\
         \"journal\":{{\"volume\":\"{volume}\",\"number\":\"{issue}\",\"country\":\"GB\",\"issns\":[{issn}],\"publisher\":{publisher},\"language\":[\"EN\"],\"title\":{journal}}},\
         \"month\":\"{month}\",\"year\":\"{year}\",\"keywords\":{keywords},\"author\":{authors},\"abstract\":{summary},\"title\":{title}}},\
         \"id\":{id},\"created_date\":\"{created}\"}}",
        updated = iso_seconds(face.updated_at),
        issn = json_text(&work.issn),
        doi = json_text(&format!("10.5555/sim.{}", &face.id[..face.id.len().min(12)])),
        volume = work.volume,
        issue = work.issue,
        publisher = json_text(&work.publisher),
        journal = json_text(&work.journal),
        month = work.month,
        year = work.year,
        keywords = json_list(work.keywords.iter().map(|word| json_text(word))),
        summary = json_text(&work.summary),
        title = json_text(&work.plain_title()),
        id = json_text(face.id),
        created = iso_seconds(face.created_at),
    )
}

fn bad_request(message: &str) -> SimAnswer {
    SimAnswer::new(400, JSON, format!("{{\"status\":\"bad_request\",\"error\":{}}}", json_text(message)))
}
