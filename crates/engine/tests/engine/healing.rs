//! What is done without a person: fewer tasks and smaller pages for a slow source, an end for what is refused for good.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use patra_core::page::{Page, PageAsk, PageStep, Position};
use patra_core::ports::{Noun, Source};
use patra_core::spec::errors::FetchError;
use patra_core::spec::snapshot::{DetailSpec, RateSpec, RateWindow};
use patra_core::time::Span;
use patra_engine::settings::Settings;
use patra_sim::vtime::Scheduler;

use crate::bench::{Bench, numbers, spec};
use crate::shelf::Shelf;

fn size_of(ask: &PageAsk) -> u32 {
    match ask.step {
        PageStep::Search { size, .. } => size,
        PageStep::Detail { .. } => 0,
    }
}

#[test]
fn a_slow_source_is_asked_for_smaller_pages_and_nothing_is_lost() {
    let bench = Bench::open();
    let slow = spec(|spec| {
        let windows = vec![RateWindow { requests: 1, per: Span::from_seconds(10) }];
        spec.rate = RateSpec { windows, burst: 1, ..spec.rate.clone() };
        spec.window.slice = Span::HOUR.times(6);
    });
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let shelf = bench.shelf(96, Span::MINUTE.times(15)).twisted(move |ask, page| {
        seen.lock().unwrap().push(size_of(ask));
        Ok(Page { latency: Span::from_seconds(5), ..page })
    });
    bench.harvest(&slow, 24, Arc::new(shelf));
    assert_eq!((bench.record_ids(), bench.states()), (numbers(96), vec!["SUCCEEDED".to_owned(); 4]));
    let sizes = sizes.lock().unwrap();
    assert_eq!(sizes.first(), Some(&4), "as the spec says at first");
    assert_eq!(sizes.iter().min(), Some(&1), "a quarter at last: {sizes:?}");
    let pages = bench.rows(Noun::Batch);
    assert_eq!(pages.last().unwrap()["stats"]["healing"]["pagePercent"], 25, "the pages say so");
}

#[test]
fn a_page_that_fails_for_good_ends_its_window_and_no_other() {
    let bench = Bench::open();
    let hourly = spec(|spec| spec.window.slice = Span::HOUR);
    bench.plan(&hourly, 4).unwrap();
    let poisoned = hourly.window.origin;
    let shelf = bench.shelf(40, Span::MINUTE.times(6)).twisted(move |ask, page| {
        let deep = matches!(ask.step, PageStep::Search { position: Position::Offset(offset), .. } if offset >= 4);
        let away = FetchError::Status { status: 500, message: "away".into(), retry_after: None };
        if deep && ask.window.contains(poisoned) { Err(away) } else { Ok(page) }
    });
    let executor = bench.executor(Arc::new(shelf), Settings { outage_runs_max: 2, ..Settings::default() });
    let mut scheduler = Scheduler::new(bench.time.clone(), 1);
    scheduler.spawn(async move { executor.drain("w").await.unwrap() });
    scheduler.run();
    let mut states = bench.states();
    states.sort();
    assert_eq!(states, ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
    let (_, reason) = bench.slices().into_iter().find(|(state, _)| state == "FAILED").unwrap();
    assert_eq!(reason, "OUTAGE");
    let open = |row: &&patra_core::ports::Shown| row["stats"]["circuit_open"] == true;
    assert!(bench.rows(Noun::Run).iter().filter(open).count() > 2, "its runs say why they ended");
}

/// Finds everything and gives no details.
struct Refusing(Shelf);

#[async_trait]
impl Source for Refusing {
    async fn fetch(&self, ask: &PageAsk) -> Result<Page, FetchError> {
        match ask.step {
            PageStep::Search { .. } => self.0.fetch(ask).await,
            PageStep::Detail { .. } => {
                Err(FetchError::Status { status: 400, message: "unknown field `id`".into(), retry_after: None })
            }
        }
    }
}

#[test]
fn a_detail_request_that_is_refused_for_every_id_ends_the_task_and_says_what_was_answered() {
    let bench = Bench::open();
    let two_phase = spec(|spec| {
        spec.pagination.size = 40;
        spec.detail = Some(DetailSpec {
            endpoint: "fetch".into(),
            request: spec.request.clone(),
            response: spec.response.clone(),
            id_batch_size: 2,
            errors: Vec::new(),
        });
    });
    bench.harvest(&two_phase, 24, Arc::new(Refusing(bench.shelf(40, Span::MINUTE))));
    assert_eq!(bench.states(), ["FAILED"]);
    let task = bench.rows(Noun::Task)[0].clone();
    let error = task["error"].as_str().unwrap();
    assert!(error.contains("20 of 20 ids were refused by `fetch`") && error.contains("unknown field `id`"), "{error}");
}
