//! A feed that knows time only: `since` is an inclusive lower bound, there is no upper bound, no total and no token. The
//! reader goes on from the last stamp it saw; all records of the last stamp of a page come with it, so it always gets on.

use crate::content::{Work, json_list, json_text};
use crate::moment::{SECOND_US, denoted, iso_micros};
use crate::provider::{Provider, Rate, Reply, join_payloads, number};
use crate::request::{SimAnswer, SimRequest};
use crate::truth::{Face, Truth};

const JSON: &str = "application/json";
const LIMIT_MAX: usize = 1000;

/// The provider.
pub struct TimeFeed {
    truth: Truth,
}

impl TimeFeed {
    /// Serves a truth under `/timefeed/changes`.
    pub fn new(truth: Truth) -> Self {
        Self { truth }
    }

    fn changes(&self, request: &SimRequest) -> Result<Reply, SimAnswer> {
        let since = match request.param("since") {
            None => i64::MIN,
            Some(text) => denoted(text).ok_or_else(|| bad_request("since is not a valid time"))?.0,
        };
        let limit = number(request, "limit", 100)
            .filter(|limit| *limit > 0)
            .ok_or_else(|| bad_request("limit must be a positive number"))?;
        let limit = limit.min(LIMIT_MAX);
        let mut page: Vec<u32> = Vec::new();
        let mut last = i64::MIN;
        for (at, index) in self.truth.keys_from((since, 0), i64::MAX) {
            if page.len() >= limit && at != last {
                break;
            }
            page.push(index);
            last = at;
        }
        let (changes, items) = join_payloads(&self.truth, &page, ",");
        let answer = SimAnswer::new(200, JSON, format!("{{\"changes\":[{changes}]}}"));
        Ok(Reply { answer, items, token: None })
    }
}

impl Provider for TimeFeed {
    fn source(&self) -> &str {
        self.truth.source.name()
    }

    fn reply(&mut self, request: &SimRequest, now_us: i64) -> Reply {
        self.truth.advance(now_us);
        if request.path != "/timefeed/changes" {
            return Reply::bare(SimAnswer::new(404, JSON, "{\"error\":\"not found\"}"));
        }
        self.changes(request).unwrap_or_else(Reply::bare)
    }

    fn rate(&self, _request: &SimRequest) -> Rate {
        Rate { limit: 10, per_us: SECOND_US, concurrency: 2 }
    }

    fn throttled(&self, _request: &SimRequest, retry_after: Option<String>, _now_us: i64) -> SimAnswer {
        let answer = SimAnswer::new(429, JSON, "{\"error\":\"too many requests\"}");
        retry_after.map_or(answer.clone(), |value| answer.with("retry-after", value))
    }

    fn error_body(&self, _request: &SimRequest, _now_us: i64) -> SimAnswer {
        SimAnswer::new(200, JSON, "{\"error\":\"the feed is being rebuilt\"}")
    }

    fn truth(&self) -> &Truth {
        &self.truth
    }

    fn truth_mut(&mut self) -> &mut Truth {
        &mut self.truth
    }
}

/// One change as it stands in `changes`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    format!(
        "{{\"id\":{},\"updated_at\":\"{}\",\"revision\":{},\"title\":{},\"authors\":{},\"journal\":{},\"year\":{},\"abstract\":{}}}",
        json_text(face.id),
        iso_micros(face.updated_at),
        face.content,
        json_text(&work.plain_title()),
        json_list(work.authors.iter().map(|author| json_text(&format!("{} {}", author.given, author.family)))),
        json_text(&work.journal),
        work.year,
        json_text(&work.summary),
    )
}

fn bad_request(message: &str) -> SimAnswer {
    SimAnswer::new(400, JSON, format!("{{\"error\":{}}}", json_text(message)))
}
