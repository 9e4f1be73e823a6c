//! A set of small numbers.

/// A fixed range of numbers, one bit each.
#[derive(Debug, Clone)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// The empty set over `0..len`.
    pub(crate) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Adds a number; true if it was not there.
    pub(crate) fn insert(&mut self, at: usize) -> bool {
        let (word, bit) = (&mut self.0[at / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Takes a number out; true if it was there.
    pub(crate) fn remove(&mut self, at: usize) -> bool {
        let (word, bit) = (&mut self.0[at / 64], 1 << (at % 64));
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_and_remove_tell_whether_they_changed_anything() {
        let mut set = BitSet::new(130);
        assert!(set.insert(129) && !set.insert(129));
        assert!(!set.remove(65));
        assert!(set.remove(129) && !set.remove(129));
    }
}
