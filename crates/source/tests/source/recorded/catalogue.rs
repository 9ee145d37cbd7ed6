//! The catalogue as a whole: what compiles, what was tried on what, and the table of all exchanges.

use patra_core::page::Page;
use patra_core::registry::{Definition, Severity, catalogue, decode};
use patra_core::spec::{check_definition, specs_of};

use crate::testspec::MapSecrets;

/// One exchange, as the table shows it.
pub struct Row {
    source: String,
    exchange: String,
    outcome: String,
    records: usize,
    ids: String,
    times: String,
    total: String,
    next: String,
}

impl Row {
    pub fn of_page(source: &str, exchange: &str, page: &Page) -> Row {
        let ids = match page.items.as_slice() {
            [] => String::new(),
            [one] => one.id.clone(),
            [first, .., last] => format!("{} .. {}", first.id, last.id),
        };
        let times: Vec<String> = page.items.iter().filter_map(|item| Some(item.updated_at?.to_string())).collect();
        let times = match (times.iter().min(), times.iter().max()) {
            (Some(first), Some(last)) => format!("{} .. {}", &first[..10], &last[..10]),
            _ => String::new(),
        };
        let next = page.next_token.clone().or_else(|| page.next_url.clone()).unwrap_or_default();
        let total = page.total.map(|total| total.to_string()).unwrap_or_default();
        let outcome = "page".to_owned();
        Row {
            source: source.into(),
            exchange: exchange.into(),
            outcome,
            records: page.items.len(),
            ids,
            times,
            total,
            next,
        }
    }

    pub fn of_failure(source: &str, exchange: &str, class: &str) -> Row {
        let none = String::new;
        let (source, exchange, outcome) = (source.into(), exchange.into(), class.into());
        Row { source, exchange, outcome, records: 0, ids: none(), times: none(), total: none(), next: none() }
    }
}

/// The table, for people: `cargo xtask catalogue` shows it.
pub fn print(table: &[Row]) {
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    println!(
        "{:<16} {:<40} {:<10} {:>7} {:>10}  {:<24} {:<46} next",
        "source", "exchange", "outcome", "records", "total", "times", "ids"
    );
    for row in table {
        println!(
            "{:<16} {:<40} {:<10} {:>7} {:>10}  {:<24} {:<46} {}",
            row.source,
            cut(&row.exchange, 40),
            row.outcome,
            row.records,
            row.total,
            row.times,
            cut(&row.ids, 46),
            cut(&row.next, 24)
        );
    }
    let records: usize = table.iter().map(|row| row.records).sum();
    println!("{} exchanges, {records} records, 0 unexplained differences", table.len());
}

/// A reader looks for the secrets of credentials; here they are.
pub fn give_secrets(source: &str, secrets: &MapSecrets) {
    for reference in definition(source).secret_references().into_values().flatten() {
        secrets.0.lock().unwrap().insert(reference, "not-a-key".to_owned());
    }
}

pub fn definition(source: &str) -> Definition {
    let entry = catalogue::ALL.iter().find(|entry| entry.source == source).unwrap();
    decode(entry.file, entry.text).unwrap_or_else(|mistakes| panic!("{}", mistakes[0]))
}

/// Whether any endpoint was tried on a sample only.
pub fn is_sample(source: &str) -> bool {
    definition(source).is_unverified()
}

#[test]
fn every_shipped_definition_compiles_and_explains_its_warnings() {
    let mut wrong = Vec::new();
    for entry in catalogue::ALL {
        let definition = definition(entry.source);
        assert_eq!(definition.source(), entry.source);
        for found in check_definition(&definition) {
            let explained = entry.text.lines().any(|line| line.starts_with(&format!("# {}: ", found.code)));
            if found.severity == Severity::Error || !explained {
                wrong.push(format!("{} ({}): {found}", entry.source, found.code));
            }
        }
        for spec in specs_of(&definition) {
            wrong.extend(patra_source::review(&spec).iter().map(|mistake| format!("{}: {mistake:?}", entry.source)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_document_lists_every_source_and_whether_it_is_verified() {
    let document = include_str!("../../../../../docs/catalogue.md");
    for entry in catalogue::ALL {
        let definition = definition(entry.source);
        let verified = if definition.is_unverified() { "no" } else { "yes" };
        let line = format!("| `{}` | {} | {verified} |", entry.source, definition.name());
        assert!(document.contains(&line), "docs/catalogue.md lacks: {line}");
    }
}

#[test]
fn every_shipped_definition_has_the_bibliographic_shape_and_says_what_it_was_tried_on() {
    for entry in catalogue::ALL {
        for (name, endpoint) in definition(entry.source).endpoints() {
            let response = endpoint.map("response").unwrap();
            assert!(
                response.text("evidence").is_some() || endpoint.map("detail").is_some(),
                "{}: {name}",
                entry.source
            );
            let mapped = endpoint.map("fields").is_some();
            assert_eq!(mapped, response.text("shape").is_some(), "{}: {name}", entry.source);
        }
    }
}
