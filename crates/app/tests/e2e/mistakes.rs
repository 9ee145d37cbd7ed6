//! What a person types wrong, and what they read then.

use crate::support::{Desk, change};

#[test]
fn wrong_commands_and_options_end_with_two() {
    let desk = Desk::new();
    for args in [
        &["harvst"][..],
        &["harvest"],
        &["task", "lst"],
        &["harvest", "doaj", "--workers", "0"],
        &["harvest", "doaj", "--set", "nonsense"],
        &["harvest", "doaj", "--since", "yesterday"],
        &["task", "list", "--limit", "0"],
        &["sim", "serve", "--listen", "nowhere"],
    ] {
        let said = desk.patra(args).ended(2);
        assert!(said.err.starts_with("error:"), "{args:?}: {}", said.err);
        assert_eq!(said.out, "");
    }
}

#[test]
fn an_id_that_is_none_is_told_apart_from_one_that_is_not_there() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.patra(&["task", "list", "--plan", "x"]).ended(2).complains(&["--plan wants an id, found `x`"]);
    assert_eq!(desk.json(&["task", "list", "--plan", "12345"]), serde_json::json!([]));
}

#[test]
fn what_does_not_exist_ends_with_four_and_says_where_to_look() {
    let desk = Desk::new();
    desk.patra(&["plan", "list"]).ended(4).complains(&["there is no database `patra.db`", "--database"]);
    desk.patra(&["status", "--database", "none/patra.db"]).ended(4).complains(&["none/patra.db"]);
    desk.patra(&["init"]).ended(0);
    desk.patra(&["harvest", "nobody"]).ended(4).complains(&["there is no source `nobody`", "patra source list"]);
    desk.patra(&["harvest", "none.yaml"]).ended(4).complains(&["none.yaml"]);
    desk.patra(&["source", "show", "nobody"]).ended(4).complains(&["`nobody`"]);
    desk.patra(&["spec", "show", "nobody"]).ended(4).complains(&["`nobody`"]);
    for noun in ["plan", "slice", "task", "run", "batch", "cursor", "record", "quarantine"] {
        desk.patra(&[noun, "show", "12345"]).ended(4).complains(&["`12345`", noun]);
        desk.patra(&[noun, "show", "rubbish"]).ended(4).complains(&["`rubbish`"]);
    }
    desk.patra(&["sim", "serve", "--source", "nobody"]).ended(4).complains(&["`nobody`", "crossref"]);
    desk.patra(&["sim", "serve", "--scenario", "nothing"]).ended(4).complains(&["patra sim scenarios"]);
}

#[test]
fn settings_that_make_no_sense_are_explained() {
    let desk = Desk::new();
    for (set, names) in [
        ("pagination.size=many", &["pagination.size", "many"][..]),
        ("pagination.sise=10", &["pagination.sise", "pagination.size"]),
        ("response.items=x", &["cannot be set by a trigger"]),
        ("colour=red", &["params.colour"]),
    ] {
        let said = desk.patra(&["spec", "show", "doaj", "--set", set]).ended(3);
        said.complains(names);
    }
    desk.patra(&["spec", "show", "doaj", "--endpoint", "nothing"]).ended(3).complains(&["nothing"]);
    desk.patra(&["spec", "show", "doaj", "--base-url", "ftp://example.org"]).ended(3).complains(&["ftp"]);
}

#[test]
fn databases_that_cannot_be_used_end_with_five() {
    let desk = Desk::new();
    desk.patra(&["init", "--database", "no/such/folder/patra.db"]).ended(5).complains(&["no/such/folder/patra.db"]);
    desk.write("text.db", "this is not a database, it is a letter to a friend, and quite a long one at that\n");
    for args in [&["init", "--database", "text.db"][..], &["status", "--database", "text.db"]] {
        desk.patra(args).ended(5).complains(&["text.db"]);
    }
    desk.patra(&["init", "--database", "oracle://localhost/patra"]).ended(2).complains(&["oracle", "sqlite:PATH"]);
    let away = desk.patra(&["init", "--database", "postgres://ann:secret@127.0.0.1:1/patra?sslmode=disable"]);
    let away = away.ended(5);
    away.complains(&["postgres://ann@127.0.0.1:1/patra"]);
    assert!(!away.err.contains("secret"), "{}", away.err);
}

#[test]
fn a_database_of_a_newer_release_is_left_alone() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    let newer = "INSERT INTO sys_schema_migration (version, name, checksum, applied_at, needs_version)
                 SELECT 9999, name, checksum, applied_at, 9999 FROM sys_schema_migration LIMIT 1";
    change(&desk.path("patra.db"), newer);
    let before = std::fs::read(desk.path("patra.db")).unwrap();
    let said = desk.patra(&["status"]).ended(5);
    said.complains(&["newer"]);
    assert_eq!(std::fs::read(desk.path("patra.db")).unwrap(), before);
}
