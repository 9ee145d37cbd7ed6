//! Coverage, the watermark and what the next plan still owes.
//!
//! `Cov` is what was read at least once after it had settled; the watermark W is the end of its contiguous prefix.
//! `Fin` is what was read so late that nothing can appear in it any more. The next plan is everything up to now
//! that is not in `Fin`: never "from the end of the last plan", and never "from W" alone (INV-1, INV-5).

use crate::time::{Span, Timestamp};
use crate::window::Window;

/// A slice that SUCCEEDED: its window, and the source's time at the first page of the pass that completed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSlice {
    pub window: Window,
    pub read_at: Timestamp,
}

/// How long a source needs to settle, and how much later than that records may still appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    pub lag: Span,
    pub lookback: Span,
}

/// Disjoint, sorted, merged windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    windows: Vec<Window>,
}

impl Coverage {
    pub fn of(windows: impl IntoIterator<Item = Window>) -> Coverage {
        let mut sorted: Vec<Window> = windows.into_iter().collect();
        sorted.sort();
        let mut merged: Vec<Window> = Vec::with_capacity(sorted.len());
        for window in sorted {
            match merged.last_mut() {
                Some(last) if window.from() <= last.to() => {
                    *last = Window::new(last.from(), last.to().max(window.to())).unwrap_or(window);
                }
                _ => merged.push(window),
            }
        }
        Coverage { windows: merged }
    }

    /// `Cov(K)`: each slice counts up to its reading minus the lag. Waived windows count whole.
    pub fn read(slices: &[ReadSlice], waived: &[Window], settling: Settling) -> Coverage {
        Coverage::credited(slices, waived, settling.lag)
    }

    /// `Fin(K)`: each slice counts up to its reading minus lag and lookback. Waived windows count whole.
    pub fn finished(slices: &[ReadSlice], waived: &[Window], settling: Settling) -> Coverage {
        Coverage::credited(slices, waived, settling.lag.plus(settling.lookback))
    }

    fn credited(slices: &[ReadSlice], waived: &[Window], delay: Span) -> Coverage {
        let read = slices.iter().filter_map(|slice| {
            let settled = slice.read_at.minus(delay);
            Window::new(slice.window.from(), slice.window.to().min(settled))
        });
        Coverage::of(read.chain(waived.iter().copied()))
    }

    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The largest x with `[from, x)` inside; `from` itself when nothing begins there.
    pub fn prefix_end(&self, from: Timestamp) -> Timestamp {
        let holder = self.windows.iter().find(|window| window.from() <= from && from < window.to());
        holder.map_or(from, Window::to)
    }

    /// What of `whole` is not covered, in order.
    pub fn gaps(&self, whole: Window) -> Vec<Window> {
        let mut gaps = Vec::new();
        let mut open = whole.from();
        for window in &self.windows {
            if window.to() <= open {
                continue;
            }
            if window.from() >= whole.to() {
                break;
            }
            gaps.extend(Window::new(open, window.from()));
            open = open.max(window.to());
        }
        gaps.extend(Window::new(open, whole.to()));
        gaps
    }
}

