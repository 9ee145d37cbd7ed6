//! Budgets: drawn from all windows or from none, never above what they hold, and handed back.

use patra_core::budget::{Budget, BudgetKind};
use patra_core::ports::*;
use patra_core::spec::snapshot::Operation;
use patra_core::time::Span;

use super::bench::Bench;

fn budget(bench: &Bench, kind: BudgetKind, length: Span, limit: u64) -> Budget {
    let from = bench.now();
    Budget { kind, from, reset_at: from.plus(length), limit, soft: limit / 5 }
}

fn draw(budgets: &[Budget], operation: Operation, most: u64) -> BudgetDraw {
    BudgetDraw { key: RateKey::new("crossref/plus"), budgets: budgets.to_vec(), operation, least: 2, most }
}

pub(super) async fn a_budget_is_never_overdrawn_and_the_last_of_it_is_for_the_harvest(bench: Bench) {
    let hour = budget(&bench, BudgetKind::Hour, Span::HOUR, 50);
    let day = budget(&bench, BudgetKind::Day, Span::DAY, 60);
    let both = [hour, day];
    let asked = |operation, most| {
        let (store, draw) = (bench.store.clone(), draw(&both, operation, most));
        async move { store.draw_budget(&draw).await.unwrap() }
    };
    let granted = |requests| BudgetDrawn::Granted { requests };
    assert_eq!(asked(Operation::Backfill, 30).await, granted(30));
    assert_eq!(asked(Operation::Backfill, 30).await, granted(10), "a fifth of the hour is left to others");
    assert_eq!(asked(Operation::Backfill, 30).await, BudgetDrawn::Empty { reset_at: hour.reset_at });
    assert_eq!(asked(Operation::Harvest, 9).await, granted(9));
    assert_eq!(
        asked(Operation::Harvest, 9).await,
        BudgetDrawn::Empty { reset_at: hour.reset_at },
        "one is too few for two"
    );
    bench.store.return_budget(&RateKey::new("crossref/plus"), &both, 5).await.unwrap();
    assert_eq!(asked(Operation::Harvest, 9).await, granted(6), "what was handed back, and the one that was left");
    let next = Budget { from: hour.reset_at, reset_at: hour.reset_at.plus(Span::HOUR), ..hour };
    let draws = draw(&[next, day], Operation::Harvest, 30);
    assert_eq!(bench.store.draw_budget(&draws).await, Ok(granted(10)), "the day holds on");
    assert_eq!(bench.store.draw_budget(&draws).await, Ok(BudgetDrawn::Empty { reset_at: day.reset_at }));
}

pub(super) async fn two_who_draw_at_once_share_what_is_left(bench: Bench) {
    let day = budget(&bench, BudgetKind::Day, Span::DAY, 100);
    let draws: Vec<_> = (0..8)
        .map(|_| {
            let (store, draw) = (bench.store.clone(), draw(&[day], Operation::Harvest, 30));
            tokio::spawn(async move { store.draw_budget(&draw).await.unwrap() })
        })
        .collect();
    let mut sum = 0;
    for drawn in draws {
        if let BudgetDrawn::Granted { requests } = drawn.await.unwrap() {
            sum += requests;
        }
    }
    assert_eq!(sum, 100);
}

pub(super) async fn an_empty_budget_is_a_fact_for_the_watch_and_can_be_listed(bench: Bench) {
    let day = budget(&bench, BudgetKind::Day, Span::DAY, 10);
    let drawn = bench.store.draw_budget(&draw(&[day], Operation::Harvest, 10)).await;
    assert_eq!(drawn, Ok(BudgetDrawn::Granted { requests: 10 }));
    let facts = bench.store.alarm_facts(10).await.unwrap();
    assert_eq!(facts.empty_budgets, [("crossref/plus".to_owned(), day.reset_at)]);
    let rows = bench.store.list(Noun::Budget, &ListFilter::default()).await.unwrap();
    assert_eq!((rows.len(), &rows[0]["used_count"], &rows[0]["soft_count"]), (1, &10.into(), &2.into()));
}
