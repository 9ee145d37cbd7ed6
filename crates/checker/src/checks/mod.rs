//! One module per law. Each looks at rows only, changes nothing and adds what it finds to the verdict.

pub mod accounts;
pub mod chain;
pub mod complete;
pub mod events;
pub mod exact_store;
pub mod fencing;
pub mod ledger;
pub mod progress;
pub mod rate;
pub mod secrets;
pub mod tiling;
pub mod watermark;

use crate::input::SourceRules;

/// The source a row belongs to; its provenance when no rules name it.
pub fn source_of<'a>(rules: &'a [SourceRules], provenance: &'a str) -> &'a str {
    rules.iter().find(|rules| rules.provenance_code == provenance).map_or(provenance, |rules| rules.source.as_str())
}
