//! Changes of inputs: bytes, pieces, words of the format, numbers. Everything follows from the seed.

/// A small generator (splitmix64); the same seed gives the same numbers everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`; 0 if there is nothing to choose from.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.next() % limit as u64) as usize }
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// Longest input, and longest input after a piece was repeated many times.
const LENGTH_MAX: usize = 16 * 1024;
const REPEATED_MAX: usize = 128 * 1024;

const BYTES: [u8; 24] = [
    0, 1, 9, 10, 13, 0x1b, b' ', b'"', b'\'', b'\\', b'/', b'<', b'>', b'&', b'%', b'[', b'{', b'0', b'-', 0x7f, 0x80,
    0xc3, 0xed, 0xff,
];
const NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "65536",
    "2147483648",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "1e-400",
    "0.1",
];

/// Changes `input` a few times; `other` is another input to take pieces from, `words` are words of the format.
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8], words: &[String]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let most = if random.one_in(8) { 24 } else { 4 };
    let times = 1 + random.below(most);
    for _ in 0..times {
        change(random, &mut bytes, other, words);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], words: &[String]) {
    let at = random.below(bytes.len() + 1);
    match random.below(16) {
        0 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        1 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] = BYTES[random.below(BYTES.len())];
        }
        2 => insert(bytes, at, &[BYTES[random.below(BYTES.len())]]),
        3 => bytes.truncate(at),
        4 | 5 => {
            let piece = piece(random, bytes, 64);
            bytes.drain(piece);
        }
        6 => {
            let copy = bytes[piece(random, bytes, 64)].to_vec();
            insert(bytes, at, &copy);
        }
        7 => {
            let copy = other[piece(random, other, 256)].to_vec();
            insert(bytes, at, &copy);
        }
        8..=10 if !words.is_empty() => insert(bytes, at, words[random.below(words.len())].as_bytes()),
        11 if !words.is_empty() => {
            let gone = piece(random, bytes, 16);
            let start = gone.start;
            bytes.drain(gone);
            insert(bytes, start, words[random.below(words.len())].as_bytes());
        }
        12 => number(random, bytes),
        13 if random.one_in(6) => repeat(random, bytes, at),
        14 => {
            let tail = other[random.below(other.len() + 1)..].to_vec();
            bytes.truncate(at);
            insert(bytes, at, &tail);
        }
        _ => insert(bytes, at, NUMBERS[random.below(NUMBERS.len())].as_bytes()),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if bytes.len() + piece.len() <= LENGTH_MAX {
        bytes.splice(at..at, piece.iter().copied());
    }
}

fn piece(random: &mut Random, bytes: &[u8], longest: usize) -> std::ops::Range<usize> {
    let start = random.below(bytes.len() + 1);
    let length = random.below(longest.min(bytes.len() - start) + 1);
    start..start + length
}

/// Replaces a run of digits.
fn number(random: &mut Random, bytes: &mut Vec<u8>) {
    let starts: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    let Some(start) = starts.get(random.below(starts.len())).copied() else { return };
    let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.drain(start..end);
    insert(bytes, start, NUMBERS[random.below(NUMBERS.len())].as_bytes());
}

fn repeat(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let copy = bytes[piece(random, bytes, 24)].to_vec();
    if copy.is_empty() {
        return;
    }
    let times = (1 << random.below(14)).min((REPEATED_MAX.saturating_sub(bytes.len())) / copy.len());
    bytes.splice(at..at, copy.repeat(times));
}
