//! Who of a process goes first: waiting requests of different partitions take turns, so that none is shut out by
//! another's long list. A partition keeps its turn for a quantum of requests.

use std::collections::BTreeMap;

use crate::ports::Partition;

/// Requests of one process that wait for one rate key.
#[derive(Debug, Default)]
pub struct Turns {
    waiting: BTreeMap<u64, Partition>,
    numbered: u64,
    /// Whose turn it is, and how many of it went through in a row.
    turn: Option<(Partition, u32)>,
}

impl Turns {
    /// A number to wait with.
    pub fn enter(&mut self, partition: &Partition) -> u64 {
        self.numbered += 1;
        self.waiting.insert(self.numbered, partition.clone());
        self.numbered
    }

    /// The one with this number went through.
    pub fn went(&mut self, number: u64) {
        let Some(partition) = self.waiting.remove(&number) else { return };
        let row = match &self.turn {
            Some((turn, row)) if *turn == partition => row.saturating_add(1),
            _ => 1,
        };
        self.turn = Some((partition, row));
    }

    /// The one with this number waits no longer.
    pub fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Who asks next: the first of the partition whose turn it is.
    pub fn head(&self, quantum: u32) -> Option<u64> {
        let first_of = |wanted: &Partition| {
            self.waiting.iter().find(|(_, partition)| *partition == wanted).map(|(number, _)| *number)
        };
        let Some((turn, row)) = &self.turn else { return self.waiting.keys().next().copied() };
        if *row < quantum
            && let Some(number) = first_of(turn)
        {
            return Some(number);
        }
        let after = self.waiting.values().filter(|partition| *partition > turn).min();
        let next = after.or_else(|| self.waiting.values().min())?;
        first_of(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn partition(name: &str) -> Partition {
        Partition { provenance: name.into(), endpoint: "works".into(), operation: "HARVEST".into() }
    }

    #[test]
    fn partitions_take_turns_by_the_quantum_and_each_is_first_come_first_served() {
        let mut turns = Turns::default();
        let names: Vec<(u64, &str)> =
            ["a", "a", "a", "a", "a", "b", "c", "c"].map(|name| (turns.enter(&partition(name)), name)).into();
        let mut order = String::new();
        while let Some(number) = turns.head(2) {
            turns.went(number);
            order += names.iter().find(|(known, _)| *known == number).unwrap().1;
        }
        assert_eq!(order, "aabccaaa");
    }

    #[test]
    fn who_leaves_makes_room() {
        let mut turns = Turns::default();
        let (first, second) = (turns.enter(&partition("a")), turns.enter(&partition("a")));
        turns.leave(first);
        assert_eq!(turns.head(1), Some(second));
        turns.leave(second);
        assert_eq!(turns.head(1), None);
    }

    proptest! {
        #[test]
        fn nobody_waits_longer_than_a_quantum_of_each_other_partition(
            quantum in 1u32..5, others in proptest::collection::vec(0usize..4, 1..200),
        ) {
            let mut turns = Turns::default();
            for other in &others {
                turns.enter(&partition(["a", "b", "d", "e"][*other]));
            }
            let mine = turns.enter(&partition("c"));
            let mut before = 0;
            while turns.head(quantum) != Some(mine) {
                let number = turns.head(quantum).unwrap();
                turns.went(number);
                // Who went through comes back at once.
                turns.enter(&partition(["a", "b", "d", "e"][(number % 4) as usize]));
                before += 1;
                prop_assert!(before <= quantum * 5, "{before} went before");
            }
        }
    }
}
