//! One bad record cannot stop a page.

use std::sync::Arc;

use patra_core::ports::Noun;
use patra_core::time::Span;

use crate::bench::{Bench, ORIGIN, numbers, spec};

#[test]
fn an_id_that_cannot_be_stored_goes_to_quarantine_and_the_slice_succeeds() {
    let bench = Bench::open();
    let spec = spec(|spec| spec.pagination.overlap = 1);
    let shelf = bench.shelf(6, Span::MINUTE).twisted(|_, mut page| {
        for item in page.items.iter_mut().filter(|item| item.id == "3") {
            item.id = "3\0".into();
        }
        Ok(page)
    });
    bench.harvest(&spec, 24, Arc::new(shelf));
    assert_eq!(bench.states(), ["SUCCEEDED"]);
    assert_eq!(bench.record_ids(), numbers(6).into_iter().filter(|id| id != "3").collect::<Vec<_>>());
    let kept = bench.rows(Noun::Quarantine);
    assert_eq!((kept.len(), kept[0]["reason_code"].as_str()), (1, Some("STORE")));
    assert_eq!(bench.watermark(&spec), Some(ORIGIN.plus(Span::DAY)));
}

#[test]
fn a_page_whose_records_are_all_refused_fails_the_slice_at_once() {
    let bench = Bench::open();
    let spec = spec(|spec| spec.pagination.size = 10);
    let shelf = bench.shelf(10, Span::MINUTE).twisted(|_, mut page| {
        page.items.iter_mut().for_each(|item| item.id.push('\0'));
        Ok(page)
    });
    let shelf = Arc::new(shelf);
    bench.harvest(&spec, 24, shelf.clone());
    assert_eq!(bench.slices(), [("FAILED".to_owned(), "REFUSED".to_owned())]);
    assert_eq!(shelf.asked().len(), 1, "asking again would give the same page");
}
