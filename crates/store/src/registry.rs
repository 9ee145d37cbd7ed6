//! Versions of source definitions. A version is added whole and never edited; only its end is written, by the next.
//!
//! Which columns a `reg_*` table has is its migration's affair: names given by the compiler are checked against the
//! schema before they stand in a statement, values are always parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use patra_core::ports::{Cell, DictionaryRows, LedgerError, NewVersion, Registry, RegistryRow, StoredVersion};
use patra_core::time::Timestamp;

use crate::db::{Schema, Tx};
use crate::error::DbError;
use crate::step::ended;
use crate::store::{Inner, Store};
use crate::value::{Row, Value, params};

/// The table with one row per version.
const VERSIONS: &str = "reg_provenance";
/// The channel that stands in for every other.
const STABLE: &str = "stable";
/// Written by the store, the same in every table.
const COMMON: [&str; 7] =
    ["id", "provenance_code", "endpoint_name", "registry_version", "effective_from", "effective_to", "created_at"];
/// Written by the store in the table of versions.
const OF_VERSION: [&str; 5] = ["channel", "definition", "definition_hash", "actor", "remark"];

const LAST_VERSION: &str = "-- registry.last
    SELECT MAX(registry_version) AS version FROM reg_provenance WHERE provenance_code = :provenance";
const IN_FORCE: &str = "-- registry.in_force
    SELECT id, registry_version, effective_from, definition_hash FROM reg_provenance
     WHERE provenance_code = :provenance AND channel = :channel AND effective_to IS NULL AND endpoint_name = ''
     ORDER BY registry_version DESC LIMIT 1";
const AT: &str = "-- registry.at
    SELECT * FROM reg_provenance
     WHERE provenance_code = :provenance AND channel = :channel AND endpoint_name = '' AND effective_from <= :at
       AND (effective_to IS NULL OR effective_to > :at)
     ORDER BY registry_version DESC LIMIT 1";
const ONE: &str = "-- registry.one
    SELECT * FROM reg_provenance
     WHERE provenance_code = :provenance AND registry_version = :version AND endpoint_name = ''";
const HISTORY: &str = "-- registry.history
    SELECT * FROM reg_provenance WHERE provenance_code = :provenance AND endpoint_name = ''
     ORDER BY registry_version DESC";
const ALL: &str = "-- registry.all
    SELECT * FROM reg_provenance WHERE endpoint_name = '' ORDER BY provenance_code, registry_version DESC";

#[async_trait]
impl Registry for Store {
    async fn publish_version(&self, version: NewVersion) -> Result<i64, LedgerError> {
        let version = Arc::new(version);
        self.retried("publish_version", move |store| publish(store, version.clone())).await
    }

    async fn version_at(
        &self,
        provenance: &str,
        channel: &str,
        at: Timestamp,
    ) -> Result<Option<StoredVersion>, LedgerError> {
        let (provenance, channel): (Arc<str>, Arc<str>) = (provenance.into(), channel.into());
        self.retried("version_at", move |store| version_at(store, provenance.clone(), channel.clone(), at)).await
    }

    async fn version(&self, provenance: &str, version: i64) -> Result<Option<StoredVersion>, LedgerError> {
        let provenance: Arc<str> = provenance.into();
        self.retried("version", move |store| one(store, provenance.clone(), version)).await
    }

    async fn versions(&self, provenance: Option<&str>) -> Result<Vec<StoredVersion>, LedgerError> {
        let provenance: Option<Arc<str>> = provenance.map(Into::into);
        self.retried("versions", move |store| history(store, provenance.clone())).await
    }

    async fn seed_dictionary(&self, rows: &DictionaryRows) -> Result<(), LedgerError> {
        let rows = Arc::new(rows.clone());
        self.retried("seed_dictionary", move |store| seed(store, rows.clone())).await
    }

    async fn dictionary(&self) -> Result<DictionaryRows, LedgerError> {
        self.retried("dictionary", dictionary).await
    }
}

