//! Random numbers that are a pure function of a seed.

/// SplitMix64 (Steele, Lea, Flood 2014): every seed is good, one addition and three mixing steps a number.
#[derive(Debug, Clone)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all of `u64`.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included. The tiny bias of the remainder does not matter for delays.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low) {
            u64::MAX => self.next(),
            span => low + self.next() % (span + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_sequence_and_stays_in_range() {
        // First outputs of the reference implementation for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert_eq!(random.between(7, 7), 7);
    }
}
