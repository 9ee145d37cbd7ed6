//! The rules for one page: is it a page of this pass, was it the last one, and where does the next one begin.

use crate::page::{BadReason, Page, Position};
use crate::pass::{Accepted, EMPTY_RETRIES, OUT_OF_ORDER, Pass, SPOILT_RETRIES, position_hash, set_hash};
use crate::planted::{Defect, planted};
use crate::spec::snapshot::{Order, PagingKind, StopRule};
use crate::time::{Span, Timestamp};

/// The smallest step of a position in time.
const TICK: Span = Span::from_micros(1);

impl Pass {
    pub(super) fn judge(&self, position: &Position, page: &Page, ids: &[u64]) -> Accepted {
        if let Some(verdict) = self.over_the_cap(page) {
            return verdict;
        }
        if let Some(verdict) = self.loops(position, page, ids) {
            return verdict;
        }
        if let Some(reason) = self.moved(position, ids) {
            return Accepted::NewPass { reason };
        }
        if let Some(reason) = self.out_of_order(page) {
            return Accepted::Fail { class: OUT_OF_ORDER, reason };
        }
        if self.is_spoilt(page) {
            return Accepted::AskAgain;
        }
        if self.lacks_its_last_page(page, ids) {
            return self.total_is_needed();
        }
        if self.is_last(position, page, ids) {
            return if self.asks_the_tail_again(position, page, ids) {
                Accepted::AskAgain
            } else {
                Accepted::Commit { next: None }
            };
        }
        let may_be_empty = self.spec.pagination.kind == PagingKind::Time || self.lies_past_the_end(position, page);
        if ids.is_empty() && !may_be_empty {
            return self.empty_before_the_end();
        }
        self.onward(position, page, ids)
    }

    /// INV-32: a position or a page met before in this pass means that paging runs in a circle.
    fn loops(&self, position: &Position, page: &Page, ids: &[u64]) -> Option<Accepted> {
        let paging = &self.spec.pagination;
        let fail = |reason: String| Some(Accepted::Fail { class: "LOOP", reason });
        // Counted in items, because servers clamp the page size silently.
        if let Some(total) = self.first_total
            && self.received > 2 * total + 8 * u64::from(paging.size)
        {
            return fail(format!("{} items were sent of a result of {total}", self.received));
        }
        // Backward the numbers fall, and what leaves the window moves a whole page up now and then.
        if self.reads_backward() && self.turned || paging.kind == PagingKind::Time {
            return None;
        }
        if paging.replayable && self.tokens.contains(&position_hash(position)) {
            return fail("the source sent a position that was already read in this pass".into());
        }
        if !ids.is_empty() && !self.probing() && self.page_sets.contains(&set_hash(ids)) {
            return if self.shifted(position, page) {
                Some(Accepted::NewPass { reason: "so much entered that a page came twice".into() })
            } else {
                fail("the source sent the same page twice".into())
            };
        }
        None
    }

    /// Pages by number slide when something enters before them; the total tells.
    fn shifted(&self, position: &Position, page: &Page) -> bool {
        let by_number = matches!(position, Position::Offset(_) | Position::Page(_));
        by_number && self.pages > 0 && page.total != self.last_total
    }

    /// Backward reading meets the first page a second time, at its end.
    fn turned_back_to_first(&self, position: &Position) -> bool {
        self.spec.pagination.backward && self.turned && *position == Position::Page(self.spec.pagination.base)
    }

    /// The count says nothing before that: ids that have left the window since were counted too, and what moved up into
    /// the first page was not met (INV-31).
    fn reads_backward(&self) -> bool {
        self.spec.pagination.backward && self.spec.pagination.kind == PagingKind::Page
    }

    /// The number of the last page follows from the total alone: without one the first page would be taken for all of them.
    fn lacks_its_last_page(&self, page: &Page, ids: &[u64]) -> bool {
        let ends = page.has_more == Some(false) || ids.is_empty();
        self.reads_backward() && !self.turned && page.total.is_none() && !ends
    }

