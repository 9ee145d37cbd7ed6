//! The limiter against sources that count for themselves.

use super::*;
use crate::spec::sample;
use proptest::prelude::*;

fn rate(requests: u32, per: Span, burst: u32, concurrency: u32) -> RateSpec {
    RateSpec { windows: vec![RateWindow { requests, per }], burst, concurrency, ..sample::snapshot().rate }
}

fn want(most: u32) -> Want {
    Want { most, horizon: Span::SECOND, background: false }
}

fn run(limiter: &mut Limiter, begin: Timestamp, end: Timestamp) -> Vec<Timestamp> {
    let (mut now, mut passed) = (begin, Vec::new());
    while now < end {
        match limiter.ask(now, false) {
            Turn::Go { permit } => {
                passed.push(now);
                limiter.done(permit);
            }
            Turn::Wait { until } => now = until.max(now.plus(Span::from_micros(1))),
        }
    }
    passed
}

#[test]
fn a_fresh_limiter_waits_one_window_and_then_uses_the_whole_rate() {
    let begin = Timestamp::from_seconds(1_000);
    let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 2), begin);
    let passed = run(&mut limiter, begin, begin.plus(Span::from_seconds(11)));
    assert_eq!(passed[0], begin.plus(Span::SECOND));
    assert!(passed.len() >= 99, "{}", passed.len());
}

#[test]
fn a_clock_set_back_takes_the_limits_with_it() {
    let (begin, back) = (Timestamp::from_seconds(100_000), Span::HOUR);
    let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 2), begin);
    let last = *run(&mut limiter, begin, begin.plus(Span::MINUTE)).last().unwrap();
    limiter.cool_down(last.plus(Span::from_seconds(30)));
    let now = last.minus(back);
    let again = run(&mut limiter, now, now.plus(Span::MINUTE));
    let pause = again[0].since(now);
    assert!(pause >= Span::from_seconds(30) && pause <= Span::from_seconds(31), "{pause:?}");
    assert!(again.len() >= 280, "{}", again.len());
}

#[test]
fn concurrency_holds_a_request_back_until_another_is_answered() {
    let begin = Timestamp::from_seconds(1_000);
    let mut limiter = Limiter::new(rate(10, Span::SECOND, 10, 1), begin);
    let now = begin.plus(Span::from_seconds(2));
    let Turn::Go { permit } = limiter.ask(now, false) else { panic!("the first request goes through") };
    assert!(matches!(limiter.ask(now, false), Turn::Wait { .. }));
    limiter.done(permit);
    assert!(matches!(limiter.ask(now, false), Turn::Go { .. }));
}

#[test]
fn a_cool_down_is_kept_and_never_shortened() {
    let begin = Timestamp::from_seconds(1_000);
    let mut limiter = Limiter::new(rate(10, Span::SECOND, 1, 1), begin);
    limiter.cool_down(begin.plus(Span::MINUTE));
    limiter.cool_down(begin.plus(Span::SECOND));
    assert_eq!(limiter.ask(begin, false), Turn::Wait { until: begin.plus(Span::MINUTE) });
}

/// Asks all the time; the source takes `limit` in any second from its own point of view, and says so by refusing. Words
/// take a while on their way: others are already asking when a refusal is heard.
fn against(limiter: &mut Limiter, log: &mut Vec<(Timestamp, bool)>, limit: usize, begin: Timestamp, end: Timestamp) {
    let (mut now, mut coming) = (begin, VecDeque::<(Timestamp, u64, bool)>::new());
    while now < end {
        while let Some((heard, permit, good)) = coming.pop_front_if(|(heard, _, _)| *heard <= now) {
            match good {
                true => limiter.done(permit),
                false => limiter.refused(permit, heard, heard.plus(Span::SECOND)),
            }
        }
        match limiter.ask(now, false) {
            Turn::Go { permit } => {
                let within = log.iter().rev().filter(|(_, good)| *good);
                let good = within.take_while(|(at, _)| now.since(*at) < Span::SECOND).count() < limit;
                log.push((now, good));
                coming.push_back((now.plus(Span::from_millis(45)), permit, good));
            }
            Turn::Wait { until } => {
                let heard = coming.front().map_or(until, |(heard, _, _)| *heard);
                now = until.min(heard).max(now.plus(Span::from_micros(1)));
            }
        }
    }
}

