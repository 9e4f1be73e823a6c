//! What user code can ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::controls::Controls;
use crate::executor::signal::{Canceled, TaskSignal};
use crate::graph::{Split, TaskContext, TaskError, TaskInfo};
use crate::runtime::protocol::ToCoordinator;

/// The context of one attempt.
pub(super) struct Context {
    info: TaskInfo,
    pub(super) keyed: BTreeMap<Vec<u8>, Vec<u8>>,
    requests: u32,
    is_source: bool,
    signal: Arc<TaskSignal>,
    controls: Arc<Controls>,
    reports: mpsc::Sender<ToCoordinator>,
}

impl Context {
    pub(super) fn new(
        info: TaskInfo,
        is_source: bool,
        signal: Arc<TaskSignal>,
        controls: Arc<Controls>,
        reports: mpsc::Sender<ToCoordinator>,
    ) -> Self {
        Self { info, keyed: BTreeMap::new(), requests: 0, is_source, signal, controls, reports }
    }
}

impl TaskContext for Context {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn next_split(&mut self) -> Result<Option<Split>, TaskError> {
        if !self.is_source {
            return Err(TaskError::new("only a source has input splits"));
        }
        self.signal.check()?;
        let request = self.requests;
        self.requests += 1;
        // The receiver is gone only when the connection is: then this task is being cancelled.
        let message = ToCoordinator::RequestSplit { attempt: self.info.attempt, request };
        self.reports.blocking_send(message).map_err(|_| Canceled)?;
        let answer = self.signal.wait_until(None, || self.controls.take_split(request))?;
        Ok(answer.flatten())
    }

    fn state(&self, key: &[u8]) -> Option<&[u8]> {
        self.keyed.get(key).map(Vec::as_slice)
    }

    fn set_state(&mut self, key: &[u8], value: Vec<u8>) {
        match self.keyed.get_mut(key) {
            Some(old) => *old = value,
            None => drop(self.keyed.insert(key.to_vec(), value)),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.signal.is_cancelled()
    }
}
