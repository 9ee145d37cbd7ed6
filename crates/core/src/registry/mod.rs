//! Source definitions: from YAML to registry rows, and from rows to a compiled spec.
//!
//! A definition is read by [`decode()`], which finds all mistakes at once; [`to_rows`] turns it into rows
//! of the thirteen `reg_*` tables and [`from_rows`] gives exactly it back. The compiler in
//! [`spec`](crate::spec) works on what the database returns, never on the text.

pub mod catalogue;
pub mod cells;
pub mod decode;
pub mod definition;
pub mod diagnostic;
pub mod dictionary;
pub(crate) mod endpoint_keys;
pub mod grammar;
pub mod rows;
pub(crate) mod scalars;
pub mod schema;
pub(crate) mod source_keys;
pub mod yaml;

pub use decode::decode;
pub use definition::{Definition, Map, Places, Value};
pub use diagnostic::{At, Diagnostic, Severity};
pub use dictionary::{dictionary, dictionary_rows};
pub use rows::{from_rows, to_rows};
pub use schema::definition_schema;

use crate::hash::Hash32;
use crate::ports::NewVersion;
use crate::time::Timestamp;

/// A definition and its text as the version to be published; the text alone decides whether it is a new one.
pub fn new_version(
    definition: &Definition,
    text: &str,
    channel: &str,
    effective_from: Timestamp,
    actor: &str,
    remark: &str,
) -> NewVersion {
    NewVersion {
        provenance: definition.source().to_owned(),
        channel: channel.to_owned(),
        effective_from,
        definition: text.to_owned(),
        definition_hash: Hash32::of(text.as_bytes()),
        actor: actor.to_owned(),
        remark: remark.to_owned(),
        rows: to_rows(definition),
    }
}

#[cfg(test)]
mod mistakes;
