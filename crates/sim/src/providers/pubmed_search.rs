//! The search of the E-utilities: days of several dates, a cap on what one query gives, and result sets that are kept
//! under a name for a while.

use std::collections::BTreeMap;

use crate::content::json_text;
use crate::moment::{DAY_US, HOUR_US, denoted_in, zone};
use crate::provider::Reply;
use crate::providers::pubmed::PubMed;
use crate::request::SimAnswer;
use crate::rng::hash_text;

const JSON: &str = "application/json; charset=UTF-8";
/// Pages after which a kept result set is gone (PM-7); 40 in the real one.
const KEPT_PAGES: u32 = 3;
/// How far a record that was loaded late is dated back (`edat`).
const BACK_LOADED_US: i64 = 730 * DAY_US;
/// A record first seen so long after its stamp is a late one.
const LATE_US: i64 = 20 * HOUR_US;

/// Result sets by name (`WebEnv`).
#[derive(Debug, Default)]
pub(super) struct History {
    kept: BTreeMap<String, Kept>,
    count: u32,
}

#[derive(Debug)]
struct Kept {
    found: Vec<u32>,
    page_count: u32,
    /// This one is lost after a few pages.
    short: bool,
}

/// The parameters of one search.
struct Ask<'a> {
    start: usize,
    size: usize,
    term: &'a str,
    from: i64,
    to: i64,
    field: Field,
}

/// Which date is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Modified,
    Entered,
    Created,
    Published,
}

impl PubMed {
    pub(super) fn search(&mut self, form: &[(String, String)]) -> Result<Reply, SimAnswer> {
        self.search_count += 1;
        let param = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let ask = self.read(&param)?;
        let (found, kept_as) = match (param("WebEnv"), param("usehistory")) {
            (Some(name), _) => (self.kept(name)?, Some(name.to_owned())),
            (None, Some("y")) => {
                let found = self.found(&ask);
                (found.clone(), Some(self.keep(found)))
            }
            _ => (self.found(&ask), None),
        };
        if self.is_on("PM-6") && self.search_count.is_multiple_of(6) {
            // Seen now and then, and harmless where no value is hit.
            let body = self.body(&ask, &found, None).replacen("translationset", "translation\u{1}set", 1);
            return Ok(Reply { items: self.items(&ask, &found), ..Reply::bare(SimAnswer::new(200, JSON, body)) });
        }
        let body = self.body(&ask, &found, kept_as.as_deref());
        let answer = self.note(SimAnswer::new(200, JSON, body), &ask, &found);
        let items = self.items(&ask, &found);
        Ok(Reply { answer, items, token: (ask.start > 0).then(|| ask.start.to_string()) })
    }

