//! How wide the slices of the next plan are: as wide as the definition says, or narrower where the history of records
//! says that they would hold more than the source serves for one query. A slice that fits costs no request to find out
//! that it does not.

use std::collections::BTreeMap;

use crate::id::Id;
use crate::pass::most_of;
use crate::plan::slicer::CHILDREN_MAX;
use crate::spec::snapshot::SpecSnapshot;
use crate::time::Span;
use crate::window::Window;

/// Records are not spread evenly: a slice is made for so many times the mean.
const UNEVEN: f64 = 2.0;

/// A slice that was read, and how many records it held. Parts of one window have the window of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub plan: Id,
    pub window: Window,
    pub records: u64,
}

/// The mean over what was read lately; `None` when nothing was.
pub fn records_per_hour(history: &[Counted]) -> Option<f64> {
    let mut windows: BTreeMap<(Id, Window), u64> = BTreeMap::new();
    for slice in history {
        *windows.entry((slice.plan, slice.window)).or_default() += slice.records;
    }
    let hours: f64 = windows.keys().map(|(_, window)| hours(window.width())).sum();
    let records: u64 = windows.values().sum();
    (hours > 0.0).then(|| records as f64 / hours)
}

/// Width of the slices of a new plan.
pub fn slice_width(spec: &SpecSnapshot, history: &[Counted]) -> Span {
    let window = &spec.window;
    let (Some(most), Some(rate)) = (most_of(&spec.pagination), records_per_hour(history)) else {
        return window.slice;
    };
    let expected = rate * hours(window.slice) * UNEVEN;
    let parts = (expected / most.max(1) as f64).ceil().clamp(1.0, CHILDREN_MAX as f64);
    let grain = window.boundary.grain.micros().max(1);
    let width = window.slice.micros() / parts as i64 / grain * grain;
    let least = window.min.micros().max(grain);
    Span::from_micros(width.max(least).min(window.slice.micros()))
}

/// What reading so much time is expected to cost of a budget: the pages, the details where there are any, and at least one
/// request. Where nothing is known of the records it is the least.
pub fn expected_cost(spec: &SpecSnapshot, per_hour: Option<f64>, width: Span) -> u64 {
    let records = per_hour.unwrap_or(0.0) * hours(width);
    let pages = |size: u32| (records / f64::from(size.max(1))).ceil() as u64;
    let details = spec.detail.as_ref().map_or(0, |detail| pages(detail.id_batch_size).max(1));
    let requests = pages(spec.pagination.size).max(1).saturating_add(details);
    requests.saturating_mul(u64::from(spec.rate.cost.max(1)))
}

fn hours(span: Span) -> f64 {
    span.micros() as f64 / Span::HOUR.micros() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;
    use crate::time::Timestamp;

    fn counted(plan: i64, from: i64, to: i64, records: u64) -> Counted {
        let at = |hour: i64| Timestamp::from_seconds(hour * 3_600);
        Counted { plan: Id(plan), window: Window::new(at(from), at(to)).unwrap(), records }
    }

    #[test]
    fn parts_of_a_window_count_together_and_a_second_reading_apart() {
        assert_eq!(records_per_hour(&[]), None);
        assert_eq!(records_per_hour(&[counted(1, 0, 2, 30), counted(1, 0, 2, 10)]), Some(20.0));
        assert_eq!(records_per_hour(&[counted(1, 0, 2, 30), counted(2, 0, 2, 50)]), Some(20.0));
    }

    #[test]
    fn a_slice_costs_its_pages_and_details_and_never_nothing() {
        let mut spec = sample::snapshot();
        (spec.detail, spec.pagination.size, spec.rate.cost) = (None, 100, 1);
        let day = Span::DAY;
        assert_eq!(expected_cost(&spec, None, day), 1);
        assert_eq!(expected_cost(&spec, Some(0.0), day), 1);
        assert_eq!(expected_cost(&spec, Some(10.0), day), 3, "240 records");
        spec.rate.cost = 5;
        assert_eq!(expected_cost(&spec, Some(10.0), day), 15);
    }

    #[test]
    fn slices_are_narrower_where_the_cap_would_be_exceeded_and_never_wider_than_declared() {
        let mut spec = sample::snapshot();
        spec.window.slice = Span::HOUR.times(12);
        spec.window.min = Span::MINUTE;
        spec.window.boundary.grain = Span::SECOND;
        spec.pagination.result_cap = Some(100);
        let hour = Span::HOUR;
        // (records in a day, width of a slice)
        for (records, want) in [(0, hour.times(12)), (100, hour.times(12)), (101, hour.times(6)), (600, hour.times(2))]
        {
            assert_eq!(slice_width(&spec, &[counted(1, 0, 24, records)]), want, "{records}");
        }
        assert_eq!(slice_width(&spec, &[]), hour.times(12));
        spec.window.min = hour.times(4);
        assert_eq!(slice_width(&spec, &[counted(1, 0, 24, 600)]), hour.times(4), "not below what is declared");
        spec.window.boundary.grain = Span::DAY;
        assert_eq!(slice_width(&spec, &[counted(1, 0, 24, 600)]), hour.times(12), "a day cannot be cut");
        spec.pagination.result_cap = None;
        assert_eq!(slice_width(&spec, &[counted(1, 0, 24, 600)]), hour.times(12));
    }
}