/// The windows the next HARVEST plan must read: `[origin, source_now - lag)` minus `Fin`.
///
/// `edge` turns the raw end and each gap's edges into edges the source can name.
pub fn next_plan(origin: Timestamp, source_now: Timestamp, finished: &Coverage, settling: Settling) -> Vec<Window> {
    match Window::new(origin, source_now.minus(settling.lag)) {
        Some(whole) => finished.gaps(whole),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_DELAY: Settling = Settling { lag: Span::ZERO, lookback: Span::ZERO };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn window(from: i64, to: i64) -> Window {
        Window::new(at(from), at(to)).unwrap()
    }

    fn read(from: i64, to: i64) -> ReadSlice {
        ReadSlice { window: window(from, to), read_at: at(1_000) }
    }

    /// The example table of the invariants: plan [0,100), slices of 20, lookback 0, now = 120.
    #[test]
    fn the_watermark_stops_at_a_gap_and_the_next_plan_holds_every_gap() {
        let (s1, s3, s5) = (read(0, 20), read(40, 60), read(80, 100));
        let cases = [
            (vec![s1, s3, s5], vec![], 20, vec![window(20, 40), window(60, 80), window(100, 120)]),
            (vec![s1, s3, s5, read(20, 30)], vec![], 30, vec![window(30, 40), window(60, 80), window(100, 120)]),
            (vec![s1, s3, s5, read(20, 30), read(30, 40)], vec![], 60, vec![window(60, 80), window(100, 120)]),
            (vec![s1, s3, s5, read(20, 40), read(60, 80)], vec![], 100, vec![window(100, 120)]),
            (vec![s1, s3, s5, read(20, 40)], vec![window(60, 80)], 100, vec![window(100, 120)]),
        ];
        for (slices, waived, watermark, plan) in cases {
            let covered = Coverage::read(&slices, &waived, NO_DELAY);
            let finished = Coverage::finished(&slices, &waived, NO_DELAY);
            assert_eq!(covered.prefix_end(at(0)), at(watermark), "{slices:?}");
            assert_eq!(next_plan(at(0), at(120), &finished, NO_DELAY), plan, "{slices:?}");
        }
    }

    #[test]
    fn without_faults_the_next_plan_begins_at_the_watermark_minus_the_lookback() {
        let settling = Settling { lag: Span::from_seconds(10), lookback: Span::from_seconds(30) };
        let slices = [ReadSlice { window: window(0, 90), read_at: at(100) }];
        let covered = Coverage::read(&slices, &[], settling);
        let finished = Coverage::finished(&slices, &[], settling);
        assert_eq!(covered.prefix_end(at(0)), at(90));
        assert_eq!(next_plan(at(0), at(200), &finished, settling), vec![window(60, 190)]);
    }

    #[test]
    fn a_slice_read_before_it_settled_gives_credit_only_up_to_its_reading() {
        let settling = Settling { lag: Span::from_seconds(10), lookback: Span::ZERO };
        let slices = [ReadSlice { window: window(0, 100), read_at: at(60) }];
        assert_eq!(Coverage::read(&slices, &[], settling).prefix_end(at(0)), at(50));
    }

    /// All orders of eight slices with all sets of failures, one case in ten: a million walks (FM-13).
    #[test]
    fn a_million_orders_of_completion_end_at_the_first_failure() {
        let mut cases = 0u64;
        let mut order: Vec<i64> = (0..8).collect();
        permutations(&mut order, 8, &mut |order| {
            for failed in (0u32..256).filter(|failed| (cases_key(order) + u64::from(*failed)).is_multiple_of(10)) {
                cases += 1;
                let mut done = Vec::with_capacity(8);
                let mut watermark = at(0);
                for number in order.iter().filter(|number| failed & (1 << **number) == 0) {
                    done.push(read(number * 10, number * 10 + 10));
                    let next = Coverage::read(&done, &[], NO_DELAY).prefix_end(watermark);
                    assert!(next >= watermark);
                    watermark = next;
                }
                assert_eq!(watermark, at(first_failed(failed) * 10));
            }
        });
        assert!(cases > 1_000_000, "{cases}");
    }

    fn first_failed(failed: u32) -> i64 {
        (0..8).find(|number| failed & (1 << number) != 0).unwrap_or(8)
    }

    fn cases_key(order: &[i64]) -> u64 {
        order.iter().fold(0, |key, number| key * 8 + number.unsigned_abs())
    }

    /// Heap's algorithm.
    fn permutations(items: &mut Vec<i64>, count: usize, visit: &mut dyn FnMut(&[i64])) {
        if count <= 1 {
            return visit(items);
        }
        for turn in 0..count {
            permutations(items, count - 1, visit);
            items.swap(if count.is_multiple_of(2) { turn } else { 0 }, count - 1);
        }
    }

    proptest! {
        #[test]
        fn gaps_and_coverage_tile_the_whole(pairs in proptest::collection::vec((0i64..100, 1i64..30), 0..12)) {
            let whole = window(10, 90);
            let coverage = Coverage::of(pairs.iter().map(|(from, width)| window(*from, from + width)));
            let gaps = coverage.gaps(whole);
            for second in 10..90 {
                let covered = coverage.windows().iter().any(|w| w.contains(at(second)));
                let missing = gaps.iter().filter(|w| w.contains(at(second))).count();
                prop_assert_eq!(missing, usize::from(!covered));
            }
        }

        /// Every order of completion with any set of failures ends at the same watermark (INV-1, FM-13).
        #[test]
        fn the_order_of_completion_does_not_matter(
            order in Just((0i64..8).collect::<Vec<_>>()).prop_shuffle(),
            failed in 0u32..256,
        ) {
            let done: Vec<ReadSlice> = order.iter().filter(|n| failed & (1 << **n) == 0)
                .map(|n| read(n * 10, n * 10 + 10)).collect();
            let mut watermark = at(0);
            for upto in 0..=done.len() {
                let next = Coverage::read(&done[..upto], &[], NO_DELAY).prefix_end(watermark);
                prop_assert!(next >= watermark);
                watermark = next;
            }
            let first_failed = (0..8).find(|n| failed & (1 << n) != 0).unwrap_or(8);
            prop_assert_eq!(watermark, at(first_failed * 10));
        }
    }
}
