//! Cursors follow from their events: verified, rebuilt, thinned.

use patra_core::ports::{CursorReport, CursorWork, Intervention, Operate};
use patra_core::time::{Span, Timestamp};

use super::bench::Bench;

fn act() -> Intervention {
    Intervention { actor: "ann".into(), reason: "drill".into() }
}

async fn tend(bench: &Bench, work: CursorWork) -> Vec<CursorReport> {
    bench.store.tend_cursors(None, work, &act()).await.unwrap()
}

async fn faults(bench: &Bench) -> Vec<String> {
    tend(bench, CursorWork::Verify).await.into_iter().flat_map(|report| report.faults).collect()
}

/// Six moves of one watermark, a second apart.
async fn moved(bench: &Bench) {
    let windows: Vec<(i64, i64)> = (0..6).map(|number| (number * 10, number * 10 + 10)).collect();
    bench.publish(&windows).await;
    for leased in bench.acquire(6).await {
        bench.succeed(&leased).await;
        bench.advance(Span::SECOND);
    }
    assert_eq!(bench.one("SELECT COUNT(*) FROM ing_cursor_event").await, "6");
}

async fn whole(bench: &Bench, table: &str) -> Vec<String> {
    bench.column(&format!("SELECT * FROM {table} ORDER BY id")).await
}

pub(super) async fn a_lost_cursor_is_rebuilt_byte_for_byte(bench: Bench) {
    moved(&bench).await;
    let (before, events) = (whole(&bench, "ing_cursor").await, whole(&bench, "ing_cursor_event").await);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    bench.change("DELETE FROM ing_cursor").await;
    assert!(faults(&bench).await[0].starts_with("the cursor is gone; its 6 events lead to"));
    assert_eq!(tend(&bench, CursorWork::Rebuild).await[0].changed, 1);
    assert_eq!(whole(&bench, "ing_cursor").await, before);
    bench.change("UPDATE ing_cursor SET version = 3").await;
    assert!(faults(&bench).await[0].starts_with("the cursor is not what its events lead to"));
    tend(&bench, CursorWork::Rebuild).await;
    assert_eq!(whole(&bench, "ing_cursor").await, before);
    assert_eq!(tend(&bench, CursorWork::Rebuild).await[0].changed, 0, "nothing is left to mend");
    assert_eq!(whole(&bench, "ing_cursor_event").await, events);
    assert_eq!(bench.column("SELECT action_code FROM ing_audit").await, ["CURSOR_REBUILD", "CURSOR_REBUILD"]);
}

pub(super) async fn a_lost_event_is_named_and_nothing_is_rebuilt_over_it(bench: Bench) {
    moved(&bench).await;
    bench.change("DELETE FROM ing_cursor_event WHERE event_no = 4").await;
    let told = faults(&bench).await;
    assert_eq!(told[0], "event 4 is missing");
    bench.change("UPDATE ing_cursor SET version = 3").await;
    let report = &tend(&bench, CursorWork::Rebuild).await[0];
    assert_eq!((report.changed, report.faults[0].as_str()), (0, "event 4 is missing"));
    assert_eq!(bench.one("SELECT version FROM ing_cursor").await, "3");
}

pub(super) async fn thinned_events_lead_to_the_same_cursor(bench: Bench) {
    moved(&bench).await;
    let before = whole(&bench, "ing_cursor").await;
    let cut = bench.now().minus(Span::from_seconds(2));
    let thinned = tend(&bench, CursorWork::Thin { before: cut }).await;
    assert_eq!(thinned[0].changed, 3, "four became one");
    assert_eq!(bench.column("SELECT event_no FROM ing_cursor_event ORDER BY event_no").await, ["4", "5", "6"]);
    assert_eq!(bench.column("SELECT cause_code FROM ing_cursor_event WHERE event_no = 4").await, ["SUMMARY"]);
    assert_eq!(faults(&bench).await, Vec::<String>::new());
    assert_eq!(tend(&bench, CursorWork::Thin { before: cut }).await[0].changed, 0);
    assert_eq!(tend(&bench, CursorWork::Thin { before: Timestamp::MAX }).await[0].changed, 1, "never the last one");
    bench.change("DELETE FROM ing_cursor").await;
    tend(&bench, CursorWork::Rebuild).await;
    assert_eq!(whole(&bench, "ing_cursor").await, before);
    // And the cursor goes on from there.
    bench.publish(&[(60, 70)]).await;
    let leased = bench.acquire_one().await;
    bench.succeed(&leased).await;
    assert_eq!(faults(&bench).await, Vec::<String>::new());
}
