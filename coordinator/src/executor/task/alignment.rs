//! Aligned barriers: which channels are held back, and when a checkpoint's cut is complete.

use std::collections::BTreeSet;

/// Aborted checkpoints that are remembered until a newer one was taken.
const MAX_ABORTED: usize = 1024;

/// Pure bookkeeping over the barriers of all input channels.
///
/// A channel is held back from its barrier on, until all channels have theirs: so no record after a barrier is part
/// of the snapshot. Channels that ended count as having every barrier. A newer barrier gives an older cut up, as the
/// channel it came from will never bring the older one.
#[derive(Debug)]
pub(crate) struct Alignment {
    ended: Vec<bool>,
    held: Vec<bool>,
    current: Option<u64>,
    /// Barriers up to this one are of the past.
    last: Option<u64>,
    aborted: BTreeSet<u64>,
}

/// What a barrier, an end or an abort leads to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// This checkpoint was given up for a newer one: decline it.
    pub(crate) subsumed: Option<u64>,
    /// The cut of this checkpoint is complete: take the snapshot now.
    pub(crate) complete: Option<u64>,
}

impl Alignment {
    pub(crate) fn new(channels: usize) -> Self {
        let (ended, held) = (vec![false; channels], vec![false; channels]);
        Self { ended, held, current: None, last: None, aborted: BTreeSet::new() }
    }

    /// True while nothing may be read from `channel`.
    pub(crate) fn is_held(&self, channel: usize) -> bool {
        self.held[channel]
    }

    /// All channels ended: no barrier will come any more.
    pub(crate) fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Barrier `id` arrived on `channel`.
    pub(crate) fn barrier(&mut self, channel: usize, id: u64) -> Step {
        if Some(id) <= self.last || self.aborted.contains(&id) {
            return Step::default();
        }
        let mut step = Step::default();
        match self.current {
            Some(current) if id < current => {
                // Its other barriers, if there are any, say nothing new.
                self.abort(id);
                return Step { subsumed: Some(id), complete: None };
            }
            Some(current) if id > current => {
                step.subsumed = Some(current);
                self.close(current);
            }
            _ => {}
        }
        self.current = Some(id);
        self.held[channel] = true;
        step.complete = self.completed();
        step
    }

    /// `channel` ended for good.
    pub(crate) fn end(&mut self, channel: usize) -> Step {
        self.ended[channel] = true;
        self.held[channel] = false;
        Step { subsumed: None, complete: self.completed() }
    }

    /// Checkpoint `id` will not complete: its barriers, also those to come, mean nothing.
    pub(crate) fn abort(&mut self, id: u64) {
        if Some(id) <= self.last {
            return;
        }
        self.aborted.insert(id);
        if self.aborted.len() > MAX_ABORTED {
            self.aborted.pop_first();
        }
        if self.current == Some(id) {
            self.close(id);
        }
    }

    fn completed(&mut self) -> Option<u64> {
        let current = self.current?;
        let complete = self.held.iter().zip(&self.ended).all(|(held, ended)| *held || *ended);
        if complete {
            self.close(current);
        }
        complete.then_some(current)
    }

    /// Forgets the current cut, and every barrier up to it.
    fn close(&mut self, id: u64) {
        self.current = None;
        self.held.fill(false);
        self.last = self.last.max(Some(id));
        self.aborted = self.aborted.split_off(&(id + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(id: u64) -> Step {
        Step { subsumed: None, complete: Some(id) }
    }

    #[test]
    fn a_cut_is_complete_once_every_channel_has_the_barrier() {
        let mut alignment = Alignment::new(3);
        assert_eq!(alignment.barrier(0, 1), Step::default());
        assert!(alignment.is_held(0) && !alignment.is_held(1));
        assert_eq!(alignment.barrier(2, 1), Step::default());
        assert_eq!(alignment.barrier(1, 1), complete(1));
        assert!((0..3).all(|channel| !alignment.is_held(channel)));
        assert_eq!(alignment.barrier(1, 1), Step::default(), "of the past");
        assert_eq!(Alignment::new(1).barrier(0, 5), complete(5));
    }

    #[test]
    fn ended_channels_count() {
        let mut alignment = Alignment::new(2);
        alignment.barrier(0, 1);
        assert_eq!(alignment.end(1), complete(1));
        assert_eq!(alignment.barrier(0, 2), complete(2));
        assert!(!alignment.all_ended());
        assert_eq!(alignment.end(0), Step::default());
        assert!(alignment.all_ended());
    }

    #[test]
    fn a_newer_barrier_gives_the_older_cut_up() {
        let mut alignment = Alignment::new(2);
        alignment.barrier(0, 1);
        assert_eq!(alignment.barrier(1, 2), Step { subsumed: Some(1), complete: None });
        assert!(!alignment.is_held(0) && alignment.is_held(1));
        assert_eq!(alignment.barrier(0, 2), complete(2));
        // The newer one comes first: the older one is given up when it shows.
        let mut alignment = Alignment::new(3);
        alignment.barrier(0, 2);
        assert_eq!(alignment.barrier(1, 1), Step { subsumed: Some(1), complete: None });
        assert_eq!(alignment.barrier(2, 1), Step::default(), "once");
        alignment.barrier(1, 2);
        assert_eq!(alignment.barrier(2, 2), complete(2));
    }

    #[test]
    fn an_abort_lets_go_and_its_late_barriers_mean_nothing() {
        let mut alignment = Alignment::new(2);
        alignment.barrier(0, 1);
        alignment.abort(1);
        assert!(!alignment.is_held(0));
        assert_eq!(alignment.barrier(1, 1), Step::default());
        assert!(!alignment.is_held(1));
        // An abort that comes before the first barrier.
        alignment.abort(3);
        assert_eq!(alignment.barrier(0, 3), Step::default());
        assert!(!alignment.is_held(0));
        alignment.barrier(0, 2);
        assert_eq!(alignment.barrier(1, 2), complete(2), "an aborted newer one does not condemn an older one");
    }
}