    fn total_is_needed(&self) -> Accepted {
        if self.asked_again < EMPTY_RETRIES {
            return Accepted::AskAgain;
        }
        let reason =
            "pages are read from the last to the first, and the answer does not say how many records there are";
        Accepted::Fail { class: "NO_TOTAL", reason: reason.into() }
    }

    /// So much has left the window that the last page is none any more; those before it are still read.
    fn lies_past_the_end(&self, position: &Position, page: &Page) -> bool {
        let (Position::Page(number), Some(total)) = (position, page.total) else { return false };
        let paging = &self.spec.pagination;
        self.reads_backward() && number.saturating_sub(paging.base) * u64::from(paging.size) >= total
    }

    /// There is no page behind the first one.
    fn is_alone(&self, position: &Position, page: &Page, ids: &[u64]) -> bool {
        let Position::Page(number) = position else { return false };
        !self.turned && self.next_page(*number, page, ids).is_none()
    }

    /// OFFSET pages overlap; the ids in the overlap must repeat, or something moved between the two requests.
    fn moved(&self, position: &Position, ids: &[u64]) -> Option<String> {
        let Position::Offset(offset) = position else { return None };
        if planted(Defect::MovedUnnoticed) {
            return None;
        }
        let overlap = self.overlap_of(self.last_page.len());
        if *offset == 0 || overlap == 0 || self.pages == 0 {
            return None;
        }
        let tail = &self.last_page[self.last_page.len() - overlap..];
        (!ids.starts_with(tail)).then(|| format!("the {overlap} items before offset {offset} changed while paging"))
    }

    pub(super) fn overlap_of(&self, page_len: usize) -> usize {
        // At least one item must be new, or paging would stand still.
        (self.spec.pagination.overlap as usize).min(page_len.saturating_sub(1))
    }

    fn out_of_order(&self, page: &Page) -> Option<String> {
        let order = self.spec.window.ordered?;
        let times: Vec<Timestamp> = page.items.iter().filter_map(|item| item.updated_at).collect();
        let sorted = match order {
            Order::Asc => times.is_sorted(),
            Order::Desc => times.is_sorted_by(|left, right| left >= right),
        };
        (!sorted)
            .then(|| format!("the source declares order {order:?} by {} and does not keep it", self.spec.window.key))
    }

    /// The order of 4.3.3: has_more, then token or URL, then the count, then an empty page, then a declared short page.
    fn is_last(&self, position: &Position, page: &Page, ids: &[u64]) -> bool {
        let stops = |rule| self.spec.pagination.stop.contains(&rule);
        if let Some(more) = page.has_more {
            return !more;
        }
        match position {
            Position::Token(sent) => {
                let next = page.next_token.as_ref().filter(|token| !token.is_empty());
                if next.is_none() || (stops(StopRule::EchoedToken) && next == sent.as_ref()) {
                    return true;
                }
            }
            Position::Url(_) if page.next_url.is_none() => return true,
            Position::Since(_) => return self.time_is_up(page),
            _ => {}
        }
        if self.reads_backward() {
            return self.turned_back_to_first(position) || self.is_alone(position, page, ids);
        }
        let seen = self.seen_with(ids);
        if self.counts_to_the_end(position, page) && page.total.is_some_and(|total| seen >= total) {
            return !self.probes_past(ids);
        }
        if ids.is_empty() {
            return page.total.is_none_or(|total| seen >= self.least_of(total));
        }
        let short = ids.len() < self.spec.pagination.size as usize;
        if short && planted(Defect::ShortPageIsLast) {
            return true;
        }
        // Without a total nothing confirms it: the next position is asked for and must be empty.
        short && stops(StopRule::ShortPage) && page.total.is_some_and(|total| seen >= total)
    }

    /// OFFSET and PAGE end when the count is reached; tokens and URLs only where the source is declared so. A count that
    /// fell leaves out ids that were met before they left the window, so it is reached too early.
    fn counts_to_the_end(&self, position: &Position, page: &Page) -> bool {
        let by_number = matches!(position, Position::Offset(_) | Position::Page(_));
        let fell = self.pages > 0 && page.total < self.first_total;
        (by_number || self.spec.pagination.stop.contains(&StopRule::CountReached)) && !fell
    }

