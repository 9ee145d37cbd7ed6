//! The shape of recorded records, as snapshots that were read against the bodies.
//!
//! Of every page the first records are shown, and beyond them those with a status or with updates, which are rare.
//! The recordings belong to their origins: long texts and lists are cut here.

use std::io::Read;

use patra_core::page::Item;
use patra_core::spec::specs_of;
use patra_source::decode::{Around, ResponseProgram};
use serde_json::{Map, Value};

use super::catalogue::definition;
use super::check;
use super::expected::{Answers, SOURCES, recordings};

/// Most records of one source, and of one page.
const RECORDS_MAX: usize = 24;
const OF_PAGE: usize = 2;
/// Longest text and list that is shown whole.
const TEXT_MAX: usize = 100;
const LIST_MAX: usize = 3;

#[tokio::test]
async fn records_of_all_sources_have_one_shape() {
    let mut count = 0;
    for (source, _, answers) in SOURCES {
        let (_, pages) = check(source).await;
        let shown = chosen(pages.iter().flat_map(|(name, page)| of_page(name, &page.items)).collect());
        if shown.is_empty() {
            continue;
        }
        count += if answers == Answers::Samples { 0 } else { shown.len() };
        insta::assert_snapshot!(format!("shape-{source}"), text(&shown));
    }
    count += files_of_pubmed();
    println!("{count} recorded records shown");
    assert!(count == 0 || count >= 200, "{count}");
}

/// PubMed's files hold the same records as its answers; retractions and odd dates are found there.
fn files_of_pubmed() -> usize {
    let Some(folder) = recordings().map(|folder| folder.join("pubmed-bulk")) else { return 0 };
    let spec = specs_of(&definition("pubmed")).swap_remove(0);
    let detail = spec.detail.unwrap();
    let program = ResponseProgram::compile(&detail.response, Around { detail: true, ..Around::default() }).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let body = match std::fs::read(folder.join(&name).join("body.xml.gz")) {
            Ok(packed) => unpacked(&packed),
            Err(_) => std::fs::read(folder.join(&name).join("body.xml")).unwrap(),
        };
        let Ok(page) = program.decode(body.into(), None) else { continue };
        all.extend(of_page(&name.to_string_lossy(), &page.items));
    }
    let shown = chosen(all);
    insta::assert_snapshot!("shape-pubmed-files", text(&shown));
    shown.len()
}

/// One line for each top-level name.
fn text(shown: &[Value]) -> String {
    let mut text = String::new();
    for record in shown {
        text.push_str(record["from"].as_str().unwrap());
        for (name, value) in record["fields"].as_object().unwrap() {
            text.push_str(&format!("\n  {name}: {value}"));
        }
        text.push_str("\n\n");
    }
    text
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut body).unwrap();
    body
}

fn is_rare(fields: &Value) -> bool {
    fields.get("status").is_some() || fields.get("updates").is_some()
}

/// Rare records first.
fn chosen(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|record| !is_rare(&record["fields"]));
    all.truncate(RECORDS_MAX);
    all
}

fn of_page(name: &str, items: &[Item]) -> Vec<Value> {
    let fields: Vec<(&str, Value)> =
        items.iter().map(|item| (item.id.as_str(), serde_json::from_str(&item.fields).unwrap())).collect();
    let chosen = fields.iter().enumerate().filter(|(at, (_, fields))| *at < OF_PAGE || is_rare(fields));
    let shown = chosen.map(|(_, (id, fields))| {
        let mut record = Map::new();
        record.insert("from".into(), format!("{name} {id}").into());
        record.insert("fields".into(), cut(fields));
        Value::Object(record)
    });
    shown.take(OF_PAGE + 2).collect()
}

fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > TEXT_MAX => {
            let start: String = text.chars().take(TEXT_MAX).collect();
            format!("{start}… ({} letters)", text.chars().count()).into()
        }
        Value::Array(items) => {
            let more = items.len().saturating_sub(LIST_MAX);
            let rest = (more > 0).then(|| Value::from(format!("… {more} more")));
            items.iter().take(LIST_MAX).map(cut).chain(rest).collect()
        }
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), cut(value))).collect(),
        other => other.clone(),
    }
}
