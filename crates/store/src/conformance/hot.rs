//! The plan of every hot statement.

use super::bench::Bench;
use crate::dialect::Dialect;
use crate::hot::HOT;
use crate::sql::render;

pub(super) async fn every_hot_statement_uses_its_index(bench: Bench) {
    let mut tx = bench.store.inner.db.read().await.unwrap();
    let mut wrong = Vec::new();
    for (text, index) in HOT {
        let rendered = render(Dialect::Sqlite, text, 3);
        let explained = format!("EXPLAIN QUERY PLAN {}", rendered.sql);
        let rows = tx.rows_composed("plan", &explained, Vec::new()).await.unwrap();
        let details: Vec<&str> = rows.iter().map(|row| row.text("detail").unwrap()).collect();
        let wanted = match *index {
            "PK" => "USING INTEGER PRIMARY KEY".to_owned(),
            index => format!("INDEX {index} "),
        };
        let searched = details.iter().any(|line| line.starts_with("SEARCH") && line.contains(&wanted));
        let costly = details.iter().any(|line| line.starts_with("SCAN") || line.contains("TEMP B-TREE"));
        if !searched || costly {
            wrong.push(format!("{text}\nwants {index}: {details:?}"));
        }
    }
    tx.rollback().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
