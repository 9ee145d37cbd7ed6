//! A plain reader for every provider: walks all pages of a window and returns the raw bytes of the records it saw.

use std::collections::BTreeMap;

use patra_sim::moment::{DAY_US, SECOND_US, iso_micros, iso_seconds};
use patra_sim::providers::provider_for;
use patra_sim::{Provider, SimAnswer, SimRequest, Source, Truth, TruthPlan, TruthVersion};
use serde_json::value::RawValue;

pub const FROM: i64 = 1_767_225_600 * SECOND_US; // 2026-01-01T00:00:00Z
pub const TO: i64 = FROM + 10 * DAY_US;
pub const LIVE_TO: i64 = TO + 2 * DAY_US;

pub fn plan(source: Source, seed: u64, records: u64) -> TruthPlan {
    TruthPlan { live_to: LIVE_TO, live_share: 0.2, ..TruthPlan::new(source, seed, records, FROM, TO) }
}

pub fn provider(source: Source, seed: u64, records: u64) -> Box<dyn Provider> {
    provider_for(plan(source, seed, records).draw())
}

/// The current records of `[from, to)`, found the slow way, as sorted payloads.
pub fn expected(truth: &Truth, now_us: i64, from: i64, to: i64) -> Vec<String> {
    let mut current: BTreeMap<String, TruthVersion> = BTreeMap::new();
    for version in truth.versions().filter(|version| version.visible_at <= now_us) {
        let known = current.get(&version.id);
        if known.is_none_or(|known| known.version < version.version) {
            current.insert(version.id.clone(), version);
        }
    }
    let lists_deleted = truth.versions().next().is_some_and(|version| version.id.starts_with("oai:"));
    let mut payloads: Vec<String> = current
        .values()
        .filter(|version| (from..to).contains(&version.updated_at) && (!version.deleted || lists_deleted))
        .filter(|version| !version.detail_missing)
        .map(|version| String::from_utf8(truth.payload(&version.id, version.version).unwrap()).unwrap())
        .collect();
    payloads.sort();
    payloads
}

/// Walks a window `[from, to)`; its edges lie on the grain of the source's windows.
pub fn walk(provider: &mut dyn Provider, source: Source, now_us: i64, from: i64, to: i64, size: usize) -> Vec<String> {
    let mut ask = |path: &str| provider.answer(&SimRequest::get(path), now_us);
    let mut got = match source {
        Source::Crossref => crossref(&mut ask, from, to, size),
        Source::PubMed => pubmed(&mut ask, from, to, size),
        Source::OaiPmh => oai(&mut ask, from, to),
        Source::Doaj => doaj(&mut ask, from, to, size),
        Source::DataCite => datacite(&mut ask, from, to, size),
        Source::OpenFda => openfda(&mut ask, from, to, size),
        Source::TimeFeed => timefeed(&mut ask, from, to, size),
    };
    got.sort();
    got
}

type Ask<'a> = &'a mut dyn FnMut(&str) -> SimAnswer;

fn crossref(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let (low, high) = (&iso_seconds(from)[..13], &iso_seconds(to - SECOND_US)[..13]);
    let mut cursor = "*".to_owned();
    let mut all = Vec::new();
    loop {
        let cursor_text = encode(&cursor);
        let answer = ask(&format!(
            "/crossref/works?filter=from-index-date:{low},until-index-date:{high}&rows={size}&cursor={cursor_text}"
        ));
        let page = items(&answer, "/message/items");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
        cursor = field(&answer, "/message/next-cursor").unwrap();
    }
}

fn pubmed(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let day = |at: i64| iso_seconds(at - 5 * 3600 * SECOND_US)[..10].replace('-', "/");
    let mut ids: Vec<String> = Vec::new();
    loop {
        let answer = ask(&format!(
            "/pubmed/entrez/eutils/esearch.fcgi?db=pubmed&retmode=json&datetype=mdat&mindate={}&maxdate={}&retstart={}&retmax={size}",
            day(from),
            day(to - SECOND_US),
            ids.len()
        ));
        let page: Vec<String> = items(&answer, "/esearchresult/idlist");
        ids.extend(page.iter().map(|id| id.trim_matches('"').to_owned()));
        if page.is_empty() {
            break;
        }
    }
    let mut all = Vec::new();
    for batch in ids.chunks(100) {
        let answer = ask(&format!("/pubmed/entrez/eutils/efetch.fcgi?db=pubmed&retmode=xml&id={}", batch.join(",")));
        let text = String::from_utf8(answer.body).unwrap();
        all.extend(elements(&text, "PubmedArticle>"));
        all.extend(elements(&text, "PubmedBookArticle>"));
    }
    all
}

