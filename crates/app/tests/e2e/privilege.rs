//! A planner and an executor work with a role that may not write the registry, as `docs/operations.md` sets it up.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::servers::{Kind, Server};
use crate::support::{Desk, Said, Sim, days_ago, shipped, signal};

/// Looks at the ledger this often before giving up; each look starts a process, so no look is idle.
const LOOKS_MAX: usize = 2_000;

#[test]
fn a_fleet_works_on_postgres_without_the_right_to_write_the_registry() {
    Server::find(Kind::Postgres).iter().for_each(least_privilege);
}

#[test]
fn a_fleet_works_on_mysql_without_the_right_to_write_the_registry() {
    Server::find(Kind::Mysql).iter().for_each(least_privilege);
}

fn least_privilege(server: &Server) {
    let desk = Desk::new();
    let (owner, worker, reader) = (server.owner(), server.role("patra_worker"), server.role("patra_reader"));
    nothing_is_made_by_a_role(&desk, server);
    desk.patra(&["migrate", "--database", &owner]).ended(0);
    server.grant();
    every_table_of_the_ledger_is_granted(server);
    the_registry_cannot_be_written(&desk, server, &worker);
    a_built_in_source_is_outdated(server);
    harvest(&desk, &worker, &reader);
    // What is looked at is looked at by a role that may only look.
    for args in
        [&["status"][..], &["record", "list"], &["source", "list"], &["registry", "history", "doaj"], &["gate", "list"]]
    {
        let said = desk.patra(&[args, &["--json", "--database", "none.db", "--read-database", &reader]].concat());
        assert!(!said.ended(0).json().as_array().unwrap().is_empty(), "{args:?}");
    }
    desk.patra(&["doctor", "--database", &worker, "--read-database", &reader]).ended(0);
    let refused = desk.patra(&["planner", "--source", "doaj", "--database", &reader]).ended(5);
    refused.complains(&["denied"]);
}

/// On an empty database a role says what is missing, and leaves it empty.
fn nothing_is_made_by_a_role(desk: &Desk, server: &Server) {
    let owner = server.owner();
    for role in
        [&["planner", "--source", "doaj"][..], &["executor"], &["serve", "--source", "doaj"], &["status"], &["doctor"]]
    {
        let said = desk.patra(&[role, &["--database", &owner]].concat()).ended(5);
        assert!(format!("{}{}", said.out, said.err).contains("patra migrate"), "{role:?}: {said:?}");
    }
    assert_eq!(server.tables(), Vec::<String>::new());
}

fn every_table_of_the_ledger_is_granted(server: &Server) {
    let granted = server.granted();
    let words: Vec<&str> = granted.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').collect();
    for table in server.tables() {
        assert_eq!(words.contains(&table.as_str()), table.starts_with("ing_"), "{table} in docs/operations.md");
    }
}

/// The role is what it is meant to be: neither by hand nor by our own commands.
fn the_registry_cannot_be_written(desk: &Desk, server: &Server, worker: &str) {
    for table in server.tables().iter().filter(|table| !table.starts_with("ing_")) {
        server.sql(worker, &format!("SELECT COUNT(*) FROM {table}")).unwrap();
        let column = match table.as_str() {
            "sys_schema_migration" => "name",
            table if table.starts_with("sys_dict") => "type_code",
            _ => "provenance_code",
        };
        for change in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET {column} = {column}")] {
            let refused = server.sql(worker, &change).err().unwrap_or_else(|| panic!("{change} was allowed"));
            assert!(refused.to_string().contains("denied"), "{change}: {refused}");
        }
    }
    server.sql(worker, "CREATE TABLE ing_mine (id BIGINT)").unwrap_err();
    let quick = shipped("doaj").replace("per_second: 2, burst: 1", "per_second: 100, burst: 10");
    desk.write("doaj.yaml", &quick.replace("slice: PT1H", "slice: P1D"));
    desk.patra(&["registry", "apply", "doaj.yaml", "--database", worker])
        .ended(5)
        .complains(&["denied", "as the owner"]);
    desk.patra(&["registry", "apply", "doaj.yaml", "--database", &server.owner()]).ended(0);
}

/// Whoever brings the catalogue up to the build would publish this one, and be refused.
fn a_built_in_source_is_outdated(server: &Server) {
    let hash = "0".repeat(64);
    let text = format!("UPDATE reg_provenance SET definition_hash = '{hash}' WHERE provenance_code = 'crossref'");
    server.sql(&server.owner(), &text).unwrap();
}

/// A planner and an executor beside each other, until the plan is complete.
fn harvest(desk: &Desk, worker: &str, reader: &str) {
    let sim = Sim::start(desk, &["--records", "60", "--source", "doaj", "--unlimited", "--keep", "world"]);
    let base_url = format!("http://{}/doaj", sim.address);
    let asked = ["--source", "doaj", "--base-url", &base_url, "--allow-host", &sim.address, "--since", &days_ago(12)];
    let planner = start(
        desk,
        &[&["planner", "--every", "PT1S", "--database", worker, "--contact", "a@example.org"], &asked[..]].concat(),
    );
    let executor = start(desk, &["executor", "--workers", "2", "--database", worker]);
    let list = ["plan", "list", "--status", "completed", "--json", "--database", worker, "--read-database", reader];
    let complete = || {
        let said = desk.patra(&list);
        said.exit == 0 && said.json().as_array().is_some_and(|rows| !rows.is_empty())
    };
    let done = (0..LOOKS_MAX).any(|_| complete());
    let ends = [planner, executor].map(end);
    assert!(done, "{ends:?}");
    assert!(ends.iter().all(|said| said.exit == 0), "{ends:?}");
    sim.stop();
    let status = desk.json(&["status", "--read-database", reader]);
    nothing_is_missing(desk, reader, status[0]["complete_to"].as_str().unwrap());
}

/// Every record that was last changed between the beginning and the watermark, and is not deleted, is there.
fn nothing_is_missing(desk: &Desk, reader: &str, complete_to: &str) {
    let records = desk.json(&["record", "list", "--limit", "1000", "--read-database", reader]);
    let stored: BTreeSet<&str> =
        records.as_array().unwrap().iter().filter_map(|row| row["provider_id"].as_str()).collect();
    let truth = std::fs::read_to_string(desk.path("world/truth.jsonl")).unwrap();
    // Versions of a record follow each other, so the last line of one is its newest.
    let mut newest: BTreeMap<String, Value> = BTreeMap::new();
    for version in truth.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        newest.insert(version["id"].as_str().unwrap().to_owned(), version);
    }
    let at = |time: &str| time.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    let covered = at(&days_ago(12))..at(complete_to);
    let moment = |version: &Value, key: &str| version[key].as_i64().unwrap();
    // What appeared within the last hour may have been too late for the reading.
    newest.retain(|_, last| moment(last, "visible_at") < covered.end && covered.contains(&moment(last, "updated_at")));
    newest.retain(|_, last| last["deleted"] == false);
    assert!(newest.len() > 30, "{}", newest.len());
    for id in newest.keys() {
        assert!(stored.contains(id.as_str()), "{id} is missing");
    }
}

fn start(desk: &Desk, args: &[&str]) -> Child {
    desk.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Said {
    signal(&child, "TERM");
    Said::of(child.wait_with_output().unwrap())
}
