//! What an order proves of a slice that was not read to its end.
//!
//! The one exception to "no credit without a whole pass" (INV-3): a source that is declared to sort by the watermark
//! key, ascending, and was seen to do so on every page, has shown everything before the greatest time of the last
//! committed page. That time itself is not proven, because its ties may go on on the next page.

use crate::calendar::Stepper;
use crate::page::Page;
use crate::pass::Pass;
use crate::spec::snapshot::{Order, PagingKind, SpecSnapshot};
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// The proven beginning of a slice: everything before `to`, as the source showed it at `read_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub to: Timestamp,
    /// Source time at the first page of the pass that proves it.
    pub read_at: Timestamp,
}

/// The order of a task's pages as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Greatest time of the pages of this pass.
    reached: Option<Timestamp>,
    /// One page was out of order: nothing is believed any more, also not in later passes.
    broken: bool,
    best: Option<Prefix>,
}

/// Least and greatest time of a page whose items are in order; `None` when they are not, or one has no time.
pub fn page_times(spec: &SpecSnapshot, page: &Page) -> Option<(Timestamp, Timestamp)> {
    if !can_prove(spec) {
        return None;
    }
    let times: Option<Vec<Timestamp>> = page.items.iter().map(|item| item.updated_at).collect();
    let times = times.filter(|times| times.is_sorted())?;
    Some((*times.first()?, *times.last()?))
}

/// Pages by number may have shifted without being noticed, and ids alone are no records yet.
fn can_prove(spec: &SpecSnapshot) -> bool {
    let unmoved = match spec.pagination.kind {
        PagingKind::Page => false,
        PagingKind::Offset => spec.pagination.overlap > 0,
        PagingKind::Token | PagingKind::Url | PagingKind::Time => true,
    };
    unmoved && spec.window.ordered == Some(Order::Asc) && spec.detail.is_none()
}

impl Seen {
    /// The state at the first page of the next pass. What came to its end and is read again did not reconcile: something is
    /// known to be missing, and nobody knows where.
    pub fn turned_over(self, came_to_its_end: bool) -> Seen {
        Seen { reached: None, best: self.best.filter(|_| !came_to_its_end), ..self }
    }

    pub fn lied(&mut self) {
        self.broken = true;
        self.best = None;
    }
}

impl Pass {
    /// Takes the times of a committed page into account.
    pub(super) fn note_order(&mut self, items: usize, times: Option<(Timestamp, Timestamp)>) {
        if items == 0 || !can_prove(&self.spec) {
            return;
        }
        let kept = times.filter(|(least, _)| self.order.reached.is_none_or(|reached| reached <= *least));
        let Some((_, greatest)) = kept else { return self.order.lied() };
        self.order.reached = Some(greatest);
        if let Some(prefix) = self.prefix_at(greatest) {
            self.order.best = self.order.best.max_by_end(prefix);
        }
    }

    fn prefix_at(&self, greatest: Timestamp) -> Option<Prefix> {
        let boundary = &self.spec.window.boundary;
        let grain = Stepper::new(boundary.grain.max(Span::from_micros(1)), &boundary.zone).ok()?;
        let last_inside = self.window.to().minus(Span::from_micros(1));
        let to = grain.floor(greatest.min(last_inside));
        let read_at = self.read_at.filter(|_| !self.order.broken && to > self.window.from())?;
        Some(Prefix { to, read_at })
    }

    /// What can be kept of the slice if it ends now.
    pub fn proven_prefix(&self) -> Option<Prefix> {
        self.order.best
    }

    /// The window cut at the proven prefix: what is proven, and the rest.
    pub fn cut_at_prefix(&self) -> Option<(Window, Prefix, Window)> {
        let prefix = self.proven_prefix()?;
        let proven = Window::new(self.window.from(), prefix.to)?;
        Some((proven, prefix, Window::new(prefix.to, self.window.to())?))
    }
}

trait Further {
    fn max_by_end(self, other: Prefix) -> Option<Prefix>;
}

