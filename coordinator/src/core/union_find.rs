//! Disjoint sets.

/// Sets of small numbers; the representative of a set is its smallest member.
///
/// Links go from the larger representative to the smaller one and paths are halved: amortised logarithmic at worst,
/// practically constant for edges that join neighbours.
#[derive(Debug, Clone)]
pub(crate) struct UnionFind(Vec<u32>);

impl UnionFind {
    /// `len` sets of one.
    pub(crate) fn new(len: usize) -> Self {
        Self((0_u32..).take(len).collect())
    }

    /// The smallest member of the set of `member`.
    pub(crate) fn find(&mut self, mut member: u32) -> u32 {
        let parent = &mut self.0;
        while parent[member as usize] != member {
            let grandparent = parent[parent[member as usize] as usize];
            parent[member as usize] = grandparent;
            member = grandparent;
        }
        member
    }

    /// Joins two sets.
    pub(crate) fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }

    /// Numbers the sets by their smallest members: the set of each number, and how many sets there are.
    pub(crate) fn label(mut self) -> (Vec<u32>, u32) {
        let mut count = 0;
        for member in 0..self.0.len() {
            // Parents are smaller than their children, so they are already replaced by labels.
            let parent = self.0[member] as usize;
            if parent == member {
                self.0[member] = count;
                count += 1;
            } else {
                self.0[member] = self.0[parent];
            }
        }
        (self.0, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_numbered_by_their_smallest_member() {
        let mut sets = UnionFind::new(7);
        sets.unite(6, 2);
        sets.unite(5, 6);
        sets.unite(3, 1);
        assert_eq!((sets.find(5), sets.find(3), sets.find(4)), (2, 1, 4));
        assert_eq!(sets.label(), (vec![0, 1, 2, 1, 3, 2, 2], 4));
    }
}
