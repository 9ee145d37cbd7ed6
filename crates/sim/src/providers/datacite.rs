//! DataCite DOIs: JSON:API, half-open Lucene windows, a stateless cursor in creation order. Its next link drops whatever it
//! does not know, a cursor it cannot read starts from the beginning, and a page number too high is silently lowered.

use crate::content::{Work, json_list, json_text};
use crate::moment::{MINUTE_US, iso_seconds};
use crate::provider::{Kind, Provider, Rate, Reply, join_payloads, number, origin};
use crate::range::{RangeFault, range_of};
use crate::request::{SimAnswer, SimRequest, encode_query};
use crate::truth::{Face, Truth};

const JSON: &str = "application/json; charset=utf-8";
const SIZE_MAX: usize = 1000;
const DETAIL: &str = "/datacite/dois/";

/// The provider.
pub struct DataCite {
    truth: Truth,
    /// Results that page numbers can reach.
    cap: usize,
    /// DC-2: the cursor of every third page is cut on its way.
    cut_cursors: bool,
    page_count: u64,
}

impl DataCite {
    /// Serves a truth under `/datacite/dois`.
    pub fn new(truth: Truth) -> Self {
        Self { truth, cap: 10_000, cut_cursors: false, page_count: 0 }
    }

    fn list(&mut self, request: &SimRequest) -> Result<Reply, SimAnswer> {
        let query = request.param("query").unwrap_or_default();
        let span = match range_of(query, "updated") {
            Ok(span) => span,
            Err(RangeFault::Absent) => (i64::MIN, i64::MAX),
            Err(_) => return Err(errors(400, &format!("Failed to parse query [{query}]")).fires("DC-5")),
        };
        let size =
            number(request, "page[size]", 25).ok_or_else(|| errors(400, "page[size] must be a number"))?.min(SIZE_MAX);
        match request.param("page[cursor]") {
            Some(cursor) => Ok(self.cursor_page(request, cursor, span, size)),
            None => self.numbered_page(request, span, size),
        }
    }

    /// Creation order is the order of the record indexes, so nothing moves when a record is updated.
    fn cursor_page(&mut self, request: &SimRequest, cursor: &str, span: (i64, i64), size: usize) -> Reply {
        let after = self.position(cursor);
        let past = |index: &u32| after.is_none_or(|after| *index > after);
        let mut page: Vec<u32> = self.truth.keys_from((span.0, 0), span.1).map(|key| key.1).filter(past).collect();
        page.sort_unstable();
        page.truncate(size);
        let full = size > 0 && page.len() == size;
        self.page_count += 1;
        let cut = self.cut_cursors && self.page_count.is_multiple_of(3);
        let mut next = page.last().filter(|_| full).map(|last| ("page[cursor]".to_owned(), self.cursor_after(*last)));
        if let Some((_, cursor)) = next.as_mut().filter(|_| cut) {
            cursor.truncate(7);
        }
        let restarted = after.is_none() && cursor != "1" && !page.is_empty();
        let comma = after.is_some_and(|index| self.truth.id(index).contains(','));
        let token = (cursor != "1").then(|| cursor.to_owned());
        let mut reply = self.document(request, &page, span, size, next);
        reply.answer = reply.answer.fires_if(restarted, "DC-2").fires_if(comma, "DC-6");
        Reply { token, ..reply }
    }

    fn numbered_page(&self, request: &SimRequest, span: (i64, i64), size: usize) -> Result<Reply, SimAnswer> {
        let asked =
            number(request, "page[number]", 1).ok_or_else(|| errors(400, "page[number] must be a number"))?.max(1);
        let highest = (self.cap / size.max(1)).max(1);
        let page_number = asked.min(highest);
        let page = self.truth.page_at(span.0, span.1, (page_number - 1) * size, size);
        let more = page_number * size < self.truth.count(span.0, span.1);
        let next = more.then(|| ("page[number]".to_owned(), (asked + 1).to_string()));
        let mut reply = self.document(request, &page, span, size, next);
        reply.answer = reply.answer.fires_if(asked > highest, "DC-1");
        Ok(reply)
    }

    fn document(
        &self,
        request: &SimRequest,
        page: &[u32],
        span: (i64, i64),
        size: usize,
        next: Option<(String, String)>,
    ) -> Reply {
        let total = self.truth.count(span.0, span.1);
        let (items_text, items) = join_payloads(&self.truth, page, ",");
        let next = next.map(|position| {
            // Only these survive in the link, as with the real service: the sort and everything else is gone.
            let mut parameters: Vec<(String, String)> =
                request.query.iter().filter(|(name, _)| name == "query").cloned().collect();
            parameters.push(position);
            parameters.push(("page[size]".to_owned(), size.to_string()));
            format!(
                ",\"next\":{}",
                json_text(&format!("{}/datacite/dois?{}", origin(request), encode_query(&parameters)))
            )
        });
        let own = json_text(&format!("{}{}", origin(request), request.path_query()));
        let body = format!(
            "{{\"data\":[{items_text}],\"meta\":{{\"total\":{total},\"totalPages\":{}}},\"links\":{{\"self\":{own}{}}}}}",
            total.div_ceil(size.max(1)),
            next.unwrap_or_default()
        );
        Reply { answer: SimAnswer::new(200, JSON, body), items, token: None }
    }