/// Seconds until five of them were used to nine tenths without a refusal.
fn near(log: &[(Timestamp, bool)], begin: Timestamp, limit: usize) -> i64 {
    (5..120)
        .find(|seconds| {
            let (from, to) = (begin.plus(Span::from_seconds(seconds - 5)), begin.plus(Span::from_seconds(*seconds)));
            let mut inside = log.iter().filter(|(at, _)| *at >= from && *at < to);
            inside.clone().count() * 10 >= limit * 5 * 9 && inside.all(|(_, good)| *good)
        })
        .unwrap()
}

#[test]
fn a_limit_that_drops_and_returns_is_found_within_half_a_minute_both_ways() {
    let begin = Timestamp::from_seconds(1_000);
    for offset in [0, 7, 13, 29, 41] {
        let mut limiter = Limiter::new(rate(50, Span::SECOND, 1, 100), begin);
        let mut log = Vec::new();
        let [one, two, three] =
            [60, 120, 200].map(|seconds| begin.plus(Span::from_seconds(seconds)).plus(Span::from_seconds(offset)));
        against(&mut limiter, &mut log, 50, begin, one);
        assert!(log.iter().all(|(_, good)| *good), "at the declared rate nothing is refused");
        against(&mut limiter, &mut log, 10, one, two);
        against(&mut limiter, &mut log, 50, two, three);
        let (down, up) = (near(&log, one, 10), near(&log, two, 50));
        assert!(down <= 30 && up <= 30, "{down} s down, {up} s up");
        let lowered = log.iter().filter(|(at, good)| *good && *at >= one && *at < two).count();
        assert!(lowered >= 450, "{lowered} of the 600 that were taken in the lowered minute");
    }
}

#[test]
fn a_request_that_costs_more_takes_more_of_every_window() {
    let begin = Timestamp::from_seconds(1_000);
    let dear = RateSpec { cost: 3, ..rate(9, Span::SECOND, 9, 100) };
    let mut limiter = Limiter::new(dear.clone(), begin);
    let passed = run(&mut limiter, begin, begin.plus(Span::from_seconds(11)));
    assert!((30..=33).contains(&passed.len()), "{}", passed.len());
    let most = passed.windows(4).filter(|four| four[3].since(four[0]) < Span::SECOND).count();
    assert_eq!(most, 0, "at most three of them in any second");
    let dearest = RateSpec { cost: 1_000, ..dear };
    assert_eq!(dearest.permits(), 9, "one request never needs more than a window holds");
}

#[test]
fn a_backfill_takes_its_share_while_others_wait_and_all_of_it_otherwise() {
    let begin = Timestamp::from_seconds(1_000);
    let mut limiter = Limiter::new(rate(50, Span::SECOND, 1, 100), begin);
    let mut now = begin;
    let mut counts = [[0; 2]; 2];
    while now < begin.plus(Span::from_seconds(41)) {
        let alone = now >= begin.plus(Span::from_seconds(21));
        let mut next = now.plus(Span::from_millis(5));
        for background in [true, false] {
            if !background && alone {
                continue;
            }
            match limiter.ask(now, background) {
                Turn::Go { permit } => {
                    limiter.done(permit);
                    counts[usize::from(alone)][usize::from(background)] += 1;
                }
                Turn::Wait { until } => next = next.min(until),
            }
        }
        now = next.max(now.plus(Span::from_micros(1)));
    }
    let [[harvest, backfill], [_, alone]] = counts;
    assert!(harvest + backfill >= 960, "{harvest} and {backfill}");
    assert!((200..=310).contains(&backfill), "{backfill} of {}", harvest + backfill);
    assert!(alone >= 940, "{alone} when nobody else waits");
}

