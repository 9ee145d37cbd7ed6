//! Progress for people: bars on a terminal, plain lines elsewhere, nothing when quiet.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use patra_core::ports::{Clock, Partition};
use patra_core::time::{Span, Timestamp};
use patra_engine::notice::{Notice, Notices};

/// Plain lines come at most this often per source.
const LINE_EVERY: Span = Span::from_seconds(5);

/// What happened to one source since the command began.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub slices: u64,
    pub slices_done: u64,
    pub slices_bad: u64,
    pub pages: u64,
    pub fetched: u64,
    pub inserted: u64,
    pub updated: u64,
    pub unchanged: u64,
    pub quarantined: u64,
    pub filtered: u64,
    pub requests: u64,
    pub throttled: u64,
    pub retries: u64,
    pub splits: u64,
    pub passes: u64,
    pub bytes: u64,
}

impl Tally {
    /// Of how many is known only to who planned them.
    fn slices_shown(&self) -> String {
        match (self.slices_done, self.slices) {
            (done, all) if done <= all && all > 0 => format!("{done}/{all} slices"),
            (done, _) => format!("{done} slices"),
        }
    }
}

enum Face {
    Bars(MultiProgress),
    Lines,
    None,
}

struct State {
    tallies: BTreeMap<String, Tally>,
    bars: BTreeMap<String, ProgressBar>,
    said_at: BTreeMap<String, Timestamp>,
}

pub struct Progress {
    face: Face,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl Progress {
    pub fn new(quiet: bool, clock: Arc<dyn Clock>) -> Progress {
        let face = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Face::None,
            (false, true) => Face::Bars(MultiProgress::new()),
            (false, false) => Face::Lines,
        };
        let state = State { tallies: BTreeMap::new(), bars: BTreeMap::new(), said_at: BTreeMap::new() };
        Progress { face, clock, state: Mutex::new(state) }
    }

    pub fn tally(&self, source: &str) -> Tally {
        self.lock().tallies.get(source).cloned().unwrap_or_default()
    }

    /// Takes the bars away, so that the result stands alone.
    pub fn finish(&self) {
        for bar in self.lock().bars.values() {
            bar.finish_and_clear();
        }
    }

    /// A line above the bars.
    pub fn say(&self, line: &str) {
        match &self.face {
            Face::Bars(bars) => drop(bars.println(line)),
            Face::Lines => eprintln!("{line}"),
            Face::None => {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &mut State, source: &str, force: bool) {
        let tally = state.tallies.entry(source.to_owned()).or_default().clone();
        match &self.face {
            Face::None => {}
            Face::Bars(bars) => {
                let bar = state.bars.entry(source.to_owned()).or_insert_with(|| bars.add(new_bar(source)));
                bar.set_length(tally.slices.max(tally.slices_done));
                bar.set_position(tally.slices_done);
                bar.set_message(format!("{} records, {} requests", group(tally.fetched), group(tally.requests)));
            }
            Face::Lines => {
                let now = self.clock.now();
                let due = state.said_at.get(source).is_none_or(|at| now.since(*at) >= LINE_EVERY);
                if due || force {
                    state.said_at.insert(source.to_owned(), now);
                    eprintln!(
                        "{source}: {}, {} records, {} requests",
                        tally.slices_shown(),
                        group(tally.fetched),
                        group(tally.requests)
                    );
                }
            }
        }
    }
}

fn new_bar(source: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} [{bar:30}] {pos}/{len} slices  {msg}");
    let bar = ProgressBar::new(0).with_prefix(source.to_owned());
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// 1234567 as `1,234,567`.
pub fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Notices for Progress {
    fn tell(&self, at: &Partition, notice: Notice) {
        log(&notice);
        let mut state = self.lock();
        let known = count(state.tallies.entry(at.provenance.clone()).or_default(), &notice);
        if let Some(line) = line_of(at, &notice) {
            drop(state);
            self.say(&line);
            state = self.lock();
        }
        if known {
            let force = matches!(notice, Notice::PlanPublished { .. });
            self.show(&mut state, &at.provenance, force);
        }
    }
}

/// Takes a notice into the tally; true when the progress shown changes.
fn count(tally: &mut Tally, notice: &Notice) -> bool {
    match notice {
        Notice::PlanPublished { slices, .. } => tally.slices += *slices as u64,
        Notice::BatchCommitted { counts, bytes, .. } => {
            tally.pages += 1;
            tally.fetched += counts.fetched;
            tally.inserted += counts.inserted;
            tally.updated += counts.updated;
            tally.unchanged += counts.unchanged;
            tally.quarantined += counts.quarantined;
            tally.filtered += counts.filtered;
            tally.bytes += bytes;
        }
        Notice::RequestSent => tally.requests += 1,
        Notice::Throttled { .. } => tally.throttled += 1,
        Notice::Retried { .. } => tally.retries += 1,
        Notice::PassBegan { .. } => tally.passes += 1,
        Notice::SliceSplit { children, .. } => {
            tally.splits += 1;
            tally.slices += *children as u64;
            tally.slices_done += 1;
        }
        Notice::SliceSucceeded { .. } => tally.slices_done += 1,
        Notice::SliceEnded { .. } => {
            tally.slices_done += 1;
            tally.slices_bad += 1;
        }
        _ => return false,
    }
    true
}

/// What the ledger has just taken, for whoever follows its steps. Said after the commit has returned and not before:
/// a line that was seen is kept, also after a power cut.
fn log(notice: &Notice) {
    match notice {
        Notice::PlanPublished { plan, slices, .. } => {
            tracing::debug!(plan.id = %plan, "plan {plan} is committed: {slices} slices");
        }
        Notice::BatchCommitted { task, batch, counts, .. } => {
            let fetched = counts.fetched;
            tracing::debug!(task.id = %task, batch.id = %batch, "batch {batch} is committed: {fetched} records");
        }
        Notice::SliceSucceeded { task, window, .. } => {
            tracing::debug!(task.id = %task, "task {task} is committed: {window} is proven");
        }
        _ => {}
    }
}

/// What a person should read even while all goes well.
fn line_of(at: &Partition, notice: &Notice) -> Option<String> {
    let Partition { provenance, endpoint, .. } = at;
    match notice {
        Notice::SliceEnded { window, outcome, reason, .. } => {
            Some(format!("{provenance}: window {window} ended {outcome}: {reason}"))
        }
        Notice::CircuitOpened { until, reason } => {
            Some(format!("{provenance}: {endpoint} does not answer, waiting until {until}: {reason}"))
        }
        Notice::CircuitClosed => Some(format!("{provenance}: {endpoint} answers again")),
        Notice::Healed { action } => Some(format!("{provenance}: {endpoint}: {action}")),
        Notice::PlanPublished { warnings, .. } if !warnings.is_empty() => {
            Some(format!("{provenance}: {}", warnings.join("; ")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_counted_against_a_plan_only_where_it_is_known() {
        let shown = |slices_done, slices| Tally { slices_done, slices, ..Tally::default() }.slices_shown();
        assert_eq!(
            [shown(0, 12), shown(3, 12), shown(0, 0), shown(141, 0)],
            ["0/12 slices", "3/12 slices", "0 slices", "141 slices"]
        );
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([group(0), group(999), group(1_000), group(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
    }
}
