//! Nothing a definition can say is lost in the rows, and every column they need exists.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::registry::definition::{Definition, Map, Places, Value};
use crate::registry::dictionary::dictionary;
use crate::registry::source_keys::SOURCE;

/// A value of a kind, different for each `seed`.
fn sample(kind: &'static Kind, seed: i64) -> Value {
    let text = |text: &str| Value::Text(format!("{text}{seed}"));
    match kind {
        Kind::Flag => Value::Flag(seed % 2 == 0),
        Kind::Integer { min, .. } => Value::Integer(min + seed % 2),
        Kind::Share => Value::Number(0.125),
        Kind::Factor => Value::Number(1.5),
        Kind::Span => Value::Text(crate::time::Span::from_seconds(seed + 1).to_string()),
        Kind::Time => Value::Text(crate::time::Timestamp::from_seconds(seed).to_string()),
        Kind::Zone => Value::Text("UTC".into()),
        Kind::Code(code) => {
            let items = dictionary(code).unwrap().items;
            Value::Text(items[usize::try_from(seed).unwrap() % items.len()].0.to_owned())
        }
        Kind::List(kind) => Value::List(vec![sample(kind, seed), sample(kind, seed + 1)]),
        Kind::Block(block) | Kind::Short(block, _) => Value::Map(full(block, seed)),
        Kind::Table(kind) => {
            // Written so that the order of names is not the order of the alphabet.
            Value::Map(["z", "a"].iter().map(|name| ((*name).to_owned(), sample(kind, seed))).collect())
        }
        Kind::Map => Value::Map(["a", "z"].iter().map(|name| ((*name).to_owned(), text("v"))).collect()),
        Kind::Json => Value::Json(serde_json::json!({ "list": [1, "x", null, { "deep": true }] })),
        _ => text("text"),
    }
}

fn full(block: &'static Block, seed: i64) -> Map {
    (seed..).zip(block.keys).map(|(seed, key)| (key.name.to_owned(), sample(&key.kind, seed))).collect()
}

fn definition(root: Map) -> Definition {
    Definition { root, places: Places::default() }
}

#[test]
fn every_key_of_the_grammar_survives_the_rows() {
    for seed in 0..5 {
        let written = definition(full(&SOURCE, seed));
        let rows = to_rows(&written);
        assert_eq!(from_rows(written.source(), &rows), Ok(written.clone()), "{seed}");
        let mut shuffled = rows;
        shuffled.reverse();
        assert_eq!(from_rows(written.source(), &shuffled), Ok(written), "{seed}: rows in another order");
    }
}

#[test]
fn every_key_alone_survives_the_rows() {
    for key in SOURCE.keys {
        let mut root = Map::default();
        for needed in SOURCE.keys.iter().filter(|needed| needed.required || needed.name == key.name) {
            root.push(needed.name, sample(&needed.kind, 1));
        }
        let written = definition(root);
        assert_eq!(from_rows(written.source(), &to_rows(&written)), Ok(written), "{}", key.name);
    }
}

/// Columns by table, as the first migration declares them and later ones add them.
fn declared() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let sql = include_str!("../../../../migrations/sqlite/0001_registry.sql");
    let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut table = "";
    for line in sql.lines() {
        if let Some(name) = line.strip_prefix("CREATE TABLE ") {
            table = name.trim_end_matches(" (");
        } else if let Some(column) = line.strip_prefix("    ") {
            tables.entry(table).or_default().extend(column.split_whitespace().next());
        }
    }
    let later = [
        include_str!("../../../../migrations/sqlite/0010_budgets.sql"),
        include_str!("../../../../migrations/sqlite/0011_tombstones.sql"),
        include_str!("../../../../migrations/sqlite/0012_partial.sql"),
    ];
    for line in later.iter().flat_map(|text| text.lines()) {
        let added = line.strip_prefix("ALTER TABLE ").and_then(|rest| rest.split_once(" ADD COLUMN "));
        if let Some((table, column)) = added {
            tables.entry(table).or_default().extend(column.split_whitespace().next());
        }
    }
    tables
}

#[test]
fn the_migration_has_exactly_the_columns_that_rows_fill() {
    let common = [
        "id",
        "provenance_code",
        "endpoint_name",
        "registry_version",
        "effective_from",
        "effective_to",
        "created_at",
        "CONSTRAINT",
        "channel",
        "definition",
        "definition_hash",
        "actor",
        "remark",
    ];
    let declared = declared();
    let mut filled: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in to_rows(&definition(full(&SOURCE, 0))) {
        filled.entry(row.table).or_default().extend(row.columns.into_keys());
    }
    assert_eq!(filled.len(), 13);
    for (table, columns) in filled {
        let own: BTreeSet<&str> = declared[table.as_str()].iter().copied().filter(|c| !common.contains(c)).collect();
        assert_eq!(own, columns.iter().map(String::as_str).collect(), "{table}");
        assert!(common[..7].iter().all(|column| declared[table.as_str()].contains(column)), "{table}");
    }
}

#[test]
fn every_code_column_holds_codes_of_a_dictionary() {
    let known: BTreeSet<&str> = super::super::dictionary::DICTIONARIES
        .iter()
        .flat_map(|dictionary| dictionary.items.iter().map(|(code, ..)| *code))
        .collect();
    for row in to_rows(&definition(full(&SOURCE, 0))) {
        for (column, cell) in row.columns.iter().filter(|(column, _)| column.ends_with("_code")) {
            let Cell::Text(code) = cell else { continue };
            assert!(known.contains(code.as_str()), "{}.{column} = {code}", row.table);
        }
    }
}

#[test]
fn a_row_with_nonsense_is_refused_by_name() {
    let mut rows = to_rows(&definition(full(&SOURCE, 0)));
    let row = rows.iter_mut().find(|row| row.table == PAGINATION_CFG).unwrap();
    row.columns.insert("page_size".into(), Cell::Text("many".into()));
    let refused = from_rows("s", &rows).unwrap_err();
    assert_eq!((refused.table.as_str(), refused.column.as_str()), (PAGINATION_CFG, "page_size"));
}
