//! Ids that were asked for and did not come back: noted once, believed only when they stay away.
//!
//! A source may leave an id out of an answer because of a fault of its own. So one absence proves nothing; a second one, a
//! day or more after the first and with no sighting in between, means that the source has the record no more. What comes
//! back begins to count anew.

use crate::time::{Span, Timestamp};

/// How long an id must stay away, and when it is asked for again.
pub const RETRY: Span = Span::DAY;
/// Answers without the id that prove its absence.
pub const SIGHTINGS: i64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingState {
    /// It did not come, or came not lately enough to tell.
    Open,
    /// It came after all.
    Found,
    /// The source has it no more.
    Tombstone,
}

impl MissingState {
    pub const fn code(self) -> &'static str {
        match self {
            MissingState::Open => "OPEN",
            MissingState::Found => "FOUND",
            MissingState::Tombstone => "TOMBSTONE",
        }
    }

    pub fn from_code(code: &str) -> Option<MissingState> {
        [MissingState::Open, MissingState::Found, MissingState::Tombstone]
            .into_iter()
            .find(|known| known.code() == code)
    }
}

/// How an answer lacked an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The answer came without it, or said that there is no such thing.
    NotReturned,
    /// The source refused the request for this id: too large, forbidden. That says nothing about its being there.
    Refused,
    /// Another record came in its place.
    Merged { into: String },
}

impl Lack {
    pub const fn reason(&self) -> &'static str {
        match self {
            Lack::NotReturned => "NOT_RETURNED",
            Lack::Refused => "REFUSED",
            Lack::Merged { .. } => "MERGED",
        }
    }
}

/// What the ledger knows of such an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub sightings: i64,
    pub first_asked_at: Timestamp,
    pub last_asked_at: Timestamp,
    pub next_try_at: Timestamp,
    pub state: MissingState,
}

impl Missing {
    /// What is known after one more answer without the id. A merger is the source's own word and counts at once.
    pub fn after(known: Option<Missing>, lack: &Lack, at: Timestamp) -> Missing {
        let counts = i64::from(*lack != Lack::Refused);
        let anew = Missing {
            sightings: counts,
            first_asked_at: at,
            last_asked_at: at,
            next_try_at: at.plus(RETRY),
            state: MissingState::Open,
        };
        let next = match known {
            None => anew,
            Some(known) if known.state == MissingState::Found => anew,
            Some(known) if known.state == MissingState::Tombstone => Missing { last_asked_at: at, ..known },
            // Only refused so far: this is the first answer that proves anything.
            Some(known) if known.sightings == 0 => anew,
            Some(known) => {
                Missing { sightings: known.sightings + counts, last_asked_at: at, next_try_at: at.plus(RETRY), ..known }
            }
        };
        let stayed_away = next.sightings >= SIGHTINGS && at.since(next.first_asked_at) >= RETRY && counts > 0;
        match stayed_away || matches!(lack, Lack::Merged { .. }) {
            true => Missing { state: MissingState::Tombstone, ..next },
            false => next,
        }
    }
}

/// What an answer for single ids says about those that it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Lacks(Vec<(String, Lack)>),
    /// Some ids are lacking and strange ones came: fewer must be asked for at a time to see which came for which.
    Unclear,
}

