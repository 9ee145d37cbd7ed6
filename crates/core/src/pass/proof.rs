//! When a pass that came to its end is believed (INV-31).
//!
//! Between two requests records enter the window (arrive late), leave it (are updated or deleted) and move inside it.
//! Let `S(t)` be what the window holds at `t`, `D` the ids that a pass met and `r` the time that the proof speaks of:
//! whatever was in the window at `r` and stayed there as it was must have been met. What changes after `r` is the
//! business of the second reading (INV-8). One thing is taken for granted: what has left a window does not come back to
//! it, because the time of a record only rises and what was deleted stays so.
//!
//! | Paging | What can be skipped | Believed when |
//! |---|---|---|
//! | any, everything on one page | nothing: the page is `S(t)` | its ids are as many as its total ([`Proof::Whole`]) |
//! | TOKEN, URL of a snapshot | nothing of `S(first page)` | it reached its end: the total fits, or nothing new was met |
//! | TOKEN, URL, TIME that go on behind a key | nothing: what stays lies before the reader until it is met | the same |
//! | OFFSET that overlaps | nothing: whoever is skipped pushes the overlap away | the same |
//! | PAGE, OFFSET without overlap | one record for every one that leaves (forward) or enters (backward) the part already read | all of it was seen twice ([`Proof::SeenTwice`]) |
//!
//! The total of a source whose pages cannot shift only guards against ends that come too early. Where they can shift no
//! figure of one pass helps: between two requests one record leaves and another enters, the total stands still, as many
//! ids are met as are counted, and the one in between was skipped. A later pass that brings no new id proves nothing
//! either: it may skip the same record again. Two passes prove it. Let the first end at `t` with as many ids as its last
//! total, and let the second meet all of them again. Each was in the window before `t` and after `t`, hence at `t`; so
//! `D` lies in `S(t)` and is as large: they are equal, whatever was met twice, moved, entered or left on the way. All of
//! `S(t)` was read again afterwards, so `r` may be any time up to `t`; the first page of the first pass is taken. Where
//! a source gives no total, the first pass must have met no id twice: whatever shifts a page makes one come again.
//!
//! What is not proven is read again; after [`UNPROVEN_SPLIT`] passes the slice is cut so that its parts fit on a page
//! each, because one page is always a proof; where it cannot be cut it is PARTIAL after [`PASSES_MAX`](super::PASSES_MAX).

use std::collections::HashSet;

use crate::page::Position;
use crate::pass::{Pass, PassEnd};
use crate::planted::{Defect, planted};
use crate::time::Timestamp;

/// Passes without a proof after which a slice is cut into parts of about one page.
pub const UNPROVEN_SPLIT: u32 = 3;

/// What makes a pass a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// One page held everything the source counts.
    Whole,
    /// Nothing can be skipped, and the source's total stood still and equals the ids met, or there is none.
    Counted,
    /// Nothing can be skipped, the total moved, and the pass met nothing that an earlier one had not.
    NothingNew,
    /// Everything that an earlier pass met and counted was met again.
    SeenTwice,
}

impl Proof {
    pub const fn code(self) -> &'static str {
        match self {
            Proof::Whole => "WHOLE",
            Proof::Counted => "COUNTED",
            Proof::NothingNew => "NOTHING_NEW",
            Proof::SeenTwice => "SEEN_TWICE",
        }
    }
}

/// What the pages of a pass tell beside their ids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Between two of them a record can have been skipped unnoticed.
    shifts: bool,
    /// One of them held everything the source counted, and no other held more.
    whole: bool,
    least_total: Option<u64>,
    /// The total changed from one page to the next.
    moved: bool,
    /// The last one was met.
    pub(super) ended: bool,
}

/// A pass that came to its end, as later ones remember it.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    ids: HashSet<u64>,
    last_total: Option<u64>,
    /// It met an id twice.
    repeats: bool,
    read_at: Option<Timestamp>,
}

impl Told {
    pub fn ended(&mut self, ended: bool) {
        self.ended = ended;
    }
}

impl Pass {
    /// Takes a page into account, before its ids join those of the pass.
    pub(super) fn note_told(&mut self, position: &Position, ids: &[u64], total: Option<u64>) {
        self.told.shifts |= self.pages > 0 && self.can_skip_before(position);
        self.told.moved |= self.pages > 0 && total != self.last_total;
        self.told.least_total = self.told.least_total.into_iter().chain(total).min();
        let distinct: HashSet<u64> = ids.iter().copied().collect();
        let alone = total == Some(distinct.len() as u64) && self.ids.is_subset(&distinct);
        self.told.whole = alone || (self.told.whole && distinct.is_subset(&self.ids));
    }

