//! The query language at the command line: explained, refused at the character, and harvested with.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::{Desk, Sim, strs};

/// Ids and titles of all records of a database.
fn titles(path: &Path) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use sqlx::{ConnectOptions, Row};
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        let rows = sqlx::query("SELECT provider_id, fields FROM ing_record").fetch_all(&mut connection).await.unwrap();
        let title = |fields: &str| {
            serde_json::from_str::<Value>(fields).unwrap()["title"].as_str().unwrap_or_default().to_lowercase()
        };
        rows.iter().map(|row| (row.get("provider_id"), title(row.get("fields")))).collect()
    })
}

#[test]
fn a_query_is_explained_for_every_source_without_a_database() {
    let desk = Desk::new();
    let text = "tiab:\"heart failure\" AND type:article NOT language:fr";
    let said = desk.patra(&["query", "explain", text]).ended(0);
    assert!(said.out.contains("pubmed: says it all"), "{}", said.out);
    assert!(said.out.contains("term = \"heart failure\"[tiab]"), "{}", said.out);
    let told = desk.json(&["query", "explain", text, "--source", "crossref", "--source", "pubmed"]);
    assert_eq!(told["sources"].as_array().unwrap().len(), 2);
    assert_eq!(told["query"], "title_abstract:\"heart failure\" AND type:article AND NOT language:fr");
    assert_eq!(told["sources"][0]["source"], "crossref");
    assert!(told["sources"][0]["lacks"].as_array().unwrap().len() >= 2, "{told}");
    assert_eq!(std::fs::read_dir(desk.path(".")).unwrap().count(), 0, "nothing was written");
    desk.patra(&["query", "explain", "heart", "--source", "nowhere"]).ended(4).complains(&["no built-in source"]);
}

#[test]
fn a_wrong_query_is_shown_at_its_character() {
    let desk = Desk::new();
    for args in [&["query", "explain"][..], &["harvest", "crossref", "--query"]] {
        let said = desk.patra(&[args, &["title:heart AND titel:failure"]].concat()).ended(2);
        said.complains(&["no field `titel`", "query:1:17", "\n  |                 ^^^^^", "did you mean `title`?"]);
    }
    let refused = desk.patra(&["harvest", "crossref", "--query", "mesh:asthma", "--since", "2026-01-01"]).ended(3);
    refused.complains(&["cannot answer this query", "mesh", "patra query explain"]);
}

#[test]
fn a_harvest_with_a_query_stores_what_matches_and_counts_the_rest() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "200", "--source", "crossref", "--unlimited", "--keep", "world"]);
    let mut all = sim.harvest("crossref");
    all.extend(["--database".into(), "all.db".into()]);
    desk.patra(&strs(&all)).ended(0);
    let mut args = sim.harvest("crossref");
    args.extend(["--database".into(), "some.db".into(), "--query".into(), "title:cell NOT title:model".into()]);
    let report = desk.patra(&strs(&args)).ended(0).json();
    let wanted = |title: &str| {
        let words: Vec<&str> = title.split(|letter: char| !letter.is_alphanumeric()).collect();
        words.contains(&"cell") && !words.contains(&"model")
    };
    let want: BTreeSet<String> =
        titles(&desk.path("all.db")).into_iter().filter(|(_, title)| wanted(title)).map(|(id, _)| id).collect();
    let got: BTreeSet<String> = titles(&desk.path("some.db")).into_iter().map(|(id, _)| id).collect();
    assert!(want.len() > 3, "{} records match", want.len());
    assert_eq!(got, want);
    let number = |key: &str| report[key].as_u64().unwrap();
    assert_eq!((number("inserted") as usize, &report["complete"]), (want.len(), &true.into()), "{report}");
    assert!(number("filtered") > 0 && number("fetched") > number("inserted"), "{report}");
    // The same query written otherwise goes on with the same cursor.
    let last = args.len() - 1;
    args[last] = "NOT ti:model AND ti:CELL".into();
    let again = desk.patra(&strs(&args)).ended(0).json();
    assert_eq!((&again["inserted"], &again["watermark"]), (&0.into(), &report["watermark"]), "{again}");
    let cursors = desk.json(&["cursor", "list", "--database", "some.db"]);
    assert_eq!(cursors.as_array().unwrap().len(), 1, "{cursors}");
    sim.stop();
    let served = std::fs::read_to_string(desk.path("world/served.jsonl")).unwrap();
    assert!(served.contains("query.title=cell"), "the query was sent");
}
