//! `patra registry`: a definition is released, tried on a channel, and taken back.

use serde_json::Value;

use crate::support::{Desk, shipped};

fn changed() -> String {
    shipped("doaj").replace("size: 100\n", "size: 60\n")
}

fn page_size(desk: &Desk, channel: &str) -> Value {
    desk.patra(&["spec", "show", "doaj", "--channel", channel]).ended(0).json()["pagination"]["size"].clone()
}

#[test]
fn a_definition_is_applied_compared_and_taken_back() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.write("doaj.yaml", &changed());
    let diff = desk.patra(&["registry", "diff", "doaj.yaml"]).ended(0);
    assert!(diff.out.contains("size: 60") && diff.out.contains("size: 100"), "{}", diff.out);
    let applied = desk.json(&["registry", "apply", "doaj.yaml", "--remark", "smaller pages"]);
    assert_eq!((&applied[0]["version"], &applied[0]["changed"]), (&2.into(), &true.into()));
    assert_eq!(page_size(&desk, "stable"), 60);
    assert_eq!(desk.json(&["registry", "diff", "doaj.yaml"])["changed"], false);
    let again = desk.json(&["registry", "apply", "doaj.yaml"]);
    assert_eq!((&again[0]["version"], &again[0]["changed"]), (&2.into(), &false.into()));
    assert_eq!(desk.patra(&["registry", "export", "doaj"]).ended(0).out, changed());
    assert_eq!(desk.patra(&["registry", "export", "doaj", "--version", "1"]).ended(0).out, shipped("doaj"));
    let back = desk.json(&["registry", "rollback", "doaj"]);
    assert_eq!((&back[0]["version"], &back[0]["content_of"]), (&3.into(), &1.into()));
    assert_eq!(page_size(&desk, "stable"), 100);
    let history = desk.json(&["registry", "history", "doaj"]);
    let versions: Vec<_> = history.as_array().unwrap().iter().map(|row| row["version"].as_i64().unwrap()).collect();
    assert_eq!(versions.len(), 3);
    let two = history.as_array().unwrap().iter().find(|row| row["version"] == 2).unwrap();
    assert_eq!((&two["by"], &two["remark"]), (&"tester".into(), &"smaller pages".into()));
    let table = desk.patra(&["registry", "history", "doaj"]).ended(0);
    assert!(table.out.contains("rollback to version 1"), "{}", table.out);
}

#[test]
fn a_canary_is_seen_only_by_who_names_its_channel() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.write("doaj.yaml", &changed());
    desk.patra(&["registry", "apply", "doaj.yaml", "--channel", "canary"]).ended(0);
    assert_eq!(page_size(&desk, "canary"), 60);
    assert_eq!(page_size(&desk, "stable"), 100);
}

#[test]
fn a_channel_that_nobody_has_is_an_error_that_names_the_known_ones() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.write("doaj.yaml", &changed());
    desk.patra(&["registry", "apply", "doaj.yaml", "--channel", "canary"]).ended(0);
    for args in [
        &["spec", "show", "doaj", "--channel", "canari"][..],
        &["harvest", "doaj", "--channel", "canari"],
        &["registry", "diff", "doaj.yaml", "--channel", "canari"],
        &["registry", "rollback", "doaj", "--channel", "canari"],
    ] {
        desk.patra(args).ended(4).complains(&["there is no channel `canari`", "canary, stable", "hint: "]);
    }
    // A known channel on which this source has no version of its own means the stable one.
    let crossref = desk.patra(&["spec", "show", "crossref", "--channel", "canary"]).ended(0).json();
    assert_eq!(crossref["channel"], "stable");
}

#[test]
fn a_version_can_take_effect_later() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.write("doaj.yaml", &changed());
    desk.patra(&["registry", "apply", "doaj.yaml", "--effective-from", "2999-01-01"]).ended(0);
    assert_eq!(page_size(&desk, "stable"), 100);
    let history = desk.json(&["registry", "history", "doaj"]);
    let later = history.as_array().unwrap().iter().find(|row| row["version"] == 2).unwrap();
    assert!(later["effective_from"].as_str().unwrap().starts_with("2999-01-01"));
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.patra(&["registry", "rollback", "doaj"]).ended(4).complains(&["no earlier version"]);
    desk.patra(&["registry", "rollback", "doaj", "--to", "9"]).ended(4).complains(&["no version 9"]);
    desk.patra(&["registry", "export", "doaj", "--version", "9"]).ended(4).complains(&["no version 9"]);
    desk.patra(&["registry", "history", "nobody"]).ended(4).complains(&["no source `nobody`"]);
    desk.patra(&["registry", "apply", "nothing.yaml"]).ended(4).complains(&["nothing.yaml"]);
}
