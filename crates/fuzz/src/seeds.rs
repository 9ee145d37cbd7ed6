//! What mutation begins with: the small cases of the corpus, and the words of each format.

use std::collections::HashMap;

use crate::checks::name_of;
use crate::corpus::{FAMILIES, cases_of};

/// Larger cases of the corpus are run as they are, not mutated.
const SEED_BYTES_MAX: usize = 4096;

/// The queries whose writing is kept as snapshots.
const QUERIES: &str = include_str!("../../core/src/query/tests/expressions.txt");

const WORDS: &str = include_str!("../words.json");

pub fn inputs(name: &str) -> Vec<Vec<u8>> {
    if name == "query" {
        return QUERIES.lines().map(|line| line.as_bytes().to_vec()).collect();
    }
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (family, build) in FAMILIES {
        // Building a family is slow where its cases are large; only those of the target are built.
        if family_targets(family).contains(&name) {
            let cases = cases_of(family, build);
            let small =
                cases.into_iter().filter(|case| name_of(case.target) == name && case.input.len() <= SEED_BYTES_MAX);
            seeds.extend(small.map(|case| case.input));
        }
    }
    seeds.sort();
    seeds.dedup();
    seeds
}

fn family_targets(family: &str) -> &'static [&'static str] {
    match family {
        "json" | "json-cut" | "json-poison" => &["json"],
        "xml" | "xml-poison" => &["xml"],
        "templates" => &["template"],
        "next-urls" => &["next-url"],
        "retry-after" => &["retry-after"],
        "dates" => &["date"],
        "definitions" => &["definition"],
        "packed" => &["unpack"],
        "paths" => &["json-path", "xml-path"],
        _ => &[],
    }
}

/// Words of the format, by target.
pub fn words(name: &str) -> Vec<String> {
    let mut all: HashMap<String, Vec<String>> = serde_json::from_str(WORDS).unwrap_or_default();
    all.remove(name).unwrap_or_default()
}
