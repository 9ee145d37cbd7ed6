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
    entry!("crossref"),
    entry!("datacite"),
    entry!("doaj"),
    entry!("oai-pmh"),
    entry!("openfda"),
    entry!("pubmed"),
    entry!("timefeed"),
];
