//! A small seeded generator (SplitMix64). The same seed and the same calls give the same numbers on every machine,
//! so a failing run is repeated by its seed alone.

/// Seeded pseudo-random numbers; never ambient.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator for one seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5851_F42D_4C95_7F2D))
    }

    /// A generator for a seed and the parts that name what it is for.
    pub fn for_parts(seed: u64, parts: &[u64]) -> Self {
        Self::new(parts.iter().fold(seed, |state, part| mix(state ^ mix(*part))))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`; zero when the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.bits() % bound }
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        low + (self.bits() % ((high - low) as u64 + 1)) as i64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits fill the mantissa, so 0.0 is never and 1.0 is always true.
        ((self.bits() >> 11) as f64) / ((1_u64 << 53) as f64) < probability
    }

    /// One element of a non-empty list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}

/// A stable 64-bit hash of a text (FNV-1a, then mixed).
pub fn hash_text(text: &str) -> u64 {
    let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    mix(text.as_bytes().iter().fold(0xCBF2_9CE4_8422_2325, fold))
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Rng::new(7).bits(), Rng::new(8).bits());
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            assert!(rng.below(7) < 7);
            assert!((-3..=4).contains(&rng.between(-3, 4)));
        }
        assert_eq!((rng.below(0), rng.between(5, 5)), (0, 5));
        assert!(!rng.chance(0.0));
        assert!(rng.chance(1.0));
    }
}
