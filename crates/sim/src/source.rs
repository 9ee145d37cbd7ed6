//! The simulated sources: their names, where they live on the shared port, and what sets their records apart.

/// One simulated source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Crossref,
    PubMed,
    #[serde(rename = "oai-pmh")]
    OaiPmh,
    Doaj,
    DataCite,
    OpenFda,
    TimeFeed,
}

/// The order in which a source lists records that carry the same updated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdOrder {
    /// By the bytes of the identifier.
    Bytes,
    /// By the identifier as a number.
    Number,
    /// By creation time, then by the bytes of the identifier.
    Created,
}

impl Source {
    /// Every source, in a fixed order.
    pub const ALL: [Source; 7] = [
        Source::Crossref,
        Source::PubMed,
        Source::OaiPmh,
        Source::Doaj,
        Source::DataCite,
        Source::OpenFda,
        Source::TimeFeed,
    ];

    /// The name used in paths, logs and truth rows.
    pub fn name(self) -> &'static str {
        match self {
            Source::Crossref => "crossref",
            Source::PubMed => "pubmed",
            Source::OaiPmh => "oai-pmh",
            Source::Doaj => "doaj",
            Source::DataCite => "datacite",
            Source::OpenFda => "openfda",
            Source::TimeFeed => "timefeed",
        }
    }

    /// The source with this name.
    pub fn by_name(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The source whose first path segment this is.
    pub fn of_path(path: &str) -> Option<Source> {
        Source::by_name(path.trim_start_matches('/').split('/').next()?)
    }

    /// True when a deleted record is still listed, as a tombstone.
    pub fn lists_deleted(self) -> bool {
        matches!(self, Source::OaiPmh)
    }

    /// True when the source never takes a record away.
    pub fn never_deletes(self) -> bool {
        matches!(self, Source::Crossref)
    }

    /// True when records are found in a search and read in a second request.
    pub fn has_detail(self) -> bool {
        matches!(self, Source::PubMed)
    }

    /// True when the provider keeps the reader's position, so that a lost answer is a lost page.
    pub fn keeps_position(self) -> bool {
        matches!(self, Source::Crossref)
    }

    /// The zone in which the source counts days.
    pub fn zone(self) -> &'static str {
        if matches!(self, Source::PubMed) { "America/New_York" } else { "UTC" }
    }

    /// True when its windows are whole days.
    pub fn counts_days(self) -> bool {
        matches!(self, Source::PubMed | Source::OpenFda)
    }

    /// The finest step of its stamps, in microseconds.
    pub fn grain_us(self) -> i64 {
        if matches!(self, Source::TimeFeed) { 1 } else { 1_000_000 }
    }

    pub(crate) fn id_order(self) -> IdOrder {
        match self {
            Source::PubMed => IdOrder::Number,
            Source::DataCite => IdOrder::Created,
            _ => IdOrder::Bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_by_its_name_and_found_by_its_path() {
        for source in Source::ALL {
            assert_eq!(serde_json::to_value(source).unwrap(), source.name());
            assert_eq!(Source::of_path(&format!("/{}/x", source.name())), Some(source));
        }
        assert_eq!(Source::of_path("/"), None);
    }
}
