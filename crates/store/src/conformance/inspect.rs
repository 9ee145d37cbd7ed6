//! The read side.

use bytes::Bytes;
use patra_core::page::{BadItem, BadReason};
use patra_core::ports::*;
use serde_json::json;

use super::bench::{Bench, at, record};

async fn busy(bench: &Bench) -> Leased {
    bench.publish(&[(0, 10), (10, 20), (20, 30)]).await;
    let leased = bench.acquire(2).await;
    let page = bench.page(&leased[0].batch, vec![record("10.1/a", 1, "{\"t\":1}"), record("10.1/b", 1, "x")], None);
    bench.commit(&leased[0].lease, page).await;
    bench.store.finish_slice(&leased[0].lease, bench.succeeded()).await.unwrap();
    let failed = SliceOutcome::Failed {
        class: "DENIED".into(),
        reason: "403 from the source".into(),
        prefix: None,
        stops_source: false,
    };
    bench.store.finish_slice(&leased[1].lease, failed).await.unwrap();
    leased[0].clone()
}

pub(super) async fn every_noun_lists_and_shows(bench: Bench) {
    let leased = busy(&bench).await;
    for noun in Noun::ALL {
        let rows = bench.store.list(*noun, &ListFilter::default()).await.unwrap();
        for row in &rows {
            let id = row["id"].as_str().unwrap();
            let shown = bench.store.show(*noun, id).await.unwrap().unwrap();
            assert!(row.iter().all(|(key, value)| shown[key] == *value), "{noun:?}");
        }
    }
    let of_task = ListFilter { task: Some(leased.lease.task), ..ListFilter::default() };
    let batches = bench.store.list(Noun::Batch, &of_task).await.unwrap();
    assert_eq!((batches.len(), &batches[0]["stats"]["inserted"]), (1, &json!(2)));
    let slices = |status: &str| ListFilter { status: Some(status.into()), ..ListFilter::default() };
    assert_eq!(bench.store.list(Noun::Slice, &slices("FAILED")).await.unwrap().len(), 1);
    let page = ListFilter { limit: 2, ..ListFilter::default() };
    let first = bench.store.list(Noun::Task, &page).await.unwrap();
    let last: patra_core::id::Id = first[1]["id"].as_str().unwrap().parse().unwrap();
    let second = bench.store.list(Noun::Task, &ListFilter { before_id: Some(last), ..page }).await.unwrap();
    assert_eq!((first.len(), second.len()), (2, 1));
    let wrong = bench.store.list(Noun::Cursor, &ListFilter { status: Some("X".into()), ..ListFilter::default() }).await;
    assert!(matches!(wrong, Err(LedgerError::Missing { .. })));
}

pub(super) async fn a_row_is_found_by_the_beginning_of_its_id(bench: Bench) {
    let leased = busy(&bench).await;
    let plan = leased.lease.plan.to_string();
    let shown = bench.store.show(Noun::Plan, &plan[..6]).await.unwrap().unwrap();
    assert_eq!(shown["id"], json!(plan));
    assert_eq!(shown["spec_snapshot"]["provenance"], json!("crossref"));
    let several = bench.store.show(Noun::Task, &leased.lease.task.to_string()[..6]).await;
    assert!(matches!(several, Err(LedgerError::Missing { .. })));
    assert_eq!(bench.store.show(Noun::Task, "nonsense").await, Ok(None));
    assert_eq!(bench.store.show(Noun::Task, "12").await, Ok(None));
    let record = bench.store.show(Noun::Record, "10.1/a").await.unwrap().unwrap();
    assert_eq!((&record["payload"], &record["fields"]["title"]), (&json!("{\"t\":1}"), &json!("{\"t\":1}")));
    assert_eq!(record["content_hash"].as_str().unwrap().len(), 64);
}

pub(super) async fn the_summary_counts_each_source(bench: Bench) {
    busy(&bench).await;
    let summary = bench.store.summary().await.unwrap();
    assert_eq!(summary.len(), 1);
    let source = &summary[0];
    assert_eq!((source.records, source.outbox_pending, source.quarantined), (2, 2, 0));
    assert_eq!(source.tasks, [("FAILED", 1), ("QUEUED", 1), ("SUCCEEDED", 1)].map(|(k, n)| (k.to_owned(), n)).into());
    assert_eq!((source.watermark, source.last_error.as_deref()), (Some(at(10)), Some("403 from the source")));
}

pub(super) async fn a_quarantined_record_is_shown_masked_and_kept_as_it_came(bench: Bench) {
    let leased = bench.leased().await;
    let mut page = bench.page(&leased.batch, vec![record("a", 1, "one")], None);
    let raw = Bytes::from_static(br#"{"mail":"jane@example.org"}"#);
    let message = "`jane@example.org` is no time".to_owned();
    page.bad = vec![BadItem { id: None, reason: BadReason::BadTime, path: "$.t".into(), message, raw: raw.clone() }];
    bench.commit(&leased.lease, page).await;
    let listed = bench.store.list(Noun::Quarantine, &ListFilter::default()).await.unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let shown = bench.store.show(Noun::Quarantine, id).await.unwrap().unwrap();
    for text in [&listed[0]["message"], &shown["message"], &shown["raw"]] {
        let text = text.as_str().unwrap();
        assert!(text.contains("[email:") && !text.contains("jane"), "{text}");
    }
    assert_eq!(bench.store.quarantined(id.parse().unwrap()).await.unwrap().raw, raw);
}
