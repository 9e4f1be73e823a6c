//! Points at which a plan can hold a job still, so that a fault meets it in exactly one state.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stormproof::job::{TaskContext, TaskError, TaskInfo};

/// How often a held task looks whether it may go on, and at most how often a running one looks whether it must wait.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Holds a task while the file `hold-<vertex>-<subtask>` is in the folder that parameter `faults` names.
#[derive(Debug)]
pub struct Gate {
    file: Option<PathBuf>,
    looked: Option<Instant>,
}

impl Gate {
    /// The gate of this task; always open if the job has no parameter `faults`.
    #[must_use]
    pub fn of(info: &TaskInfo) -> Self {
        let name = stormproof::job::fault_file_name("hold", &info.vertex, info.subtask);
        let file = info.params.get("faults").map(|folder| PathBuf::from(folder).join(name));
        Self { file, looked: None }
    }

    /// The gate that the file `file` closes.
    #[cfg(test)]
    pub(super) fn at(file: PathBuf) -> Self {
        Self { file: Some(file), looked: None }
    }

    /// True if the task must wait now.
    pub fn is_closed(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return false;
        }
        if file.exists() {
            return true;
        }
        self.looked = Some(Instant::now());
        false
    }

    /// Waits until the task may go on.
    ///
    /// # Errors
    /// When the task is cancelled meanwhile.
    pub fn pass(&mut self, context: &dyn TaskContext) -> Result<(), TaskError> {
        while self.is_closed() {
            if context.is_cancelled() {
                return Err(TaskError::new("cancelled while held"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}
