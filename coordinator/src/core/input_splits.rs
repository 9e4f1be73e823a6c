//! Hands out the splits of a batch source (reference 4.6, FLINK-10205).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Split;

/// Gives each split to one subtask, and takes all splits of a subtask back when it is reset: whoever asks next reads
/// them again, so nothing is lost and nothing is read twice into output that survives.
#[derive(Debug, Clone, Default)]
pub struct SplitAssigner {
    splits: Vec<Split>,
    /// Positions in `splits` that nobody has.
    open: BTreeSet<usize>,
    /// Positions by subtask.
    assigned: BTreeMap<u32, Vec<usize>>,
}

impl SplitAssigner {
    /// All splits are open.
    #[must_use]
    pub fn new(splits: Vec<Split>) -> Self {
        Self { open: (0..splits.len()).collect(), splits, assigned: BTreeMap::new() }
    }

    /// The next open split, now assigned to `subtask`; splits are given out in the order of the enumeration.
    pub fn next(&mut self, subtask: u32) -> Option<Split> {
        let position = self.open.pop_first()?;
        self.assigned.entry(subtask).or_default().push(position);
        self.splits.get(position).cloned()
    }

    /// The subtask will run again, or elsewhere: all its splits come back.
    pub fn reset(&mut self, subtask: u32) {
        self.open.extend(self.assigned.remove(&subtask).into_iter().flatten());
    }

    /// How many splits nobody has.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigner(count: u32) -> SplitAssigner {
        let split = |index| Split { index, label: format!("part-{index}"), payload: vec![] };
        SplitAssigner::new((0..count).map(split).collect())
    }

    fn take(assigner: &mut SplitAssigner, subtask: u32) -> Option<u32> {
        assigner.next(subtask).map(|split| split.index)
    }

    // P205
    #[test]
    fn only_the_splits_of_the_reset_subtask_come_back() {
        let mut assigner = assigner(4);
        let given = [0, 1, 0, 1].map(|subtask| take(&mut assigner, subtask));
        assert_eq!((given, take(&mut assigner, 0)), ([Some(0), Some(1), Some(2), Some(3)], None));
        assigner.reset(1);
        assert_eq!(assigner.open(), 2);
        // Whoever asks next gets them, each once.
        assert_eq!([0, 1, 0].map(|subtask| take(&mut assigner, subtask)), [Some(1), Some(3), None]);
    }

    // P205
    #[test]
    fn a_global_reset_makes_all_splits_available_again() {
        let mut assigner = assigner(3);
        while take(&mut assigner, 0).is_some() {}
        (0..2).for_each(|subtask| assigner.reset(subtask));
        assert_eq!(assigner.open(), 3);
        // A reset of what was reset already brings nothing twice.
        assigner.reset(0);
        assert_eq!((0..4).filter_map(|_| take(&mut assigner, 1)).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn splits_of_equal_index_are_not_lost() {
        let twin = Split { index: 7, label: String::new(), payload: vec![] };
        let mut assigner = SplitAssigner::new(vec![twin.clone(), twin]);
        assert_eq!([0, 1, 2].map(|subtask| take(&mut assigner, subtask)), [Some(7), Some(7), None]);
    }
}
