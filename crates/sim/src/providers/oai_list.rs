//! The lists and records of an OAI-PMH server: which records a page holds, where the next one begins, what is withheld.

use crate::content::xml_text;
use crate::moment::DAY_US;
use crate::provider::{Reply, join_payloads};
use crate::providers::oai::{Fault, OaiPmh, XML};
use crate::providers::oai_token::{Place, Style, Token};
use crate::providers::oai_xml::envelope;
use crate::request::{SimAnswer, SimRequest};
use crate::rng::hash_text;

/// The sets of arXiv; a record is in one of them, some in a second one under another name.
const SETS: [&str; 4] = ["cs", "math", "physics:astro-ph", "physics:hep-th"];

impl OaiPmh {
    /// One page of `ListRecords` or `ListIdentifiers`.
    pub(super) fn list(&mut self, request: &SimRequest, now_us: i64) -> Result<Reply, Fault> {
        let asked = request.param("resumptionToken");
        let (position, late) = match asked {
            Some(text) => self.resume(request, text, now_us)?,
            None => (self.begin(request, now_us)?, false),
        };
        let page = self.page_at(&position);
        if page.is_empty() && asked.is_none() {
            return Err(Fault::new("noRecordsMatch", "No records match the request").of("PO-2"));
        }
        let (records, items) = join_payloads(&self.truth, &page, "");
        let next = self.next_position(&position, &page, now_us);
        let mut token = self.token_element(&position, next.as_ref(), asked.is_some());
        let repeats = self.is_on("PO-10b") && self.list_count.is_multiple_of(5) && next.is_some() && asked.is_some();
        if repeats {
            token = asked.map_or(token, |text| format!("<resumptionToken>{}</resumptionToken>", xml_text(text)));
        }
        let spoilt = self.is_on("PO-9") && self.list_count.is_multiple_of(7) && records.contains("</dc:title>");
        let records = if spoilt { records.replacen("</dc:title>", "\u{1}</dc:title>", 1) } else { records };
        let verb = request.param("verb").unwrap_or("ListRecords");
        let records = if verb == "ListIdentifiers" { headers_of(&records) } else { records };
        let body = envelope(request, now_us, &format!("<{verb}>{records}{token}</{verb}>"));
        let answer = SimAnswer::new(200, XML, body)
            .fires_if(repeats, "PO-10b")
            .fires_if(spoilt, "PO-9")
            .fires_if(late, "AO-1b")
            .fires_if(self.is_on("PO-4") && next.is_some(), "PO-4");
        let answer = self.note_heaps(answer, &position, &page);
        Ok(Reply { answer, items, token: asked.map(str::to_owned) })
    }

    /// Situations that show in what a page holds.
    fn note_heaps(&self, answer: SimAnswer, position: &Token, page: &[u32]) -> SimAnswer {
        let aliased = position.set.is_some() && page.iter().any(|index| self.sets_of(*index).len() > 1);
        let one_day = position.to.saturating_sub(position.from) <= DAY_US;
        let deep = matches!(position.place, Place::Skip(skip) if skip >= 5 * self.page) && one_day;
        let tied = matches!(position.place, Place::Older { sent, .. } if sent >= self.page);
        answer.fires_if(aliased, "AO-10").fires_if(deep, "AO-3").fires_if(tied, "DJ-6")
    }

    /// One record, or why it cannot be had.
    pub(super) fn record(&self, request: &SimRequest, now_us: i64) -> Result<Reply, Fault> {
        let id = request.param("identifier").ok_or_else(|| Fault::new("badArgument", "identifier is required"))?;
        let prefix = request.param("metadataPrefix").unwrap_or_default();
        if !matches!(prefix, "oai_dc" | "pmc") {
            return Err(Fault::new("cannotDisseminateFormat", &format!("{prefix} is not supported")));
        }
        let unknown = || Fault::new("idDoesNotExist", "The value of the identifier argument is unknown");
        let face = self.truth.find(id).and_then(|index| self.truth.face(index)).ok_or_else(unknown)?;
        if face.detail_missing {
            let closed = Fault::new("cannotDisseminateFormat", "The article is not in the open access subset");
            return Err(if hash_text(id).is_multiple_of(2) { closed } else { unknown() }.of("PO-5"));
        }
        let (record, items) = join_payloads(&self.truth, &[face.index], "");
        let body = envelope(request, now_us, &format!("<GetRecord>{record}</GetRecord>"));
        Ok(Reply { answer: SimAnswer::new(200, XML, body), items, token: None })
    }

    fn page_at(&self, position: &Token) -> Vec<u32> {
        let Token { from, to, place, set, .. } = position;
        let fits = |index: &u32| set.as_deref().is_none_or(|set| self.sets_of(*index).contains(&set));
        let keys = |from, to| self.truth.keys_from(from, to).map(|key| key.1).filter(fits);
        match *place {
            Place::From(key) => keys(key, *to).take(self.page).collect(),
            Place::Skip(skip) => keys((*from, 0), *to).skip(skip).take(self.page).collect(),
            Place::Older { stamp, sent } => {
                let older: Vec<u32> = keys((*from, 0), stamp.saturating_add(1)).collect();
                older.into_iter().rev().skip(sent).take(self.page).collect()
            }
        }
    }

    fn sets_of(&self, index: u32) -> Vec<&'static str> {
        if self.style != Style::Arxiv {
            return vec!["sim"];
        }
        let hash = hash_text(self.truth.id(index));
        let first = (hash % 4) as usize;
        let second = (hash / 4).is_multiple_of(5).then(|| SETS[(first + 1) % SETS.len()]);
        std::iter::once(SETS[first]).chain(second).collect()
    }

    fn next_position(&self, position: &Token, page: &[u32], now_us: i64) -> Option<Token> {
        let last = self.truth.face(*page.last()?)?;
        let served = position.served + page.len();
        let place = match position.place {
            Place::From(_) => Place::From((last.updated_at, last.index + 1)),
            Place::Skip(_) => Place::Skip(served),
            Place::Older { stamp, sent } => {
                let same =
                    |index: &&u32| self.truth.face(**index).is_some_and(|face| face.updated_at == last.updated_at);
                let before = if last.updated_at == stamp { sent } else { 0 };
                Place::Older { stamp: last.updated_at, sent: before + page.iter().filter(same).count() }
            }
        };
        let next = Token { issued_at: now_us, place, served, ..position.clone() };
        (!self.page_at(&next).is_empty()).then_some(next)
    }

    /// Absent when one page holds all; empty at the end of a longer list.
    fn token_element(&self, position: &Token, next: Option<&Token>, resumed: bool) -> String {
        let total = self.truth.count(position.from, position.to);
        let size = match self.with_list_size {
            true => format!(" completeListSize=\"{total}\" cursor=\"{}\"", position.served),
            false => String::new(),
        };
        match next {
            Some(token) => self.style.element(token, self.token_life_us, &size),
            None if resumed => format!("<resumptionToken{size}/>"),
            None => String::new(),
        }
    }
}

/// The headers alone, as `ListIdentifiers` sends them.
fn headers_of(records: &str) -> String {
    let mut headers = String::new();
    for part in records.split("<record>").skip(1) {
        if let Some((header, _)) = part.split_once("</header>") {
            headers.push_str(header);
            headers.push_str("</header>");
        }
    }
    headers
}
