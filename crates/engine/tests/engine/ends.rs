//! Where pages end: depth, probes and ranges.

use std::sync::Arc;

use patra_core::page::{Page, Position};
use patra_core::plan::build::NoPlan;
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{OutOfRange, PagingKind, SecondKey, StopRule};
use patra_core::time::Span;

use crate::bench::{Bench, ORIGIN, numbers, spec};

/// A source that refuses what lies deeper than two pages, as many do with status 400.
fn shallow(ask: &patra_core::page::PageAsk, page: Page) -> Result<Page, FetchError> {
    let patra_core::page::PageStep::Search { position, size } = &ask.step else { return Ok(page) };
    let deep = match position {
        Position::Offset(offset) => *offset >= u64::from(*size) * 2,
        Position::Page(number) => *number > 2,
        _ => false,
    };
    let refused = FetchError::Status { status: 400, message: "too deep".into(), retry_after: None };
    if deep { Err(refused) } else { Ok(page) }
}

#[test]
fn a_window_deeper_than_the_source_serves_is_cut_before_its_last_page() {
    for (kind, total) in [(PagingKind::Offset, true), (PagingKind::Offset, false), (PagingKind::Page, true)] {
        let bench = Bench::open();
        let spec = spec(|spec| {
            spec.pagination.kind = kind;
            spec.pagination.max_page = Some(2);
            spec.response.total = total.then(|| "$.total".into());
        });
        let shelf = Arc::new(bench.shelf(30, Span::from_seconds(600)).twisted(shallow));
        bench.harvest(&spec, 24, shelf);
        let states = bench.states();
        assert!(states.iter().all(|state| state == "SPLIT" || state == "SUCCEEDED"), "{kind:?} {states:?}");
        assert!(states.len() > 2, "{states:?}");
        assert_eq!(bench.record_ids(), numbers(30), "{kind:?}");
        assert_eq!(bench.watermark(&spec), Some(ORIGIN.plus(Span::DAY)));
    }
}

#[test]
fn depth_at_the_grain_goes_on_by_the_second_key_and_else_fails_loudly() {
    let all_at_once = || {
        let bench = Bench::open();
        let shelf = Arc::new(bench.shelf(30, Span::ZERO).twisted(shallow));
        (bench, shelf)
    };
    let (bench, shelf) = all_at_once();
    let keyed = spec(|spec| {
        spec.pagination.max_page = Some(2);
        spec.window.second_key = Some(SecondKey::IdRange { from: 1, to: 64 });
    });
    bench.harvest(&keyed, 24, shelf);
    assert_eq!(bench.record_ids(), numbers(30));
    assert_eq!(bench.watermark(&keyed), Some(ORIGIN.plus(Span::DAY)));
    let (bench, shelf) = all_at_once();
    let plain = spec(|spec| spec.pagination.max_page = Some(2));
    bench.harvest(&plain, 24, shelf);
    let failed: Vec<_> = bench.slices().into_iter().filter(|(state, _)| state == "FAILED").collect();
    assert_eq!(failed, [("FAILED".to_owned(), "OVERFLOW".to_owned())]);
    assert_eq!(bench.watermark(&plain), None, "the watermark waits before it");
}

#[test]
fn a_short_page_without_a_total_is_followed_by_one_probe() {
    let bench = Bench::open();
    let spec = spec(|spec| {
        spec.pagination.stop = vec![StopRule::ShortPage];
        spec.response.total = None;
    });
    // The third page lacks an item that the fourth then has: a short page in the middle.
    let shelf = bench.shelf(10, Span::MINUTE).twisted(|ask, mut page| {
        if ask.spec.pagination.size as usize == page.items.len() {
            page.items.pop();
        }
        Ok(page)
    });
    let shelf = Arc::new(shelf);
    bench.harvest(&spec, 24, shelf.clone());
    assert_eq!(bench.record_ids(), numbers(10));
    // Twice, because offsets without an overlap can shift unnoticed; the last one of each reading is the probe.
    let positions: Vec<Position> = [0, 3, 6, 9, 10].repeat(2).into_iter().map(Position::Offset).collect();
    assert_eq!(shelf.asked(), positions);
}

#[test]
fn a_tail_probe_finds_a_next_token_that_one_answer_had_lost() {
    for probe in [true, false] {
        let bench = Bench::open();
        let spec = spec(|spec| {
            spec.pagination.kind = PagingKind::Token;
            spec.pagination.tail_probe = probe;
            spec.response.total = None;
        });
        let forgot = std::sync::atomic::AtomicBool::new(false);
        let shelf = bench.shelf(10, Span::MINUTE).twisted(move |_, page| {
            let cut =
                page.next_token.as_deref() == Some("8") && !forgot.swap(true, std::sync::atomic::Ordering::SeqCst);
            Ok(if cut { Page { next_token: None, ..page } } else { page })
        });
        bench.harvest(&spec, 24, Arc::new(shelf));
        // Without the probe nothing can tell that two records are missing: that is what it is declared for.
        assert_eq!(bench.record_ids().len(), if probe { 10 } else { 8 });
    }
}

#[test]
fn a_tail_probe_reads_what_lies_past_a_count_that_is_too_small() {
    let bench = Bench::open();
    let spec = spec(|spec| {
        spec.pagination.overlap = 1;
        spec.pagination.tail_probe = true;
    });
    // The total lags behind by two.
    let shelf = bench.shelf(10, Span::MINUTE).twisted(|_, page| Ok(Page { total: Some(8), ..page }));
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(bench.record_ids(), numbers(10));
}

#[test]
fn an_end_outside_the_range_of_the_source_is_cut_or_refused() {
    let bench = Bench::open();
    let clipping = spec(|_| {});
    let failing = spec(|spec| spec.window.out_of_range = OutOfRange::Fail);
    for hours in [0, 24 * 30] {
        assert!(matches!(bench.plan(&failing, hours), Err(NoPlan::OutOfRange { .. })), "{hours}");
    }
    assert_eq!(bench.plan(&clipping, 0), Ok(None));
    assert!(bench.plan(&clipping, 24 * 30).unwrap().is_some());
}