    fn read<'a>(&self, param: &impl Fn(&str) -> Option<&'a str>) -> Result<Ask<'a>, SimAnswer> {
        if param("db").unwrap_or("pubmed") != "pubmed" {
            return Err(search_error("Invalid db name specified"));
        }
        let number = |name: &str, other: usize| param(name).and_then(|text| text.parse().ok()).unwrap_or(other);
        let (start, size) = (number("retstart", 0), number("retmax", 20).min(self.cap));
        if start >= self.cap {
            let message = format!(
                "Search Backend failed: Exception:\n'retstart' cannot be larger than {}. For PubMed, ESearch can only retrieve the first {} records matching the query.",
                self.cap - 1,
                self.cap
            );
            return Err(search_error(&message).fires("PM-2"));
        }
        let field = Field::read(param("datetype")).ok_or_else(|| search_error("Invalid datetype"))?;
        let days = days(param("mindate"), param("maxdate"));
        let (from, to) = days.ok_or_else(|| search_error("Invalid date range: mindate and maxdate are both needed"))?;
        Ok(Ask { start, size, term: param("term").unwrap_or_default(), from, to, field })
    }

    /// Records of the days, newest numbers first.
    fn found(&self, ask: &Ask<'_>) -> Vec<u32> {
        let ids = id_range(ask.term);
        let inside = |index: &u32| {
            let Some((low, high)) = ids else { return true };
            self.truth.id(*index).parse::<u64>().is_ok_and(|id| (low..=high).contains(&id))
        };
        let mut found: Vec<u32> = match ask.field {
            Field::Modified => self.truth.keys_from((ask.from, 0), ask.to).map(|key| key.1).filter(inside).collect(),
            field => {
                let all = self.truth.keys_from((i64::MIN, 0), i64::MAX).map(|key| key.1).filter(inside);
                all.filter(|index| self.dates(*index, field).any(|at| (ask.from..ask.to).contains(&at))).collect()
            }
        };
        found.sort_unstable();
        found.reverse();
        found
    }

    /// The dates under which a record is found. Some are published twice, online first; some were loaded late and are
    /// dated back.
    fn dates(&self, index: u32, field: Field) -> impl Iterator<Item = i64> {
        let face = self.truth.face(index);
        let hash = hash_text(self.truth.id(index));
        let dated = |at: i64| match field {
            Field::Modified | Field::Created => [Some(at), None],
            Field::Entered => [Some(if hash.is_multiple_of(7) { at - BACK_LOADED_US } else { at }), None],
            Field::Published => [Some(at), online(hash, at)],
        };
        let stamp = |face: crate::truth::Face<'_>| match field {
            Field::Entered | Field::Created => face.created_at,
            Field::Modified | Field::Published => face.updated_at,
        };
        face.map_or([None, None], |face| dated(stamp(face))).into_iter().flatten()
    }

    /// Never beyond the cap.
    fn page<'a>(&self, ask: &Ask<'_>, found: &'a [u32]) -> &'a [u32] {
        let end = ask.start.saturating_add(ask.size).min(self.cap).min(found.len());
        found.get(ask.start..end).unwrap_or_default()
    }

    fn items(&self, ask: &Ask<'_>, found: &[u32]) -> Vec<(u32, u32)> {
        let version = |index: &u32| self.truth.face(*index).map(|face| (*index, face.version));
        self.page(ask, found).iter().filter_map(version).collect()
    }

    fn body(&self, ask: &Ask<'_>, found: &[u32], kept_as: Option<&str>) -> String {
        let page = self.page(ask, found);
        let ids: Vec<String> = page.iter().map(|index| format!("\"{}\"", self.truth.id(*index))).collect();
        let kept = kept_as.map(|name| format!("\"querykey\":\"1\",\"webenv\":\"{name}\",")).unwrap_or_default();
        format!(
            "{{\"header\":{{\"type\":\"esearch\",\"version\":\"0.3\"}},\"esearchresult\":{{\"count\":\"{}\",\"retmax\":\"{}\",\"retstart\":\"{}\",{kept}\
             \"idlist\":[{}],\"translationset\":[],\"querytranslation\":{}}}}}",
            found.len(),
            page.len(),
            ask.start,
            ids.join(","),
            json_text(ask.term)
        )
    }

    /// Situations that show in what was found.
    fn note(&self, answer: SimAnswer, ask: &Ask<'_>, found: &[u32]) -> SimAnswer {
        let over = found.len() > self.cap;
        let one_day = ask.to.saturating_sub(ask.from) <= DAY_US + HOUR_US;
        let by_other = |index: &u32| {
            let stamp = self.truth.face(*index).map(|face| face.updated_at);
            ask.field == Field::Published && !stamp.is_some_and(|at| (ask.from..ask.to).contains(&at))
        };
        let late = |index: &u32| self.truth.seen_after_us(*index) >= LATE_US;
        answer
            .fires_if(over && !one_day, "PM-2")
            .fires_if(over && one_day, "PM-8")
            .fires_if(found.iter().any(late), "PM-9")
            .fires_if(found.iter().any(by_other), "PM-10")
    }

    fn keep(&mut self, found: Vec<u32>) -> String {
        self.history.count += 1;
        let name = format!("MCID_{:024x}", hash_text(&format!("{}/{}", self.truth.seed, self.history.count)));
        let short = self.is_on("PM-7") && self.history.count % 2 == 1;
        self.history.kept.insert(name.clone(), Kept { found, page_count: 1, short });
        name
    }

    fn kept(&mut self, name: &str) -> Result<Vec<u32>, SimAnswer> {
        let gone = || search_error("Unable to obtain query #1");
        let kept = self.history.kept.get_mut(name).ok_or_else(gone)?;
        kept.page_count += 1;
        if kept.short && kept.page_count > KEPT_PAGES {
            self.history.kept.remove(name);
            return Err(gone().fires("PM-7"));
        }
        Ok(kept.found.clone())
    }
}

impl Field {
    fn read(text: Option<&str>) -> Option<Field> {
        match text {
            None | Some("mdat") => Some(Field::Modified),
            Some("edat") => Some(Field::Entered),
            Some("crdt") => Some(Field::Created),
            Some("pdat") => Some(Field::Published),
            Some(_) => None,
        }
    }
}

/// The day on which a record that is published twice came out online.
fn online(hash: u64, printed: i64) -> Option<i64> {
    hash.is_multiple_of(5).then(|| printed - DAY_US * (1 + (hash / 5 % 3) as i64))
}

/// Whole days in New York, both ends included; no dates at all means everything.
fn days(low: Option<&str>, high: Option<&str>) -> Option<(i64, i64)> {
    let zone = zone("America/New_York");
    match (low, high) {
        (None, None) => Some((i64::MIN, i64::MAX)),
        (Some(low), Some(high)) => {
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

pub(super) fn search_error(message: &str) -> SimAnswer {
    let body = format!(
        "{{\"header\":{{\"type\":\"esearch\",\"version\":\"0.3\"}},\"esearchresult\":{{\"ERROR\":{}}}}}",
        json_text(message)
    );
    SimAnswer::new(200, JSON, body)
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
