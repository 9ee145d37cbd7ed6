//! Reading a slice from a small moving source, for each kind of paging.

use super::*;
use crate::page::{BadItem, BadReason, Item, RateHints};
use crate::spec::sample;
use crate::spec::snapshot::StopRule;
use crate::time::Span;
use bytes::Bytes;

pub(super) fn item(id: &str, second: i64) -> Item {
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

pub(super) fn page(ids: &[&str], total: Option<u64>) -> Page {
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

pub(super) fn pass(change: impl FnOnce(&mut SpecSnapshot)) -> Pass {
    let mut spec = sample::snapshot();
    spec.pagination.size = 3;
    change(&mut spec);
    let window = Window::new(Timestamp::from_seconds(0), Timestamp::from_seconds(100)).unwrap();
    Pass::new(Arc::new(spec), window)
}

pub(super) fn now() -> Timestamp {
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
fn pages_that_can_shift_are_believed_when_all_that_was_counted_was_seen_again() {
    let mut pass = pass(|spec| spec.pagination.overlap = 0);
    pass.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(6)), now());
    assert_eq!(pass.accept(&Position::Offset(3), &page(&["e", "f"], Some(5)), now()), next(Position::Offset(5)));
    assert_eq!(pass.accept(&Position::Offset(5), &page(&[], Some(5)), now()), LAST);
    assert!(matches!(pass.end(), PassEnd::Again { .. }));
    pass.turn_page_over();
    assert_eq!((pass.pass_no(), pass.next_seq()), (2, 0));
    let (second, third) = (now().plus(Span::HOUR), now().plus(Span::DAY));
    pass.accept(&Position::Offset(0), &page(&["b", "c", "d"], Some(5)), second);
    assert_eq!(pass.accept(&Position::Offset(3), &page(&["e", "f"], Some(5)), second), LAST);
    // `a` was not met again: it may have left before `d` was skipped, and the same may have happened here.
    assert!(matches!(pass.end(), PassEnd::Again { .. }));
    pass.turn_page_over();
    pass.accept(&Position::Offset(0), &page(&["b", "c", "d"], Some(6)), third);
    assert_eq!(pass.accept(&Position::Offset(3), &page(&["e", "f", "g"], Some(6)), third), LAST);
    assert_eq!((pass.end(), pass.proof()), (PassEnd::Proven, Some(Proof::SeenTwice)));
    assert_eq!(pass.proven_at(), Some(second), "what entered since was perhaps skipped");
}

#[test]
fn one_page_with_everything_is_a_proof_and_a_still_total_is_none() {
    let mut one = pass(|spec| spec.pagination.overlap = 0);
    assert_eq!(one.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(3)), now()), LAST);
    assert_eq!((one.end(), one.proof()), (PassEnd::Proven, Some(Proof::Whole)));
    let mut still = pass(|spec| spec.pagination.overlap = 0);
    still.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(5)), now());
    // `a` left, `d` was skipped, and `g` entered.
    assert_eq!(still.accept(&Position::Offset(3), &page(&["e", "g"], Some(5)), now()), LAST);
    assert!(matches!(still.end(), PassEnd::Again { .. }));
}

#[test]
fn what_is_not_proven_is_read_again_then_cut_and_given_up_where_it_cannot_be() {
    let mut pass = pass(|spec| spec.pagination.overlap = 0);
    let mut ends = Vec::new();
    for number in 1..=PASSES_MAX {
        let id = number.to_string();
        pass.accept(&Position::Offset(0), &page(&["a", "b", &id], Some(5)), now());
        pass.accept(&Position::Offset(3), &page(&["e", "f"], Some(5)), now());
        ends.push(pass.end());
        pass.turn_page_over();
    }
    let kinds: String = ends
        .iter()
        .map(|end| match end {
            PassEnd::Proven => 'P',
            PassEnd::Again { .. } => 'A',
            PassEnd::Split { parts: 4, .. } => 'S',
            PassEnd::Split { .. } => '?',
            PassEnd::GiveUp { .. } => 'G',
        })
        .collect();
    assert_eq!(kinds, "AASSSSSG");
}

