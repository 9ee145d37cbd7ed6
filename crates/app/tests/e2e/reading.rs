//! `--read-database`: what reads looks there and writes nothing, what writes does not.

use crate::support::{Desk, change, shipped};

fn versions(desk: &Desk, place: &[&str]) -> usize {
    desk.json(&[&["registry", "history", "doaj"], place].concat()).as_array().unwrap().len()
}

#[test]
fn what_reads_looks_at_the_read_database_and_leaves_it_as_it_is() {
    let desk = Desk::new();
    desk.patra(&["init", "--database", "main.db"]).ended(0);
    std::fs::copy(desk.path("main.db"), desk.path("copy.db")).unwrap();
    let before = std::fs::read(desk.path("copy.db")).unwrap();
    desk.write("doaj.yaml", &shipped("doaj").replace("\nname: ", "\nname: My "));
    let both = ["--database", "main.db", "--read-database", "copy.db"];
    desk.patra(&[&["registry", "apply", "doaj.yaml"], &both[..]].concat()).ended(0);
    assert_eq!((versions(&desk, &both[..2]), versions(&desk, &both)), (2, 1));
    for reads in [&["status"][..], &["plan", "list"], &["source", "list"], &["gate", "list"], &["doctor"]] {
        desk.patra(&[reads, &both[2..]].concat()).ended(0);
    }
    assert!(desk.patra(&[&["doctor"], &both[..]].concat()).ended(0).out.contains("ok   read database: copy.db"));
    assert_eq!(std::fs::read(desk.path("copy.db")).unwrap(), before);
    assert!(!desk.path("patra.db").exists());
}

#[test]
fn a_read_database_that_cannot_be_read_is_named() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    for reads in [&["status"][..], &["source", "list"], &["doctor", "--database", "patra.db"]] {
        let said = desk.patra(&[reads, &["--read-database", "none.db"]].concat());
        assert!(said.exit == 4 || said.exit == 5, "{said:?}");
        assert!(format!("{}{}", said.out, said.err).contains("there is no database `none.db`"), "{said:?}");
    }
    assert!(!desk.path("none.db").exists());
    change(&desk.path("patra.db"), "DELETE FROM sys_schema_migration WHERE version > 2");
    desk.patra(&["status", "--read-database", "patra.db"]).ended(5).complains(&[
        "patra.db",
        "version 3",
        "patra migrate",
    ]);
}
