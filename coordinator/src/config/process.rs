//! What the processes of a cluster are started with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An S3 store for checkpoints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// `http://host:port`.
    pub endpoint: String,
    /// Bucket; must exist.
    pub bucket: String,
    /// Access key.
    pub access_key: String,
    /// Secret key. Never printed.
    pub secret_key: String,
}

impl std::fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreConfig")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

/// How a coordinator process is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorConfig {
    /// Name, e.g. `coordinator-1`.
    pub name: String,
    /// Folder of the embedded HA store, shared by leader and standbys.
    pub ha_dir: PathBuf,
    /// Where to serve REST, e.g. `127.0.0.1:0`.
    pub rest_address: String,
    /// Where executors register, e.g. `127.0.0.1:0`.
    pub rpc_address: String,
    /// Checkpoint store; none: no job may take checkpoints.
    pub store: Option<StoreConfig>,
    /// Cluster configuration by Flink's keys.
    pub settings: BTreeMap<String, String>,
}

/// How an executor process is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutorConfig {
    /// Name, e.g. `executor-1`.
    pub name: String,
    /// Slots to offer.
    pub slots: u32,
    /// Folder of the embedded HA store: where the leader is found.
    pub ha_dir: PathBuf,
    /// Folder of its own: partitions lie in `partitions/<job>/<partition>`.
    pub work_dir: PathBuf,
    /// Where to serve partitions, e.g. `127.0.0.1:0`.
    pub data_address: String,
    /// Checkpoint store, for large state.
    pub store: Option<StoreConfig>,
    /// Where user-code faults are looked for: files `fail-<vertex>-<subtask>` and `failalways-<vertex>-<subtask>`;
    /// spaces and slashes of the vertex name are written `_`. An empty `fail-` file means one failure, now, and is
    /// removed; any other is a rule, one JSON object: `{"after_records": 100, "per_million": 500, "seed": 7, "kind":
    /// "recoverable", "times": 3, "until_unix_ms": 1796011461123}`. All of it may be left out; `kind` may also be
    /// `non-recoverable` and `panic`. The length of `thrown-<vertex>-<subtask>` is how often a rule has acted. What
    /// cannot be understood fails the task. A file `exit-<executor>`, empty or `{"code": 137, "until_unix_ms": …}`,
    /// ends that executor at once. A file that is not empty must be renamed into place. An executor makes an empty file
    /// `full-<executor>` when a write fails because its file may not grow (`RLIMIT_FSIZE`).
    pub chaos_dir: Option<PathBuf>,
    /// A file that says where other parties are dialled instead of where they say that they are, by name, as one JSON
    /// object: `{"coordinator-1": "127.0.0.1:4001", "executor-2": "127.0.0.1:4002"}`. Who is not in it is dialled
    /// directly, and so is everybody without a file. The executor registers only once the file is there, which must be
    /// renamed into place; it is read once.
    pub routes: Option<PathBuf>,
    /// Cluster configuration by Flink's keys.
    pub settings: BTreeMap<String, String>,
}

/// What a coordinator or executor prints on stdout, as one line of JSON, once it can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Name from its configuration.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// REST address (coordinators).
    pub rest: Option<String>,
    /// RPC address (coordinators).
    pub rpc: Option<String>,
    /// Data address (executors).
    pub data: Option<String>,
}