#[test]
fn a_short_page_is_not_the_last_page() {
    let mut pass = pass(|spec| spec.pagination.overlap = 0);
    for want in [None, Some(Proof::SeenTwice)] {
        assert_eq!(pass.accept(&Position::Offset(0), &page(&["a", "b"], None), now()), next(Position::Offset(2)));
        assert_eq!(pass.accept(&Position::Offset(2), &page(&[], None), now()), LAST);
        assert_eq!(pass.proof(), want);
        pass.turn_page_over();
    }
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
    assert!(matches!(verdict, Accepted::Split { parts: 4, .. }), "{verdict:?}");
}

#[test]
fn a_slice_deeper_than_the_source_serves_is_split_before_its_pages_end() {
    let deep = |kind: PagingKind, overlap: u32, backward: bool| {
        pass(|spec| {
            let paging = &mut spec.pagination;
            (paging.kind, paging.overlap, paging.backward, paging.max_page) = (kind, overlap, backward, Some(2));
        })
    };
    // (pass, total of the first page, whether it is cut at once)
    for (mut pass, total, cut) in [
        (deep(PagingKind::Offset, 0, false), 6, false),
        (deep(PagingKind::Offset, 0, false), 7, true),
        (deep(PagingKind::Offset, 1, false), 6, true),
        (deep(PagingKind::Page, 0, false), 7, true),
        (deep(PagingKind::Page, 0, true), 7, true),
        (deep(PagingKind::Page, 0, true), 6, false),
    ] {
        let first = match pass.spec.pagination.kind {
            PagingKind::Offset => Position::Offset(0),
            _ => Position::Page(1),
        };
        let verdict = pass.accept(&first, &page(&["a", "b", "c"], Some(total)), now());
        assert_eq!(matches!(verdict, Accepted::Split { .. }), cut, "{total}: {verdict:?}");
    }
    // Without a total, or with pages shorter than asked for, the depth is met on the way.
    for total in [None, Some(6)] {
        let mut pass = deep(PagingKind::Offset, 0, false);
        assert_eq!(pass.accept(&Position::Offset(0), &page(&["a", "b"], total), now()), next(Position::Offset(2)));
        let verdict = pass.accept(&Position::Offset(2), &page(&["c", "d"], total), now());
        assert!(matches!(verdict, Accepted::Split { parts: 2, .. }), "{verdict:?}");
    }
    let mut whole = deep(PagingKind::Offset, 0, false);
    whole.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(4)), now());
    assert_eq!(whole.accept(&Position::Offset(3), &page(&["d"], Some(4)), now()), LAST);
}

#[test]
fn a_declared_short_page_ends_only_with_the_count_and_else_one_more_page_is_asked_for() {
    let declared = || {
        pass(|spec| {
            spec.pagination.overlap = 0;
            spec.pagination.stop = vec![StopRule::ShortPage];
        })
    };
    assert_eq!(declared().accept(&Position::Offset(0), &page(&["a", "b"], Some(2)), now()), LAST);
    let mut silent = declared();
    assert_eq!(silent.accept(&Position::Offset(0), &page(&["a", "b"], None), now()), next(Position::Offset(2)));
    assert_eq!(silent.accept(&Position::Offset(2), &page(&[], None), now()), LAST);
}

#[test]
fn a_tail_probe_asks_the_last_page_again_where_only_its_silence_ends_the_pages() {
    let probing = |kind: PagingKind| {
        pass(|spec| {
            spec.pagination.kind = kind;
            spec.pagination.tail_probe = true;
        })
    };
    for (kind, first) in [(PagingKind::Token, Position::Token(None)), (PagingKind::Url, Position::Url(None))] {
        let mut silent = probing(kind);
        assert_eq!(silent.accept(&first, &page(&["a"], None), now()), Accepted::AskAgain);
        silent.asked_again();
        let more = Page { next_token: Some("t".into()), next_url: Some("/t".into()), ..page(&["a", "b"], None) };
        assert!(matches!(silent.accept(&first, &more, now()), Accepted::Commit { next: Some(_) }));
        let mut sure = probing(kind);
        sure.asked_again();
        assert_eq!(sure.accept(&first, &page(&["a"], None), now()), LAST);
        assert_eq!(probing(kind).accept(&first, &page(&["a"], Some(1)), now()), LAST, "the count confirms it");
        let told = Page { has_more: Some(false), ..page(&["a"], None) };
        assert_eq!(probing(kind).accept(&first, &told, now()), LAST, "the source says so");
    }
}