async fn publish(store: Arc<Inner>, version: Arc<NewVersion>) -> Result<i64, DbError> {
    let mut tx = store.db.write().await?;
    let result = publish_in(&mut tx, &store, &version).await;
    ended(tx, result).await
}

async fn publish_in(tx: &mut Tx, store: &Inner, new: &NewVersion) -> Result<i64, DbError> {
    let schema = registry_tables(tx).await?;
    let asked = params! { provenance: &new.provenance, channel: &new.channel };
    if let Some(before) = tx.row(VERSIONS, IN_FORCE, asked).await? {
        let version = before.int("registry_version")?;
        if before.hash("definition_hash")? == new.definition_hash {
            return Ok(version);
        }
        let ends_at = new.effective_from.max(before.time("effective_from")?);
        for table in schema.keys() {
            let text = format!(
                "UPDATE {table} SET effective_to = ? WHERE provenance_code = ? AND registry_version = ? \
                 AND effective_to IS NULL"
            );
            tx.execute_composed(&text, vec![ends_at.into(), (&new.provenance).into(), version.into()]).await?;
        }
    }
    let last = tx.row(VERSIONS, LAST_VERSION, params! { provenance: &new.provenance }).await?;
    let version = last.map_or(Ok(None), |row| row.opt_int("version"))?.unwrap_or(0) + 1;
    let mut rows = new.rows.clone();
    if !rows.iter().any(|row| row.table == VERSIONS) {
        rows.insert(0, RegistryRow { table: VERSIONS.into(), endpoint: String::new(), columns: BTreeMap::new() });
    }
    for row in &rows {
        insert_row(tx, store, &schema, new, version, row).await?;
    }
    Ok(version)
}

async fn insert_row(
    tx: &mut Tx,
    store: &Inner,
    schema: &Schema,
    new: &NewVersion,
    version: i64,
    row: &RegistryRow,
) -> Result<(), DbError> {
    let columns = schema.get(&row.table).ok_or_else(|| unknown(&row.table))?;
    let mut cells: Vec<(&str, Value)> = vec![
        ("id", store.ids.next().into()),
        ("provenance_code", (&new.provenance).into()),
        ("endpoint_name", (&row.endpoint).into()),
        ("registry_version", version.into()),
        ("effective_from", new.effective_from.into()),
        ("effective_to", Value::Null),
        ("created_at", tx.now().into()),
    ];
    if row.table == VERSIONS {
        cells.push(("channel", (&new.channel).into()));
        cells.push(("definition", (&new.definition).into()));
        cells.push(("definition_hash", new.definition_hash.to_string().into()));
        cells.push(("actor", (&new.actor).into()));
        cells.push(("remark", (&new.remark).into()));
        let name = "provenance_name";
        if columns.iter().any(|column| column == name) && !row.columns.contains_key(name) {
            cells.push((name, (&new.provenance).into()));
        }
    }
    for (column, cell) in &row.columns {
        if !columns.contains(column) || cells.iter().any(|(known, _)| known == column) {
            return Err(unknown(&format!("{}.{column}", row.table)));
        }
        let value = match cell {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Int(*number),
            Cell::Text(text) => Value::Text(text.clone()),
        };
        cells.push((column, value));
    }
    let names: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let marks = vec!["?"; cells.len()];
    let text = format!("INSERT INTO {} ({}) VALUES ({})", row.table, names.join(", "), marks.join(", "));
    tx.execute_composed(&text, cells.into_iter().map(|(_, value)| value).collect()).await?;
    Ok(())
}

/// The `reg_*` tables that carry versions, with their columns.
async fn registry_tables(tx: &mut Tx) -> Result<Schema, DbError> {
    let schema = tx.schema().await?;
    let is_registry = |table: &str, columns: &[String]| {
        table.starts_with("reg_") && COMMON.iter().all(|common| columns.iter().any(|column| column == common))
    };
    let tables = schema.iter().filter(|(table, columns)| is_registry(table, columns));
    Ok(tables.map(|(table, columns)| (table.clone(), columns.clone())).collect())
}

