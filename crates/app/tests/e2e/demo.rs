//! `patra demo`.

use crate::support::Desk;

const KEYS: [&str; 14] = [
    "expected",
    "extra",
    "missing",
    "outbox_duplicates",
    "pages",
    "quarantined",
    "requests",
    "retries",
    "source",
    "splits",
    "stored",
    "throttled",
    "watermark",
    "watermark_truth",
];

#[test]
fn a_small_demo_finds_nothing_missing_and_answers_in_the_promised_shape() {
    let desk = Desk::new();
    let answer = desk.json(&["demo", "--records", "70", "--seed", "3"]);
    let mut top: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    top.sort_unstable();
    assert_eq!(top, ["elapsed_ms", "ok", "seed", "sources"]);
    assert_eq!((&answer["ok"], &answer["seed"]), (&true.into(), &3.into()));
    let sources = answer["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 7);
    for source in sources {
        let mut keys: Vec<&str> = source.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, KEYS);
        assert_eq!(
            (&source["missing"], &source["extra"], &source["outbox_duplicates"]),
            (&0.into(), &0.into(), &0.into())
        );
        assert_eq!(source["watermark"], source["watermark_truth"], "{source}");
    }
}

#[test]
fn the_demo_ends_with_a_table_on_stdout_and_talks_on_stderr() {
    let desk = Desk::new();
    let said = desk.patra(&["demo", "--records", "70", "--faults", "none"]).ended(0);
    assert!(said.out.contains("nothing is missing") && said.out.contains("watermark truth"), "{}", said.out);
    assert!(said.err.contains("round 1 of 3") && !said.out.contains("round 1 of 3"), "{}", said.err);
    let quiet = desk.patra(&["demo", "--records", "70", "--faults", "none", "--quiet"]).ended(0);
    assert_eq!(quiet.err, "");
    let left: Vec<_> = std::fs::read_dir(desk.path("")).unwrap().collect();
    assert!(left.is_empty(), "the demo leaves nothing behind: {left:?}");
}

#[test]
fn what_a_demo_keeps_is_never_overwritten() {
    let desk = Desk::new();
    desk.patra(&["demo", "--records", "70", "--keep", "kept", "--quiet"]).ended(0);
    for file in ["demo.db", "truth.jsonl", "served.jsonl", "rules.json"] {
        assert!(desk.path("kept").join(file).exists(), "{file}");
    }
    let again = desk.patra(&["demo", "--records", "70", "--keep", "kept"]).ended(2);
    again.complains(&["`kept` already holds a demo", "hint: name an empty folder"]);
    let status = desk.json(&["status", "--database", "kept/demo.db"]);
    assert_eq!(status.as_array().unwrap().len(), 7);
}

#[test]
fn options_out_of_range_are_refused() {
    let desk = Desk::new();
    for args in [&["demo", "--records", "0"][..], &["demo", "--faults", "some"], &["demo", "--seed", "x"]] {
        desk.patra(args).ended(2).complains(&["invalid value"]);
    }
}

/// Whether each rate limit is kept is a matter of milliseconds on a machine that runs other tests, and is judged where
/// it is quiet; what two processes store together is judged here.
#[test]
fn executors_of_their_own_store_the_same_truth() {
    let desk = Desk::new();
    let said = desk.patra(&["demo", "--executors", "2", "--records", "210", "--faults", "none", "--json"]);
    let answer = said.json();
    let sources = answer["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 7, "{}", said.err);
    for source in sources {
        let zero = |key: &str| assert_eq!(source[key], 0, "{key} of {source}");
        ["missing", "extra", "outbox_duplicates"].into_iter().for_each(zero);
        assert_eq!(source["watermark"], source["watermark_truth"], "{source}");
    }
}
