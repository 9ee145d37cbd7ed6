//! The cursor is the fold of its events (INV-2): what follows from them, and what is wrong with them.
//!
//! Events number 1..n without a hole, each begins where the one before ended, and none steps back. Old events may be
//! thinned: a summary stands for the events `first_no..=event_no`, keeps the row of the first of them and says so. What
//! the cursor shows comes from its first and its last event alone, so thinning between them changes nothing.

use crate::hash::Hash32;
use crate::id::Id;
use crate::time::Timestamp;

/// How the values of a cursor compare. Tokens do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorType {
    Time,
    Id,
    Token,
}

impl CursorType {
    pub const fn code(self) -> &'static str {
        match self {
            CursorType::Time => "TIME",
            CursorType::Id => "ID",
            CursorType::Token => "TOKEN",
        }
    }

    pub fn from_code(code: &str) -> Option<CursorType> {
        [CursorType::Time, CursorType::Id, CursorType::Token].into_iter().find(|known| known.code() == code)
    }
}

/// Where a cursor stands: the text, and what it is compared by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub value: String,
    pub instant: Option<Timestamp>,
    pub numeric: Option<i64>,
}

impl Place {
    pub fn at(instant: Timestamp) -> Place {
        Place { value: instant.to_string(), instant: Some(instant), numeric: None }
    }
}

/// Who moved a cursor: everything from the trigger to the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    pub instance: Option<Id>,
    pub plan: Option<Id>,
    pub slice: Option<Id>,
    pub task: Option<Id>,
    pub run: Option<Id>,
    pub batch: Option<Id>,
    pub expr_hash: Option<String>,
}

/// One move of a cursor, or a summary of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorMove {
    pub id: Id,
    /// The first event this one stands for; its own number unless it is a summary.
    pub first_no: i64,
    pub event_no: i64,
    pub kind: CursorType,
    pub prev: Place,
    pub next: Place,
    pub cause: String,
    pub observed_max: Option<Timestamp>,
    pub lineage: Lineage,
    pub key: Hash32,
    pub created_at: Timestamp,
}

/// A cursor as its events say it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorState {
    pub id: Id,
    pub kind: CursorType,
    pub place: Place,
    pub observed_max: Option<Timestamp>,
    pub version: i64,
    pub lineage: Lineage,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The idempotent key of a move: the same step of the same cursor is the same event.
pub fn move_key(namespace: Hash32, event_no: i64, prev: &Place, next: &Place) -> Hash32 {
    match (prev.instant, next.instant) {
        (Some(prev), Some(next)) => {
            let numbers = [event_no, prev.micros(), next.micros()].map(i64::to_be_bytes);
            Hash32::of_parts(&[namespace.bytes(), &numbers[0], &numbers[1], &numbers[2]])
        }
        _ => {
            let number = event_no.to_be_bytes();
            Hash32::of_parts(&[namespace.bytes(), &number, prev.value.as_bytes(), next.value.as_bytes()])
        }
    }
}

/// The key of a summary.
pub fn summary_key(namespace: Hash32, first_no: i64, event_no: i64, prev: &Place, next: &Place) -> Hash32 {
    let (first, last) = (first_no.to_be_bytes(), event_no.to_be_bytes());
    Hash32::of_parts(&[namespace.bytes(), b"summary", &first, &last, prev.value.as_bytes(), next.value.as_bytes()])
}

/// What is wrong with the events of one cursor, in their order.
pub fn faults(namespace: Hash32, events: &[CursorMove]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut due = 1;
    let mut before: Option<&CursorMove> = None;
    for event in events {
        let number = event.event_no;
        if event.first_no > due {
            let last = event.first_no - 1;
            faults.push(match due == last {
                true => format!("event {due} is missing"),
                false => format!("events {due} to {last} are missing"),
            });
        } else if event.first_no < due || event.first_no > number {
            faults.push(format!("event {number} stands for events that others stand for too"));
        }
        if let Some(before) = before.filter(|before| before.next != event.prev) {
            faults.push(format!(
                "event {number} begins at `{}`, the one before ended at `{}`",
                event.prev.value, before.next.value
            ));
        }
        if !moves_forward(event) {
            faults.push(format!("event {number} does not move forward"));
        }
        let key = match event.first_no == number {
            true => move_key(namespace, number, &event.prev, &event.next),
            false => summary_key(namespace, event.first_no, number, &event.prev, &event.next),
        };
        if key != event.key {
            faults.push(format!("the key of event {number} does not fit what it says"));
        }
        due = number + 1;
        before = Some(event);
    }
    faults
}