    /// The page before this one and this one need not fit together.
    fn can_skip_before(&self, position: &Position) -> bool {
        match position {
            Position::Page(_) => true,
            Position::Offset(_) => self.overlap_of(self.last_page.len()) == 0,
            Position::Token(_) | Position::Url(_) | Position::Since(_) => false,
        }
    }

    /// What the next pass has to remember of this one.
    pub(super) fn ended_pass(&mut self) -> Option<Ended> {
        if !self.told.ended {
            return self.before.take();
        }
        let repeats = self.repeats();
        let (last_total, read_at) = (self.last_total, self.read_at);
        Some(Ended { ids: std::mem::take(&mut self.ids), last_total, repeats, read_at })
    }

    fn repeats(&self) -> bool {
        self.received > self.distinct()
    }

    /// Why the pass that came to its end may be believed; `None` when it may not.
    pub fn proof(&self) -> Option<Proof> {
        if self.told.whole {
            return Some(Proof::Whole);
        }
        if self.told.shifts && !planted(Defect::ShiftBelieved) {
            return self.proof_of_shifting();
        }
        if self.mismatch().is_none() {
            return Some(Proof::Counted);
        }
        let whole = self.told.least_total.is_none_or(|total| self.distinct() >= self.least_of(total));
        let nothing_new = self.pass_no > 1 && !self.added() && (whole || planted(Defect::ShiftBelieved));
        nothing_new.then_some(Proof::NothingNew)
    }

    fn proof_of_shifting(&self) -> Option<Proof> {
        if planted(Defect::StillTotalBelieved) && !self.told.moved && self.mismatch().is_none() {
            return Some(Proof::Counted);
        }
        let first = self.before.as_ref()?;
        let counted = match first.last_total {
            Some(total) => self.is_count(first.ids.len() as u64, total),
            None => !first.repeats && !self.repeats(),
        };
        (counted && first.ids.is_subset(&self.ids)).then_some(Proof::SeenTwice)
    }

    /// The source's time that the proof speaks of.
    pub fn proven_at(&self) -> Option<Timestamp> {
        match (self.proof(), &self.before) {
            (Some(Proof::SeenTwice), Some(first)) => first.read_at.into_iter().chain(self.read_at).min(),
            _ => self.read_at,
        }
    }

    /// The source said that this was the last page: is the pass a proof?
    pub fn end(&self) -> PassEnd {
        let trusting = [Defect::Unreconciled, Defect::ShortPageIsLast, Defect::MovedUnnoticed];
        if self.proof().is_some() || trusting.into_iter().any(planted) {
            return PassEnd::Proven;
        }
        let unseen = || "a record may have been skipped between two pages, they are read a second time".to_owned();
        self.unproven(self.mismatch().unwrap_or_else(unseen))
    }

    /// What follows when a pass proves nothing, at its end or before.
    pub fn unproven(&self, reason: String) -> PassEnd {
        match self.pass_no {
            super::PASSES_MAX.. => PassEnd::GiveUp { reason: format!("{reason} after {} passes", self.pass_no) },
            UNPROVEN_SPLIT.. => PassEnd::Split { parts: self.parts_of_a_page(), reason },
            _ => PassEnd::Again { reason },
        }
    }

    /// Twice as many as an even spread would need, because records are not spread evenly.
    fn parts_of_a_page(&self) -> u64 {
        let total = self.last_total.unwrap_or(0).max(self.distinct());
        total.div_ceil(u64::from(self.spec.pagination.size).max(1)).saturating_mul(2).max(2)
    }

    fn mismatch(&self) -> Option<String> {
        let total = self.last_total?;
        let distinct = self.distinct();
        if self.spec.response.total_tolerance > 0.0 {
            let allowed = total - self.least_of(total);
            return (!self.is_count(distinct, total))
                .then(|| format!("the source counts {total} (±{allowed}), {distinct} distinct ids were met"));
        }
        match self.first_total {
            Some(first) if first != total => Some(format!("the total moved from {first} to {total} while paging")),
            _ if distinct != total => Some(format!("the source counts {total}, {distinct} distinct ids were met")),
            _ => None,
        }
    }

    /// So many ids are what the source counts, as exactly as it does.
    fn is_count(&self, distinct: u64, total: u64) -> bool {
        distinct.abs_diff(total) <= total - self.least_of(total)
    }

    pub(super) fn least_of(&self, total: u64) -> u64 {
        let allowed = (total as f64 * self.spec.response.total_tolerance).floor() as u64;
        total.saturating_sub(allowed)
    }
}
