//! Recorded answers of the real services, read with the shipped definitions by the real reader.
//!
//! The expected ids, times, totals and next positions were taken from the bodies with other tools, twice and in two
//! ways, never with our decoders; what a failure must be classed as was decided body by body. A chain of pages is
//! walked as a run would: what page n gave as the next position is asked for as page n+1, and must be what the recorded
//! request of that page carried.

mod catalogue;
mod expected;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patra_core::hash::Hash32;
use patra_core::page::{Item, Page, PageAsk, PageStep, Position};
use patra_core::ports::{HttpRequest, Source};
use patra_core::registry::{catalogue as shipped, decode};
use patra_core::spec::errors::classify;
use patra_core::spec::snapshot::{Operation, SpecSnapshot};
use patra_core::spec::{TriggerOverrides, compile};
use patra_core::time::Timestamp;
use patra_core::window::Window;
use serde_json::Value;
use url::{Url, form_urlencoded};

use self::catalogue::{Row, is_sample};
use self::expected::{Answers, Exchange, Phase, Record, Recording, SOURCES, expected, recordings};
use crate::testspec::{Bench, bench};

/// The parameter that places a page, by source.
const PLACES: [(&str, &str); 11] = [
    ("arxiv-api", "start"),
    ("arxiv-oai", "resumptionToken"),
    ("crossref", "cursor"),
    ("doaj", "page"),
    ("doaj-oai", "resumptionToken"),
    ("europepmc", "cursorMark"),
    ("oai-pmh", "resumptionToken"),
    ("openalex", "cursor"),
    ("pmc-oai", "resumptionToken"),
    ("pubmed", "retstart"),
    ("semanticscholar", "token"),
];

#[tokio::test]
async fn every_shipped_source_reads_its_answers_as_written_down() {
    let mut table = Vec::new();
    for (source, ..) in SOURCES {
        table.extend(check(source).await.0);
    }
    catalogue::print(&table);
}

#[test]
fn every_recorded_exchange_is_expected_or_excused() {
    for (source, _, answers) in SOURCES.iter().filter(|(.., answers)| !matches!(answers, Answers::Part(_))) {
        let Some(folder) = expected::answers(source) else { continue };
        let list = expected(source);
        assert_eq!(is_sample(source), *answers == Answers::Samples, "{source}: `evidence` says something else");
        let all = list.exchanges.iter().map(|exchange| &exchange.fixture).chain(list.not_applicable.keys());
        let named: Vec<String> = all.cloned().collect();
        let found = std::fs::read_dir(folder).unwrap().flatten();
        let found: BTreeSet<String> = found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(named.iter().cloned().collect::<BTreeSet<_>>(), found, "{source}");
        assert_eq!(named.len(), found.len(), "{source}: named twice");
        assert!(list.not_applicable.values().all(|reason| !reason.is_empty()), "{source}");
    }
}

#[test]
fn every_recorded_chain_of_pages_is_walked_in_order() {
    let Some(folder) = recordings() else { return };
    let chains = std::fs::read_to_string(folder.join("sequences.json")).unwrap();
    let chains: BTreeMap<String, Vec<String>> = serde_json::from_str(&chains).unwrap();
    for (source, _, answers) in SOURCES {
        let (Answers::Folder(name) | Answers::Part(name)) = answers else { continue };
        let list = expected(source);
        let searches = list.exchanges.iter().filter(|exchange| exchange.phase == Phase::Search);
        let after: BTreeMap<&str, Option<&str>> =
            searches.map(|exchange| (exchange.fixture.as_str(), exchange.after.as_deref())).collect();
        for pages in chains.iter().filter(|(chain, _)| chain.starts_with(&format!("{name}/"))).map(|(_, pages)| pages) {
            let excused = pages.iter().all(|page| !after.contains_key(page.as_str()));
            for pair in pages.windows(2) {
                assert!(excused || after[pair[1].as_str()] == Some(pair[0].as_str()), "{source}: {pair:?}");
            }
        }
    }
}

