//! The registry as stored: versions of source definitions as rows of the `reg_*` tables.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::hash::Hash32;
use crate::ports::LedgerError;
use crate::time::Timestamp;

/// One row of a `reg_*` table. The store adds `id`, `provenance_code`, `endpoint_name`, `registry_version`,
/// `effective_from`, `effective_to` and `created_at`; `columns` holds the rest, JSON values as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegistryRow {
    pub table: String,
    /// Empty for a row of the whole source.
    pub endpoint: String,
    pub columns: BTreeMap<String, Cell>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
}

/// A definition to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVersion {
    pub provenance: String,
    pub channel: String,
    pub effective_from: Timestamp,
    /// The YAML as written, for export and for naming lines.
    pub definition: String,
    pub definition_hash: Hash32,
    pub actor: String,
    pub remark: String,
    pub rows: Vec<RegistryRow>,
}

/// A version as read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredVersion {
    pub provenance: String,
    pub version: i64,
    pub channel: String,
    pub effective_from: Timestamp,
    /// `None` while it is in force.
    pub effective_to: Option<Timestamp>,
    pub definition: String,
    pub definition_hash: Hash32,
    pub actor: String,
    pub remark: String,
    pub created_at: Timestamp,
    /// Empty in listings.
    pub rows: Vec<RegistryRow>,
}

/// Every code that may stand in a `*_code` column, with its aliases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DictionaryRows {
    /// (type code, name)
    pub types: Vec<(String, String)>,
    /// (type code, item code, name, order)
    pub items: Vec<(String, String, String, i64)>,
    /// (type code, item code, alias)
    pub aliases: Vec<(String, String, String)>,
}

#[async_trait]
pub trait Registry: Send + Sync {
    /// Adds a version and ends the one it follows on its channel at `effective_from`, all rows in one commit.
    /// A definition equal to the version in force adds nothing and returns that version.
    async fn publish_version(&self, version: NewVersion) -> Result<i64, LedgerError>;

    /// The version of `channel` in force at `at`, else that of `stable`, with its rows.
    async fn version_at(
        &self,
        provenance: &str,
        channel: &str,
        at: Timestamp,
    ) -> Result<Option<StoredVersion>, LedgerError>;

    /// One version with its rows.
    async fn version(&self, provenance: &str, version: i64) -> Result<Option<StoredVersion>, LedgerError>;

    /// All versions of a source, newest first, without rows; of all sources when `provenance` is `None`.
    async fn versions(&self, provenance: Option<&str>) -> Result<Vec<StoredVersion>, LedgerError>;

    /// Adds what is missing of the dictionaries; changes nothing that is there.
    async fn seed_dictionary(&self, rows: &DictionaryRows) -> Result<(), LedgerError>;

    async fn dictionary(&self) -> Result<DictionaryRows, LedgerError>;
}
