//! Cutting a window, a page range or an id range into slices that tile it exactly (INV-6).
//!
//! Planner and executor use the same cuts: the planner for a new plan, the executor for a slice that turned out to
//! be too much for the source.

use crate::calendar::{Stepper, UnknownZone};
use crate::page::Part;
use crate::plan::ranges::{IdSample, cut_seen};
use crate::planted::{Defect, planted};
use crate::spec::snapshot::{SecondKey, WindowSpec};
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Pages of one slice where a source can only be cut by page number.
pub const PAGES_PER_SLICE: u64 = 200;
/// Parts of an id space cut by hash.
pub const HASH_BUCKETS: u32 = 128;
/// Most children of one split; more come from splitting a child again.
pub const CHILDREN_MAX: u64 = 64;

/// Cuts windows at the edges a source can name.
#[derive(Clone, Debug)]
pub struct Slicer {
    grain: Stepper,
    align: Stepper,
    slice: Stepper,
}

impl Slicer {
    pub fn new(window: &WindowSpec) -> Result<Slicer, UnknownZone> {
        Slicer::of_width(window, window.slice)
    }

    /// As the definition says, but with slices of another width.
    pub fn of_width(window: &WindowSpec, slice: Span) -> Result<Slicer, UnknownZone> {
        let zone = &window.boundary.zone;
        let grain = window.boundary.grain.max(Span::from_micros(1));
        let align = window.align.span().max(grain);
        Ok(Slicer {
            grain: Stepper::new(grain, zone)?,
            align: Stepper::new(align, zone)?,
            slice: Stepper::new(slice.max(grain), zone)?,
        })
    }

    /// The latest aligned end of a plan that must not reach past `limit`.
    pub fn plan_end(&self, limit: Timestamp) -> Timestamp {
        self.grain.floor(self.align.floor(limit))
    }

    /// Owed windows with edges the source can name, never past `end`; windows that then touch become one.
    pub fn outward(&self, owed: &[Window], end: Timestamp) -> Vec<Window> {
        let rounded = owed.iter().filter_map(|window| {
            let to = self.grain.ceil(window.to()).min(end);
            Window::new(self.grain.floor(window.from()), to)
        });
        super::coverage::Coverage::of(rounded).windows().to_vec()
    }

    /// Slices of the spec's width, cut at multiples of that width.
    pub fn cut(&self, window: Window) -> Vec<Window> {
        let mut slices = Vec::new();
        let mut from = window.from();
        while from < window.to() {
            let edge = self.grain.floor(self.slice.next(from)).max(self.grain.next(from));
            let to = edge.min(window.to());
            slices.extend(Window::new(from, to));
            from = to;
        }
        slices
    }

    /// At least two children with edges on the grain; `None` when the window is one grain wide.
    pub fn split(&self, window: Window, parts: u64) -> Option<Vec<Window>> {
        let wanted = parts.clamp(2, CHILDREN_MAX);
        let step = window.width().micros() / i64::try_from(wanted).unwrap_or(2);
        let mut children = Vec::new();
        let mut from = window.from();
        for number in 1..=wanted {
            let ideal = window.from().plus(Span::from_micros(step * i64::try_from(number).unwrap_or(1)));
            let edge = self.grain.floor(ideal).max(self.grain.next(from));
            let to = if number == wanted { window.to() } else { edge.min(window.to()) };
            children.extend(Window::new(from, to));
            from = to.max(from);
        }
        if planted(Defect::SplitLeavesGap) {
            children.pop();
        }
        (children.len() > 1).then_some(children)
    }
}

/// Parts of a window that time cannot cut: by the source's second key, else by cutting the part it has.
pub fn split_part(part: Option<&Part>, second: Option<&SecondKey>, parts: u64, sample: &IdSample) -> Option<Vec<Part>> {
    match (part, second) {
        (Some(Part::IdRange { from, to }), _) => cut_seen(*from, *to, parts, sample),
        (None, Some(SecondKey::IdRange { from, to })) => cut_seen(*from, *to, parts, sample),
        (None, Some(SecondKey::HashBucket { buckets })) => {
            let all = (0..*buckets).map(|bucket| Part::HashBucket { bucket, buckets: *buckets }).collect();
            (*buckets > 1).then_some(all)
        }
        (Some(Part::HashBucket { .. }), _) | (None, None) => None,
    }
}

/// Inclusive ranges that tile `[from, to]`; `None` when there is only one id.
pub fn cut_ids(from: u64, to: u64, parts: u64) -> Option<Vec<Part>> {
    let ids = u128::from(to).checked_sub(u128::from(from))? + 1;
    let parts = u128::from(parts.max(1)).min(ids);
    let edge = |number: u128| u128::from(from) + ids * number / parts;
    let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
    let ranges: Vec<Part> = (0..parts)
        .map(|number| Part::IdRange { from: narrow(edge(number)), to: narrow(edge(number + 1) - 1) })
        .collect();
    (ranges.len() > 1).then_some(ranges)
}

/// Inclusive page ranges that tile `[first, last]`, [`PAGES_PER_SLICE`] each.
pub fn cut_pages(first: u64, last: u64, per_slice: u64) -> Vec<(u64, u64)> {
    let step = usize::try_from(per_slice.max(1)).unwrap_or(usize::MAX);
    (first..=last).step_by(step).map(|from| (from, last.min(from.saturating_add(per_slice.max(1) - 1)))).collect()
}

/// The bucket an id falls into when ids are cut by hash.
pub fn bucket_of(id: &str, buckets: u32) -> u32 {
    let hash = crate::hash::Hash32::of(id.as_bytes()).short();
    u32::try_from(hash % u64::from(buckets.max(1))).unwrap_or(0)
}

