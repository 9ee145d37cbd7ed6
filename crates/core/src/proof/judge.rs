//! From evidence to a verdict. Only what was read whole and after it had settled is proven; everything else is a hole with
//! a name, also where somebody waived it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::plan::coverage::{Coverage, ReadSlice, Settling};
use crate::proof::{Evidence, Leaf, Terms};
use crate::states::SliceState;
use crate::time::{Span, Timestamp};
use crate::window::Window;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    Complete,
    Incomplete,
}

impl Verdict {
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Complete => "COMPLETE",
            Verdict::Incomplete => "INCOMPLETE",
        }
    }
}

/// A stretch of time and why it counts as read, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    pub window: Window,
    /// PROVEN, WAIVED, the state of the slice that ended without proof, OPEN, UNSETTLED or NOT_READ.
    pub status: String,
    pub reason: String,
    /// The slice that the reason is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Id>,
}

pub const PROVEN: &str = "PROVEN";

impl Stretch {
    pub fn is_hole(&self) -> bool {
        self.status != PROVEN
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// How far totals may be off where the source only estimates them: so many records over all windows.
    pub within: u64,
    /// Why it is not complete; empty when it is.
    pub reasons: Vec<String>,
    /// Tiles the window.
    pub coverage: Vec<Stretch>,
}

/// Judges a window by all the evidence there is about it.
pub fn judge(window: Window, evidence: &Evidence, terms: Terms) -> Judgement {
    let coverage = coverage(window, evidence, terms.settling_lag);
    let counted: Vec<&Leaf> = last_readings(&evidence.leaves);
    let mut reasons: Vec<String> = coverage.iter().filter(|stretch| stretch.is_hole()).map(hole_reason).collect();
    reasons.extend(shortfalls(&counted, evidence.asked_again, terms));
    let within = counted.iter().filter_map(|leaf| leaf.total).map(|total| allowance(total, terms)).sum();
    let verdict = if reasons.is_empty() { Verdict::Complete } else { Verdict::Incomplete };
    Judgement { verdict, within, reasons, coverage }
}

fn hole_reason(hole: &Stretch) -> String {
    let Stretch { window, status, reason, .. } = hole;
    let told = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("[{}, {}) {status}{told}", window.from(), window.to())
}

/// What is known to be lacking inside windows that were read.
fn shortfalls(leaves: &[&Leaf], asked_again: u64, terms: Terms) -> Vec<String> {
    let mut found = Vec::new();
    let sum = |of: fn(&Leaf) -> u64| leaves.iter().map(|leaf| of(leaf)).sum::<u64>();
    let (unsettled, missing) = (sum(|leaf| leaf.unsettled), sum(|leaf| leaf.missing) + asked_again);
    if unsettled > 0 {
        found.push(format!("{unsettled} records could not be read and lie in quarantine"));
    }
    if missing > 0 {
        found.push(format!("{missing} ids were listed by the source and not delivered"));
    }
    for leaf in leaves {
        let (Some(total), Some(now)) = (leaf.total, leaf.recount) else { continue };
        if now > total + allowance(total, terms) {
            let (from, to) = (leaf.window.from(), leaf.window.to());
            found.push(format!("[{from}, {to}) held {total} records when it was read and holds {now} now"));
        }
    }
    found
}

fn allowance(total: u64, terms: Terms) -> u64 {
    (total as f64 * terms.total_tolerance).floor() as u64
}

/// Of several readings of one window or part the last counts.
pub(super) fn last_readings(leaves: &[Leaf]) -> Vec<&Leaf> {
    let mut last: BTreeMap<(Window, Option<&str>), &Leaf> = BTreeMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.state == SliceState::Succeeded) {
        let key = (leaf.window, leaf.part.as_deref());
        let known = last.get(&key).map(|known| (known.read_at, known.slice));
        if known.is_none_or(|known| known < (leaf.read_at, leaf.slice)) {
            last.insert(key, leaf);
        }
    }
    last.into_values().collect()
}

