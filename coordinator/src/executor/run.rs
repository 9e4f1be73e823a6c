//! Start and end of an executor.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::exchange::serve;
use super::exit;
use super::full_files;
use super::leader::Membership;
use super::partitions::PartitionTable;
use super::routes::{Routes, RoutesError};
use super::task::Environment;
use super::tasks::TaskTable;
use crate::config::{ConfigError, ExecutorConfig, Ready, Settings, options};
use crate::graph::{AttemptId, ExecutorId, JobRegistry};
use crate::leadership::leader_watch;
use crate::runtime::frames::MAGIC;
use crate::runtime::protocol::{Hello, PROTOCOL_VERSION};
use crate::storage::{BlobError, Deadlines, S3BlobStore, SnapshotStorage};

/// How long tasks may take to stop when the process is asked to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads that delete and read files at the same time.
const BLOCKING_THREADS: usize = 8;

/// An executor cannot start, or must end. After any of these the process should exit with a failure.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// A setting cannot be used.
    #[error("the executor's settings cannot be used")]
    Settings(#[from] ConfigError),
    /// The data address cannot be bound.
    #[error("cannot serve partitions at {address}; is the port taken?")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The work folder cannot be prepared or removed.
    #[error("cannot use the work folder {}", folder.display())]
    WorkDir {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The checkpoint store's configuration cannot be used.
    #[error("the checkpoint store cannot be used")]
    Store(#[from] BlobError),
    /// The leader cannot be watched.
    #[error("cannot watch for the leader")]
    LeaderWatch(#[source] io::Error),
    /// How to reach the other parties is not known.
    #[error("cannot find the way to other parties")]
    Routes(#[from] RoutesError),
    /// No leader could be joined in time (`taskmanager.registration.timeout`).
    #[error("could not register with any leader for {0:?}; is a coordinator running with the same HA folder?")]
    NotRegistered(Duration),
    /// A cancelled task does not stop (`task.cancellation.timeout`): only the end of the process stops it.
    #[error("attempt {} of subtask {} of vertex {} does not react to its cancellation: the process must end",
        .0.attempt, .0.task.subtask, .0.task.vertex)]
    TaskStuck(AttemptId),
}

/// The runtime that [`run`] is best run on: user code has threads of its own, so one worker moves all bytes and an
/// idle executor stays small.
///
/// # Errors
/// When its thread cannot be started.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("executor")
        .enable_all()
        .build()
}

/// Runs an executor until `shutdown` resolves. `on_ready` is called once its partitions can be read; registering with
/// a leader goes on after it.
///
/// Dropping the future stops everything at once, as a killed process would, except that files stay.
///
/// # Errors
/// See [`ExecutorError`]. After [`ExecutorError::TaskStuck`] a thread of user code still runs: exit the process.
pub async fn run(
    config: ExecutorConfig,
    registry: JobRegistry,
    on_ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ExecutorError> {
    raise_file_limit();
    let full = full_files::outlived();
    let settings = Settings::from_map(&config.settings)?;
    let millis = |option| Duration::from_millis(settings.millis(option).unwrap_or(0));
    let cancellation = millis(&options::TASK_CANCELLATION_TIMEOUT);

    let listen_error = |source| ExecutorError::Listen { address: config.data_address.clone(), source };
    let listener = TcpListener::bind(&config.data_address).await.map_err(listen_error)?;
    let data_address = listener.local_addr().map_err(listen_error)?.to_string();
    let partitions = Arc::new(open_partitions(&config).await?);
    let leader = leader_watch(&config.ha_dir).map_err(ExecutorError::LeaderWatch)?;

    let routes = Arc::new(Routes::of(config.routes.clone()));
    let environment = Environment {
        registry,
        partitions: partitions.clone(),
        storage: storage(&config)?,
        runtime: Handle::current(),
        chaos_dir: config.chaos_dir.clone(),
        routes: routes.clone(),
    };
    let (stuck_sender, mut stuck) = mpsc::channel(1);
    let cancellation = (!cancellation.is_zero()).then_some(cancellation);
    let tasks = Arc::new(TaskTable::new(Arc::new(environment), cancellation, stuck_sender));
    // When this future is dropped, no task may go on.
    let _stop = StopTasks { tasks: tasks.clone(), partitions: partitions.clone() };

    let membership = Membership {
        hello: hello(&config, &data_address),
        leader,
        routes,
        registration_timeout: millis(&options::REGISTRATION_TIMEOUT),
        tasks: tasks.clone(),
        partitions: partitions.clone(),
    };
    let pid = std::process::id();
    on_ready(Ready { name: config.name.clone(), pid, rest: None, rpc: None, data: Some(data_address) });

    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        Some(attempt) = stuck.recv() => return Err(ExecutorError::TaskStuck(attempt)),
        error = membership.keep() => Err(error),
        never = exit::on_demand(config.chaos_dir.as_deref(), &config.name) => match never {},
        never = full_files::told(full, config.chaos_dir.as_deref(), &config.name) => match never {},
        never = serve(listener, partitions.clone(), millis(&options::PARTITION_REQUEST_TIMEOUT)) => match never {},
    };
    tasks.discard_all();
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.all_ended()).await.is_err() {
        warn!("some task does not stop; it ends with the process");
    }
    partitions.release_all();
    close_partitions(&config, partitions).await?;
    info!("the executor has ended");
    outcome
}

/// Cancels all tasks when it is dropped. Consumers elsewhere see what a kill shows them: a broken connection, and not
/// a producer that was cancelled.
struct StopTasks {
    tasks: Arc<TaskTable>,
    partitions: Arc<PartitionTable>,
}

impl Drop for StopTasks {
    fn drop(&mut self) {
        self.partitions.abandon();
        self.tasks.discard_all();
    }
}

fn hello(config: &ExecutorConfig, data_address: &str) -> Hello {
    Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION,
        executor: ExecutorId(config.name.clone()),
        slots: config.slots,
        data_address: data_address.to_owned(),
        pid: std::process::id(),
    }
}

/// The client behind it is built with the first large snapshot.
fn storage(config: &ExecutorConfig) -> Result<SnapshotStorage, BlobError> {
    Ok(match &config.store {
        None => SnapshotStorage::inline_only(),
        Some(store) => SnapshotStorage::new(Arc::new(S3BlobStore::new(store, Deadlines::default())?)),
    })
}

async fn open_partitions(config: &ExecutorConfig) -> Result<PartitionTable, ExecutorError> {
    let (work_dir, runtime) = (config.work_dir.clone(), Handle::current());
    blocking(config, move || PartitionTable::open(&work_dir, runtime)).await
}

async fn close_partitions(config: &ExecutorConfig, partitions: Arc<PartitionTable>) -> Result<(), ExecutorError> {
    blocking(config, move || partitions.close()).await
}

async fn blocking<T: Send + 'static>(
    config: &ExecutorConfig,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExecutorError> {
    let result = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    result.map_err(|source| ExecutorError::WorkDir { folder: config.work_dir.clone(), source })
}

/// Each channel is a socket and each subpartition a file: the usual soft limit of 1024 is soon reached.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            warn!(%error, "cannot raise the limit of open files");
        }
    }
}
