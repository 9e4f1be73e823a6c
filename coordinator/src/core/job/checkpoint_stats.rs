//! Counters and history of checkpoints, as REST shows them.

use std::collections::VecDeque;

use crate::core::event::Millis;
use crate::core::snapshot::{CheckpointEntry, CheckpointEntryStatus, CheckpointStats, RestoredEntry};

/// See [`CheckpointStats`].
#[derive(Debug)]
pub(super) struct Stats {
    counts: CheckpointStats,
    /// Newest first.
    history: VecDeque<CheckpointEntry>,
    bound: usize,
}

impl Stats {
    pub(super) fn new(interval_ms: u64, bound: usize) -> Self {
        let counts = CheckpointStats { interval_ms, ..CheckpointStats::default() };
        Self { counts, history: VecDeque::new(), bound }
    }

    pub(super) fn picture(&self) -> CheckpointStats {
        let CheckpointStats { total, completed, failed, .. } = self.counts;
        CheckpointStats {
            in_progress: total - completed - failed,
            history: self.history.iter().cloned().collect(),
            ..self.counts.clone()
        }
    }

    pub(super) fn triggered(&mut self, id: u64, now: Millis, tasks: usize) {
        self.counts.total += 1;
        self.history.push_front(CheckpointEntry {
            id,
            status: CheckpointEntryStatus::InProgress,
            trigger_ms: now,
            latest_ack_ms: None,
            state_size: 0,
            num_subtasks: u32::try_from(tasks).unwrap_or(u32::MAX),
            num_acknowledged: 0,
            external_path: None,
            discarded: false,
        });
        self.history.truncate(self.bound);
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut CheckpointEntry)) {
        if let Some(entry) = self.history.iter_mut().find(|entry| entry.id == id) {
            change(entry);
        }
    }

    pub(super) fn acknowledged(&mut self, id: u64, now: Millis, size: u64) {
        self.update(id, |entry| {
            entry.num_acknowledged += 1;
            entry.latest_ack_ms = Some(now);
            entry.state_size += size;
        });
    }

    pub(super) fn completed(&mut self, id: u64, external_path: String) {
        self.counts.completed += 1;
        self.update(id, |entry| {
            entry.status = CheckpointEntryStatus::Completed;
            entry.external_path = Some(external_path);
        });
    }

    pub(super) fn failed(&mut self, id: u64, now: Millis, reason: &str) {
        self.counts.failed += 1;
        self.update(id, |entry| {
            entry.status = CheckpointEntryStatus::Failed { at_ms: now, message: reason.to_owned() };
        });
    }

    pub(super) fn discarded(&mut self, id: u64) {
        self.update(id, |entry| entry.discarded = true);
    }

    pub(super) fn restored(&mut self, id: u64, now: Millis, external_path: String) {
        self.counts.restored += 1;
        self.counts.latest_restored = Some(RestoredEntry { id, restore_ms: now, external_path });
    }
}
