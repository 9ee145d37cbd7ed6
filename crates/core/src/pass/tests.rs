//! Reading a slice from a small moving source, for each kind of paging.

use super::*;
use crate::page::{BadItem, BadReason, Item, RateHints};
use crate::spec::sample;
use crate::spec::snapshot::StopRule;
use crate::time::Span;
use bytes::Bytes;

fn item(id: &str, second: i64) -> Item {
    Item {
        id: id.into(),
        updated_at: Some(Timestamp::from_seconds(second)),
        version: None,
        deleted: false,
        content_hash: Hash32::of(id.as_bytes()),
        fields: "{}".into(),
        payload: Bytes::new(),
    }
}

fn page(ids: &[&str], total: Option<u64>) -> Page {
    Page {
        items: ids.iter().map(|id| item(id, 5)).collect(),
        bad: Vec::new(),
        total,
        has_more: None,
        next_token: None,
        next_url: None,
        body: Bytes::new(),
        response_hash: Hash32::default(),
        asked_at: Timestamp::default(),
        fetched_at: Timestamp::default(),
        source_date: None,
        status: 200,
        rate: RateHints::default(),
        request_digest: serde_json::Value::Null,
        response_digest: serde_json::Value::Null,
        latency: Span::ZERO,
        decode: Span::ZERO,
    }
}

fn pass(change: impl FnOnce(&mut SpecSnapshot)) -> Pass {
    let mut spec = sample::snapshot();
    spec.pagination.size = 3;
    change(&mut spec);
    let window = Window::new(Timestamp::from_seconds(0), Timestamp::from_seconds(100)).unwrap();
    Pass::new(Arc::new(spec), window)
}

fn now() -> Timestamp {
    Timestamp::from_seconds(1_000)
}

fn next(position: Position) -> Accepted {
    Accepted::Commit { next: Some(position) }
}

const LAST: Accepted = Accepted::Commit { next: None };

#[test]
fn offset_pages_overlap_and_end_when_the_count_is_reached() {
    let mut pass = pass(|_| {});
    assert_eq!(pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(5)), now()), next(Position::Offset(2)));
    assert_eq!(pass.accept(&Position::Offset(2), &page(&["c", "d", "e"], Some(5)), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
    assert_eq!(pass.read_at(), Some(now()));
}

#[test]
fn a_reading_counts_from_its_first_page_or_from_the_lowest_where_the_clock_was_set_back() {
    let (earlier, later) = (now().minus(Span::DAY), now().plus(Span::DAY));
    for (second, want) in [(later, now()), (earlier, earlier)] {
        let mut pass = pass(|_| {});
        pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(5)), now());
        pass.accept(&Position::Offset(2), &page(&["c", "d", "e"], Some(5)), second);
        assert_eq!(pass.read_at(), Some(want));
        pass.step_committed(earlier);
        assert_eq!(pass.read_at(), Some(earlier));
    }
}

#[test]
fn an_item_that_leaves_while_paging_is_noticed_by_the_overlap() {
    let mut pass = pass(|_| {});
    pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(6)), now());
    // `a` left, everything moved one to the left: `d` would have been skipped.
    let verdict = pass.accept(&Position::Offset(2), &page(&["d", "e", "f"], Some(5)), now());
    assert!(matches!(verdict, Accepted::NewPass { .. }), "{verdict:?}");
}