fn unknown(name: &str) -> DbError {
    LedgerError::Missing { what: format!("registry column {name}") }.into()
}

async fn version_at(
    store: Arc<Inner>,
    provenance: Arc<str>,
    channel: Arc<str>,
    at: Timestamp,
) -> Result<Option<StoredVersion>, DbError> {
    let mut tx = store.db.read().await?;
    let result = version_at_in(&mut tx, &provenance, &channel, at).await;
    ended(tx, result).await
}

async fn version_at_in(
    tx: &mut Tx,
    provenance: &str,
    channel: &str,
    at: Timestamp,
) -> Result<Option<StoredVersion>, DbError> {
    for channel in [channel, STABLE] {
        let asked = params! { provenance: provenance, channel: channel, at: at };
        if let Some(row) = tx.row(VERSIONS, AT, asked).await? {
            return with_rows(tx, &row).await.map(Some);
        }
    }
    Ok(None)
}

async fn one(store: Arc<Inner>, provenance: Arc<str>, version: i64) -> Result<Option<StoredVersion>, DbError> {
    let mut tx = store.db.read().await?;
    let result = one_in(&mut tx, &provenance, version).await;
    ended(tx, result).await
}

async fn one_in(tx: &mut Tx, provenance: &str, version: i64) -> Result<Option<StoredVersion>, DbError> {
    match tx.row(VERSIONS, ONE, params! { provenance: provenance, version: version }).await? {
        Some(row) => with_rows(tx, &row).await.map(Some),
        None => Ok(None),
    }
}

async fn history(store: Arc<Inner>, provenance: Option<Arc<str>>) -> Result<Vec<StoredVersion>, DbError> {
    let mut tx = store.db.read().await?;
    let rows = match provenance {
        Some(provenance) => tx.rows(VERSIONS, HISTORY, params! { provenance: provenance }).await,
        None => tx.rows(VERSIONS, ALL, params! {}).await,
    };
    let rows = ended(tx, rows).await?;
    rows.iter().map(|row| Ok(stored(row)?)).collect()
}

fn stored(row: &Row) -> Result<StoredVersion, LedgerError> {
    Ok(StoredVersion {
        provenance: row.string("provenance_code")?,
        version: row.int("registry_version")?,
        channel: row.string("channel")?,
        effective_from: row.time("effective_from")?,
        effective_to: row.opt_time("effective_to")?,
        definition: row.string("definition")?,
        definition_hash: row.hash("definition_hash")?,
        actor: row.string("actor")?,
        remark: row.string("remark")?,
        created_at: row.time("created_at")?,
        rows: Vec::new(),
    })
}

async fn with_rows(tx: &mut Tx, row: &Row) -> Result<StoredVersion, DbError> {
    let mut version = stored(row)?;
    for table in registry_tables(tx).await?.into_keys() {
        let text = format!("SELECT * FROM {table} WHERE provenance_code = ? AND registry_version = ? ORDER BY id");
        let asked = vec![(&version.provenance).into(), version.version.into()];
        for row in tx.rows_composed("reg", &text, asked).await? {
            version.rows.push(registry_row(&table, &row)?);
        }
    }
    Ok(version)
}

fn registry_row(table: &str, row: &Row) -> Result<RegistryRow, LedgerError> {
    let ours =
        |name: &String| COMMON.contains(&name.as_str()) || (table == VERSIONS && OF_VERSION.contains(&name.as_str()));
    let mut columns = BTreeMap::new();
    for (name, value) in row.names.iter().zip(&row.values).filter(|(name, _)| !ours(name)) {
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Int(number) => Cell::Int(*number),
            Value::Text(text) => Cell::Text(text.clone()),
            _ => return Err(row.corrupt(name, "a registry cell is an integer or a text")),
        };
        columns.insert(name.clone(), cell);
    }
    Ok(RegistryRow { table: table.to_owned(), endpoint: row.string("endpoint_name")?, columns })
}

