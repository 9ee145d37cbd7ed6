//! Every situation that rests on evidence has a row, and the catalogue expects of it what the facts about the sources
//! demand. Where the facts are at hand they are read; the list of ids is kept here for where they are not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use patra_sim::{Reaction, Scenario};

use super::rows::ROWS;

const FAMILIES: [&str; 7] = ["PM", "CR", "DC", "DJ", "FD", "PO", "AO"];

/// Ids of the seven families that rest on evidence.
const IDS: &str = "PM-1 PM-2 PM-3 PM-4 PM-5 PM-6 PM-7 PM-8 PM-9 PM-10 CR-1 CR-2 CR-3 CR-4 CR-5 CR-6 CR-7 CR-8 CR-9 \
                   DC-1 DC-2 DC-3 DC-4 DC-5 DC-6 DC-7 DC-8 DJ-1 DJ-2 DJ-3 DJ-4 DJ-5 DJ-6 DJ-10 FD-1 FD-2 FD-3 FD-5 \
                   FD-6 PO-1 PO-2 PO-3 PO-4 PO-5 PO-9 PO-10 AO-1 AO-2 AO-3 AO-5 AO-6 AO-7 AO-8 AO-10";

/// `PM-4` of `PM-4a`.
fn base(id: &str) -> &str {
    id.trim_end_matches(|letter: char| letter.is_ascii_lowercase())
}

fn is_ours(id: &str) -> bool {
    let Some((family, number)) = base(id).split_once('-') else { return false };
    FAMILIES.contains(&family) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The facts about the sources, where this project lies beside them.
fn facts() -> Option<String> {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sources.md");
    let text = std::fs::read_to_string(place).ok();
    if text.is_none() {
        eprintln!("skipped: ../shared/sources.md is not here");
    }
    text
}

#[test]
fn every_situation_with_evidence_has_a_row() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| base(row.id)).collect();
    let wanted: BTreeSet<&str> = IDS.split_whitespace().collect();
    assert_eq!(rows, wanted);
    let ids: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), ROWS.len(), "an id has two rows");
}

#[test]
fn the_list_of_ids_is_that_of_the_facts() {
    let Some(text) = facts() else { return };
    let mut found = BTreeSet::new();
    let mut parts = text.split("**").skip(1);
    while let (Some(bold), Some(after)) = (parts.next(), parts.next()) {
        if is_ours(bold) && !after.starts_with('°') {
            found.insert(bold);
        }
    }
    assert_eq!(found, IDS.split_whitespace().collect::<BTreeSet<&str>>());
}

#[test]
fn the_catalogue_expects_what_the_facts_demand() {
    let Some(text) = facts() else { return };
    let table = text.split("## 5.").nth(1).unwrap().split("## 6.").next().unwrap();
    let mut checked = 0;
    for line in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Reaction")) {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let (name, list) = (cells.next().unwrap(), cells.next().unwrap());
        let ids =
            list.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')).filter(|id| is_ours(id));
        for id in ids.filter(|id| IDS.split_whitespace().any(|known| known == base(id))) {
            let reactions = reactions_of(id);
            assert!(reactions.contains(word_of(name)), "{id}: {name}, the catalogue says {reactions:?}");
            checked += 1;
        }
    }
    assert!(checked >= IDS.split_whitespace().count() - 1, "{checked} lines of the facts were understood");
}

/// Reactions of a situation or of its parts; a smaller page is a retry too.
fn reactions_of(id: &str) -> BTreeSet<&'static str> {
    let parts = ROWS.iter().filter(|row| row.id == id || base(row.id) == id);
    let mut found: BTreeSet<&str> = parts.map(|row| Scenario::by_id(row.id).unwrap().reaction.name()).collect();
    if found.contains(Reaction::RetrySmaller.name()) {
        found.insert(Reaction::Retry.name());
    }
    found
}

/// Our word for a reaction of the facts.
fn word_of(name: &str) -> &'static str {
    let words: BTreeMap<&str, Reaction> = BTreeMap::from([
        ("retry", Reaction::Retry),
        ("zero hits", Reaction::Empty),
        ("normal end", Reaction::End),
        ("restart", Reaction::Restart),
        ("park", Reaction::Park),
        ("permanent", Reaction::Permanent),
        ("split", Reaction::Split),
        ("loop guard", Reaction::LoopGuard),
        ("healed", Reaction::Overlap),
        ("missing-id", Reaction::MissingId),
        ("follow", Reaction::Follow),
        ("parser", Reaction::Cope),
    ]);
    let found = words.iter().find(|(begin, _)| name.starts_with(**begin));
    found.unwrap_or_else(|| panic!("`{name}` is a reaction nobody knows")).1.name()
}
