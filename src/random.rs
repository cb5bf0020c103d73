//! Decisions by chance that come out the same for the same seed, on every machine.

/// The generator of Steele, Lea and Flood (OOPSLA 2014): small, seeded, and the same everywhere.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator of this seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A seed that follows from another one and from what it is for.
pub(crate) fn seed_for(seed: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .fold(SplitMix64(seed).next(), |state, word| {
            SplitMix64(state ^ word).next()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_depends_on_every_word_and_on_their_order() {
        let seeds = [
            seed_for(7, [1, 2]),
            seed_for(7, [2, 1]),
            seed_for(8, [1, 2]),
            seed_for(7, [1, 2, 0]),
            seed_for(7, []),
        ];
        for (n, one) in seeds.iter().enumerate() {
            assert!(!seeds[..n].contains(one), "{seeds:?}");
        }
        assert_eq!(seeds[0], seed_for(7, [1, 2]));
    }
}
