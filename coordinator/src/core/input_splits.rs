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