#[test]
fn a_tail_probe_reads_one_page_past_a_count() {
    let mut offset = pass(|spec| spec.pagination.tail_probe = true);
    assert_eq!(offset.accept(&Position::Offset(0), &page(&["a", "b", "c"], Some(3)), now()), next(Position::Offset(2)));
    let mut short = offset.clone();
    assert_eq!(offset.accept(&Position::Offset(2), &page(&["c"], Some(3)), now()), LAST);
    assert_eq!(offset.end(), PassEnd::Proven);
    // The count was too small: what lies past it is read, and the total that moved asks for another pass.
    assert_eq!(short.accept(&Position::Offset(2), &page(&["c", "d"], Some(4)), now()), next(Position::Offset(3)));
    assert_eq!(short.accept(&Position::Offset(3), &page(&["d"], Some(4)), now()), LAST);
    assert!(matches!(short.end(), PassEnd::Again { .. }));
    let mut repeats = pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.tail_probe = true;
    });
    assert_eq!(repeats.accept(&Position::Page(1), &page(&["a", "b"], Some(2)), now()), next(Position::Page(2)));
    assert_eq!(repeats.accept(&Position::Page(2), &page(&["a", "b"], Some(2)), now()), LAST, "the last page repeated");
    let mut none = pass(|spec| spec.pagination.tail_probe = true);
    assert_eq!(none.accept(&Position::Offset(0), &page(&[], Some(0)), now()), LAST);
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
    for want in [None, Some(Proof::SeenTwice)] {
        assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(5)), now()), next(at(3)));
        assert_eq!(pass.accept(&at(3), &page(&["e"], Some(5)), now()), next(at(2)));
        assert_eq!(pass.accept(&at(2), &page(&["c", "d"], Some(5)), now()), next(at(1)));
        assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(5)), now()), LAST);
        assert_eq!(pass.proof(), want);
        pass.turn_page_over();
    }
    let mut two = self::pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.backward = true;
    });
    assert_eq!(two.accept(&at(1), &page(&["a", "b"], Some(3)), now()), next(at(2)));
    assert_eq!(two.accept(&at(2), &page(&["c"], Some(3)), now()), next(at(1)));
    assert_eq!(two.accept(&at(1), &page(&["a", "b"], Some(3)), now()), LAST);
}

#[test]
fn backward_paging_is_not_over_before_the_first_page_was_met_again() {
    let mut pass = pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.backward = true;
        spec.pagination.stop = vec![StopRule::CountReached, StopRule::EmptyPage];
        spec.pagination.size = 2;
    });
    let at = Position::Page;
    assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(7)), now()), next(at(4)));
    assert_eq!(pass.accept(&at(4), &page(&["g"], Some(7)), now()), next(at(3)));
    // a and b have left: as many ids were met as there are, and d was not.
    assert_eq!(pass.accept(&at(3), &page(&["g"], Some(5)), now()), next(at(2)));
    assert_eq!(pass.accept(&at(2), &page(&["e", "f"], Some(5)), now()), next(at(1)));
    assert_eq!(pass.accept(&at(1), &page(&["c", "d"], Some(5)), now()), LAST);
    assert!(matches!(pass.end(), PassEnd::Again { .. }));
}

