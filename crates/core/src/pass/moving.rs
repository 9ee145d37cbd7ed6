//! A small source whose records enter, leave and move between two requests, read by every kind of paging: whatever is
//! believed misses nothing that was there when the proof begins and stayed as it was.

use std::collections::BTreeMap;

use super::tests::{item, page, pass};
use super::*;
use crate::page::Item;
use crate::time::Span;

const KINDS: [Kind; 8] = [
    Kind::Snapshot,
    Kind::Keyset,
    Kind::Link,
    Kind::Feed,
    Kind::Overlapping,
    Kind::Offset,
    Kind::Forward,
    Kind::Backward,
];
const RUNS: u64 = 1_500;
const SIZE: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    Keyset,
    Link,
    Feed,
    Overlapping,
    Offset,
    Forward,
    Backward,
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// One version of a record, and since when it is shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    at: i64,
    version: u64,
    since: i64,
}

/// The window `[0, 100)` of a source; sorted by time, then by id.
struct Source {
    rows: BTreeMap<u64, Shown>,
    next_id: u64,
    now: i64,
    dice: Dice,
    /// Changes between two requests, at most.
    burst: u64,
    /// One pause in so many brings changes.
    every: u64,
}

impl Source {
    fn new(seed: u64) -> Source {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (count, burst, every) = (2 + dice.below(14), 1 + dice.below(3), 1 + dice.below(6));
        let mut source = Source { rows: BTreeMap::new(), next_id: 0, now: 0, dice, burst, every };
        (0..count).for_each(|_| source.enter());
        source
    }

    fn enter(&mut self) {
        let at = self.dice.below(90) as i64;
        self.rows.insert(self.next_id, Shown { at, version: 0, since: self.now });
        self.next_id += 1;
    }

    fn change(&mut self) {
        let place = self.dice.below(self.rows.len() as u64) as usize;
        let Some(id) = self.rows.keys().nth(place).copied() else { return self.enter() };
        match self.dice.below(4) {
            0 => self.enter(),
            1 => {
                let rise = self.dice.below(30) as i64;
                let row = self.rows.get_mut(&id).unwrap();
                *row = Shown { at: (row.at + rise).min(99), version: row.version + 1, since: self.now };
            }
            _ => {
                self.rows.remove(&id);
            }
        }
    }

    /// Time passes between two requests.
    fn pause(&mut self) {
        self.now += 1;
        if self.dice.below(self.every) == 0 {
            for _ in 0..=self.dice.below(self.burst) {
                self.change();
            }
        }
        self.now += 1;
    }

    fn list(&self) -> Vec<(u64, Shown)> {
        let mut list: Vec<(u64, Shown)> = self.rows.iter().map(|(id, row)| (*id, *row)).collect();
        list.sort_by_key(|(id, row)| (row.at, *id));
        list
    }
}

fn shown_item((id, row): &(u64, Shown)) -> Item {
    Item { version: Some(row.version.to_string()), ..item(&id.to_string(), row.at) }
}

/// The page that a request gets.
fn answer(source: &Source, kind: Kind, position: &Position, kept: &mut Vec<(u64, Shown)>) -> Page {
    let list = source.list();
    let total = (kind != Kind::Feed).then_some(list.len() as u64);
    let from = |start: usize| list.iter().skip(start).take(SIZE).copied().collect::<Vec<_>>();
    let (rows, next) = match position {
        Position::Offset(offset) => (from(*offset as usize), None),
        Position::Page(number) => (from((*number as usize - 1) * SIZE), None),
        Position::Since(since) => {
            let least = since.micros();
            let mut rows: Vec<(u64, Shown)> = Vec::new();
            for row in list.iter().filter(|(_, row)| Timestamp::from_seconds(row.at).micros() >= least) {
                if rows.len() >= SIZE && rows.last().is_some_and(|last| last.1.at != row.1.at) {
                    break;
                }
                rows.push(*row);
            }
            (rows, None)
        }
        Position::Token(text) | Position::Url(text) => behind(&list, kind, text.as_deref(), kept),
    };
    let items = rows.iter().map(shown_item).collect();
    Page { items, next_token: next.clone(), next_url: next, ..page(&[], total) }
}

/// A page behind a key, of what is there now or of what was there at the first page.
fn behind(
    list: &[(u64, Shown)],
    kind: Kind,
    text: Option<&str>,
    kept: &mut Vec<(u64, Shown)>,
) -> (Vec<(u64, Shown)>, Option<String>) {
    let key: (i64, u64) = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or((-1, 0));
    if key.0 < 0 {
        *kept = list.to_vec();
    }
    let list = if kind == Kind::Snapshot { &kept[..] } else { list };
    let rows: Vec<(u64, Shown)> = list.iter().filter(|(id, row)| (row.at, *id) > key).take(SIZE).copied().collect();
    let next =
        rows.last().filter(|_| rows.len() == SIZE).map(|(id, row)| serde_json::to_string(&(row.at, id)).unwrap());
    (rows, next)
}