/// Tiles the window with what is proven and what is not.
fn coverage(window: Window, evidence: &Evidence, lag: Span) -> Vec<Stretch> {
    let read = proven(&evidence.leaves);
    let settling = Settling { lag, lookback: Span::ZERO };
    let proven = Coverage::read(&read, &[], settling);
    let mut told = Told::new(window);
    for one in proven.windows() {
        told.add(*one, PROVEN, "", None);
    }
    for waiver in &evidence.waivers {
        told.add(waiver.window, "WAIVED", &format!("{} by {}", waiver.reason, waiver.actor), None);
    }
    tell_unproven(&mut told, &evidence.leaves);
    for one in &read {
        told.add(one.window, "UNSETTLED", "it was read before it had settled", None);
    }
    told.add(window, "NOT_READ", "nobody has asked for it", None);
    told.stretches.sort_by_key(|stretch| stretch.window);
    told.stretches
}

/// The newest attempt says why.
fn tell_unproven(told: &mut Told, leaves: &[Leaf]) {
    let mut ended: Vec<&Leaf> = leaves.iter().filter(|leaf| leaf.state != SliceState::Succeeded).collect();
    ended.sort_by_key(|leaf| std::cmp::Reverse(leaf.slice));
    for leaf in ended {
        let reason = leaf.reason.as_deref().unwrap_or_default();
        match leaf.state {
            SliceState::Failed | SliceState::Partial | SliceState::Cancelled => {
                told.add(leaf.window, leaf.state.code(), reason, Some(leaf.slice));
            }
            SliceState::Pending | SliceState::Dispatched | SliceState::Executing => {
                told.add(leaf.window, "OPEN", "it is planned and not read yet", Some(leaf.slice));
            }
            SliceState::Succeeded | SliceState::Split => {}
        }
    }
}

/// Windows that were read whole: a slice without parts by itself, parts only together.
fn proven(leaves: &[Leaf]) -> Vec<ReadSlice> {
    let whole = leaves.iter().filter(|leaf| leaf.part.is_none() && counts(leaf));
    let mut read: Vec<ReadSlice> =
        whole.filter_map(|leaf| Some(ReadSlice { window: leaf.window, read_at: leaf.read_at? })).collect();
    // Parts below a SPLIT parent count through it; parts of a plan itself count together.
    let mut of_plans: BTreeMap<(Id, Window), Option<Timestamp>> = BTreeMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.part.is_some() && leaf.parent.is_none()) {
        let read_at = leaf.read_at.filter(|_| counts(leaf));
        let first = of_plans.entry((leaf.plan, leaf.window)).or_insert(read_at);
        *first = (*first).zip(read_at).map(|(first, this)| first.min(this));
    }
    read.extend(of_plans.into_iter().filter_map(|((_, window), at)| Some(ReadSlice { window, read_at: at? })));
    read
}

fn counts(leaf: &Leaf) -> bool {
    matches!(leaf.state, SliceState::Succeeded | SliceState::Split) && leaf.read_at.is_some()
}

/// Stretches told so far; what was told first stands.
struct Told {
    left: Vec<Window>,
    stretches: Vec<Stretch>,
}

impl Told {
    fn new(window: Window) -> Told {
        Told { left: vec![window], stretches: Vec::new() }
    }

    fn add(&mut self, window: Window, status: &str, reason: &str, slice: Option<Id>) {
        if self.left.is_empty() {
            return;
        }
        let covered = Coverage::of([window]);
        for open in std::mem::take(&mut self.left) {
            let (status, reason) = (status.to_owned(), reason.to_owned());
            match open.intersect(&window) {
                Some(window) => self.stretches.push(Stretch { window, status, reason, slice }),
                None => {
                    self.left.push(open);
                    continue;
                }
            }
            self.left.extend(covered.gaps(open));
        }
    }
}