/// Groups consecutive slices so that each group's expected requests stay within `requests_max`. A slice that alone
/// exceeds the budget is a group of its own.
pub fn bind_budget(expected: &[u64], requests_max: u64) -> Vec<std::ops::Range<usize>> {
    let mut groups = Vec::new();
    let (mut begin, mut spent) = (0, 0u64);
    for (at, requests) in expected.iter().enumerate() {
        if at > begin && spent.saturating_add(*requests) > requests_max {
            groups.push(begin..at);
            (begin, spent) = (at, 0);
        }
        spent = spent.saturating_add(*requests);
    }
    if begin < expected.len() {
        groups.push(begin..expected.len());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::Align;
    use crate::spec::sample;
    use proptest::prelude::*;

    fn slicer(grain: Span, slice: Span, zone: &str) -> Slicer {
        let mut window = sample::snapshot().window;
        window.boundary.grain = grain;
        window.boundary.zone = zone.into();
        window.align = if grain >= Span::DAY { Align::Day } else { Align::Minute };
        window.slice = slice;
        Slicer::new(&window).unwrap()
    }

    fn tiles(slicer: &Slicer, whole: Window, parts: &[Window]) {
        assert_eq!(parts.first().map(Window::from), Some(whole.from()));
        assert_eq!(parts.last().map(Window::to), Some(whole.to()));
        assert!(parts.windows(2).all(|pair| pair[0].to() == pair[1].from()));
        assert!(parts.iter().all(|part| slicer.grain.is_edge(part.from()) && slicer.grain.is_edge(part.to())));
    }

    #[test]
    fn civil_days_are_cut_at_local_midnight_over_the_clock_change() {
        let slicer = slicer(Span::DAY, Span::DAY, "America/New_York");
        let whole = Window::new("2026-03-07T05:00:00Z".parse().unwrap(), "2026-03-10T04:00:00Z".parse().unwrap());
        let days = slicer.cut(whole.unwrap());
        let hours: Vec<i64> = days.iter().map(|day| day.width().micros() / Span::HOUR.micros()).collect();
        assert_eq!(hours, [24, 23, 24]);
        tiles(&slicer, whole.unwrap(), &days);
    }

    #[test]
    fn a_window_of_one_grain_cannot_be_split_by_time() {
        let slicer = slicer(Span::DAY, Span::DAY, "UTC");
        let day = Window::new("2026-03-07".parse().unwrap(), "2026-03-08".parse().unwrap()).unwrap();
        assert_eq!(slicer.split(day, 7), None);
    }

    #[test]
    fn id_ranges_tile_and_a_single_id_is_not_cut() {
        let parts = cut_ids(0, 10, 3).unwrap();
        assert_eq!(
            parts,
            [Part::IdRange { from: 0, to: 2 }, Part::IdRange { from: 3, to: 6 }, Part::IdRange { from: 7, to: 10 }]
        );
        assert_eq!(cut_ids(5, 5, 2), None);
        assert_eq!(cut_ids(0, u64::MAX, 2).unwrap().len(), 2);
    }

    #[test]
    fn a_second_key_takes_over_where_time_ends() {
        let second = SecondKey::HashBucket { buckets: 4 };
        let none = IdSample::default();
        assert_eq!(split_part(None, Some(&second), 9, &none).unwrap().len(), 4);
        assert_eq!(split_part(Some(&Part::HashBucket { bucket: 0, buckets: 4 }), Some(&second), 2, &none), None);
        assert_eq!(split_part(None, None, 2, &none), None);
    }

    #[test]
    fn budgets_group_slices_in_order() {
        assert_eq!(bind_budget(&[3, 3, 3, 9, 1], 6), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(bind_budget(&[], 6), Vec::<std::ops::Range<usize>>::new());
    }

    proptest! {
        #[test]
        fn slices_and_splits_tile_for_every_grain_and_zone(
            grain in prop_oneof![Just(Span::from_micros(1)), Just(Span::SECOND), Just(Span::HOUR), Just(Span::DAY)],
            zone in prop_oneof![Just("UTC"), Just("America/New_York"), Just("Asia/Kolkata"), Just("Europe/Berlin")],
            day in 0i64..800, width in 1i64..400, factor in 1i64..40, parts in 2u64..80,
        ) {
            let slicer = slicer(grain, grain.times(factor), zone);
            let start = slicer.grain.floor("2024-02-01".parse::<Timestamp>().unwrap().plus(Span::HOUR.times(day * 24 + day % 24)));
            let end = slicer.grain.ceil(start.plus(grain.times(width)));
            let whole = Window::new(start, end).unwrap();
            tiles(&slicer, whole, &slicer.cut(whole));
            if let Some(children) = slicer.split(whole, parts) {
                tiles(&slicer, whole, &children);
                prop_assert!(children.len() > 1);
            } else {
                prop_assert!(slicer.grain.next(start) >= end);
            }
        }

        #[test]
        fn pages_and_ids_tile(first in 0u64..1000, width in 0u64..5000, per in 1u64..300, parts in 1u64..70) {
            let pages = cut_pages(first, first + width, per);
            prop_assert_eq!(pages[0].0, first);
            prop_assert_eq!(pages[pages.len() - 1].1, first + width);
            prop_assert!(pages.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            if let Some(ids) = cut_ids(first, first + width, parts) {
                let ends: Vec<(u64, u64)> = ids.iter().map(|part| match part {
                    Part::IdRange { from, to } => (*from, *to),
                    Part::HashBucket { .. } => unreachable!(),
                }).collect();
                prop_assert_eq!((ends[0].0, ends[ends.len() - 1].1), (first, first + width));
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            }
        }
    }
}
