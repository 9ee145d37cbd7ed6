//! The current records of a source in the order (updated time, record order).
//!
//! A sorted list in chunks: inserting and removing touch one chunk, counting a range and skipping to a position add up
//! chunk lengths. One million records are about two thousand chunks, so no page ever scans all records.

/// Updated time in microseconds, then the record's place in the source's own order.
pub type Key = (i64, u32);

const CHUNK_LEN_MAX: usize = 1024;

/// Sorted set of keys with counting and skipping.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Every chunk is sorted and not empty; chunks follow each other in order.
    chunks: Vec<Vec<Key>>,
    len: usize,
}

impl Timeline {
    /// Builds from keys in any order.
    pub fn from_keys(mut keys: Vec<Key>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let len = keys.len();
        Self { chunks: keys.chunks(CHUNK_LEN_MAX / 2).map(<[Key]>::to_vec).collect(), len }
    }

    /// True when no record is current.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a key; a key already present changes nothing.
    pub fn insert(&mut self, key: Key) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let at = self.chunk_of(key).min(self.chunks.len() - 1);
        let chunk = &mut self.chunks[at];
        let Err(place) = chunk.binary_search(&key) else {
            return;
        };
        chunk.insert(place, key);
        self.len += 1;
        if chunk.len() > CHUNK_LEN_MAX {
            let upper = chunk.split_off(CHUNK_LEN_MAX / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Takes a key out; an absent key changes nothing.
    pub fn remove(&mut self, key: Key) {
        let at = self.chunk_of(key);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        let Ok(place) = chunk.binary_search(&key) else {
            return;
        };
        chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    /// How many keys are below `key`.
    pub fn rank(&self, key: Key) -> usize {
        let at = self.chunk_of(key);
        let before: usize = self.chunks[..at].iter().map(Vec::len).sum();
        before + self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|have| *have < key))
    }

    /// How many keys lie in `from..to`.
    pub fn count(&self, from: Key, to: Key) -> usize {
        self.rank(to).saturating_sub(self.rank(from))
    }

    /// Keys from `from` upwards, in order.
    pub fn iter_from(&self, from: Key) -> impl Iterator<Item = Key> + '_ {
        let at = self.chunk_of(from);
        let place = self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|have| *have < from));
        self.walk(at, place)
    }

    /// Keys from the given position upwards, in order.
    pub fn iter_rank(&self, rank: usize) -> impl Iterator<Item = Key> + '_ {
        let (mut at, mut left) = (0, rank);
        while at < self.chunks.len() && left >= self.chunks[at].len() {
            left -= self.chunks[at].len();
            at += 1;
        }
        self.walk(at, left)
    }

    fn walk(&self, at: usize, place: usize) -> impl Iterator<Item = Key> + '_ {
        let rest = self.chunks.get(at).map_or(&[][..], |chunk| &chunk[place.min(chunk.len())..]);
        let later = self.chunks.get(at + 1..).unwrap_or_default();
        rest.iter().chain(later.iter().flatten()).copied()
    }

    /// The first chunk whose last key is not below `key`; the number of chunks when there is none.
    fn chunk_of(&self, key: Key) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_plain_set_under_random_changes() {
        let mut rng = Rng::new(3);
        let start: Vec<Key> = (0..3000).map(|n| (rng.between(0, 500), n)).collect();
        let mut set: BTreeSet<Key> = start.iter().copied().collect();
        let mut line = Timeline::from_keys(start);
        for round in 0..6000 {
            let key = (rng.between(0, 500), rng.below(4000) as u32);
            if rng.chance(0.5) {
                line.insert(key);
                set.insert(key);
            } else {
                let key = set.range(key..).next().copied().unwrap_or(key);
                line.remove(key);
                set.remove(&key);
            }
            if round % 50 == 0 {
                let (a, b) = ((rng.between(0, 300), 0), (rng.between(100, 501), 0));
                let want: Vec<Key> = set.range(a..).copied().collect();
                assert!(line.iter_from(a).eq(want.iter().copied()));
                assert_eq!(line.count(a, b.max(a)), set.range(a..b.max(a)).count());
                let skip = rng.below(set.len() as u64 + 2) as usize;
                assert!(line.iter_rank(skip).eq(set.iter().copied().skip(skip)));
                assert_eq!(line.len, set.len());
            }
        }
    }

    #[test]
    fn an_empty_line_answers_everything_with_nothing() {
        let mut line = Timeline::default();
        line.remove((1, 1));
        assert_eq!((line.rank((9, 9)), line.iter_from((0, 0)).count(), line.is_empty()), (0, 0, true));
        line.insert((1, 1));
        line.remove((1, 1));
        assert!(line.is_empty());
    }
}
