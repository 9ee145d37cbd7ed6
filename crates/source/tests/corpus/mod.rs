//! Hostile inputs and what must become of each: at least 400 cases, built from tables, the same at every run.
//!
//! With `CORPUS_TRACE` set and `--nocapture`, each case is named before it runs: the last name is the one that ended
//! the process. No case may panic, overflow the stack or change an id without a word. Cases that take long are printed; the
//! fuzzer (`fuzz/`) runs the same cases in a process of its own, where time and memory are limited.

mod dates;
mod definitions;
mod json;
mod next_urls;
mod packed;
mod paths;
mod poison;
mod retry_after;
pub mod targets;
mod templates;
mod xml;

#[cfg(test)]
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use patra_core::page::BadReason;

use targets::{Target, Verdict, run};

/// Cases that take longer are printed.
pub const SLOW: Duration = Duration::from_secs(1);

/// One input and its expected end.
pub struct Case {
    pub family: &'static str,
    pub name: String,
    pub target: Target,
    pub input: Vec<u8>,
    pub want: Want,
}

/// What must become of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    Refused,
    /// Refused with a text that holds this.
    RefusedWith(&'static str),
    /// Exactly these records, and so many set aside, for these reasons.
    Page(Vec<String>, Vec<BadReason>),
    /// So many records, so many set aside.
    Counts(usize, usize),
    /// Accepted with this value.
    Value(String),
    /// Accepted without a value.
    Nothing,
    Accepted,
}

/// A page of exactly these ids.
pub fn ids(ids: &[&str]) -> Want {
    Want::Page(ids.iter().map(|id| (*id).to_owned()).collect(), Vec::new())
}

pub fn is(value: &str) -> Want {
    Want::Value(value.to_owned())
}

/// Collects the cases of one family.
pub struct Family {
    name: &'static str,
    cases: Vec<Case>,
}

impl Family {
    fn new(name: &'static str) -> Family {
        Family { name, cases: Vec::new() }
    }

    pub fn add(&mut self, target: Target, name: impl Into<String>, input: impl Into<Vec<u8>>, want: Want) {
        self.cases.push(Case { family: self.name, name: name.into(), target, input: input.into(), want });
    }
}

type Build = fn(&mut Family);

/// The families and what builds them.
pub const FAMILIES: [(&str, Build); 12] = [
    ("json", json::build),
    ("json-cut", json::build_cuts),
    ("json-poison", poison::build_json),
    ("xml", xml::build),
    ("xml-poison", poison::build_xml),
    ("templates", templates::build),
    ("next-urls", next_urls::build),
    ("retry-after", retry_after::build),
    ("dates", dates::build),
    ("definitions", definitions::build),
    ("packed", packed::build),
    ("paths", paths::build),
];

pub fn cases_of(name: &'static str, build: Build) -> Vec<Case> {
    let mut family = Family::new(name);
    build(&mut family);
    family.cases
}

impl Want {
    pub fn holds(&self, verdict: &Verdict) -> bool {
        match (self, verdict) {
            (Want::Refused, Verdict::Refused(_)) => true,
            (Want::RefusedWith(part), Verdict::Refused(text)) => text.contains(part),
            (Want::Page(ids, reasons), Verdict::Page { ids: found, bad, .. }) => ids == found && reasons == bad,
            (Want::Counts(items, bads), Verdict::Page { ids, bad, .. }) => (*items, *bads) == (ids.len(), bad.len()),
            (Want::Value(value), Verdict::Value(Some(found))) => value == found,
            (Want::Nothing, Verdict::Value(None)) => true,
            (Want::Accepted, Verdict::Page { .. } | Verdict::Value(_)) => true,
            _ => false,
        }
    }
}

/// Runs one case; `Err` says how it ended otherwise.
pub fn judge(case: &Case) -> (Duration, Result<(), String>) {
    let started = Instant::now();
    let verdict = std::panic::catch_unwind(|| run(case.target, &case.input));
    let took = started.elapsed();
    let failed = |ended: String| {
        let head: String = String::from_utf8_lossy(&case.input).chars().take(120).collect();
        format!("{}/{}: want {:?}, but {ended}\n    input: {head:?}", case.family, case.name, case.want)
    };
    let result = match verdict {
        Err(_) => Err(failed("it panicked".to_owned())),
        Ok(verdict) if case.want.holds(&verdict) => Ok(()),
        Ok(verdict) => Err(failed(format!("{verdict:?}").chars().take(400).collect())),
    };
    (took, result)
}

#[cfg(test)]
fn check(name: &'static str, least: usize) {
    let build = FAMILIES.iter().find(|(family, _)| *family == name).expect("the family is listed").1;
    let cases = cases_of(name, build);
    let mut failures = String::new();
    let traced = std::env::var_os("CORPUS_TRACE").is_some();
    for case in &cases {
        if traced {
            println!("{}/{}", case.family, case.name);
        }
        let (took, result) = judge(case);
        if took > SLOW {
            println!("slow: {}/{} took {took:?}", case.family, case.name);
        }
        if let Err(failure) = result {
            let _ = writeln!(failures, "{failure}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(cases.len() >= least, "{name} has only {} cases", cases.len());
    let mut seen = std::collections::BTreeSet::new();
    for case in &cases {
        assert!(seen.insert((case.target, &case.input)), "{name} has the input of `{}` twice", case.name);
    }
}

#[test]
fn hostile_json_ends_as_stated_s15() {
    check("json", 60);
}

#[test]
fn json_cut_anywhere_is_no_page_inv30() {
    check("json-cut", 40);
}

#[test]
fn sixty_kinds_of_poison_at_three_places_cost_one_json_record_inv17() {
    check("json-poison", 180);
}

#[test]
fn hostile_xml_ends_as_stated_s14() {
    check("xml", 60);
}

#[test]
fn poison_at_three_places_costs_one_xml_record_inv17() {
    check("xml-poison", 60);
}

#[test]
fn hostile_templates_end_as_stated_s10() {
    check("templates", 40);
}

#[test]
fn hostile_next_urls_stay_on_the_origin_s1() {
    check("next-urls", 50);
}

#[test]
fn retry_after_is_read_or_ignored() {
    check("retry-after", 40);
}

#[test]
fn dates_are_read_or_set_aside() {
    check("dates", 60);
}

#[test]
fn hostile_definitions_are_refused_s18() {
    check("definitions", 40);
}

#[test]
fn hostile_compression_ends_at_the_limit_s12() {
    check("packed", 200);
}

#[test]
fn hostile_paths_are_bounded_s16() {
    check("paths", 40);
}

#[test]
fn the_corpus_has_at_least_four_hundred_cases() {
    let count: usize = FAMILIES.iter().map(|(name, build)| cases_of(name, *build).len()).sum();
    println!("{count} cases");
    assert!(count >= 400, "{count}");
}