/// Compares what was asked for with what came. `shown` are all ids of the answer, `readable` those that became items.
pub fn settle(asked: &[String], shown: &[&str], readable: &[&str]) -> Settled {
    let absent: Vec<&String> = asked.iter().filter(|id| !shown.contains(&id.as_str())).collect();
    let strange: Vec<&&str> = readable.iter().filter(|id| !asked.iter().any(|asked| asked == **id)).collect();
    match (absent.as_slice(), strange.as_slice()) {
        ([], _) => Settled::Lacks(Vec::new()),
        ([one], [survivor]) => Settled::Lacks(vec![((*one).clone(), Lack::Merged { into: (**survivor).to_owned() })]),
        (_, [_, ..]) if asked.len() > 1 => Settled::Unclear,
        (absent, _) => Settled::Lacks(absent.iter().map(|id| ((*id).clone(), Lack::NotReturned)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_seconds(hour * 3_600)
    }

    fn told(lacks: &[(&Lack, i64)]) -> Missing {
        let fold = |known, (lack, hour): &(&Lack, i64)| Some(Missing::after(known, lack, at(*hour)));
        lacks.iter().fold(None, fold).unwrap()
    }

    #[test]
    fn only_a_second_absence_a_day_later_is_believed() {
        let (gone, refused) = (Lack::NotReturned, Lack::Refused);
        let merged = Lack::Merged { into: "b".into() };
        for (lacks, sightings, state) in [
            (vec![(&gone, 0)], 1, MissingState::Open),
            (vec![(&gone, 0), (&gone, 1)], 2, MissingState::Open),
            (vec![(&gone, 0), (&gone, 24)], 2, MissingState::Tombstone),
            (vec![(&gone, 0), (&gone, 1), (&gone, 24)], 3, MissingState::Tombstone),
            (vec![(&refused, 0), (&refused, 48)], 0, MissingState::Open),
            (vec![(&refused, 0), (&gone, 48)], 1, MissingState::Open),
            (vec![(&gone, 0), (&refused, 48)], 1, MissingState::Open),
            (vec![(&gone, 0), (&refused, 1), (&gone, 48)], 2, MissingState::Tombstone),
            (vec![(&merged, 0)], 1, MissingState::Tombstone),
            (vec![(&gone, 0), (&gone, 24), (&gone, 30)], 2, MissingState::Tombstone),
        ] {
            let missing = told(&lacks);
            assert_eq!((missing.sightings, missing.state), (sightings, state), "{lacks:?}");
        }
    }

    #[test]
    fn what_came_back_begins_anew() {
        let found = Missing { state: MissingState::Found, ..told(&[(&Lack::NotReturned, 0)]) };
        let again = Missing::after(Some(found), &Lack::NotReturned, at(48));
        assert_eq!((again.sightings, again.state, again.first_asked_at), (1, MissingState::Open, at(48)));
    }

    #[test]
    fn a_strange_id_stands_for_the_one_that_is_lacking() {
        let ids = |list: &[&str]| list.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
        let merged = |old: &str, into: &str| Settled::Lacks(vec![(old.into(), Lack::Merged { into: into.into() })]);
        let gone = |list: &[&str]| {
            Settled::Lacks(list.iter().map(|id| ((*id).to_owned(), Lack::NotReturned)).collect::<Vec<_>>())
        };
        for (asked, came, want) in [
            (vec!["a", "b"], vec!["a", "b"], gone(&[])),
            (vec!["a", "b"], vec!["b"], gone(&["a"])),
            (vec!["a", "b"], vec![], gone(&["a", "b"])),
            (vec!["a", "b"], vec!["b", "c"], merged("a", "c")),
            (vec!["a"], vec!["c"], merged("a", "c")),
            (vec!["a", "b"], vec!["c"], Settled::Unclear),
            (vec!["a", "b"], vec!["c", "d"], Settled::Unclear),
            (vec!["a"], vec!["c", "d"], gone(&["a"])),
            (vec!["a", "b"], vec!["a", "b", "c"], gone(&[])),
        ] {
            assert_eq!(settle(&ids(&asked), &came, &came), want, "{asked:?} {came:?}");
        }
        assert_eq!(settle(&ids(&["a"]), &["a"], &[]), gone(&[]), "what cannot be read is there all the same");
    }

    proptest! {
        #[test]
        fn asking_one_by_one_always_ends(asked in proptest::collection::btree_set("[a-d]", 1..5), came in proptest::collection::btree_set("[a-f]", 0..6)) {
            let asked: Vec<String> = asked.into_iter().collect();
            let came: Vec<&str> = came.iter().map(String::as_str).collect();
            for one in &asked {
                prop_assert_ne!(settle(std::slice::from_ref(one), &came, &came), Settled::Unclear);
            }
            if let Settled::Lacks(lacks) = settle(&asked, &came, &came) {
                for (id, _) in lacks {
                    prop_assert!(asked.contains(&id) && !came.contains(&id.as_str()));
                }
            }
        }
    }
}
