//! Literature-like content, made again on demand from (seed, id, content version): the same three always give the same work.
//! Journal, authors and dates belong to the record; title and abstract change with the version.

use crate::rng::{Rng, hash_text};

const WORDS: [&str; 64] = [
    "adaptive",
    "analysis",
    "antigen",
    "archive",
    "assay",
    "atlas",
    "binding",
    "biomarker",
    "boundary",
    "calibration",
    "catalyst",
    "cell",
    "climate",
    "cohort",
    "coverage",
    "crystal",
    "deposition",
    "diffusion",
    "drift",
    "ecology",
    "enzyme",
    "estimate",
    "evidence",
    "expression",
    "field",
    "fluid",
    "gradient",
    "growth",
    "harvest",
    "inference",
    "kinetics",
    "lattice",
    "ligand",
    "longitudinal",
    "marker",
    "membrane",
    "meta-analysis",
    "method",
    "microbiome",
    "model",
    "mutation",
    "network",
    "neuron",
    "outcome",
    "pathway",
    "phase",
    "plasma",
    "population",
    "protein",
    "randomized",
    "receptor",
    "regression",
    "response",
    "risk",
    "sediment",
    "sequence",
    "signal",
    "spectrum",
    "survey",
    "synthesis",
    "tissue",
    "transport",
    "variance",
    "yield",
];
const FAMILIES: [&str; 16] = [
    "Okafor",
    "Lindqvist",
    "O'Brien",
    "Müller",
    "García-López",
    "Nakamura",
    "Ivanova",
    "Haddad",
    "Nguyễn",
    "Smith",
    "Łukaszewicz",
    "van der Berg",
    "Şahin",
    "Mbeki",
    "Zhao",
    "Petrović",
];
const GIVEN: [&str; 12] =
    ["Amara", "Björn", "Chloé", "Dmitri", "Elif", "Farid", "Grace", "Hiro", "Inês", "Jakub", "Kwame", "Li"];
const JOURNALS: [&str; 8] = [
    "Annals of Simulated Medicine",
    "Journal of Repeatable Results",
    "Acta Synthetica",
    "Physics & Chemistry Letters",
    "Synthetic Ecology",
    "Revista de Métodos Abiertos",
    "Open Harvest Research",
    "Proceedings in Applied <i>Silico</i> Biology",
];

/// One piece of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TitlePart {
    Text(String),
    Italic(String),
    Super(String),
}

/// One author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub given: String,
    pub family: String,
}

/// A work before it is written in a source's own shape.
#[derive(Debug, Clone)]
pub struct Work {
    pub title: Vec<TitlePart>,
    pub authors: Vec<Author>,
    pub journal: String,
    pub publisher: String,
    pub issn: String,
    pub volume: u64,
    pub issue: u64,
    pub first_page: u64,
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub summary: String,
    pub keywords: Vec<String>,
    pub cited_count: u64,
}

impl Work {
    /// Makes the work of a record in a content version.
    pub fn make(seed: u64, id: &str, content: u32) -> Work {
        let name = hash_text(id);
        let mut own = Rng::for_parts(seed, &[name]);
        let mut of_version = Rng::for_parts(seed, &[name, u64::from(content)]);
        let authors = (0..own.between(1, 7))
            .map(|_| Author { given: (*own.pick(&GIVEN)).to_owned(), family: (*own.pick(&FAMILIES)).to_owned() })
            .collect();
        Work {
            title: title(&mut of_version),
            authors,
            journal: (*own.pick(&JOURNALS)).to_owned(),
            publisher: format!("{} Press", own.pick(&FAMILIES)),
            issn: format!("{:04}-{:04}", own.below(10_000), own.below(10_000)),
            volume: own.below(90) + 1,
            issue: own.below(12) + 1,
            first_page: own.below(2_000) + 1,
            year: 1990 + own.below(36),
            month: own.below(12) + 1,
            day: own.below(28) + 1,
            summary: summary(&mut of_version, content),
            keywords: (0..own.between(2, 6)).map(|_| (*own.pick(&WORDS)).to_owned()).collect(),
            cited_count: of_version.below(400),
        }
    }

    /// The title without markup.
    pub fn plain_title(&self) -> String {
        self.title
            .iter()
            .map(|part| match part {
                TitlePart::Text(text) | TitlePart::Italic(text) | TitlePart::Super(text) => text.as_str(),
            })
            .collect()
    }
}

fn title(rng: &mut Rng) -> Vec<TitlePart> {
    let mut words: Vec<&str> = (0..rng.between(5, 12)).map(|_| *rng.pick(&WORDS)).collect();
    let tail = words.split_off(words.len() / 2).join(" ");
    let head = capital(&words.join(" "));
    match rng.below(6) {
        0 => vec![
            TitlePart::Text(format!("{head} in ")),
            TitlePart::Italic("Escherichia coli".to_owned()),
            TitlePart::Text(format!(": {tail}.")),
        ],
        1 => vec![
            TitlePart::Text(format!("{head} of Ca")),
            TitlePart::Super("2+".to_owned()),
            TitlePart::Text(format!(" & {tail} at p < 0.05.")),
        ],
        2 => vec![TitlePart::Text(format!("{head}: the \u{3b2}-{tail} \"question\"."))],
        _ => vec![TitlePart::Text(format!("{head} and {tail}."))],
    }
}

fn summary(rng: &mut Rng, content: u32) -> String {
    let mut text = String::new();
    for _ in 0..rng.between(5, 14) {
        let words: Vec<&str> = (0..rng.between(8, 18)).map(|_| *rng.pick(&WORDS)).collect();
        text.push_str(&capital(&words.join(" ")));
        let ending: &&str = rng.pick(&[". ", ". ", " (n = 42; p < 0.01). ", " at 37 °C & \"rest\". "]);
        text.push_str(ending);
    }
    text.push_str(&format!("Version {content} of this record."));
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A text as a JSON string, quotes included.
pub fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Texts as a JSON array.
pub fn json_list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A text for XML content and attribute values.
pub fn xml_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_repeatable_and_changes_with_the_version() {
        let (first, again, next) = (Work::make(1, "a", 1), Work::make(1, "a", 1), Work::make(1, "a", 2));
        assert_eq!((&first.summary, &first.title), (&again.summary, &again.title));
        assert_ne!(first.summary, next.summary);
        assert_eq!(first.authors, next.authors);
        assert!(next.summary.ends_with("Version 2 of this record."));
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(json_text("a\"b\n"), "\"a\\\"b\\n\"");
        assert_eq!(xml_text("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
    }
}
