//! Id ranges for a window that time cannot cut any further, sized from the ids that were seen of it.
//!
//! A page that is sorted by id holds one end of the ids: what lies beyond it is taken to be as dense. Any other page is
//! taken for a sample. A guess that is wrong costs a request more, because a range that holds too much is cut again;
//! whatever is guessed, the ranges tile the whole.

use crate::page::Part;
use crate::plan::slicer::{CHILDREN_MAX, cut_ids};

/// How full a range is meant to be, in percent of what one query serves.
const FILL_PERCENT: u64 = 90;

/// What the first page showed of a slice's ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSample {
    /// Results that the source counts.
    pub total: u64,
    /// Most results of one slice.
    pub most: Option<u64>,
    /// The ids that are numbers, in the order of the page.
    pub seen: Vec<u64>,
}

/// Inclusive ranges that tile `[from, to]`, about as full as each other; `None` when there is only one id.
pub fn cut_seen(from: u64, to: u64, parts: u64, sample: &IdSample) -> Option<Vec<Part>> {
    let inside = |id: &u64| (from..=to).contains(id);
    let seen: Vec<u64> = sample.seen.iter().copied().filter(inside).collect();
    let parts = parts_of(parts, sample);
    if seen.len() < 2 {
        return cut_ids(from, to, parts);
    }
    let mut starts = starts(&seen, sample.total.max(seen.len() as u64), parts);
    starts.retain(|start| *start > from && *start <= to);
    starts.sort_unstable();
    starts.dedup();
    if starts.is_empty() {
        return cut_ids(from, to, parts);
    }
    let ends = starts.iter().map(|start| start - 1).chain([to]);
    let begins = std::iter::once(from).chain(starts.iter().copied());
    Some(begins.zip(ends).map(|(from, to)| Part::IdRange { from, to }).collect())
}

/// As many as are needed where the distribution is known, or as were asked for.
fn parts_of(parts: u64, sample: &IdSample) -> u64 {
    let needed = sample.most.filter(|most| sample.total > *most && !sample.seen.is_empty()).map(|most| {
        let fill = (most.saturating_mul(FILL_PERCENT) / 100).max(1);
        sample.total.div_ceil(fill)
    });
    needed.unwrap_or(parts).clamp(2, CHILDREN_MAX)
}

/// The first id of every range but the lowest.
fn starts(seen: &[u64], total: u64, parts: u64) -> Vec<u64> {
    let each = total.div_ceil(parts);
    let cuts = 1..parts;
    if seen.is_sorted_by(|left, right| left > right) {
        return cuts.filter_map(|number| id_at(seen, number * each - 1)).collect();
    }
    if seen.is_sorted_by(|left, right| left < right) {
        return cuts.filter_map(|number| id_at(seen, number * each)).collect();
    }
    let mut sorted = seen.to_vec();
    sorted.sort_unstable();
    cuts.filter_map(|number| sorted.get(usize::try_from(number * sorted.len() as u64 / parts).ok()?).copied()).collect()
}

/// The id at a place of the sorted list, of which `seen` is the beginning.
fn id_at(seen: &[u64], place: u64) -> Option<u64> {
    if let Some(id) = usize::try_from(place).ok().and_then(|place| seen.get(place)) {
        return Some(*id);
    }
    let (first, last) = (*seen.first()?, *seen.last()?);
    let beyond = u128::from(place) - (seen.len() as u128 - 1);
    let step = beyond * u128::from(first.abs_diff(last)) / (seen.len() as u128 - 1);
    let step = u64::try_from(step).ok()?;
    if first > last { last.checked_sub(step) } else { last.checked_add(step) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds(parts: &[Part]) -> Vec<(u64, u64)> {
        let of = |part: &Part| match part {
            Part::IdRange { from, to } => (*from, *to),
            Part::HashBucket { .. } => unreachable!(),
        };
        parts.iter().map(of).collect()
    }

    /// The ids of a day, as the source would list the first page of them.
    fn cut_of(ids: &[u64], page: usize, most: u64) -> Vec<(u64, u64)> {
        let seen = ids.iter().rev().take(page).copied().collect();
        let sample = IdSample { total: ids.len() as u64, most: Some(most), seen };
        bounds(&cut_seen(1, 99_999_999, 2, &sample).unwrap())
    }

    #[test]
    fn an_even_day_is_cut_into_ranges_that_all_fit_at_once() {
        let ids: Vec<u64> = (0..60_000).map(|n| 10_000_000 + n * 3 + n % 3).collect();
        let ranges = cut_of(&ids, 9_999, 9_500);
        assert_eq!(ranges.len(), 8);
        for (from, to) in ranges {
            let held = ids.iter().filter(|id| (from..=to).contains(id)).count();
            assert!((1..=9_500).contains(&held), "{from}..={to} holds {held}");
        }
    }

    #[test]
    fn a_shuffled_page_is_a_sample_and_too_few_numbers_are_none() {
        let sample = |seen: &[u64]| IdSample { total: 40, most: Some(25), seen: seen.to_vec() };
        assert_eq!(bounds(&cut_seen(1, 100, 4, &sample(&[50, 10, 90, 30])).unwrap()), [(1, 49), (50, 100)]);
        assert_eq!(bounds(&cut_seen(1, 100, 4, &IdSample::default()).unwrap()).len(), 4);
        assert_eq!(cut_seen(7, 7, 4, &sample(&[7, 7])), None);
        assert_eq!(bounds(&cut_seen(1, 100, 4, &sample(&[2, 1])).unwrap()).len(), 2, "both at the lower edge");
    }

    proptest! {
        #[test]
        fn ranges_tile_whatever_was_seen(
            from in 0u64..50, width in 1u64..500, parts in 0u64..90, total in 0u64..10_000,
            most in proptest::option::of(0u64..200), mut seen in proptest::collection::vec(0u64..700, 0..40), order in 0u8..3,
        ) {
            match order {
                0 => seen.sort_unstable(),
                1 => seen.sort_unstable_by(|left, right| right.cmp(left)),
                _ => {}
            }
            let ranges = bounds(&cut_seen(from, from + width, parts, &IdSample { total, most, seen }).unwrap());
            prop_assert!(ranges.len() > 1);
            prop_assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (from, from + width));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            prop_assert!(ranges.iter().all(|(from, to)| from <= to));
        }
    }
}