fn oai(ask: Ask<'_>, from: i64, to: i64) -> Vec<String> {
    let mut path = format!(
        "/oai-pmh/oai?verb=ListRecords&metadataPrefix=oai_dc&from={}&until={}",
        iso_seconds(from),
        iso_seconds(to - SECOND_US)
    );
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8(ask(&path).body).unwrap();
        if text.contains("noRecordsMatch") {
            return all;
        }
        all.extend(elements(&text, "record>"));
        let token = text.split("<resumptionToken").nth(1).and_then(|rest| rest.split_once('>'));
        let token = token.map(|(_, rest)| rest.split('<').next().unwrap_or_default()).filter(|token| !token.is_empty());
        let Some(token) = token else { return all };
        path = format!("/oai-pmh/oai?verb=ListRecords&resumptionToken={}", encode(token));
    }
}

fn doaj(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let query = encode(&format!("last_updated:[{} TO {}}}", iso_seconds(from), iso_seconds(to))).replace('+', "%20");
    let mut all = Vec::new();
    for page in 1.. {
        let answer =
            ask(&format!("/doaj/api/search/articles/{query}?page={page}&pageSize={size}&sort=last_updated:asc"));
        all.extend(items(&answer, "/results"));
        if field(&answer, "/next").is_none() {
            break;
        }
    }
    all
}

fn datacite(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let query = encode(&format!("updated:[{} TO {}}}", iso_seconds(from), iso_seconds(to)));
    let mut path = format!("/datacite/dois?query={query}&page[size]={size}&page[cursor]=1");
    let mut all = Vec::new();
    loop {
        let answer = ask(&path);
        all.extend(items(&answer, "/data"));
        let Some(next) = field(&answer, "/links/next") else {
            return all;
        };
        path = next.trim_start_matches("http://provider.invalid").to_owned();
    }
}

fn openfda(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let day = |at: i64| iso_seconds(at)[..10].replace('-', "");
    let mut all: Vec<String> = Vec::new();
    loop {
        let answer = ask(&format!(
            "/openfda/drug/event.json?search=receiptdate:[{}+TO+{}]&limit={size}&skip={}",
            day(from),
            day(to - SECOND_US),
            all.len()
        ));
        if answer.status == 404 {
            return all;
        }
        all.extend(items(&answer, "/results"));
    }
}

/// The feed has no upper bound: read on until a page goes past the window, drop what lies beyond.
fn timefeed(ask: Ask<'_>, from: i64, to: i64, size: usize) -> Vec<String> {
    let mut since = from;
    let mut all: Vec<String> = Vec::new();
    loop {
        let answer = ask(&format!("/timefeed/changes?since={}&limit={size}", iso_micros(since)));
        let page = items(&answer, "/changes");
        let stamp = |item: &String| {
            serde_json::from_str::<serde_json::Value>(item).unwrap()["updated_at"].as_str().unwrap().to_owned()
        };
        let Some(last) = page.last().map(stamp) else {
            break;
        };
        all.extend(page.iter().filter(|item| stamp(item) < iso_micros(to)).cloned());
        let last = patra_sim::moment::denoted(&last).unwrap().0;
        if last >= to {
            break;
        }
        since = last + 1;
    }
    all
}

/// The raw texts of a JSON array.
pub fn items(answer: &SimAnswer, pointer: &str) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let mut raw: Box<RawValue> = serde_json::from_slice(&answer.body).unwrap();
    for name in pointer.trim_start_matches('/').split('/') {
        let mut object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).unwrap();
        raw = object.remove(name).unwrap();
    }
    let list: Vec<Box<RawValue>> = serde_json::from_str(raw.get()).unwrap();
    list.iter().map(|item| item.get().to_owned()).collect()
}

/// One text of a JSON answer.
pub fn field(answer: &SimAnswer, pointer: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    value.pointer(pointer).map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
}

/// Every element with this name (given with its closing bracket), in its exact text.
pub fn elements(text: &str, name: &str) -> Vec<String> {
    let close = format!("</{name}");
    text.split(&format!("<{name}"))
        .skip(1)
        .filter_map(|rest| rest.split_once(&close))
        .map(|(inner, _)| format!("<{name}{inner}{close}"))
        .collect()
}

pub fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
