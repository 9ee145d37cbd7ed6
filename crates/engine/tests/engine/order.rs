//! What a declared order proves of a slice that was not read to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use patra_core::page::{Page, PageAsk, PageStep, Position};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{Order, PagingKind, SpecSnapshot};
use patra_core::time::{Span, Timestamp};

use crate::bench::{Bench, ORIGIN, numbers, spec};

fn ordered(change: impl FnOnce(&mut SpecSnapshot)) -> SpecSnapshot {
    spec(|spec| {
        spec.pagination.kind = PagingKind::Token;
        spec.window.ordered = Some(Order::Asc);
        spec.response.total = None;
        change(spec);
    })
}

fn token_of(ask: &PageAsk) -> u64 {
    match &ask.step {
        PageStep::Search { position: Position::Token(Some(token)), .. } => token.parse().unwrap_or(0),
        _ => 0,
    }
}

/// A source that gives nothing from its ninth record on.
fn ends_at_nine(ask: &PageAsk, page: Page) -> Result<Page, FetchError> {
    let denied = FetchError::Status { status: 403, message: "no".into(), retry_after: None };
    if token_of(ask) >= 8 { Err(denied) } else { Ok(page) }
}

fn minute(number: i64) -> Timestamp {
    ORIGIN.plus(Span::MINUTE.times(number))
}

fn states(bench: &Bench) -> Vec<String> {
    let mut states = bench.states();
    states.sort();
    states
}

#[test]
fn what_was_read_in_order_before_a_failure_counts() {
    let bench = Bench::open();
    let spec = ordered(|_| {});
    bench.harvest(&spec, 24, Arc::new(bench.shelf(20, Span::MINUTE).twisted(ends_at_nine)));
    assert_eq!(states(&bench), ["FAILED", "SPLIT", "SUCCEEDED"]);
    assert_eq!(bench.watermark(&spec), Some(minute(7)), "the eighth record's own minute may go on on the next page");
    // The source has healed: only the rest is read again.
    let healthy = Arc::new(bench.shelf(20, Span::MINUTE));
    bench.harvest(&spec, 24, healthy.clone());
    assert_eq!(bench.record_ids(), numbers(20));
    assert_eq!(bench.watermark(&spec), Some(ORIGIN.plus(Span::DAY)));
    assert_eq!(healthy.asked().len(), 4, "records 8 to 20 in pages of four");
}

#[test]
fn ties_that_go_on_over_three_pages_are_not_proven() {
    let bench = Bench::open();
    let spec = ordered(|_| {});
    let at = |number: i64| if number > 2 { minute(2) } else { minute(number - 1) };
    let records = (1..=20).map(|number| (number.to_string(), at(number))).collect();
    let shelf = crate::shelf::Shelf::new(bench.clock(), records).twisted(ends_at_nine);
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(bench.watermark(&spec), Some(minute(2)));
}

#[test]
fn a_source_that_lies_about_its_order_gets_no_credit() {
    // Within one page, and from one page to the next.
    for lie in [0, 3] {
        let bench = Bench::open();
        let spec = ordered(|_| {});
        let shelf = bench.shelf(20, Span::MINUTE).twisted(move |ask, mut page| {
            if token_of(ask) == 4 {
                let early = page.items[lie..].iter_mut();
                early.for_each(|item| item.updated_at = Some(ORIGIN));
            }
            ends_at_nine(ask, page)
        });
        bench.harvest(&spec, 24, Arc::new(shelf));
        assert_eq!(bench.states(), ["FAILED"], "{lie}");
        assert_eq!(bench.watermark(&spec), None);
    }
}

#[test]
fn a_pass_that_ends_and_does_not_reconcile_gets_no_credit() {
    let bench = Bench::open();
    let spec = ordered(|spec| {
        spec.response.total = Some("$.total".into());
        // It cannot be cut.
        spec.window.boundary.grain = Span::DAY;
        spec.window.min = Span::DAY;
    });
    // One record more is counted in every pass than is shown, and each pass shows another one for the first time.
    let asked = AtomicU32::new(0);
    let shelf = bench.shelf(4, Span::MINUTE).twisted(move |_, mut page| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        page.items[3].id = format!("new{number}");
        Ok(Page { total: Some(5), ..page })
    });
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(bench.states(), ["PARTIAL"]);
    assert_eq!(bench.watermark(&spec), None);
}

#[test]
fn a_deep_slice_in_order_goes_on_after_what_it_has_proven() {
    let bench = Bench::open();
    let spec = ordered(|spec| spec.pagination.max_page = Some(3));
    let shelf = Arc::new(bench.shelf(40, Span::MINUTE));
    bench.harvest(&spec, 24, shelf.clone());
    assert_eq!(bench.record_ids(), numbers(40));
    assert_eq!(bench.watermark(&spec), Some(ORIGIN.plus(Span::DAY)));
    assert!(bench.states().iter().any(|state| state == "SPLIT"));
}

#[test]
fn the_proof_outlives_the_run_that_read_it() {
    let bench = Bench::open();
    let spec = ordered(|_| {});
    // The first run meets an outage after two pages; a later one meets the refusal.
    let outage = AtomicU32::new(0);
    let shelf = bench.shelf(20, Span::MINUTE).twisted(move |ask, page| {
        let down = token_of(ask) >= 8 && outage.fetch_add(1, Ordering::SeqCst) < 6;
        let away = FetchError::Status { status: 503, message: "away".into(), retry_after: None };
        if down { Err(away) } else { ends_at_nine(ask, page) }
    });
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(states(&bench), ["FAILED", "SPLIT", "SUCCEEDED"]);
    assert_eq!(bench.watermark(&spec), Some(minute(7)));
}