    /// The reading passed the end of the window, or the feed has nothing more.
    fn time_is_up(&self, page: &Page) -> bool {
        page.item_count() == 0 || page.items.iter().any(|item| item.updated_at.is_some_and(|at| at >= self.window.to()))
    }

    pub(super) fn seen_with(&self, ids: &[u64]) -> u64 {
        let fresh: std::collections::HashSet<u64> = ids.iter().filter(|id| !self.ids.contains(id)).copied().collect();
        (self.ids.len() + fresh.len()) as u64
    }

    /// Sources send spurious empty pages; a cursor that cannot be asked twice has moved on by then.
    fn empty_before_the_end(&self) -> Accepted {
        if !self.spec.pagination.replayable {
            return Accepted::Commit { next: None };
        }
        if self.asked_again >= EMPTY_RETRIES {
            return Accepted::NewPass { reason: "an empty page came before the end".into() };
        }
        Accepted::AskAgain
    }

    /// Bytes that are no text come and go with the server that sent them; what is still there after that is the record's.
    pub fn is_spoilt(&self, page: &Page) -> bool {
        let bad = page.bad.iter().any(|bad| bad.reason == BadReason::BadText);
        bad && self.spec.pagination.replayable && self.asked_again < SPOILT_RETRIES
    }

    /// The same page was asked for again.
    pub fn asked_again(&mut self) {
        self.asked_again += 1;
    }

    fn onward(&self, position: &Position, page: &Page, ids: &[u64]) -> Accepted {
        let next = match position {
            // Advance by what came, never by what was asked for: servers clamp the size silently.
            Position::Offset(offset) => Position::Offset(offset + (ids.len() - self.overlap_of(ids.len())) as u64),
            Position::Page(number) => match self.next_page(*number, page, ids) {
                Some(next) => Position::Page(next),
                None => return Accepted::Commit { next: None },
            },
            Position::Token(_) => Position::Token(page.next_token.clone()),
            Position::Url(_) => Position::Url(page.next_url.clone()),
            Position::Since(since) => Position::Since(self.next_since(*since, page, ids)),
        };
        let returns = self.spec.pagination.backward && next == Position::Page(self.spec.pagination.base);
        let known = next == *position || self.tokens.contains(&position_hash(&next));
        if self.spec.pagination.replayable && known && !returns {
            let reason = "the source names a next page that was already read in this pass".into();
            return Accepted::Fail { class: "LOOP", reason };
        }
        if let Some(verdict) = self.too_deep(&next, page.total) {
            return verdict;
        }
        Accepted::Commit { next: Some(next) }
    }

    /// Forward: one up. Backward: from the first page to the last, then down to the first again.
    fn next_page(&self, number: u64, page: &Page, ids: &[u64]) -> Option<u64> {
        let paging = &self.spec.pagination;
        if !paging.backward {
            return Some(number + 1);
        }
        if self.turned || number > paging.base {
            return number.checked_sub(1).filter(|next| *next >= paging.base);
        }
        let per_page = (ids.len() as u64).max(1);
        let last = paging.base + page.total.unwrap_or(per_page).div_ceil(per_page).saturating_sub(1);
        (last > paging.base).then_some(last)
    }

    /// Everything from the last time met, whose ties may go on. When only ties came, the next microsecond: times in
    /// records may be finer than the grain. A source that cuts our microseconds off sends what is older than we asked
    /// for; only then a whole grain is stepped over.
    fn next_since(&self, since: Timestamp, page: &Page, ids: &[u64]) -> Timestamp {
        let grain = self.spec.window.boundary.grain.max(TICK);
        match page.items.iter().filter_map(|item| item.updated_at).max() {
            Some(last) if last > since => last,
            Some(last) if last < since => since.plus(grain),
            None if set_hash(ids) == set_hash(&self.last_page) => since.plus(grain),
            _ => since.plus(TICK),
        }
    }
}
