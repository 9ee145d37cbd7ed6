//! The built-in catalogue: definitions that come with the program.

/// A definition file as shipped.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub source: &'static str,
    pub file: &'static str,
    pub text: &'static str,
}

macro_rules! entry {
    ($source:literal) => {
        Entry {
            source: $source,
            file: concat!("sources/", $source, ".yaml"),
            text: include_str!(concat!("../../../../sources/", $source, ".yaml")),
        }
    };
}

pub const ALL: &[Entry] = &[
    entry!("arxiv-api"),
    entry!("arxiv-oai"),
    entry!("biorxiv"),
    entry!("clinicaltrials"),
    entry!("core"),
    entry!("crossref"),
    entry!("datacite"),
    entry!("doaj"),
    entry!("doaj-oai"),
    entry!("europepmc"),
    entry!("medrxiv"),
    entry!("nih-reporter"),
    entry!("oai-pmh"),
    entry!("openalex"),
    entry!("openfda"),
    entry!("orcid"),
    entry!("pmc-oai"),
    entry!("pubmed"),
    entry!("ror"),
    entry!("semanticscholar"),
    entry!("timefeed"),
    entry!("unpaywall"),
    entry!("zenodo-oai"),
];
