//! What the coordinator tells a running task: kept until its thread looks.
//!
//! Messages are merged instead of queued, so that a task that is stuck in user code costs no memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::executor::signal::{TaskSignal, lock};
use crate::graph::Split;

/// Checkpoint triggers that a task has not handled yet; more are declined.
const MAX_TRIGGERS: usize = 64;

/// Aborted checkpoints that are remembered: their barriers may still arrive.
const MAX_ABORTED: usize = 1024;

/// A message box of one task.
#[derive(Debug)]
pub(crate) struct Controls {
    state: Mutex<State>,
    /// Something in `state` is new: spares the lock between records.
    news: AtomicBool,
    signal: Arc<TaskSignal>,
}

#[derive(Debug, Default)]
struct State {
    triggers: VecDeque<u64>,
    completed: Option<u64>,
    is_final: bool,
    aborted: BTreeSet<u64>,
    split: Option<(u32, Option<Split>)>,
}

/// What is new.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Checkpoints to start, in order.
    pub(crate) triggers: VecDeque<u64>,
    /// The newest completed checkpoint.
    pub(crate) completed: Option<u64>,
    /// The final checkpoint completed: the task may end.
    pub(crate) is_final: bool,
    /// Checkpoints that will not complete.
    pub(crate) aborted: BTreeSet<u64>,
}

impl Controls {
    pub(crate) fn new(signal: Arc<TaskSignal>) -> Self {
        Self { state: Mutex::default(), news: AtomicBool::new(false), signal }
    }

    /// Asks for a checkpoint; `false` if too many wait already.
    pub(crate) fn trigger(&self, checkpoint: u64) -> bool {
        let mut state = lock(&self.state);
        if state.triggers.len() >= MAX_TRIGGERS {
            return false;
        }
        state.triggers.push_back(checkpoint);
        drop(state);
        self.tell();
        true
    }

    /// A checkpoint, and all before it, is durable.
    pub(crate) fn completed(&self, checkpoint: u64, is_final: bool) {
        let mut state = lock(&self.state);
        state.completed = state.completed.max(Some(checkpoint));
        state.is_final |= is_final;
        drop(state);
        self.tell();
    }

    /// A checkpoint will not complete.
    pub(crate) fn aborted(&self, checkpoint: u64) {
        let mut state = lock(&self.state);
        state.triggers.retain(|trigger| *trigger != checkpoint);
        state.aborted.insert(checkpoint);
        if state.aborted.len() > MAX_ABORTED {
            state.aborted.pop_first();
        }
        drop(state);
        self.tell();
    }

    /// The answer to request `request` of a source.
    pub(crate) fn split(&self, request: u32, split: Option<Split>) {
        lock(&self.state).split = Some((request, split));
        self.signal.wake();
    }

    fn tell(&self) {
        self.news.store(true, Ordering::Release);
        self.signal.wake();
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Takes what is new, if anything.
    pub(crate) fn take(&self) -> Option<News> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = lock(&self.state);
        Some(News {
            triggers: std::mem::take(&mut state.triggers),
            completed: state.completed.take(),
            is_final: state.is_final,
            aborted: std::mem::take(&mut state.aborted),
        })
    }

    /// Takes the answer to `request`, if it is there.
    pub(crate) fn take_split(&self, request: u32) -> Option<Option<Split>> {
        match lock(&self.state).split.take() {
            Some((answered, split)) if answered == request => Some(split),
            // An answer that nobody waits for.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_merged() {
        let controls = Controls::new(Arc::default());
        assert_eq!(controls.take(), None);
        assert!(controls.trigger(3) && controls.trigger(4));
        controls.aborted(3);
        controls.completed(2, false);
        controls.completed(1, false);
        assert!(controls.has_news());
        let news = controls.take().unwrap();
        assert_eq!(news.triggers, [4]);
        assert_eq!((news.completed, news.is_final), (Some(2), false));
        assert_eq!(news.aborted, BTreeSet::from([3]));
        assert_eq!(controls.take(), None);
        controls.completed(9, true);
        assert!(controls.take().unwrap().is_final);
        assert_eq!((0..1000).filter(|id| controls.trigger(*id)).count(), MAX_TRIGGERS);
    }

    #[test]
    fn only_the_awaited_split_is_taken() {
        let controls = Controls::new(Arc::default());
        controls.split(0, None);
        assert_eq!(controls.take_split(1), None);
        controls.split(1, None);
        assert_eq!(controls.take_split(1), Some(None));
    }
}
