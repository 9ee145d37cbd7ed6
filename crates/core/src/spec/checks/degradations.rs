//! What works worse than it could: accepted, and said in the plan's remarks.

use super::Checker;
use crate::spec::snapshot::*;

impl Checker<'_> {
    pub(super) fn degradations(&mut self) {
        let (response, window, pagination) = (&self.spec.response, &self.spec.window, &self.spec.pagination);
        let counted = matches!(pagination.kind, PagingKind::Offset | PagingKind::Page);
        if response.total.is_none() {
            self.warn(
                "no_total",
                "response.total",
                "the source gives no total; completeness rests on the end of pages",
            );
        } else if response.total_tolerance > 0.0 {
            let percent = response.total_tolerance * 100.0;
            let message = format!("totals are approximate: up to {percent} % may be missing");
            self.warn("approximate_total", "response.total_tolerance", message);
        }
        if counted && response.has_more.is_none() && response.total.is_none() {
            let message = "nothing says whether there are more pages; a full page is followed by one more request";
            self.warn("no_has_more", "response.has_more", message);
        }
        if !window.updated_since && window.client_filter {
            let message = "the source does not filter by time; every pass reads on until the order ends the window";
            self.warn("client_filtered", "window.client_filter", message);
        }
        if counted && window.ordered.is_none() && !self.one_page_per_slice() {
            let message = "no stable order is declared; pages may shift while they are read";
            self.warn("unordered_pages", "window.ordered", message);
        }
        if !pagination.replayable {
            let message = "a page cannot be asked for twice; a lost answer starts the pass anew";
            self.warn("not_replayable", "pagination.replayable", message);
        }
        if pagination.max_page.is_some() && !self.has("pagination.max_per_slice") {
            let message = "pages are limited; windows that need more are cut when their last page is reached";
            self.warn("page_limit", "pagination.max_page", message);
        }
    }

    fn one_page_per_slice(&self) -> bool {
        let pagination = &self.spec.pagination;
        pagination.max_per_slice.is_some_and(|most| most <= u64::from(pagination.size))
    }
}
