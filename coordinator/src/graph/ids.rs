//! Names of jobs, vertices, attempts and partitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An identifier could not be read: it must be 32 hexadecimal digits, as in Flink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an identifier: expected 32 hexadecimal digits")]
pub struct ParseIdError(pub String);

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let mut bytes = [0_u8; 16];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseIdError(text.to_owned()))?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    let text = String::deserialize(deserializer)?;
                    text.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

hex_id! {
    /// A job: 16 bytes, written as 32 hexadecimal digits as in Flink's REST API.
    JobId
}
hex_id! {
    /// A vertex of the job graph (Flink's `JobVertexID`). Derived from the vertex's name, so that every process that
    /// builds the graph names it alike.
    VertexId
}

hex_id! {
    /// What all subtasks of a vertex put out over one edge, once it outlives its job (Flink's
    /// `IntermediateDataSetID`). Derived from the job, the vertex and the number of the edge.
    DataSetId
}

/// Two rounds of FNV-1a, stable across versions of this crate.
fn hash(parts: &[&[u8]]) -> [u8; 16] {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let text = || parts.iter().copied().flatten();
    let round = |seed: u64| text().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    let (high, low) = (round(0xcbf2_9ce4_8422_2325), round(0x6c62_272e_07bb_0142));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes
}

impl VertexId {
    /// The identifier of the vertex called `name`.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        Self(hash(&[name.as_bytes()]))
    }
}

impl DataSetId {
    /// The data set of job `job` that `partition` is a part of.
    #[must_use]
    pub fn of(job: JobId, partition: PartitionId) -> Self {
        let PartitionId { producer, data_set } = partition;
        Self(hash(&[&job.0, &producer.vertex.0, &data_set.to_be_bytes()]))
    }
}

/// An executor process (Flink's TaskManager), by the name it registered with, e.g. `executor-1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorId(pub String);

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One parallel instance of a vertex (Flink's `ExecutionVertexID`): subtask `subtask` (from 0) of `vertex`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The vertex of the job graph.
    pub vertex: VertexId,
    /// Index of the subtask, from 0.
    pub subtask: u32,
}

/// One execution attempt of a task (Flink's `ExecutionAttemptID`). The number starts at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
    /// Attempt number, from 0, one more for each restart.
    pub attempt: u32,
}

/// The part of an intermediate result that one subtask produces, whatever the attempt
/// (Flink's `IntermediateResultPartitionID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId {
    /// The producing task.
    pub producer: TaskId,
    /// Which of the producing vertex's data sets, from 0.
    pub data_set: u32,
}

/// What one *attempt* put into a partition (Flink's `ResultPartitionID`): a producer that runs again makes a
/// different one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResultPartitionId {
    /// The partition.
    pub partition: PartitionId,
    /// The producing attempt's number.
    pub attempt: u32,
}
