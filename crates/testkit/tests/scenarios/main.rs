//! Every nasty situation of the sources, each met by the real engine on virtual time: it must have happened, the engine
//! must have reacted as the catalogue of situations says, and the checker must find nothing missing where it can be read.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod bench;
mod catalogue;
mod definitions;
mod expect;
mod rows;
mod watch;

use bench::run;
use rows::ROWS;

/// All rows whose id begins so; a row that fails says why, and the others are run too.
fn all_of(family: &str) {
    let rows: Vec<_> = ROWS.iter().filter(|row| row.id.starts_with(family)).collect();
    assert!(!rows.is_empty());
    let only = std::env::var("PATRA_SCENARIO").ok();
    let wanted = rows.into_iter().filter(|row| only.as_deref().is_none_or(|id| id == row.id));
    let red: Vec<String> = wanted.filter_map(|row| run(row).err().map(|why| format!("{}: {why}", row.id))).collect();
    assert!(red.is_empty(), "{} of {family} not as expected\n{}", red.len(), red.join("\n"));
}

#[test]
fn pubmed_situations_are_met_as_expected() {
    all_of("PM-");
}

#[test]
fn crossref_situations_are_met_as_expected() {
    all_of("CR-");
}

#[test]
fn datacite_situations_are_met_as_expected() {
    all_of("DC-");
}

#[test]
fn doaj_situations_are_met_as_expected() {
    all_of("DJ-");
}

#[test]
fn openfda_situations_are_met_as_expected() {
    all_of("FD-");
}

#[test]
fn pmc_situations_are_met_as_expected() {
    all_of("PO-");
}

#[test]
fn arxiv_situations_are_met_as_expected() {
    all_of("AO-");
}