fn begin(kind: Kind) -> Pass {
    pass(|spec| {
        let paging = &mut spec.pagination;
        paging.size = SIZE as u32;
        paging.overlap = u32::from(kind == Kind::Overlapping);
        paging.backward = kind == Kind::Backward;
        paging.initial = None;
        paging.kind = match kind {
            Kind::Snapshot | Kind::Keyset => PagingKind::Token,
            Kind::Link => PagingKind::Url,
            Kind::Feed => PagingKind::Time,
            Kind::Overlapping | Kind::Offset => PagingKind::Offset,
            Kind::Forward | Kind::Backward => PagingKind::Page,
        };
    })
}

/// What a slice came to.
enum Outcome {
    Proven { passes: u32, missing: Vec<u64> },
    Unproven,
}

/// Reads the window until it is believed or given up. Nothing can be cut here.
fn read(kind: Kind, seed: u64) -> Outcome {
    let mut source = Source::new(seed);
    let mut pass = begin(kind);
    let mut trace = Vec::new();
    let mut met: std::collections::HashSet<(u64, u64)> = Default::default();
    let mut kept = Vec::new();
    loop {
        let Place::Search(mut position) = Pass::first_place(&pass.spec, pass.window) else { unreachable!() };
        let end = loop {
            source.pause();
            let page = answer(&source, kind, &position, &mut kept);
            let now = Timestamp::from_seconds(source.now);
            let (pass_no, seq_no) = (pass.pass_no(), pass.next_seq());
            match pass.accept(&position, &page, now) {
                Accepted::Commit { next } => {
                    let of = |item: &Item| (item.id.parse().unwrap(), item.version.as_ref().unwrap().parse().unwrap());
                    met.extend(page.items.iter().map(of));
                    trace.push(batch(pass_no, seq_no, &position, next.as_ref(), &page, now));
                    match next {
                        Some(next) => position = next,
                        None => break pass.end(),
                    }
                }
                Accepted::AskAgain => pass.asked_again(),
                Accepted::NewPass { reason } => break pass.unproven(reason),
                // Moves can bring a page a second time while the total stands still: the slice fails, nothing is lost.
                Accepted::Fail { class: "LOOP", .. } => return Outcome::Unproven,
                other => panic!("{kind:?} {seed}: {other:?}"),
            }
        };
        let again = Pass::resume(pass.spec.clone(), pass.window, pass.pass_no(), &trace).unwrap();
        assert_eq!((again.proof(), again.proven_at()), (pass.proof(), pass.proven_at()), "{kind:?} {seed}");
        match end {
            PassEnd::Proven => {
                let begun = pass.proven_at().unwrap();
                let owed = source.rows.iter().filter(|(_, row)| Timestamp::from_seconds(row.since) < begun);
                let missing = owed.filter(|(id, row)| !met.contains(&(**id, row.version))).map(|(id, _)| *id);
                return Outcome::Proven { passes: pass.pass_no(), missing: missing.collect() };
            }
            PassEnd::GiveUp { .. } => return Outcome::Unproven,
            PassEnd::Again { .. } | PassEnd::Split { .. } => pass.turn_page_over(),
        }
    }
}

fn batch(
    pass_no: u32,
    seq_no: u32,
    position: &Position,
    next: Option<&Position>,
    page: &Page,
    now: Timestamp,
) -> BatchTrace {
    BatchTrace {
        id: crate::id::Id(1),
        pass_no,
        seq_no,
        phase: Phase::Search,
        before_token: Place::Search(position.clone()).to_token(),
        after_token: next.map(|next| Place::Search(next.clone()).to_token()),
        item_count: page.items.len() as u32,
        total: page.total,
        page_ids: page_ids(page),
        times: None,
        source_now: now,
        committed_at: now.plus(Span::SECOND),
    }
}

#[test]
fn what_is_believed_misses_nothing_whatever_moves_between_the_pages() {
    for kind in KINDS {
        let (mut proven, mut passes, mut lost) = (0u64, 0u64, Vec::new());
        for seed in 1..=RUNS {
            match read(kind, seed) {
                Outcome::Proven { passes: taken, missing } => {
                    proven += 1;
                    passes += u64::from(taken);
                    lost.extend((!missing.is_empty()).then_some((seed, missing)));
                }
                Outcome::Unproven => {}
            }
        }
        println!("{kind:?}: {proven} of {RUNS} proven, {:.2} passes each", passes as f64 / proven.max(1) as f64);
        assert!(lost.is_empty(), "{kind:?}: {} believed and wrong: {:?}", lost.len(), &lost[..lost.len().min(5)]);
        assert!(proven > RUNS / 4, "{kind:?}: only {proven} proven");
    }
}
