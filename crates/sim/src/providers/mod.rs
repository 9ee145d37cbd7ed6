//! The simulated providers, one file each. Each writes its records in the source's own shape and imitates its paging, caps,
//! errors and limits.

pub mod crossref;

use crate::provider::Provider;
use crate::source::Source;
use crate::truth::{Face, Truth};

/// The provider that serves a truth.
pub fn provider_for(truth: Truth) -> Box<dyn Provider> {
    match truth.source {
        Source::Crossref => Box::new(crossref::Crossref::new(truth)),
        _ => Box::new(crossref::Crossref::new(truth)),
    }
}

/// One version in the exact bytes of its source.
pub(crate) fn render(source: Source, seed: u64, face: &Face<'_>) -> Vec<u8> {
    let text = match source {
        Source::Crossref => crossref::render(seed, face),
        _ => crossref::render(seed, face),
    };
    text.into_bytes()
}
