//! A set of small numbers.

/// Some of a range of numbers, one bit each.
#[derive(Debug, Clone)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// The empty set over `0..len`.
    pub(crate) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Widens the range to `0..len`.
    pub(crate) fn grow(&mut self, len: usize) {
        self.0.resize(self.0.len().max(len.div_ceil(64)), 0);
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

    #[test]
    fn a_range_that_grows_keeps_its_members() {
        let mut set = BitSet::new(0);
        set.grow(1);
        set.insert(0);
        set.grow(200);
        assert!(!set.insert(0) && set.insert(199));
        set.grow(1);
        assert!(!set.insert(199), "it never shrinks");
    }
}