#[test]
fn an_estimate_counts_from_the_end_of_a_pause_at_the_pace_of_now() {
    let (now, rate) = (Timestamp::from_seconds(1_000), rate(50, Span::SECOND, 1, 7));
    let whole = estimate(&rate, now, FULL, now, Span::MINUTE);
    assert_eq!((whole.requests, whole.concurrency), (3_000, 7));
    let paused = estimate(&rate, now, FULL / 2, now.plus(Span::from_seconds(30)), Span::MINUTE);
    assert_eq!(paused.requests, 750);
    assert_eq!(estimate(&rate, now, FULL, now.plus(Span::HOUR), Span::MINUTE).requests, 0);
}

#[test]
fn jitter_only_adds() {
    for (chance, want) in [(0.0, 10_500), (0.5, 11_000), (0.999, 11_498)] {
        assert_eq!(jittered(Span::from_seconds(10), chance).millis(), want);
    }
    assert_eq!(jittered(Span::ZERO, 0.5), Span::ZERO);
}

#[test]
fn a_limiter_reads_back_from_its_row() {
    let begin = Timestamp::from_seconds(1_000);
    let mut limiter = Limiter::starting(rate(5, Span::SECOND, 5, 9), begin, Span::from_millis(30));
    limiter.draw(begin, want(3));
    let text = serde_json::to_string(&limiter).unwrap();
    let mut read: Limiter = serde_json::from_str(&text).unwrap();
    assert_eq!(read.draw(begin, want(9)), limiter.draw(begin, want(9)));
}

proptest! {
    #[test]
    fn slots_drawn_ahead_keep_every_window_however_they_are_drawn(
        requests in 1u32..20, burst in 1u32..30, asks in proptest::collection::vec((0i64..600_000, 1u32..9), 1..60),
    ) {
        let mut now = Timestamp::from_seconds(1_000);
        let mut limiter = Limiter::starting(rate(requests, Span::SECOND, burst.min(requests), 10_000), now, Span::from_millis(30));
        let mut slots: Vec<Timestamp> = Vec::new();
        for (pause, most) in asks {
            now = now.plus(Span::from_micros(pause));
            let drawn = limiter.draw(now, want(most));
            prop_assert!(drawn.slots.iter().all(|slot| slot.at >= now && slot.at <= now.plus(Span::SECOND)));
            slots.extend(drawn.slots.iter().map(|slot| slot.at));
        }
        for (at, first) in slots.iter().enumerate() {
            let inside = slots[at..].iter().take_while(|later| later.since(*first) < Span::from_millis(1_030)).count();
            prop_assert!(inside <= requests as usize, "{inside} slots in one window of {requests}");
        }
    }

    #[test]
    fn no_sliding_window_ever_holds_more_than_the_limit(
        requests in 1u32..20, burst in 1u32..30, per in 1i64..5, pauses in proptest::collection::vec(0i64..3_000_000, 1..60),
    ) {
        let mut now = Timestamp::from_seconds(1_000);
        let per = Span::from_seconds(per);
        let mut limiter = Limiter::new(rate(requests, per, burst.min(requests), 100), now);
        let mut passed = Vec::new();
        for pause in pauses {
            now = now.plus(Span::from_micros(pause));
            for _ in 0..8 {
                match limiter.ask(now, false) {
                    Turn::Go { .. } => passed.push(now),
                    Turn::Wait { until } => now = until,
                }
            }
        }
        for (at, first) in passed.iter().enumerate() {
            let inside = passed[at..].iter().take_while(|later| later.since(*first) < per).count();
            prop_assert!(inside <= requests as usize, "{inside} requests in one window of {requests}");
        }
    }
}
