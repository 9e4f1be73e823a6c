//! Faults of user code on demand: files in the chaos folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::graph::{TaskError, TaskInfo};

/// The folder is looked at no more often than this.
const INTERVAL: Duration = Duration::from_millis(1);

/// Looks for the trigger files of one task.
pub(super) struct Faults {
    files: Option<Files>,
}

struct Files {
    once: PathBuf,
    always: PathBuf,
    name: String,
    last: Option<Instant>,
}

impl Faults {
    pub(super) fn new(folder: Option<&Path>, info: &TaskInfo) -> Self {
        let vertex: String = info.vertex.chars().map(|c| if c.is_whitespace() || c == '/' { '_' } else { c }).collect();
        let name = format!("{vertex}-{}", info.subtask);
        let files = folder.map(|folder| Files {
            once: folder.join(format!("fail-{name}")),
            always: folder.join(format!("failalways-{name}")),
            name,
            last: None,
        });
        Self { files }
    }

    /// To be called before each call of user code.
    ///
    /// # Errors
    /// When this task was told to fail. Of several that share a `fail-` file, the one that removes it fails.
    pub(super) fn check(&mut self) -> Result<(), TaskError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let now = Instant::now();
        if files.last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
            return Ok(());
        }
        files.last = Some(now);
        if std::fs::remove_file(&files.once).is_ok() {
            return Err(TaskError::new(format!("chaos trigger {}", files.name)));
        }
        if files.always.exists() {
            return Err(TaskError::new(format!("chaos trigger always {}", files.name)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{AttemptId, JobId, Params, TaskId, VertexId};

    #[test]
    fn files_make_the_named_task_fail() {
        let folder = tempfile::tempdir().unwrap();
        let task = TaskId { vertex: VertexId::of_name("a b/c"), subtask: 1 };
        let attempt = AttemptId { job: JobId([0; 16]), task, attempt: 0 };
        let info = TaskInfo { attempt, vertex: "a b/c".into(), subtask: 1, parallelism: 2, params: Params::default() };
        // Fresh each time: the second look within a millisecond sees nothing, on purpose.
        let check = || Faults::new(Some(folder.path()), &info).check();
        assert_eq!(check(), Ok(()));
        std::fs::write(folder.path().join("fail-a_b_c-0"), "").unwrap();
        assert_eq!(check(), Ok(()), "another subtask");
        std::fs::write(folder.path().join("fail-a_b_c-1"), "").unwrap();
        assert_eq!(check().unwrap_err().to_string(), "chaos trigger a_b_c-1");
        assert_eq!(check(), Ok(()), "once");
        std::fs::write(folder.path().join("failalways-a_b_c-1"), "").unwrap();
        for _ in 0..2 {
            assert_eq!(check().unwrap_err().to_string(), "chaos trigger always a_b_c-1");
        }
        assert_eq!(Faults::new(None, &info).check(), Ok(()));
    }
}