#[test]
fn a_total_that_moves_asks_for_another_pass_until_one_finds_nothing_new() {
    let mut pass = pass(|spec| spec.pagination.overlap = 0);
    pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(6)), now());
    assert_eq!(pass.accept(&Position::Offset(3), &page(&["e", "f"], Some(5)), now()), LAST);
    assert!(matches!(pass.end(), PassEnd::Again { .. }));
    pass.turn_page_over();
    assert_eq!((pass.pass_no(), pass.next_seq()), (2, 0));
    pass.accept(&Position::Offset(0), &page(&["b", "c", "d"], Some(5)), now());
    assert_eq!(pass.accept(&Position::Offset(3), &page(&["e", "f"], Some(5)), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
}

#[test]
fn a_short_page_is_not_the_last_page() {
    let mut pass = pass(|spec| spec.pagination.overlap = 0);
    assert_eq!(pass.accept(&Position::Offset(0), &page(&["a", "b"], None), now()), next(Position::Offset(2)));
    assert_eq!(pass.accept(&Position::Offset(2), &page(&[], None), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
}

#[test]
fn an_empty_page_before_the_total_is_asked_again_and_then_starts_a_new_pass() {
    let mut fresh = pass(|spec| spec.pagination.overlap = 0);
    fresh.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(9)), now());
    for _ in 0..EMPTY_RETRIES {
        assert_eq!(fresh.accept(&Position::Offset(3), &page(&[], Some(9)), now()), Accepted::AskAgain);
        fresh.asked_again();
    }
    assert!(matches!(fresh.accept(&Position::Offset(3), &page(&[], Some(9)), now()), Accepted::NewPass { .. }));
}

#[test]
fn a_total_over_the_cap_is_split_before_paging() {
    let mut pass = pass(|spec| spec.pagination.result_cap = Some(100));
    let verdict = pass.accept(&Position::Offset(0), &page(&["a"], Some(101)), now());
    assert!(matches!(verdict, Accepted::Split { total: 101, .. }));
}

#[test]
fn a_server_side_cursor_may_repeat_its_token_but_not_its_page() {
    let mut pass = pass(|spec| {
        spec.pagination.kind = PagingKind::Token;
        spec.pagination.replayable = false;
        spec.pagination.stop = vec![StopRule::EmptyPage];
    });
    let with = |ids: &[&str]| Page { next_token: Some("same".into()), ..page(ids, Some(4)) };
    let same = Position::Token(Some("same".into()));
    assert_eq!(pass.accept(&Position::Token(Some("*".into())), &with(&["a", "b", "c"]), now()), next(same.clone()));
    assert_eq!(pass.accept(&same, &with(&["d"]), now()), next(same.clone()));
    let mut looping = pass.clone();
    assert_eq!(pass.accept(&same, &with(&[]), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
    assert!(matches!(looping.accept(&same, &with(&["d"]), now()), Accepted::Fail { class: "LOOP", .. }));
}

#[test]
fn a_token_seen_before_is_an_error_and_an_echo_ends_where_it_is_declared() {
    let spec = |spec: &mut SpecSnapshot| spec.pagination.kind = PagingKind::Token;
    let with = |token: &str, ids: &[&str]| Page { next_token: Some(token.into()), ..page(ids, None) };
    let at = |token: &str| Position::Token(Some(token.into()));
    let mut looping = pass(spec);
    assert_eq!(looping.accept(&at("1"), &with("2", &["a"]), now()), next(at("2")));
    assert!(matches!(looping.accept(&at("2"), &with("1", &["b"]), now()), Accepted::Fail { class: "LOOP", .. }));
    let mut echo = pass(|s| {
        spec(s);
        s.pagination.stop = vec![StopRule::EchoedToken];
    });
    assert_eq!(echo.accept(&at("1"), &with("2", &["a"]), now()), next(at("2")));
    assert_eq!(echo.accept(&at("2"), &with("2", &[]), now()), LAST);
}

#[test]
fn backward_paging_reads_from_the_last_page_to_the_first() {
    let mut pass = pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.backward = true;
    });
    let at = Position::Page;
    assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(5)), now()), next(at(3)));
    assert_eq!(pass.accept(&at(3), &page(&["e"], Some(5)), now()), next(at(2)));
    assert_eq!(pass.accept(&at(2), &page(&["c", "d"], Some(5)), now()), next(at(1)));
    assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(5)), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
    let mut two = self::pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.backward = true;
    });
    assert_eq!(two.accept(&at(1), &page(&["a", "b"], Some(3)), now()), next(at(2)));
    assert_eq!(two.accept(&at(2), &page(&["c"], Some(3)), now()), next(at(1)));
    assert_eq!(two.accept(&at(1), &page(&["a", "b"], Some(3)), now()), LAST);
}

