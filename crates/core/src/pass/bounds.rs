//! How much can be read in one pass, and how sure its end must be.
//!
//! Sources answer wrong pages past their result cap and refuse pages past their depth. Neither may end a pass: the
//! window is cut before that, or the slice fails loudly (INV-12). An end that only the last page vouches for is asked
//! for once more where the definition wants it (`tail_probe`).

use crate::page::{Page, Position};
use crate::pass::{Accepted, Pass};
use crate::plan::ranges::IdSample;
use crate::planted::{Defect, planted};
use crate::spec::snapshot::{PaginationSpec, SecondKey};

impl Pass {
    /// A total above what can be read is cut before paging.
    pub(super) fn over_the_cap(&self, page: &Page) -> Option<Accepted> {
        if planted(Defect::CapIgnored) {
            return None;
        }
        let most = most_of(&self.spec.pagination)?;
        let total = page.total.filter(|total| self.pages == 0 && *total > most)?;
        let reason = format!("{total} results, at most {most} can be read in one slice");
        Some(Accepted::Split { parts: parts_for(Some(total), most), reason })
    }

    /// Keeps what the first page shows of the ids, for cutting where time is at its grain.
    pub(super) fn note_sample(&mut self, page: &Page) {
        if self.pages > 0 || !matches!(self.spec.window.second_key, Some(SecondKey::IdRange { .. })) {
            return;
        }
        let seen = page.items.iter().filter_map(|item| item.id.parse().ok()).collect();
        self.sample = IdSample { total: page.total.unwrap_or(0), most: most_of(&self.spec.pagination), seen };
    }

    pub fn sample(&self) -> &IdSample {
        &self.sample
    }

    /// Pages still to come, as far as the total tells.
    pub fn pages_left(&self) -> Option<u64> {
        let left = self.last_total?.saturating_sub(self.distinct());
        Some(left.div_ceil(u64::from(self.spec.pagination.size).max(1)))
    }

    /// The page after this one lies deeper than the source serves. Pages may be shorter than asked for and totals may
    /// be missing, so this can be found out on the way only.
    pub(super) fn too_deep(&self, next: &Position, total: Option<u64>) -> Option<Accepted> {
        let paging = &self.spec.pagination;
        let deepest = paging.max_page?;
        let reached = match next {
            Position::Page(number) => number.saturating_sub(paging.base),
            _ => self.pages + 1,
        };
        let reason = format!("more than the {deepest} pages the source serves for one query");
        let most = most_of(paging).unwrap_or(1);
        (reached >= deepest).then(|| Accepted::Split { parts: parts_for(total, most), reason })
    }

    /// TOKEN and URL: the page says that it is the last one only by naming no next, and no count confirms it.
    pub(super) fn asks_the_tail_again(&self, position: &Position, page: &Page, ids: &[u64]) -> bool {
        let paging = &self.spec.pagination;
        let by_answer = matches!(position, Position::Token(_) | Position::Url(_));
        let told = page.has_more.is_some() || page.total.is_some_and(|total| self.seen_with(ids) >= total);
        paging.tail_probe && paging.replayable && by_answer && !told && self.asked_again == 0
    }

    /// OFFSET and PAGE: the count was reached by this very page, so the page after it must be seen to bring nothing.
    pub(super) fn probes_past(&self, ids: &[u64]) -> bool {
        let paging = &self.spec.pagination;
        let fresh = ids.iter().any(|id| !self.ids.contains(id));
        paging.tail_probe && fresh && paging.max_page.is_none_or(|most| self.pages + 1 < most)
    }

    /// The count was reached before: the page in hand is past the end.
    pub(super) fn probing(&self) -> bool {
        self.spec.pagination.tail_probe && self.last_total.is_some_and(|total| self.distinct() >= total)
    }
}

/// Most results that one slice may have.
pub(crate) fn most_of(paging: &PaginationSpec) -> Option<u64> {
    [paging.result_cap, paging.max_per_slice, room_of(paging)].into_iter().flatten().min()
}

/// What fits into the pages the source serves; overlapping pages hold less.
fn room_of(paging: &PaginationSpec) -> Option<u64> {
    let step = u64::from(paging.size.saturating_sub(paging.overlap)).max(1);
    Some(u64::from(paging.size).saturating_add((paging.max_page? - 1).saturating_mul(step)))
}

/// Twice as many as an even spread would need, because records are not spread evenly.
fn parts_for(total: Option<u64>, most: u64) -> u64 {
    total.map_or(2, |total| total.div_ceil(most.max(1)).saturating_mul(2)).max(2)
}