#[test]
fn backward_paging_passes_over_pages_that_are_gone() {
    let mut pass = pass(|spec| {
        spec.pagination.kind = PagingKind::Page;
        spec.pagination.backward = true;
        spec.pagination.size = 2;
    });
    let at = Position::Page;
    assert_eq!(pass.accept(&at(1), &page(&["a", "b"], Some(5)), now()), next(at(3)));
    assert_eq!(pass.accept(&at(3), &page(&[], Some(4)), now()), next(at(2)));
    assert_eq!(pass.accept(&at(2), &page(&[], Some(4)), now()), Accepted::AskAgain, "this one should be there");
}

#[test]
fn backward_paging_needs_a_total_to_know_its_last_page() {
    let backward = || {
        pass(|spec| {
            spec.pagination.kind = PagingKind::Page;
            spec.pagination.backward = true;
            spec.pagination.size = 2;
        })
    };
    let first = Position::Page(1);
    for has_more in [None, Some(true)] {
        let mut pass = backward();
        let silent = Page { has_more, ..page(&["a", "b"], None) };
        for _ in 0..EMPTY_RETRIES {
            assert_eq!(pass.accept(&first, &silent, now()), Accepted::AskAgain);
            pass.asked_again();
        }
        assert!(matches!(pass.accept(&first, &silent, now()), Accepted::Fail { class: "NO_TOTAL", .. }));
    }
    let all = Page { has_more: Some(false), ..page(&["a", "b"], None) };
    assert_eq!(backward().accept(&first, &all, now()), LAST, "the source says so");
    assert_eq!(backward().accept(&first, &page(&[], None), now()), LAST, "there is nothing");
}

#[test]
fn a_count_that_fell_is_no_end() {
    let mut pass = pass(|spec| spec.pagination.kind = PagingKind::Page);
    let at = Position::Page;
    assert_eq!(pass.accept(&at(1), &page(&["a", "b", "c"], Some(8)), now()), next(at(2)));
    // a and b have left: as many ids were met as there are, and d, e and i were not.
    assert_eq!(pass.accept(&at(2), &page(&["f", "g", "h"], Some(6)), now()), next(at(3)));
    assert_eq!(pass.accept(&at(3), &page(&["i"], Some(6)), now()), next(at(4)));
    assert_eq!(pass.accept(&at(4), &page(&[], Some(6)), now()), LAST);
    assert!(matches!(pass.end(), PassEnd::Again { .. }));
}

#[test]
fn ties_that_come_twice_do_not_step_over_a_whole_grain() {
    let mut pass = pass(|spec| spec.pagination.kind = PagingKind::Time);
    let (from, ties) = (Timestamp::from_seconds(0), Timestamp::from_seconds(2));
    let page = Page { items: vec![item("a", 2), item("b", 2)], ..page(&[], None) };
    assert_eq!(pass.accept(&Position::Since(from), &page, now()), next(Position::Since(ties)));
    let after = ties.plus(Span::from_micros(1));
    assert_eq!(pass.accept(&Position::Since(ties), &page, now()), next(Position::Since(after)));
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
        times: None,
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

#[test]
fn a_page_with_bytes_that_are_no_text_is_asked_for_again_before_it_counts() {
    let bad =
        |reason| BadItem { id: None, reason, path: String::new(), message: String::new(), raw: Default::default() };
    let spoilt = |reason| Page { bad: vec![bad(reason)], ..page(&["a"], Some(2)) };
    let mut reading = pass(|_| ());
    for _ in 0..SPOILT_RETRIES {
        assert_eq!(reading.accept(&Position::Offset(0), &spoilt(BadReason::BadText), now()), Accepted::AskAgain);
        reading.asked_again();
    }
    assert_eq!(reading.accept(&Position::Offset(0), &spoilt(BadReason::BadText), now()), LAST);
    let other = pass(|_| ()).accept(&Position::Offset(0), &spoilt(BadReason::BadTime), now());
    assert_eq!(other, LAST, "what is written wrongly is so the next time too");
    let mut once = pass(|spec| spec.pagination.replayable = false);
    assert_ne!(once.accept(&Position::Offset(0), &spoilt(BadReason::BadText), now()), Accepted::AskAgain);
}
