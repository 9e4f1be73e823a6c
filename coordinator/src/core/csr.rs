//! Rows of small numbers in two flat arrays (compressed sparse rows).

/// For each of `n` rows a list of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Csr {
    /// Where each row starts; one more entry than rows.
    first: Vec<u32>,
    values: Vec<u32>,
}

impl Csr {
    /// Puts 0, 1, 2, … into the rows that `row_of` gives for each, in order. Counting sort: linear.
    pub(crate) fn new(rows: usize, row_of: impl Iterator<Item = usize> + Clone) -> Self {
        Self::of_pairs(rows, row_of.zip(0_u32..))
    }

    /// Puts each value into its row, keeping the order within a row.
    pub(crate) fn of_pairs(rows: usize, pairs: impl Iterator<Item = (usize, u32)> + Clone) -> Self {
        let mut first = vec![0_u32; rows + 1];
        pairs.clone().for_each(|(row, _)| first[row + 1] += 1);
        (0..rows).for_each(|row| first[row + 1] += first[row]);
        let mut next = first.clone();
        let mut values = vec![0_u32; first[rows] as usize];
        for (row, value) in pairs {
            values[next[row] as usize] = value;
            next[row] += 1;
        }
        Self { first, values }
    }

    /// The numbers of one row.
    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.values[self.first[row] as usize..self.first[row + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_order_of_arrival() {
        let csr = Csr::new(4, [2, 0, 2, 3, 2].into_iter());
        let rows: Vec<&[u32]> = (0..4).map(|row| csr.row(row)).collect();
        assert_eq!(rows, [&[1][..], &[], &[0, 2, 4], &[3]]);
    }
}
