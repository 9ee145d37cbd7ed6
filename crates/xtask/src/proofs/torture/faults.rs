//! What the fault proxy does to a connection, drawn from the seed; and how a COMMIT looks on the wire.

use crate::proofs::random::Random;

/// The protocol that is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    Postgres,
    Mysql,
}

impl Speech {
    /// A whole message, because `READ COMMITTED` is not one.
    fn commit(self) -> &'static [u8] {
        match self {
            Speech::Postgres => b"Q\0\0\0\x0bCOMMIT\0",
            Speech::Mysql => b"\x07\0\0\0\x03COMMIT",
        }
    }

    /// Whether a COMMIT ends in this chunk; `tail` remembers what came before it.
    pub fn commits(self, tail: &mut Vec<u8>, chunk: &[u8]) -> bool {
        let pattern = self.commit();
        tail.extend_from_slice(chunk);
        let found = tail.windows(pattern.len()).any(|window| window == pattern);
        let kept = if found { 0 } else { tail.len().min(pattern.len() - 1) };
        tail.drain(..tail.len() - kept);
        found
    }
}

/// How often each fault comes, in a million requests of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odds {
    pub cut_before: u32,
    pub cut_after: u32,
    pub cut_at_answer: u32,
    pub reset: u32,
    pub black_hole: u32,
    pub single_bytes: u32,
    pub delay: u32,
}

#[cfg(test)]
pub const NEVER: Odds =
    Odds { cut_before: 0, cut_after: 0, cut_at_answer: 0, reset: 0, black_hole: 0, single_bytes: 0, delay: 0 };

/// About one COMMIT in a hundred is cut. Black holes are rare: each holds a worker and its locks for five seconds.
pub const STORM: Odds = Odds {
    cut_before: 3_000,
    cut_after: 4_000,
    cut_at_answer: 4_000,
    reset: 400,
    black_hole: 25,
    single_bytes: 1_500,
    delay: 400,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCommit {
    Pass,
    CutBefore,
    CutAfter,
    CutAtAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    Pass,
    Reset,
    BlackHole,
    SingleBytes,
    Delay,
}

/// The luck of one connection.
pub struct Dice {
    random: Random,
    odds: Odds,
}

impl Dice {
    pub fn new(seed: u64, connection: u64, odds: Odds) -> Dice {
        Dice { random: Random::of(seed, connection + 1), odds }
    }

    pub fn at_commit(&mut self) -> AtCommit {
        let Odds { cut_before, cut_after, cut_at_answer, .. } = self.odds;
        let fates = [
            (cut_before, AtCommit::CutBefore),
            (cut_after, AtCommit::CutAfter),
            (cut_at_answer, AtCommit::CutAtAnswer),
        ];
        self.draw(&fates, AtCommit::Pass)
    }

    pub fn elsewhere(&mut self) -> Elsewhere {
        let Odds { reset, black_hole, single_bytes, delay, .. } = self.odds;
        let fates = [
            (reset, Elsewhere::Reset),
            (black_hole, Elsewhere::BlackHole),
            (single_bytes, Elsewhere::SingleBytes),
            (delay, Elsewhere::Delay),
        ];
        self.draw(&fates, Elsewhere::Pass)
    }

    fn draw<T: Copy>(&mut self, fates: &[(u32, T)], usual: T) -> T {
        let mut drawn = self.random.below(1_000_000);
        for (odds, fate) in fates {
            if drawn < u64::from(*odds) {
                return *fate;
            }
            drawn -= u64::from(*odds);
        }
        usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_commit_counts_also_in_two_pieces() {
        let mut tail = Vec::new();
        for (chunk, want) in [
            (&b"Q\0\0\0\x40SET SESSION CHARACTERISTICS ... READ COMMITTED\0"[..], false),
            (b"Q\0\0\0\x0bCOM", false),
            (b"MIT\0", true),
            (b"\0", false),
            (b"Q\0\0\0\x0bCOMMIT\0", true),
        ] {
            assert_eq!(Speech::Postgres.commits(&mut tail, chunk), want, "{chunk:?}");
        }
        assert!(Speech::Mysql.commits(&mut Vec::new(), b"\x07\0\0\0\x03COMMIT"));
        assert!(!Speech::Mysql.commits(&mut Vec::new(), b"\x09\0\0\0\x03ROLLBACK"));
    }

    #[test]
    fn the_same_seed_and_connection_have_the_same_luck() {
        let luck = |seed, connection| {
            let mut dice = Dice::new(seed, connection, STORM);
            (0..20_000).map(|_| dice.at_commit()).collect::<Vec<_>>()
        };
        assert_eq!(luck(7, 3), luck(7, 3));
        assert_ne!(luck(7, 3), luck(7, 4));
        let cut = luck(7, 3).iter().filter(|fate| **fate != AtCommit::Pass).count();
        assert!((150..300).contains(&cut), "{cut} of 20000 were cut");
    }
}
