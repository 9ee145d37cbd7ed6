//! Reading one slice: from its first page to the source's own end, and the proof that nothing moved meanwhile.
//!
//! A pass is one reading from the first page. [`Pass::accept`] looks at a decoded page and says what becomes of it;
//! only the ledger remembers, so a new run rebuilds the pass with [`Pass::resume`] from the committed batches.
//! When a pass that ends is believed (INV-31) is the matter of [`proof`].

mod advance;
mod bounds;
mod patience;
mod place;
mod prefix;
mod proof;

use std::collections::HashSet;
use std::sync::Arc;

pub(crate) use bounds::most_of;
pub use patience::{asks_too_much, may_be_too_large, smaller_page};
pub use place::{DetailPlace, NotAPlace, Place};
pub use prefix::{Prefix, page_times};
pub use proof::{Proof, UNPROVEN_SPLIT};

use crate::hash::Hash32;
use crate::page::{Page, Position};
use crate::plan::ranges::IdSample;
use crate::ports::{BatchTrace, Phase};
use crate::spec::snapshot::{PagingKind, SpecSnapshot};
use crate::time::Timestamp;
use crate::window::Window;

/// Passes that prove nothing: after this many the slice is PARTIAL.
pub const PASSES_MAX: u32 = 8;
/// Passes in a row that died without a new id: the slice is split, then given up (INV-29).
pub const FRUITLESS_SPLIT: u32 = 2;
pub const FRUITLESS_MAX: u32 = 3;
/// Class of a slice whose source does not keep the order it declares.
const OUT_OF_ORDER: &str = "DRIFT";
/// How often an empty page is asked again while the total says that there is more.
pub const EMPTY_RETRIES: u32 = 3;
/// How often a page with bytes that are no text is asked for again.
pub const SPOILT_RETRIES: u32 = 2;

/// The reading of a slice as far as it has come.
#[derive(Clone, Debug)]
pub struct Pass {
    spec: Arc<SpecSnapshot>,
    window: Window,
    pass_no: u32,
    next_seq: u32,
    first_total: Option<u64>,
    last_total: Option<u64>,
    /// Ids met in this pass.
    ids: HashSet<u64>,
    /// Ids met in earlier passes of the task.
    known: HashSet<u64>,
    /// Passes in a row, before this one, that added no id.
    fruitless: u32,
    received: u64,
    pages: u64,
    tokens: HashSet<u64>,
    page_sets: HashSet<u64>,
    last_page: Vec<u64>,
    last_position: Option<Position>,
    read_at: Option<Timestamp>,
    /// How often the page to be read now was asked for in vain.
    asked_again: u32,
    /// Backward PAGE reading has turned round at the last page.
    turned: bool,
    order: prefix::Seen,
    told: proof::Told,
    /// The last pass before this one that came to its end.
    before: Option<proof::Ended>,
    /// What the first page of this pass showed of the ids; a run that goes on in its middle has none.
    sample: IdSample,
}

/// What becomes of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Commit it; `next` is what to ask for then, `None` when this was the last page.
    Commit { next: Option<Position> },
    /// An empty page before the end, or an end to be seen twice: ask for it again, commit nothing.
    AskAgain,
    /// The result set moved or the position was lost: begin anew.
    NewPass { reason: String },
    /// More than the source serves for one query: cut the window into about so many parts.
    Split { parts: u64, reason: String },
    /// Endless or senseless paging: a person must look.
    Fail { class: &'static str, reason: String },
}

/// What a finished pass proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassEnd {
    Proven,
    Again {
        reason: String,
    },
    /// Cut into about so many parts; where that cannot be, another pass.
    Split {
        parts: u64,
        reason: String,
    },
    GiveUp {
        reason: String,
    },
}

impl Pass {
    pub fn new(spec: Arc<SpecSnapshot>, window: Window) -> Pass {
        Pass {
            spec,
            window,
            pass_no: 1,
            next_seq: 0,
            first_total: None,
            last_total: None,
            ids: HashSet::new(),
            known: HashSet::new(),
            fruitless: 0,
            received: 0,
            pages: 0,
            tokens: HashSet::new(),
            page_sets: HashSet::new(),
            last_page: Vec::new(),
            last_position: None,
            read_at: None,
            asked_again: 0,
            turned: false,
            order: prefix::Seen::default(),
            told: proof::Told::default(),
            before: None,
            sample: IdSample::default(),
        }
    }

    /// Rebuilds the reading from the committed batches of all runs, oldest first (INV-28).
    pub fn resume(
        spec: Arc<SpecSnapshot>,
        window: Window,
        pass_no: u32,
        trace: &[BatchTrace],
    ) -> Result<Pass, NotAPlace> {
        let mut pass = Pass::new(spec, window);
        for batch in trace {
            while pass.pass_no < batch.pass_no {
                pass.turn_page_over();
            }
            pass.replay(batch)?;
        }
        while pass.pass_no < pass_no {
            pass.turn_page_over();
        }
        Ok(pass)
    }

    fn replay(&mut self, batch: &BatchTrace) -> Result<(), NotAPlace> {
        self.next_seq = batch.seq_no + 1;
        self.read_no_later_than(batch.source_now);
        if batch.phase == Phase::Search
            && let Place::Search(position) = Place::from_token(&batch.before_token)?
        {
            self.note(&position, &batch.page_ids, batch.total, batch.source_now);
            self.note_order(batch.page_ids.len(), batch.times);
            self.told.ended(ends_search(batch.after_token.as_deref())?);
        }
        Ok(())
    }