/// Reads all answers of a source and holds them against what was written down.
async fn check(source: &str) -> (Vec<Row>, BTreeMap<String, Page>) {
    let Some(folder) = expected::answers(source) else { return (Vec::new(), BTreeMap::new()) };
    let mut pages: BTreeMap<String, Page> = BTreeMap::new();
    let mut table = Vec::new();
    for exchange in expected(source).exchanges {
        let name = format!("{source}/{}", exchange.fixture);
        let recording = Recording::read(&folder.join(&exchange.fixture), &exchange);
        let previous = exchange.after.as_ref().map(|after| &pages[after]);
        let spec = Arc::new(spec(source, &exchange, recording.url.as_ref()));
        let ask = ask(&spec, &exchange, previous);
        let Bench { script, reader, secrets, .. } = bench(vec![Ok(recording.answer.clone())]);
        catalogue::give_secrets(source, &secrets);
        let answer = reader.fetch(&ask).await;
        let asked = script.asked.lock().unwrap();
        assert_eq!(asked.len(), 1, "{name}: one request, {answer:?}");
        check_request(&name, source, &exchange, &recording, &asked[0]);
        match answer {
            Ok(page) => {
                check_page(&name, &exchange, &page);
                check_next_url(&name, &exchange, &page, &asked[0]);
                table.push(Row::of_page(source, &exchange.fixture, &page));
                pages.insert(exchange.fixture.clone(), page);
            }
            Err(error) => {
                let class = classify(&error, &spec.retry.statuses);
                assert_eq!(class.name(), exchange.outcome, "{name}: {error}");
                table.push(Row::of_failure(source, &exchange.fixture, class.name()));
            }
        }
    }
    (table, pages)
}

/// The shipped definition, at the address of the recording.
fn spec(source: &str, exchange: &Exchange, recorded: Option<&Url>) -> SpecSnapshot {
    let entry = shipped::ALL.iter().find(|entry| entry.source == source).unwrap();
    let definition = decode(entry.file, entry.text).unwrap();
    let mut overrides = TriggerOverrides { base_url: exchange.base_url.clone(), ..TriggerOverrides::default() };
    if let (Some(url), "oai-pmh") = (recorded, source) {
        repository(url, &mut overrides);
    }
    overrides.contact = Some("contact@example.org".into());
    overrides.credentials = Some(definition.credentials().map(|(name, _)| name.to_owned()).collect());
    let compile =
        |operation| compile(&definition, None, operation, &overrides, 1, "stable").map(|compiled| compiled.spec);
    match compile(Operation::Harvest) {
        Ok(spec) if exchange.phase == Phase::Search || spec.detail.is_some() => spec,
        _ => compile(Operation::Update).unwrap_or_else(|mistakes| panic!("{source}: {mistakes:?}")),
    }
}

/// An OAI-PMH repository is named by its address: all but the last part of the path is the base URL.
fn repository(url: &Url, overrides: &mut TriggerOverrides) {
    let path = url.path().trim_end_matches('/');
    let (base, last) = path.rsplit_once('/').unwrap();
    overrides.base_url = Some(format!("{}{base}", url.origin().ascii_serialization()));
    overrides.params.insert("path".to_owned(), last.to_owned());
    let port = url.port_or_known_default().unwrap();
    overrides.allow_hosts.push(format!("{}:{port}", url.host_str().unwrap()));
}

fn ask(spec: &Arc<SpecSnapshot>, exchange: &Exchange, previous: Option<&Page>) -> PageAsk {
    let step = match exchange.phase {
        Phase::Detail => PageStep::Detail { ids: serde_json::from_value(exchange.asked.clone()).unwrap() },
        Phase::Search => {
            let position = position(spec, exchange, previous);
            PageStep::Search { position, size: exchange.size.unwrap_or(spec.pagination.size) }
        }
    };
    PageAsk {
        spec: spec.clone(),
        window: window(),
        part: None,
        as_of: "2026-02-01".parse().unwrap(),
        step,
        received: 0,
        correlation: "corr-1".into(),
    }
}

fn window() -> Window {
    Window::new("2026-01-01".parse().unwrap(), "2026-01-02".parse().unwrap()).unwrap()
}

fn position(spec: &SpecSnapshot, exchange: &Exchange, previous: Option<&Page>) -> Position {
    use patra_core::spec::snapshot::PagingKind;
    let asked = &exchange.asked;
    match spec.pagination.kind {
        PagingKind::Offset => Position::Offset(asked.as_u64().unwrap()),
        PagingKind::Page => Position::Page(asked.as_u64().unwrap()),
        PagingKind::Token => match previous {
            Some(page) => Position::Token(page.next_token.clone()),
            None => Position::Token(asked.as_str().map(str::to_owned).or(spec.pagination.initial.clone())),
        },
        PagingKind::Url => Position::Url(previous.and_then(|page| page.next_url.clone())),
        PagingKind::Time => Position::Since(window().from()),
    }
}

