//! A file sink that writes each record exactly once: two-phase commit on checkpoints (reference 7.9).
//!
//! What came since the last checkpoint is pre-committed as a hidden file when a snapshot is taken, and renamed into
//! place when that checkpoint is known to be durable. A restored sink commits what the checkpoint says was
//! pre-committed (the notification may have been lost) and removes what came after it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use stormproof::job::{Collector, Operator, Record, TaskContext, TaskError, TaskInfo};

use super::gate::Gate;

/// The sink of one subtask. Output: files `<vertex>-<subtask>-<checkpoint>.part`, one record a line.
pub struct ExactlyOnceFiles {
    gate: Gate,
    folder: PathBuf,
    name: String,
    buffer: Vec<u8>,
    /// Checkpoints whose files are pre-committed.
    pending: BTreeSet<u64>,
    /// Files that an earlier attempt pre-committed in vain have been removed.
    tidied: bool,
}

impl ExactlyOnceFiles {
    /// A sink into `folder`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(info: &TaskInfo, folder: &Path) -> Result<Self, TaskError> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            gate: Gate::of(info),
            folder: folder.to_owned(),
            name: format!("{}-{}", info.vertex, info.subtask),
            buffer: vec![],
            pending: BTreeSet::new(),
            tidied: false,
        })
    }

    fn pending_file(&self, checkpoint: u64) -> PathBuf {
        self.folder.join(format!(".{}-{checkpoint}.pending", self.name))
    }

    fn commit(&mut self, up_to: u64) -> Result<(), TaskError> {
        let later = self.pending.split_off(&(up_to + 1));
        for checkpoint in std::mem::replace(&mut self.pending, later) {
            let (from, to) =
                (self.pending_file(checkpoint), self.folder.join(format!("{}-{checkpoint}.part", self.name)));
            // Renamed already if an earlier attempt got this far.
            if from.exists() {
                fs::rename(&from, &to)?;
            }
        }
        Ok(())
    }

    /// Removes pre-committed files that the state we started from does not cover. Not before it is known whether
    /// there is such a state: after the first record or snapshot no `restore` can come.
    fn tidy(&mut self) -> Result<(), TaskError> {
        if std::mem::replace(&mut self.tidied, true) {
            return Ok(());
        }
        let prefix = format!(".{}-", self.name);
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let checkpoint = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".pending"));
            if let Some(checkpoint) = checkpoint.and_then(|text| text.parse::<u64>().ok())
                && !self.pending.contains(&checkpoint)
            {
                fs::remove_file(self.folder.join(name))?;
            }
        }
        Ok(())
    }
}

impl Operator for ExactlyOnceFiles {
    fn process(
        &mut self,
        _input: usize,
        record: Record,
        context: &mut dyn TaskContext,
        _out: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.gate.pass(context)?;
        self.tidy()?;
        self.buffer.extend_from_slice(&record.key);
        self.buffer.push(b'\t');
        self.buffer.extend_from_slice(&record.value);
        self.buffer.push(b'\n');
        Ok(())
    }

    fn snapshot(&mut self, checkpoint: u64) -> Result<Vec<u8>, TaskError> {
        self.tidy()?;
        if !self.buffer.is_empty() {
            let mut file = fs::File::create(self.pending_file(checkpoint))?;
            file.write_all(&self.buffer)?;
            file.sync_all()?;
            self.buffer.clear();
            self.pending.insert(checkpoint);
        }
        Ok(self.pending.iter().map(u64::to_string).collect::<Vec<_>>().join(" ").into_bytes())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), TaskError> {
        let text = String::from_utf8_lossy(state);
        self.pending = text
            .split_whitespace()
            .map(|word| word.parse().map_err(|_| TaskError::new(format!("`{word}` is no checkpoint number"))))
            .collect::<Result<_, _>>()?;
        self.tidy()?;
        self.commit(u64::MAX - 1)
    }

    fn checkpoint_completed(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.commit(checkpoint)
    }
}