    /// Begins the next pass; what the old one met stays known.
    pub fn turn_page_over(&mut self) {
        self.fruitless = if self.added() { 0 } else { self.fruitless + 1 };
        self.known.extend(&self.ids);
        *self = Pass {
            pass_no: self.pass_no + 1,
            before: self.ended_pass(),
            known: std::mem::take(&mut self.known),
            fruitless: self.fruitless,
            order: self.order.turned_over(self.told.ended),
            ..Pass::new(self.spec.clone(), self.window)
        };
    }

    /// Met an id that no earlier pass had met.
    fn added(&self) -> bool {
        self.ids.iter().any(|id| !self.known.contains(id))
    }

    pub fn pass_no(&self) -> u32 {
        self.pass_no
    }

    pub fn next_seq(&self) -> u32 {
        self.next_seq
    }

    /// A step that is not a search page was committed.
    pub fn step_committed(&mut self, source_now: Timestamp) {
        self.next_seq += 1;
        self.read_no_later_than(source_now);
    }

    /// The first page counts, and where the clocks were set back meanwhile the page that was dated lowest: a version is
    /// not believed to be newer than its page was fetched, so an earlier reading must not count for it.
    fn read_no_later_than(&mut self, source_now: Timestamp) {
        self.read_at = Some(self.read_at.map_or(source_now, |known| known.min(source_now)));
    }

    /// Source time at the first page of this pass, `r` of the invariants.
    pub fn read_at(&self) -> Option<Timestamp> {
        self.read_at
    }

    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Items sent in this pass.
    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn distinct(&self) -> u64 {
        self.ids.len() as u64
    }

    pub fn last_total(&self) -> Option<u64> {
        self.last_total
    }

    /// Ids of the last search page, to be compared when a run goes on with OFFSET or PAGE.
    pub fn last_page(&self) -> &[u64] {
        &self.last_page
    }

    /// Where that page began.
    pub fn last_position(&self) -> Option<&Position> {
        self.last_position.as_ref()
    }

    /// The pass died. Says whether to begin anew, to split or to give up (INV-29).
    pub fn died(&self) -> Died {
        let fruitless = if self.added() { 0 } else { self.fruitless + 1 };
        match fruitless {
            0..FRUITLESS_SPLIT => Died::Again,
            FRUITLESS_SPLIT..FRUITLESS_MAX => Died::Split,
            _ => Died::GiveUp,
        }
    }

    /// Where every pass of this spec begins.
    pub fn first_place(spec: &SpecSnapshot, window: Window) -> Place {
        let paging = &spec.pagination;
        Place::Search(match paging.kind {
            PagingKind::Offset => Position::Offset(0),
            PagingKind::Page => Position::Page(paging.base),
            PagingKind::Token => Position::Token(paging.initial.clone()),
            PagingKind::Url => Position::Url(None),
            PagingKind::Time => Position::Since(window.from()),
        })
    }

    /// Judges a search page and, when it is to be committed, takes it into the pass.
    pub fn accept(&mut self, position: &Position, page: &Page, source_now: Timestamp) -> Accepted {
        let ids = page_ids(page);
        self.note_sample(page);
        let verdict = self.judge(position, page, &ids);
        match verdict {
            Accepted::Commit { ref next } => {
                self.note(position, &ids, page.total, source_now);
                self.note_order(ids.len(), page_times(&self.spec, page));
                self.told.ended(next.is_none());
                self.next_seq += 1;
            }
            Accepted::Fail { class: OUT_OF_ORDER, .. } => self.order.lied(),
            _ => {}
        }
        verdict
    }

    /// Takes a list of known ids for the only page of a search: what a refresh asks for is its own proof.
    pub fn accept_listed(&mut self, position: &Position, page: &Page, source_now: Timestamp) {
        let ids = page_ids(page);
        self.note(position, &ids, page.total, source_now);
        self.told.ended(true);
        self.next_seq += 1;
    }

    fn note(&mut self, position: &Position, ids: &[u64], total: Option<u64>, source_now: Timestamp) {
        self.read_no_later_than(source_now);
        self.note_told(position, ids, total);
        if self.pages == 0 {
            self.first_total = total;
        }
        self.last_total = total.or(self.last_total);
        self.pages += 1;
        self.received += ids.len() as u64;
        self.asked_again = 0;
        self.ids.extend(ids);
        self.tokens.insert(position_hash(position));
        self.page_sets.insert(set_hash(ids));
        self.last_page = ids.to_vec();
        self.last_position = Some(position.clone());
        if let Position::Page(number) = position {
            self.turned |= *number > self.spec.pagination.base;
        }
    }
}

/// What to do when a pass cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Died {
    Again,
    Split,
    GiveUp,
}

/// Whether the search page before this place was the last one.
fn ends_search(after_token: Option<&str>) -> Result<bool, NotAPlace> {
    let after = after_token.map(Place::from_token).transpose()?;
    Ok(matches!(after, None | Some(Place::Detail(DetailPlace { next: None, .. }))))
}

/// Short hashes of everything on the page, in order; a record without an id counts by its bytes.
pub fn page_ids(page: &Page) -> Vec<u64> {
    let good = page.items.iter().map(|item| id_hash(&item.id));
    let bad = page.bad.iter().map(|bad| bad.id.as_deref().map_or_else(|| Hash32::of(&bad.raw).short(), id_hash));
    good.chain(bad).collect()
}

/// Short hash of one id.
pub fn id_hash(id: &str) -> u64 {
    Hash32::of(id.as_bytes()).short()
}

fn position_hash(position: &Position) -> u64 {
    Hash32::of(Place::Search(position.clone()).to_token().as_bytes()).short()
}

/// Independent of the order on the page.
fn set_hash(ids: &[u64]) -> u64 {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let bytes: Vec<u8> = sorted.iter().flat_map(|id| id.to_be_bytes()).collect();
    Hash32::of(&bytes).short()
}

#[cfg(test)]
mod moving;
#[cfg(test)]
mod tests;
