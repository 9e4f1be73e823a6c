//! Which subtasks one edge connects (reference 1.2), by arithmetic instead of lists.

use std::ops::Range;

use crate::graph::DistributionPattern;

/// An edge between `producers` and `consumers` subtasks.
///
/// Consumers that read the identical range of producers form a group. In every pattern both sides of a group are
/// contiguous, so that a group is two ranges and an edge of any width costs a few words. The products below stay
/// under 2³¹ because no parallelism exceeds [`crate::graph::job::MAX_PARALLELISM`] (2¹⁵).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    producers: u32,
    consumers: u32,
    pattern: DistributionPattern,
}

impl Shape {
    pub(crate) fn new(producers: u32, consumers: u32, pattern: DistributionPattern) -> Self {
        Self { producers, consumers, pattern }
    }

    /// Number of groups: one if everything reads everything, else as many as the narrower side has subtasks.
    pub(crate) fn groups(self) -> u32 {
        match self.pattern {
            DistributionPattern::AllToAll => 1,
            DistributionPattern::Pointwise => self.producers.min(self.consumers),
        }
    }

    /// Producers that the consumers of `group` read.
    pub(crate) fn producers_of(self, group: u32) -> Range<u32> {
        let (s, t) = (self.producers, self.consumers);
        match self.pattern {
            DistributionPattern::AllToAll => 0..s,
            DistributionPattern::Pointwise if s > t => group * s / t..(group + 1) * s / t,
            DistributionPattern::Pointwise => group..group + 1,
        }
    }

    /// Consumers that read the producers of `group`.
    pub(crate) fn consumers_of(self, group: u32) -> Range<u32> {
        let (s, t) = (self.producers, self.consumers);
        match self.pattern {
            DistributionPattern::AllToAll => 0..t,
            DistributionPattern::Pointwise if s < t => (group * t).div_ceil(s)..((group + 1) * t).div_ceil(s),
            DistributionPattern::Pointwise => group..group + 1,
        }
    }

    /// The group that `consumer` belongs to.
    pub(crate) fn group_of_consumer(self, consumer: u32) -> u32 {
        let (s, t) = (self.producers, self.consumers);
        match self.pattern {
            DistributionPattern::AllToAll => 0,
            DistributionPattern::Pointwise if s < t => consumer * s / t,
            DistributionPattern::Pointwise => consumer,
        }
    }

    /// The group that reads `producer`.
    pub(crate) fn group_of_producer(self, producer: u32) -> u32 {
        let (s, t) = (self.producers, self.consumers);
        match self.pattern {
            DistributionPattern::AllToAll => 0,
            DistributionPattern::Pointwise if s > t => ((producer + 1) * t).div_ceil(s) - 1,
            DistributionPattern::Pointwise => producer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DistributionPattern::{AllToAll, Pointwise};

    fn groups(producers: u32, consumers: u32, pattern: DistributionPattern) -> Vec<(Range<u32>, Range<u32>)> {
        let shape = Shape::new(producers, consumers, pattern);
        (0..shape.groups()).map(|g| (shape.producers_of(g), shape.consumers_of(g))).collect()
    }

    /// The examples of reference 1.2.
    #[test]
    fn worked_examples() {
        assert_eq!(groups(4, 2, Pointwise), [(0..2, 0..1), (2..4, 1..2)]);
        assert_eq!(groups(2, 3, Pointwise), [(0..1, 0..2), (1..2, 2..3)]);
        assert_eq!(groups(3, 2, Pointwise), [(0..1, 0..1), (1..3, 1..2)]);
        assert_eq!(groups(3, 3, Pointwise), [(0..1, 0..1), (1..2, 1..2), (2..3, 2..3)]);
        assert_eq!(groups(3, 5, AllToAll), [(0..3, 0..5)]);
        let widths: Vec<_> = groups(2, 7, Pointwise).into_iter().map(|(_, consumers)| consumers.len()).collect();
        assert_eq!(widths, [4, 3]);
    }

    /// For every pair of small parallelisms: the formulas of reference 1.2, written down as they are there.
    #[test]
    fn groups_agree_with_the_written_rule() {
        for s in 1..=24_u32 {
            for t in 1..=24_u32 {
                let shape = Shape::new(s, t, Pointwise);
                let mut reads = vec![Vec::new(); t as usize];
                if s >= t {
                    (0..t).for_each(|i| reads[i as usize].extend(i * s / t..(i + 1) * s / t));
                } else {
                    for p in 0..s {
                        ((p * t).div_ceil(s)..((p + 1) * t).div_ceil(s)).for_each(|i| reads[i as usize].push(p));
                    }
                }
                for (consumer, expected) in (0..t).zip(&reads) {
                    let group = shape.group_of_consumer(consumer);
                    assert!(shape.consumers_of(group).contains(&consumer), "{s} to {t}, consumer {consumer}");
                    assert_eq!(&shape.producers_of(group).collect::<Vec<_>>(), expected, "{s} to {t}");
                }
                for producer in 0..s {
                    let group = shape.group_of_producer(producer);
                    assert!(shape.producers_of(group).contains(&producer), "{s} to {t}, producer {producer}");
                }
            }
        }
    }

    #[test]
    fn the_largest_parallelism_does_not_overflow() {
        let max = crate::graph::job::MAX_PARALLELISM;
        let shape = Shape::new(max, max - 1, Pointwise);
        assert_eq!(shape.producers_of(max - 2), max - 2..max);
        assert_eq!(shape.group_of_producer(max - 1), max - 2);
        let shape = Shape::new(max - 1, max, Pointwise);
        assert_eq!(shape.consumers_of(max - 2), max - 1..max);
    }
}
