//! Several credentials of one source: who is asked with which, and when the source has to wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use patra_core::page::PageAsk;
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{AuthSpec, QuotaSpec, RateKeyPart, SpecSnapshot};
use patra_core::time::{Span, Timestamp};

use crate::bench::{Bench, numbers, spec};
use crate::shelf::Shelf;

const RECORDS: u32 = 96;

/// Requests of each key, with the times they were made at.
type Asked = Arc<Mutex<BTreeMap<String, Vec<Timestamp>>>>;

fn key(name: &str) -> AuthSpec {
    AuthSpec::Bearer { credential: name.into(), secret: "env:UNUSED".into() }
}

fn pooled(change: impl FnOnce(&mut SpecSnapshot)) -> SpecSnapshot {
    spec(|spec| {
        (spec.auth, spec.spare_auth) = (key("one"), vec![key("two")]);
        spec.rate.key = vec![RateKeyPart::Source, RateKeyPart::Credential];
        change(spec);
    })
}

/// A source that refuses keys after it has answered each of them so often.
fn shelf(bench: &Bench, refused: &'static [&'static str], patience: usize, status: u16) -> (Shelf, Asked) {
    let asked = Asked::default();
    let (seen, clock) = (asked.clone(), bench.clock());
    let shelf = bench.shelf(RECORDS, Span::MINUTE.times(10)).twisted(move |ask: &PageAsk, page| {
        let name = ask.spec.auth.credential().unwrap_or("nobody").to_owned();
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(name.clone()).or_default();
        times.push(clock.now());
        let refusal = FetchError::Status { status, message: "this key is not welcome".into(), retry_after: None };
        if refused.contains(&&*name) && times.len() > patience { Err(refusal) } else { Ok(page) }
    });
    (shelf, asked)
}

fn counts(asked: &Asked) -> BTreeMap<String, usize> {
    asked.lock().unwrap().iter().map(|(name, times)| (name.clone(), times.len())).collect()
}

#[test]
fn keys_take_turns_where_nothing_is_known_of_what_they_have_left() {
    let bench = Bench::open();
    let (shelf, asked) = shelf(&bench, &[], 0, 401);
    bench.harvest(&pooled(|_| {}), 24, Arc::new(shelf));
    assert_eq!(bench.record_ids(), numbers(RECORDS));
    let counts = counts(&asked);
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert!(counts["one"].abs_diff(counts["two"]) <= 1, "{counts:?}");
}

#[test]
fn a_refused_key_is_left_out_and_the_other_ends_the_work() {
    for status in [401, 403] {
        let bench = Bench::open();
        let (shelf, asked) = shelf(&bench, &["one"], 2, status);
        bench.harvest(&pooled(|_| {}), 24, Arc::new(shelf));
        assert_eq!((bench.record_ids(), bench.states()), (numbers(RECORDS), vec!["SUCCEEDED".to_owned()]), "{status}");
        let counts = counts(&asked);
        assert_eq!(counts["one"], 3, "asked once more than it was answered: {counts:?}");
        assert!(counts["two"] > 20, "{counts:?}");
    }
}

#[test]
fn where_every_key_is_refused_the_source_refuses_us() {
    let bench = Bench::open();
    let (shelf, asked) = shelf(&bench, &["one", "two"], 0, 401);
    bench.plan(&pooled(|_| {}), 24).unwrap().unwrap();
    bench.work(Arc::new(shelf));
    assert!(bench.record_ids().is_empty());
    assert_eq!(counts(&asked), BTreeMap::from([("one".to_owned(), 1), ("two".to_owned(), 1)]));
}

#[test]
fn an_empty_key_gives_way_and_the_source_waits_only_when_both_are_empty() {
    let bench = Bench::open();
    let quota = QuotaSpec { per_hour: Some(10), reserve: 0.0, soft: 0.0, ..QuotaSpec::default() };
    let (shelf, asked) = shelf(&bench, &[], 0, 401);
    bench.harvest(&pooled(|spec| spec.rate.quota = Some(quota)), 24, Arc::new(shelf));
    assert_eq!((bench.record_ids(), bench.states()), (numbers(RECORDS), vec!["SUCCEEDED".to_owned()]));
    let asked = asked.lock().unwrap();
    let first_hour =
        |times: &Vec<Timestamp>| times.iter().filter(|at| at.since(times[0]) < Span::MINUTE.times(30)).count();
    assert_eq!(asked.values().map(first_hour).collect::<Vec<_>>(), [10, 10], "all of both in the first hour");
    assert!(asked.values().flatten().count() > 20, "and the rest in the next");
}
