//! `patra migrate` on a file: what a person sees before, while and after a database is brought up to the build.

use serde_json::{Value, json};

use crate::support::{Desk, change};

fn states(desk: &Desk) -> Vec<Value> {
    let rows = desk.json(&["migrate", "--status"]);
    rows.as_array().unwrap().iter().map(|row| row["state"].clone()).collect()
}

#[test]
fn looking_makes_nothing_and_running_makes_everything() {
    let desk = Desk::new();
    assert!(states(&desk).iter().all(|state| state == "pending"));
    let said = desk.patra(&["migrate", "--dry-run"]).ended(0);
    assert!(said.out.contains("CREATE TABLE ing_task") && said.out.contains("built-in sources"), "{}", said.out);
    said.complains(&["there is no database `patra.db` yet"]);
    assert!(!desk.path("patra.db").exists());
    desk.patra(&["migrate", "--dry-run", "--status"]).ended(2).complains(&["cannot be used with"]);
    let made = desk.json(&["migrate"]);
    assert_eq!(made["applied"][0], json!({ "version": 1, "name": "registry" }));
    assert!(made["published"].as_array().unwrap().contains(&json!("crossref")), "{made}");
    assert!(states(&desk).iter().all(|state| state == "applied"));
    assert_eq!(desk.json(&["migrate", "--dry-run"]), json!({ "statements": [], "sources": [] }));
    let again = desk.json(&["migrate"]);
    assert_eq!((&again["applied"], &again["published"]), (&json!([]), &json!([])));
    assert!(desk.patra(&["migrate", "--status"]).ended(0).out.contains("patra.db is up to date"));
}

#[test]
fn a_newer_database_is_used_until_it_says_that_it_needs_a_newer_build() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    let path = desk.path("patra.db");
    let newer = "INSERT INTO sys_schema_migration (version, name, checksum, applied_at)
                 VALUES (900, 'more', zeroblob(32), '2030-01-01T00:00:00.000000Z')";
    change(&path, newer);
    assert!(desk.patra(&["migrate", "--status"]).ended(0).out.contains("1 of newer ones"));
    for fine in [&["status"][..], &["migrate"], &["source", "list"], &["doctor"]] {
        desk.patra(fine).ended(0);
    }
    change(&path, "UPDATE sys_schema_migration SET needs_version = 900 WHERE version = 900");
    for refused in [&["migrate"][..], &["migrate", "--status"], &["migrate", "--dry-run"], &["status"], &["init"]] {
        desk.patra(refused).ended(5).complains(&["schema version 900", "use a newer build", "patra.db"]);
    }
}