    /// One DOI; a record that is no longer findable is gone, without a trace.
    fn single(&self, doi: &str) -> Result<Reply, SimAnswer> {
        let found = self.truth.find(doi).and_then(|index| self.truth.face(index)).filter(|face| !face.deleted);
        let face = found.ok_or_else(not_found)?;
        if face.detail_missing {
            return Err(not_found().fires("DC-8"));
        }
        let (data, items) = join_payloads(&self.truth, &[face.index], "");
        Ok(Reply { answer: SimAnswer::new(200, JSON, format!("{{\"data\":{data}}}")), items, token: None })
    }

    /// Creation time and id, in hex; commas inside the id stay harmless.
    fn cursor_after(&self, index: u32) -> String {
        let created = self.truth.face(index).map_or(0, |face| face.created_at.div_euclid(1000));
        let plain = format!("{created},{}", self.truth.id(index));
        plain.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The record after which the walk goes on; nothing when the cursor says nothing, which means from the start.
    fn position(&self, cursor: &str) -> Option<u32> {
        let pairs = cursor
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()));
        let plain = String::from_utf8(pairs.collect::<Option<Vec<u8>>>()?).ok()?;
        self.truth.find(plain.split_once(',')?.1)
    }
}

impl Provider for DataCite {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        if let Some(doi) = request.path.strip_prefix(DETAIL) {
            return self.single(doi).unwrap_or_else(Reply::bare);
        }
        if request.path.trim_end_matches('/') != "/datacite/dois" {
            return Reply::bare(not_found());
        }
        self.list(request).unwrap_or_else(Reply::bare)
    }

    fn kind(&self, request: &SimRequest) -> Kind {
        if request.path.starts_with(DETAIL) { Kind::Detail } else { Kind::Search }
    }

    fn rate(&self, request: &SimRequest) -> Rate {
        let known =
            request.param("mailto").is_some() || request.header("user-agent").is_some_and(|agent| agent.contains('@'));
        Rate { limit: if known { 1000 } else { 500 }, per_us: 5 * MINUTE_US, concurrency: 2 }
    }

    fn throttled(&self, _request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let answer = errors(429, "Too many requests");
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, _request: &SimRequest, _now_us: i64) -> SimAnswer {
        SimAnswer { status: 200, ..errors(500, "Something went wrong while reading one of the DOIs") }
    }

    fn enable(&mut self, scenario: &'static str) -> bool {
        self.cut_cursors |= scenario == "DC-2";
        scenario == "DC-2"
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

/// One resource object as it stands in `data`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    let creators = json_list(work.authors.iter().map(|author| {
        format!(
            "{{\"name\":{},\"nameType\":\"Personal\",\"givenName\":{},\"familyName\":{},\"affiliation\":[]}}",
            json_text(&format!("{}, {}", author.family, author.given)),
            json_text(&author.given),
            json_text(&author.family)
        )
    }));
    let (prefix, suffix) = face.id.split_once('/').unwrap_or((face.id, ""));
    format!(
        "{{\"id\":{id},\"type\":\"dois\",\"attributes\":{{\"doi\":{id},\"prefix\":{prefix},\"suffix\":{suffix},\"identifiers\":[],\"creators\":{creators},\
         \"titles\":[{{\"title\":{title}}}],\"publisher\":{publisher},\"container\":{{}},\"publicationYear\":{year},\"subjects\":{subjects},\
         \"descriptions\":[{{\"description\":{summary},\"descriptionType\":\"Abstract\"}}],\"types\":{{\"resourceTypeGeneral\":\"Dataset\"}},\
         \"version\":\"{content}\",\"state\":\"findable\",\"created\":\"{created}\",\"registered\":\"{created}\",\"updated\":\"{updated}\"}}}}",
        id = json_text(face.id),
        prefix = json_text(prefix),
        suffix = json_text(suffix),
        title = json_text(&work.plain_title()),
        publisher = json_text(&work.publisher),
        year = work.year,
        subjects = json_list(work.keywords.iter().map(|word| format!("{{\"subject\":{}}}", json_text(word)))),
        summary = json_text(&work.summary),
        content = face.content,
        created = iso_seconds(face.created_at),
        updated = iso_seconds(face.updated_at),
    )
}

fn not_found() -> SimAnswer {
    errors(404, "The resource you are looking for doesn't exist.")
}

fn errors(status: u16, title: &str) -> SimAnswer {
    SimAnswer::new(status, JSON, format!("{{\"errors\":[{{\"status\":\"{status}\",\"title\":{}}}]}}", json_text(title)))
}