/// The request carries the expected position, and so did the recorded one.
fn check_request(name: &str, source: &str, exchange: &Exchange, recording: &Recording, request: &HttpRequest) {
    let url = Url::parse(&request.url).unwrap();
    let sent: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let value = |wanted: &str| sent.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    if let (Some(recorded), "oai-pmh") = (&recording.url, source) {
        assert_eq!(url.origin(), recorded.origin(), "{name}");
        assert_eq!(url.path(), recorded.path().trim_end_matches('/'), "{name}");
    }
    match (&exchange.asked, PLACES.iter().find(|(known, _)| *known == source)) {
        (Value::Array(_), _) if exchange.phase == Phase::Detail && source != "pubmed" => {}
        (Value::Array(ids), _) if exchange.phase == Phase::Detail => {
            let form: BTreeMap<_, _> = form_urlencoded::parse(request.body.as_deref().unwrap()).collect();
            let ids: Vec<&str> = ids.iter().map(|id| id.as_str().unwrap()).collect();
            assert_eq!(form["id"], ids.join(","), "{name}");
        }
        (Value::Array(pairs), _) => {
            for pair in pairs {
                let (key, wanted): (String, String) = serde_json::from_value(pair.clone()).unwrap();
                assert_eq!(value(&key).as_deref(), Some(wanted.as_str()), "{name}: {key}");
                let carried = recording.parameter(&key).map(|(decoded, _)| decoded);
                assert_eq!(carried.as_deref(), Some(wanted.as_str()), "{name}: {key}");
            }
        }
        (Value::Null, _) | (_, None) => {}
        (asked, Some((_, place))) => {
            let asked = asked.as_str().map_or_else(|| asked.to_string(), str::to_owned);
            assert_eq!(value(place).as_deref(), Some(asked.as_str()), "{name}: {place}");
            // Some harvesters put a token into the URL as they got it.
            let carried = recording.parameter(place);
            assert!(carried.is_none_or(|(decoded, written)| asked == decoded || asked == written), "{name}: {place}");
        }
    }
}

fn check_page(name: &str, exchange: &Exchange, page: &Page) {
    assert_eq!(exchange.outcome, "page", "{name}");
    let bad: Vec<_> = page.bad.iter().map(|bad| (&bad.id, bad.reason, &bad.message)).collect();
    assert!(bad.is_empty(), "{name}: {bad:?}");
    assert_eq!(page.items.len(), exchange.count, "{name}: count");
    assert_eq!(page.total, exchange.total, "{name}: total");
    assert_eq!(page.has_more, exchange.has_more, "{name}: has_more");
    assert_eq!(page.next_token, exchange.next_token, "{name}: next token");
    assert_eq!(page.items.iter().filter(|item| item.deleted).count(), exchange.deleted, "{name}: deleted");
    match &exchange.all {
        None => check_records(name, &page.items, &exchange.records),
        Some(all) => {
            check_records(name, &page.items[..3], &exchange.records[..3]);
            check_records(name, &page.items[page.items.len() - 3..], &exchange.records[3..]);
            let micros = |item: &Item| item.updated_at.map_or("None".to_owned(), |at| at.micros().to_string());
            let lines = page.items.iter().map(|item| format!("{}\t{}\n", item.id, micros(item)));
            assert_eq!(Hash32::of(lines.collect::<String>().as_bytes()).to_string(), *all, "{name}: all records");
        }
    }
}

fn check_records(name: &str, items: &[Item], records: &[Record]) {
    assert_eq!(items.len(), records.len(), "{name}: records");
    for (item, record) in items.iter().zip(records) {
        assert_eq!(item.id, record.id, "{name}");
        assert_eq!(item.updated_at.map(Timestamp::micros), record.micros, "{name}: time of {}", record.id);
        assert_eq!(item.deleted, record.deleted, "{name}: {}", record.id);
        let payload = String::from_utf8_lossy(&item.payload);
        // A day of PubMed stands in three elements.
        let parts = record.written.iter().flat_map(|written| match name.starts_with("pubmed/") {
            true => written.split('-').collect(),
            false => vec![written.as_str()],
        });
        assert!(parts.into_iter().all(|part| payload.contains(part)), "{name}: {} of {}", record.id, payload);
    }
}

/// The source's own link comes first, then what it left out of our request.
fn check_next_url(name: &str, exchange: &Exchange, page: &Page, request: &HttpRequest) {
    let Some(wanted) = &exchange.next_url else { return assert_eq!(page.next_url, None, "{name}: next URL") };
    let next = page.next_url.as_deref().unwrap_or_else(|| panic!("{name}: no next URL"));
    let (path, query) = next.split_once('?').unwrap();
    let sent = Url::parse(&request.url).unwrap();
    let added = wanted.added.iter().map(|added| {
        let (key, value) = sent.query_pairs().into_owned().find(|(key, _)| key == added).unwrap();
        (key, value)
    });
    let all: Vec<(String, String)> = wanted.query.iter().cloned().chain(added).collect();
    let got: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    assert_eq!((path, got), (wanted.path.as_str(), all), "{name}: next URL");
}
