//! Windows: widths, alignment and who filters by time.

use super::Checker;
use crate::calendar::zone_of;
use crate::spec::snapshot::*;
use crate::time::Span;

impl Checker<'_> {
    pub(super) fn widths(&mut self) {
        let window = &self.spec.window;
        let (align, grain) = (window.align.span(), window.boundary.grain);
        if zone_of(&window.boundary.zone).is_err() {
            let message = format!("`{}` is not a time zone", window.boundary.zone);
            self.error("bad_zone", "window.boundary.zone", message, "write an IANA name such as UTC");
        }
        if grain <= Span::ZERO {
            self.error("grain", "window.boundary.grain", "the grain is zero", "write the smallest step, e.g. PT1S");
            return;
        }
        let days = grain.micros() % Span::DAY.micros() == 0;
        if window.boundary.kind == BoundaryKind::DayIncl && !days {
            let message = format!("a boundary of days cannot have a grain of {grain}");
            self.error("grain", "window.boundary.grain", message, "write P1D");
        }
        if align.micros() % grain.micros() != 0 {
            let message = format!("edges aligned to {align} do not fall on steps of {grain}");
            self.error("align_grain", "window.align", message, "align to a multiple of the grain");
        }
        for (path, width) in [("window.min", window.min), ("window.slice", window.slice), ("window.max", window.max)] {
            if width <= Span::ZERO || width.micros() % grain.micros() != 0 {
                let message = format!("a width of {width} is no multiple of the grain {grain}");
                self.error("width_grain", path, message, "use a multiple of `boundary.grain`");
            } else if width.micros() % align.micros() != 0 {
                let message = format!("a width of {width} does not fit edges aligned to {align}");
                self.error("width_align", path, message, "use a finer `align` or a wider window");
            }
        }
        if window.max < window.min || window.slice < window.min || window.slice > window.max {
            let message = format!("min {}, slice {} and max {} are out of order", window.min, window.slice, window.max);
            self.error("width_order", "window.slice", message, "keep min <= slice <= max");
        }
    }

    /// Without a filter of the source, our own needs a declared order and a time in every record.
    pub(super) fn filtering(&mut self) {
        let (window, by_windows) = (&self.spec.window, self.spec.operation != Operation::Update);
        let filtered = window.client_filter && window.ordered.is_some();
        if by_windows && !window.updated_since && !filtered {
            let message = "the source does not filter by time, and nothing says that we can";
            let hint =
                "only UPDATE is possible; or declare `updated_since: true`, or `client_filter: true` and `ordered`";
            self.error("harvest_unfiltered", "window.updated_since", message, hint);
        }
        let half = matches!(window.boundary.kind, BoundaryKind::FromOnly | BoundaryKind::None);
        if by_windows && half && !window.client_filter {
            let message = "the source has no upper bound, so records after the window must be dropped by us";
            self.error("client_filter_needed", "window.client_filter", message, "write `client_filter: true`");
        }
        if self.spec.pagination.kind == PagingKind::Time && !window.updated_since && window.ordered.is_none() {
            let message = "paging by time needs a filter or an order by time";
            let hint = "declare `window.updated_since` or `window.ordered`";
            self.error("time_paging", "pagination.type", message, hint);
        }
    }
}