#[test]
fn time_paging_goes_on_at_the_last_time_and_ends_past_the_window() {
    let mut pass = pass(|spec| spec.pagination.kind = PagingKind::Time);
    let at = |second: i64| Position::Since(Timestamp::from_seconds(second));
    let of =
        |items: &[(&str, i64)]| Page { items: items.iter().map(|(id, s)| item(id, *s)).collect(), ..page(&[], None) };
    assert_eq!(pass.accept(&at(0), &of(&[("a", 1), ("b", 2), ("c", 2)]), now()), next(at(2)));
    let tick = |ticks: i64| Position::Since(Timestamp::from_seconds(2).plus(Span::from_micros(ticks)));
    assert_eq!(pass.accept(&at(2), &of(&[("b", 2), ("c", 2), ("d", 2)]), now()), next(tick(1)));
    // A source that cuts microseconds off repeats the page; then the whole second is over.
    assert_eq!(pass.accept(&tick(1), &of(&[("b", 2), ("c", 2), ("d", 2)]), now()), next(tick(1_000_001)));
    assert_eq!(pass.accept(&at(3), &of(&[("e", 99), ("f", 100)]), now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
}

#[test]
fn a_source_that_lies_about_its_order_fails_loudly() {
    let mut pass = pass(|spec| spec.window.ordered = Some(crate::spec::snapshot::Order::Asc));
    let mut wrong = page(&["a", "b"], Some(2));
    wrong.items[1].updated_at = Some(Timestamp::from_seconds(1));
    assert!(matches!(pass.accept(&Position::Offset(0), &wrong, now()), Accepted::Fail { class: "DRIFT", .. }));
}

#[test]
fn a_pass_is_rebuilt_from_the_ledger() {
    let mut live = pass(|_| {});
    live.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(5)), now());
    let trace = BatchTrace {
        id: crate::id::Id(1),
        pass_no: 1,
        seq_no: 0,
        phase: Phase::Search,
        before_token: Place::Search(Position::Offset(0)).to_token(),
        after_token: Some(Place::Search(Position::Offset(2)).to_token()),
        item_count: 3,
        total: Some(5),
        page_ids: page_ids(&page(&["a", "b", "c"], None)),
        source_now: now(),
        committed_at: now(),
    };
    let mut again = Pass::resume(live.spec.clone(), live.window, 1, &[trace]).unwrap();
    assert_eq!((again.next_seq(), again.read_at(), again.last_page()), (1, Some(now()), live.last_page()));
    assert_eq!(again.accept(&Position::Offset(2), &page(&["c", "d", "e"], Some(5)), now()), LAST);
    assert_eq!(again.end(), PassEnd::Proven);
}

#[test]
fn passes_that_die_without_a_new_id_end_in_a_split_and_then_in_giving_up() {
    let mut pass = pass(|_| {});
    pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(9)), now());
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(pass.died());
        pass.turn_page_over();
        pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(9)), now());
    }
    assert_eq!(seen, [Died::Again, Died::Again, Died::Split, Died::GiveUp]);
}

#[test]
fn a_record_without_an_id_counts_by_its_bytes() {
    let mut with_bad = page(&["a"], Some(2));
    with_bad.bad.push(BadItem {
        id: None,
        reason: BadReason::NoId,
        path: "$.id".into(),
        message: String::new(),
        raw: Bytes::from_static(b"{}"),
    });
    let mut pass = pass(|_| {});
    assert_eq!(pass.accept(&Position::Offset(0), &with_bad, now()), LAST);
    assert_eq!(pass.end(), PassEnd::Proven);
}
