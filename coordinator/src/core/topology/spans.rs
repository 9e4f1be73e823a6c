//! Consecutive ranges of numbers, handed out once and never moved.

use std::ops::Range;

const ABSENT: u32 = u32::MAX;

/// For each item that was laid out, a range of numbers right behind that of the item laid out before it.
///
/// Numbers are given in the order in which items are laid out, not by item, so that what was given stays valid when
/// more is laid out later.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    /// By item: as the how-manieth it was laid out, or [`ABSENT`].
    place: Vec<u32>,
    /// By place: which item.
    items: Vec<u32>,
    /// By place: where its range starts; then the total. Rises strictly.
    first: Vec<u32>,
}

impl Spans {
    /// Nothing of `items` items is laid out.
    pub(super) fn new(items: usize) -> Self {
        Self { place: vec![ABSENT; items], items: Vec::new(), first: vec![0] }
    }

    /// Lays `item` out, once, with `len` numbers, at least one. The caller has seen to it that all totals fit.
    pub(super) fn push(&mut self, item: u32, len: u32) {
        debug_assert!(len > 0 && !self.holds(item as usize), "item {item} twice, or empty");
        // Items are numbered by `u32`, so there are fewer places than `ABSENT`.
        self.place[item as usize] = u32::try_from(self.items.len()).unwrap_or(ABSENT);
        self.first.push(self.total() + len);
        self.items.push(item);
    }

    /// How many numbers were given.
    pub(super) fn total(&self) -> u32 {
        self.first[self.items.len()]
    }

    /// Whether the item was laid out.
    pub(super) fn holds(&self, item: usize) -> bool {
        self.place.get(item).is_some_and(|&place| place != ABSENT)
    }

    /// The place of an item that was laid out.
    pub(super) fn place(&self, item: usize) -> Option<usize> {
        self.place.get(item).filter(|&&place| place != ABSENT).map(|&place| place as usize)
    }

    /// The numbers of an item; none if it is not laid out or does not exist.
    pub(super) fn range(&self, item: usize) -> Range<u32> {
        self.place(item).map_or(0..0, |place| self.first[place]..self.first[place + 1])
    }

    /// The first number of what lies at a place.
    pub(super) fn start(&self, place: usize) -> u32 {
        self.first[place]
    }

    /// The item at a place.
    pub(super) fn item(&self, place: usize) -> usize {
        self.items[place] as usize
    }

    /// The place whose range holds `number`, and the offset within it.
    pub(super) fn locate(&self, number: u32) -> (usize, u32) {
        let place = self.first.partition_point(|&start| start <= number) - 1;
        (place, number - self.first[place])
    }

    /// Items laid out with numbers from `number` on, in order.
    pub(super) fn items_from(&self, number: u32) -> impl Iterator<Item = usize> {
        let place = self.first.partition_point(|&start| start < number);
        self.items.get(place..).unwrap_or_default().iter().map(|&item| item as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_laying_out_and_stay() {
        let mut spans = Spans::new(4);
        spans.push(2, 3);
        let before = (spans.range(2), spans.locate(1), spans.range(0), spans.total());
        assert_eq!(before, (0..3, (0, 1), 0..0, 3));
        spans.push(0, 2);
        spans.push(3, 1);
        assert_eq!((spans.range(2), spans.range(0), spans.range(3), spans.total()), (0..3, 3..5, 5..6, 6));
        assert_eq!([spans.locate(1), spans.locate(3), spans.locate(5)], [(0, 1), (1, 0), (2, 0)]);
        assert_eq!([0, 1, 2].map(|place| spans.item(place)), [2, 0, 3]);
        assert_eq!([0, 1, 2, 3, 9].map(|item| spans.place(item)), [Some(1), None, Some(0), Some(2), None]);
    }

    #[test]
    fn what_came_later_can_be_listed() {
        let mut spans = Spans::new(3);
        assert_eq!(spans.items_from(0).count(), 0);
        spans.push(1, 2);
        spans.push(0, 2);
        assert_eq!(spans.items_from(0).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(spans.items_from(2).collect::<Vec<_>>(), [0]);
        assert_eq!(spans.items_from(4).count(), 0);
    }
}
