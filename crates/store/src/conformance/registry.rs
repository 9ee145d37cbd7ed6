//! The registry: versions are added whole and never edited.

use std::collections::BTreeMap;

use patra_core::hash::Hash32;
use patra_core::ports::*;

use super::bench::{Bench, START, at};

/// The tables of the registry, where the embedded migrations have none yet.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS reg_provenance (id INTEGER PRIMARY KEY, provenance_code TEXT NOT NULL,
        endpoint_name TEXT NOT NULL, registry_version INTEGER NOT NULL, effective_from TEXT NOT NULL, effective_to TEXT,
        created_at TEXT NOT NULL, channel TEXT NOT NULL, definition TEXT NOT NULL, definition_hash TEXT NOT NULL,
        actor TEXT NOT NULL, remark TEXT NOT NULL, provenance_name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS reg_prov_http_cfg (id INTEGER PRIMARY KEY, provenance_code TEXT NOT NULL,
        endpoint_name TEXT NOT NULL, registry_version INTEGER NOT NULL, effective_from TEXT NOT NULL, effective_to TEXT,
        created_at TEXT NOT NULL, base_url TEXT, redirects_max INTEGER);
    CREATE TABLE IF NOT EXISTS sys_dict_type (type_code TEXT PRIMARY KEY, type_name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS sys_dict_item (type_code TEXT NOT NULL, item_code TEXT NOT NULL, item_name TEXT NOT NULL,
        display_order INTEGER NOT NULL, PRIMARY KEY (type_code, item_code));
    CREATE TABLE IF NOT EXISTS sys_dict_item_alias (type_code TEXT NOT NULL, item_code TEXT NOT NULL,
        alias TEXT NOT NULL, PRIMARY KEY (type_code, alias));";

async fn tables(bench: &Bench) {
    let mut tx = bench.store.inner.db.write().await.unwrap();
    tx.script(TABLES).await.unwrap();
    tx.commit().await.unwrap();
}

fn new(definition: &str, channel: &str, from: i64) -> NewVersion {
    let row = |endpoint: &str, redirects: Cell| RegistryRow {
        table: "reg_prov_http_cfg".into(),
        endpoint: endpoint.into(),
        columns: BTreeMap::from([
            ("base_url".to_owned(), Cell::Text(format!("https://{definition}"))),
            ("redirects_max".to_owned(), redirects),
        ]),
    };
    NewVersion {
        provenance: "crossref".into(),
        channel: channel.into(),
        effective_from: at(START + from),
        definition: definition.into(),
        definition_hash: Hash32::of(definition.as_bytes()),
        actor: "me".into(),
        remark: String::new(),
        rows: vec![row("", Cell::Int(1)), row("works", Cell::Null)],
    }
}

/// Version and base URL in force.
async fn in_force(bench: &Bench, channel: &str, from: i64) -> Option<(i64, Cell)> {
    let found = bench.store.version_at("crossref", channel, at(START + from)).await.unwrap()?;
    let http = found.rows.iter().find(|row| row.table == "reg_prov_http_cfg" && row.endpoint == "works").unwrap();
    Some((found.version, http.columns["base_url"].clone()))
}

fn url(definition: &str) -> Cell {
    Cell::Text(format!("https://{definition}"))
}

pub(super) async fn a_new_version_ends_the_one_before(bench: Bench) {
    tables(&bench).await;
    assert_eq!(bench.store.publish_version(new("one", "stable", 0)).await, Ok(1));
    assert_eq!(bench.store.publish_version(new("two", "stable", 10)).await, Ok(2));
    assert_eq!(in_force(&bench, "stable", -1).await, None);
    assert_eq!(in_force(&bench, "stable", 0).await, Some((1, url("one"))));
    assert_eq!(in_force(&bench, "stable", 9).await, Some((1, url("one"))));
    assert_eq!(in_force(&bench, "stable", 10).await, Some((2, url("two"))));
    let first = bench.store.version("crossref", 1).await.unwrap().unwrap();
    assert_eq!((first.effective_to, first.definition.as_str()), (Some(at(START + 10)), "one"));
    let ends = bench.column("SELECT DISTINCT effective_to FROM reg_prov_http_cfg WHERE registry_version = 1").await;
    assert_eq!(ends, [at(START + 10).to_string()]);
    let history = bench.store.versions(Some("crossref")).await.unwrap();
    assert_eq!(history.iter().map(|version| version.version).collect::<Vec<_>>(), [2, 1]);
    assert!(history.iter().all(|version| version.rows.is_empty()));
    assert_eq!(bench.store.versions(None).await.unwrap().len(), 2);
    assert_eq!(bench.store.version("crossref", 3).await, Ok(None));
}

pub(super) async fn an_equal_definition_adds_no_version(bench: Bench) {
    tables(&bench).await;
    bench.store.publish_version(new("one", "stable", 0)).await.unwrap();
    assert_eq!(bench.store.publish_version(new("one", "stable", 10)).await, Ok(1));
    assert_eq!(bench.store.versions(None).await.unwrap().len(), 1);
}

pub(super) async fn another_channel_falls_back_to_stable(bench: Bench) {
    tables(&bench).await;
    bench.store.publish_version(new("one", "stable", 0)).await.unwrap();
    assert_eq!(in_force(&bench, "canary", 0).await, Some((1, url("one"))));
    assert_eq!(bench.store.publish_version(new("two", "canary", 5)).await, Ok(2));
    assert_eq!(in_force(&bench, "canary", 5).await, Some((2, url("two"))));
    assert_eq!(in_force(&bench, "stable", 5).await, Some((1, url("one"))), "a canary does not end the stable version");
}

pub(super) async fn a_rollback_is_a_new_version(bench: Bench) {
    tables(&bench).await;
    bench.store.publish_version(new("one", "stable", 0)).await.unwrap();
    bench.store.publish_version(new("two", "stable", 10)).await.unwrap();
    let back = NewVersion { remark: "rollback to 1".into(), ..new("one", "stable", 20) };
    assert_eq!(bench.store.publish_version(back).await, Ok(3));
    assert_eq!(in_force(&bench, "stable", 15).await, Some((2, url("two"))));
    assert_eq!(in_force(&bench, "stable", 20).await, Some((3, url("one"))));
}

pub(super) async fn an_unknown_column_is_refused_and_nothing_is_left(bench: Bench) {
    tables(&bench).await;
    for (table, column) in [
        ("reg_prov_http_cfg", "base_url) VALUES (1); DROP TABLE ing_task; --"),
        ("reg_prov_http_cfg", "registry_version"),
        ("ing_task", "id"),
        ("reg_nothing", "x"),
    ] {
        let mut version = new("one", "stable", 0);
        let columns = BTreeMap::from([(column.to_owned(), Cell::Int(1))]);
        version.rows.push(RegistryRow { table: table.into(), endpoint: String::new(), columns });
        let refused = bench.store.publish_version(version).await;
        assert!(matches!(refused, Err(LedgerError::Missing { .. })), "{refused:?}");
    }
    assert_eq!(bench.store.versions(None).await, Ok(Vec::new()));
}

pub(super) async fn dictionaries_are_only_added_to(bench: Bench) {
    tables(&bench).await;
    let text = |text: &str| text.to_owned();
    let rows = DictionaryRows {
        types: vec![(text("method"), text("HTTP method"))],
        items: vec![(text("method"), text("GET"), text("Get"), 1), (text("method"), text("POST"), text("Post"), 2)],
        aliases: vec![(text("method"), text("GET"), text("get"))],
    };
    bench.store.seed_dictionary(&rows).await.unwrap();
    assert_eq!(bench.store.dictionary().await, Ok(rows.clone()));
    let mut more = rows.clone();
    more.types[0].1 = text("renamed");
    more.items.push((text("method"), text("PUT"), text("Put"), 3));
    bench.store.seed_dictionary(&more).await.unwrap();
    more.types[0].1 = text("HTTP method");
    assert_eq!(bench.store.dictionary().await, Ok(more));
}
