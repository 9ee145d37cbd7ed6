//! The simulated providers, one file each. Each writes its records in the source's own shape and imitates its paging, caps,
//! errors and limits.

pub mod crossref;
mod crossref_json;
pub mod datacite;
pub mod doaj;
pub mod oai;
mod oai_list;
mod oai_token;
mod oai_xml;
pub mod openfda;
pub mod pubmed;
mod pubmed_search;
mod pubmed_xml;
pub mod timefeed;

use crate::provider::Provider;
use crate::source::Source;
use crate::truth::{Face, Truth};

/// The provider that serves a truth.
pub fn provider_for(truth: Truth) -> Box<dyn Provider> {
    match truth.source {
        Source::Crossref => Box::new(crossref::Crossref::new(truth)),
        Source::PubMed => Box::new(pubmed::PubMed::new(truth)),
        Source::OaiPmh => Box::new(oai::OaiPmh::new(truth)),
        Source::Doaj => Box::new(doaj::Doaj::new(truth)),
        Source::DataCite => Box::new(datacite::DataCite::new(truth)),
        Source::OpenFda => Box::new(openfda::OpenFda::new(truth)),
        Source::TimeFeed => Box::new(timefeed::TimeFeed::new(truth)),
    }
}

/// One version in the exact bytes of its source.
pub(crate) fn render(source: Source, seed: u64, face: &Face<'_>) -> Vec<u8> {
    let text = match source {
        Source::Crossref => crossref_json::render(seed, face),
        Source::PubMed => pubmed_xml::render(seed, face),
        Source::OaiPmh => oai_xml::render(seed, face),
        Source::Doaj => doaj::render(seed, face),
        Source::DataCite => datacite::render(seed, face),
        Source::OpenFda => openfda::render(seed, face),
        Source::TimeFeed => timefeed::render(seed, face),
    };
    text.into_bytes()
}