fn moves_forward(event: &CursorMove) -> bool {
    match event.kind {
        CursorType::Time => event.prev.instant.zip(event.next.instant).is_some_and(|(prev, next)| prev < next),
        CursorType::Id => event.prev.numeric.zip(event.next.numeric).is_some_and(|(prev, next)| prev < next),
        CursorType::Token => event.prev.value != event.next.value,
    }
}

/// The cursor that follows from its events; `None` where there are none.
pub fn fold(events: &[CursorMove]) -> Option<CursorState> {
    let (first, last) = (events.first()?, events.last()?);
    Some(CursorState {
        id: first.id,
        kind: last.kind,
        place: last.next.clone(),
        observed_max: last.observed_max,
        version: last.event_no,
        lineage: last.lineage.clone(),
        created_at: first.created_at,
        updated_at: last.created_at,
    })
}

/// Runs of events that one summary each can stand for: older than `before`, never the last event, and never one that
/// somebody answers for (INV-11).
pub fn thinnable(events: &[CursorMove], before: Timestamp) -> Vec<&[CursorMove]> {
    let old = events.split_last().map_or(&[][..], |(_, rest)| rest);
    let plain = |event: &CursorMove| event.created_at < before && event.cause != "WAIVED";
    old.chunk_by(|one, other| plain(one) && plain(other)).filter(|run| run.len() > 1).collect()
}

/// The event that stands for a run of them.
pub fn summary(namespace: Hash32, run: &[CursorMove]) -> Option<CursorMove> {
    let (first, last) = (run.first()?, run.last()?);
    Some(CursorMove {
        key: summary_key(namespace, first.first_no, last.event_no, &first.prev, &last.next),
        event_no: last.event_no,
        next: last.next.clone(),
        cause: "SUMMARY".into(),
        observed_max: last.observed_max,
        lineage: Lineage::default(),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn namespace() -> Hash32 {
        Hash32::of(b"k")
    }

    fn at(second: i64) -> Place {
        Place::at(Timestamp::from_seconds(second))
    }

    fn chain(count: i64) -> Vec<CursorMove> {
        (1..=count)
            .map(|no| CursorMove {
                id: Id(100 + no),
                first_no: no,
                event_no: no,
                kind: CursorType::Time,
                prev: at(no * 10),
                next: at(no * 10 + 10),
                cause: if no % 7 == 0 { "WAIVED" } else { "HARVEST_SLICE" }.into(),
                observed_max: None,
                lineage: Lineage { plan: Some(Id(no)), ..Lineage::default() },
                key: move_key(namespace(), no, &at(no * 10), &at(no * 10 + 10)),
                created_at: Timestamp::from_seconds(no),
            })
            .collect()
    }

    #[test]
    fn every_kind_of_damage_is_named() {
        assert_eq!(faults(namespace(), &chain(5)), Vec::<String>::new());
        let damaged = |damage: fn(&mut Vec<CursorMove>)| {
            let mut events = chain(5);
            damage(&mut events);
            faults(namespace(), &events).join("; ")
        };
        assert!(damaged(|events| drop(events.remove(2))).starts_with("event 3 is missing"));
        assert!(damaged(|events| drop(events.drain(1..3))).starts_with("events 2 to 3 are missing"));
        assert!(damaged(|events| drop(events.remove(0))).starts_with("event 1 is missing"));
        assert!(damaged(|events| events[1].next = at(35)).contains("the one before ended at"));
        assert!(damaged(|events| events[1].next = at(20)).contains("does not move forward"));
        assert!(damaged(|events| events[1].key = Hash32::of(b"x")).contains("the key of event 2"));
        assert!(damaged(|events| events[2].first_no = 2).contains("others stand for too"));
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_chain_and_the_cursor(count in 1i64..40, first in 0i64..45, second in 0i64..45) {
            let whole = chain(count);
            let mut events = whole.clone();
            for limit in [first, second] {
                let runs: Vec<Vec<CursorMove>> =
                    thinnable(&events, Timestamp::from_seconds(limit)).into_iter().map(<[_]>::to_vec).collect();
                for run in runs {
                    events.retain(|event| !run.contains(event));
                    events.push(summary(namespace(), &run).unwrap());
                }
                events.sort_by_key(|event| event.event_no);
            }
            prop_assert_eq!(faults(namespace(), &events), Vec::<String>::new());
            prop_assert_eq!(fold(&events), fold(&whole));
            let waived = |events: &[CursorMove]| events.iter().filter(|event| event.cause == "WAIVED").count();
            prop_assert_eq!(waived(&events), waived(&whole));
            let stood_for: i64 = events.iter().map(|event| event.event_no - event.first_no + 1).sum();
            prop_assert_eq!(stood_for, count);
        }
    }
}
