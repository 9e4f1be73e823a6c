//! Chance as a pure function, so that a run with the same seed makes the same choices.
//!
//! Toxiproxy's `-seed` builds a generator and throws it away, and it draws toxicity anew whenever a neighbour changes.
//! Here nothing is ever drawn twice: a number is a function of (seed, proxy, connection, toxic) and, for choices made
//! per chunk, of the chunk's index.

/// The choices of one toxic on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    key: u64,
}

impl Draws {
    /// The choices of `toxic` on the connection with this number (counted from 1 per proxy).
    #[must_use]
    pub fn new(seed: u64, proxy: &str, connection: u64, toxic: &str) -> Self {
        let mut key = fold(FNV_BASIS, &seed.to_le_bytes());
        // Lengths go in too, so that ("ab", "c") and ("a", "bc") differ.
        for text in [proxy, toxic] {
            key = fold(key, &(text.len() as u64).to_le_bytes());
            key = fold(key, text.as_bytes());
        }
        Self { key: mix(fold(key, &connection.to_le_bytes())) }
    }

    /// In `[0, 1)`; the toxic acts on this connection if its toxicity is above it.
    #[must_use]
    pub fn toxicity(&self) -> f64 {
        Numbers { state: self.key ^ TOXICITY_TAG }.unit()
    }

    /// The numbers for the chunk with this index (counted from 0 per toxic and connection).
    #[must_use]
    pub fn chunk(&self, index: u64) -> Numbers {
        Numbers { state: mix(self.key ^ mix(index.wrapping_add(1))) }
    }
}

/// A short sequence of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Numbers {
    state: u64,
}

impl Numbers {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// In `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 can hold exactly.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In `[0, bound)`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: no division, and the bias is below 2^-32 for every bound we use.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
const TOXICITY_TAG: u64 = 0x746f_7869_6369_7479;

fn fold(key: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(key, |key, byte| (key ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_make_equal_choices_and_others_differ() {
        let draws = Draws::new(7, "s3", 3, "cut");
        assert_eq!(draws, Draws::new(7, "s3", 3, "cut"));
        assert_eq!(draws.chunk(5).bits(), draws.chunk(5).bits());
        let others = [
            Draws::new(8, "s3", 3, "cut"),
            Draws::new(7, "s", 3, "3cut"),
            Draws::new(7, "s3", 4, "cut"),
            Draws::new(7, "s3", 3, "cuts"),
        ];
        for other in others {
            assert_ne!(draws.toxicity().to_bits(), other.toxicity().to_bits());
        }
        assert_ne!(draws.chunk(0).bits(), draws.chunk(1).bits());
    }

    #[test]
    fn toxicity_hits_its_share_of_connections() {
        let hit = (1..=10_000).filter(|number| Draws::new(1, "p", *number, "t").toxicity() < 0.2).count();
        assert!((1_850..=2_150).contains(&hit), "{hit} of 10000 connections hit with toxicity 0.2");
    }

    #[test]
    fn below_stays_below() {
        let mut numbers = Draws::new(1, "p", 1, "t").chunk(0);
        assert_eq!(numbers.below(0), 0);
        assert!((0..1_000).all(|_| numbers.below(3) < 3));
    }
}
