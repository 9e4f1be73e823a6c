//! `drop-partition`: a finished result partition vanishes from an executor's disk.
//!
//! Nobody is told: whoever wants to read it finds out, which is the case that region failover's backtracking is for
//! (FLINK-12068).

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;

use super::{Description, Effect, Fault, FaultError};
use crate::journal::Undo;

/// Deletes the folders of result partitions. Cannot be undone: recovery is the engine's work.
#[derive(Debug)]
pub struct DropPartition {
    name: String,
    folders: Vec<PathBuf>,
    dropped: u64,
}

impl DropPartition {
    /// `name` is for people, e.g. `read[0]`; `folders` are where the partition's files lie.
    #[must_use]
    pub fn new(name: impl Into<String>, folders: Vec<PathBuf>) -> Self {
        Self { name: name.into(), folders, dropped: 0 }
    }
}

#[async_trait]
impl Fault for DropPartition {
    fn describe(&self) -> Description {
        Description::new("drop-partition", &self.name)
    }

    fn undo(&self) -> Vec<Undo> {
        vec![]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        for folder in &self.folders {
            match tokio::fs::remove_dir_all(folder).await {
                Ok(()) => self.dropped += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(FaultError::File { action: "delete", path: folder.clone(), source }),
            }
        }
        if self.dropped == 0 {
            return Err(FaultError::no_partition(&self.name));
        }
        Ok(())
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect::of("partitions_dropped", self.dropped))
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drops_what_is_there_and_refuses_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let partition = folder.path().join("partition");
        std::fs::create_dir(&partition).expect("made");
        std::fs::write(partition.join("0"), b"data").expect("written");
        let mut fault = DropPartition::new("read[0]", vec![partition.clone()]);
        fault.inject().await.expect("dropped");
        assert!(!partition.exists());
        assert!(fault.effect().await.expect("known").bites);
        let mut again = DropPartition::new("read[0]", vec![partition]);
        let error = again.inject().await.expect_err("nothing there").to_string();
        assert!(error.contains("read[0]"), "{error}");
        assert!(!again.effect().await.expect("known").bites);
    }
}