async fn seed(store: Arc<Inner>, rows: Arc<DictionaryRows>) -> Result<(), DbError> {
    let mut tx = store.db.write().await?;
    let result = seed_in(&mut tx, &store, &rows).await;
    ended(tx, result).await
}

async fn seed_in(tx: &mut Tx, store: &Inner, rows: &DictionaryRows) -> Result<(), DbError> {
    let schema = tx.schema().await?;
    let known = read_dictionary(tx).await?;
    for (code, name) in rows.types.iter().filter(|(code, _)| !known.types.iter().any(|(known, _)| known == code)) {
        insert_cells(tx, store, &schema, "sys_dict_type", vec![("type_code", code.into()), ("type_name", name.into())])
            .await?;
    }
    let has_item = |kind: &str, code: &str| known.items.iter().any(|(known, item, ..)| known == kind && item == code);
    for (kind, code, name, order) in rows.items.iter().filter(|(kind, code, ..)| !has_item(kind, code)) {
        let cells = vec![
            ("type_code", kind.into()),
            ("item_code", code.into()),
            ("item_name", name.into()),
            ("display_order", (*order).into()),
        ];
        insert_cells(tx, store, &schema, "sys_dict_item", cells).await?;
    }
    let has_alias =
        |kind: &str, alias: &str| known.aliases.iter().any(|(known, _, name)| known == kind && name == alias);
    for (kind, code, alias) in rows.aliases.iter().filter(|(kind, _, alias)| !has_alias(kind, alias)) {
        let cells = vec![("type_code", kind.into()), ("item_code", code.into()), ("alias", alias.into())];
        insert_cells(tx, store, &schema, "sys_dict_item_alias", cells).await?;
    }
    Ok(())
}

/// Adds `id` and `created_at` where the table has them.
async fn insert_cells(
    tx: &mut Tx,
    store: &Inner,
    schema: &Schema,
    table: &'static str,
    mut cells: Vec<(&'static str, Value)>,
) -> Result<(), DbError> {
    let columns = schema.get(table).ok_or_else(|| unknown(table))?;
    let has = |name: &str| columns.iter().any(|column| column == name);
    if has("id") {
        cells.push(("id", store.ids.next().into()));
    }
    if has("created_at") {
        cells.push(("created_at", tx.now().into()));
    }
    let names: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let marks = vec!["?"; cells.len()];
    let text = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), marks.join(", "));
    tx.execute_composed(&text, cells.into_iter().map(|(_, value)| value).collect()).await?;
    Ok(())
}

async fn dictionary(store: Arc<Inner>) -> Result<DictionaryRows, DbError> {
    let mut tx = store.db.read().await?;
    let result = read_dictionary(&mut tx).await;
    ended(tx, result).await
}

const TYPES: &str = "-- dictionary.types
    SELECT type_code, type_name FROM sys_dict_type ORDER BY type_code";
const ITEMS: &str = "-- dictionary.items
    SELECT type_code, item_code, item_name, display_order FROM sys_dict_item ORDER BY type_code, display_order, item_code";
const ALIASES: &str = "-- dictionary.aliases
    SELECT type_code, item_code, alias FROM sys_dict_item_alias ORDER BY type_code, item_code, alias";

async fn read_dictionary(tx: &mut Tx) -> Result<DictionaryRows, DbError> {
    let mut found = DictionaryRows::default();
    for row in tx.rows("sys_dict_type", TYPES, params! {}).await? {
        found.types.push((row.string("type_code")?, row.string("type_name")?));
    }
    for row in tx.rows("sys_dict_item", ITEMS, params! {}).await? {
        let (kind, code) = (row.string("type_code")?, row.string("item_code")?);
        found.items.push((kind, code, row.string("item_name")?, row.int("display_order")?));
    }
    for row in tx.rows("sys_dict_item_alias", ALIASES, params! {}).await? {
        found.aliases.push((row.string("type_code")?, row.string("item_code")?, row.string("alias")?));
    }
    Ok(found)
}