impl Further for Option<Prefix> {
    /// The one that reaches further; of two that reach as far, the one read later.
    fn max_by_end(self, other: Prefix) -> Option<Prefix> {
        Some(self.filter(|known| (known.to, known.read_at) >= (other.to, other.read_at)).unwrap_or(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Position;
    use crate::pass::tests::{item, now, page, pass};
    use crate::pass::{Accepted, Pass};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    /// A TOKEN source with pages of these seconds, read as far as they go; the window is `[0, 100)`.
    fn read(change: impl FnOnce(&mut SpecSnapshot), pages: &[&[i64]]) -> Pass {
        let mut pass = pass(|spec| {
            spec.pagination.kind = PagingKind::Token;
            spec.window.ordered = Some(Order::Asc);
            change(spec);
        });
        for (number, seconds) in pages.iter().enumerate() {
            let items = seconds.iter().enumerate().map(|(place, second)| item(&format!("{number}.{place}"), *second));
            let next_token = Some(format!("t{}", number + 1));
            let page = Page { items: items.collect(), next_token, ..page(&[], None) };
            let token = (number > 0).then(|| format!("t{number}"));
            pass.accept(&Position::Token(token), &page, now());
        }
        pass
    }

    #[test]
    fn an_order_that_was_kept_proves_what_lies_before_the_last_time() {
        // (pages, end of the proven prefix)
        let cases: [(&[&[i64]], Option<i64>); 8] = [
            (&[], None),
            (&[&[3, 5, 9]], Some(9)),
            (&[&[3, 5, 9], &[9, 12]], Some(12)),
            // Ties over three pages: their own second is not proven.
            (&[&[3, 7], &[7, 7, 7], &[7, 7]], Some(7)),
            (&[&[0, 0, 0]], None),
            // A page from before: the source lies, also about what it sent until then.
            (&[&[3, 5, 9], &[8, 12]], None),
            (&[&[3, 5, 9], &[]], Some(9)),
            // Dated beyond the window: everything inside was shown, but no more than the window is claimed.
            (&[&[3, 500]], Some(99)),
        ];
        for (pages, want) in cases {
            let found = read(|_| {}, pages).proven_prefix().map(|prefix| prefix.to);
            assert_eq!(found, want.map(at), "{pages:?}");
        }
    }

    #[test]
    fn a_prefix_ends_at_an_edge_the_source_can_name() {
        let coarse = |spec: &mut SpecSnapshot| spec.window.boundary.grain = Span::from_seconds(10);
        assert_eq!(read(coarse, &[&[3, 47]]).proven_prefix(), Some(Prefix { to: at(40), read_at: now() }));
        assert_eq!(read(coarse, &[&[3, 9]]).proven_prefix(), None);
        let (proven, _, rest) = read(coarse, &[&[3, 47]]).cut_at_prefix().unwrap();
        assert_eq!((proven.from(), proven.to(), rest.from(), rest.to()), (at(0), at(40), at(40), at(100)));
    }

    #[test]
    fn what_is_not_declared_or_can_move_unnoticed_proves_nothing() {
        let undeclared = |spec: &mut SpecSnapshot| spec.window.ordered = None;
        let falling = |spec: &mut SpecSnapshot| spec.window.ordered = Some(Order::Desc);
        let numbered = |spec: &mut SpecSnapshot| spec.pagination.kind = PagingKind::Page;
        for change in [undeclared, falling, numbered] {
            assert_eq!(read(change, &[&[3, 3]]).proven_prefix(), None);
        }
        let mut timeless = read(|_| {}, &[&[3, 5]]);
        let mut unknown = Page { next_token: Some("t2".into()), ..page(&["x"], None) };
        unknown.items[0].updated_at = None;
        timeless.accept(&Position::Token(Some("t1".into())), &unknown, now());
        assert_eq!(timeless.proven_prefix(), None);
    }

    #[test]
    fn a_lie_within_a_page_takes_all_credit_and_a_new_pass_keeps_what_was_proven() {
        let mut lying = read(|_| {}, &[&[3, 5]]);
        let wrong = Page { items: vec![item("x", 9), item("y", 8)], ..page(&[], None) };
        let verdict = lying.accept(&Position::Token(Some("t1".into())), &wrong, now());
        assert!(matches!(verdict, Accepted::Fail { class: "DRIFT", .. }));
        assert_eq!(lying.proven_prefix(), None);
        let mut honest = read(|_| {}, &[&[3, 5], &[9]]);
        honest.turn_page_over();
        let first = Page { items: vec![item("0.0", 3)], next_token: Some("t1".into()), ..page(&[], None) };
        honest.accept(&Position::Token(None), &first, now().plus(Span::HOUR));
        assert_eq!(honest.proven_prefix(), Some(Prefix { to: at(9), read_at: now() }));
    }

    #[test]
    fn a_pass_that_ended_and_did_not_reconcile_leaves_no_credit_behind() {
        let mut short = read(|_| {}, &[&[3, 5], &[9]]);
        let last = Page { items: vec![item("z", 12)], ..page(&[], Some(99)) };
        assert_eq!(short.accept(&Position::Token(Some("t2".into())), &last, now()), Accepted::Commit { next: None });
        short.turn_page_over();
        assert_eq!(short.proven_prefix(), None, "one of 99 is missing, and nobody knows where");
    }
}
