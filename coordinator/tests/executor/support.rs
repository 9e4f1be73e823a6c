//! A coordinator that says what the test tells it to.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stormproof_coordinator::graph::{AttemptId, JobId, Split};
use stormproof_coordinator::leadership::LeaderInfo;
use stormproof_coordinator::runtime::frames::{FrameReader, FrameWriter, read_hello};
use stormproof_coordinator::runtime::protocol::{Hello, TaskMetrics, TaskUpdate, ToCoordinator, ToExecutor, Welcome};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Far beyond what any of this takes on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const JOB: JobId = JobId([0xab; 16]);

/// Everything executors said but heartbeats, in order of arrival.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) messages: Vec<ToCoordinator>,
    pub(crate) hellos: Vec<Hello>,
    /// From the newest heartbeat of each executor.
    pub(crate) partitions: BTreeMap<String, u32>,
    pub(crate) metrics: BTreeMap<AttemptId, TaskMetrics>,
}

impl Log {
    pub(crate) fn update(&self, attempt: AttemptId, wanted: impl Fn(&TaskUpdate) -> bool) -> Option<TaskUpdate> {
        self.messages.iter().find_map(|message| match message {
            ToCoordinator::TaskUpdate { attempt: of, update, .. } if *of == attempt && wanted(update) => {
                Some(update.clone())
            }
            _ => None,
        })
    }
}

struct Shared {
    log: watch::Sender<Log>,
    connections: Mutex<BTreeMap<String, mpsc::UnboundedSender<ToExecutor>>>,
    splits: Mutex<VecDeque<Split>>,
    /// Granted to executors that register from now on, milliseconds.
    heartbeat_timeout_ms: AtomicU64,
}

/// The scripted coordinator.
pub(crate) struct Coordinator {
    shared: Arc<Shared>,
    pub(crate) ha: TempDir,
}

impl Coordinator {
    pub(crate) async fn start() -> Self {
        let ha = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared {
            log: watch::Sender::new(Log::default()),
            connections: Mutex::default(),
            splits: Mutex::default(),
            heartbeat_timeout_ms: AtomicU64::new(60_000),
        });
        lead(ha.path(), 1, shared.clone()).await;
        Self { shared, ha }
    }

    /// Another coordinator takes over; the old one just falls silent, as a partitioned leader would.
    pub(crate) async fn change_leader(&self, session: u64) {
        lead(self.ha.path(), session, self.shared.clone()).await;
    }

    pub(crate) fn send(&self, executor: &str, message: ToExecutor) {
        self.shared.connections.lock().unwrap()[executor].send(message).unwrap();
    }

    /// Executors that register from now on take this silence of ours for our death; we send no heartbeats.
    pub(crate) fn grant_heartbeat_timeout(&self, ms: u64) {
        self.shared.heartbeat_timeout_ms.store(ms, Ordering::SeqCst);
    }

    /// Closes the connection of an executor.
    pub(crate) fn drop_connection(&self, executor: &str) {
        self.shared.connections.lock().unwrap().remove(executor).unwrap();
    }

    pub(crate) fn offer_splits(&self, payloads: &[&str]) {
        let splits = payloads.iter().enumerate().map(|(index, text)| Split {
            index: index as u32,
            label: format!("split {index}"),
            payload: text.as_bytes().to_vec(),
        });
        self.shared.splits.lock().unwrap().extend(splits);
    }

    /// Waits until `fact` gives something about what was said so far.
    pub(crate) async fn wait<T>(&self, what: &str, mut fact: impl FnMut(&Log) -> Option<T>) -> T {
        let mut log = self.shared.log.subscribe();
        let wait = async {
            loop {
                let found = fact(&log.borrow_and_update());
                if let Some(found) = found {
                    return found;
                }
                log.changed().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| {
            panic!("waited in vain for {what}; said so far: {:#?}", self.shared.log.borrow().messages)
        })
    }

    pub(crate) async fn wait_update(&self, attempt: AttemptId, wanted: impl Fn(&TaskUpdate) -> bool) -> TaskUpdate {
        self.wait(&format!("an update of {attempt:?}"), |log| log.update(attempt, &wanted)).await
    }

    pub(crate) async fn wait_end(&self, attempt: AttemptId) -> TaskUpdate {
        self.wait_update(attempt, |update| !matches!(update, TaskUpdate::Initializing | TaskUpdate::Running)).await
    }

    pub(crate) async fn wait_running(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            self.wait_update(*attempt, |update| *update == TaskUpdate::Running).await;
        }
    }

    pub(crate) async fn wait_finished(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            assert_eq!(self.wait_end(*attempt).await, TaskUpdate::Finished, "{attempt:?}");
        }
    }

    /// Waits until a heartbeat of `executor` tells of `count` partitions on its disk.
    pub(crate) async fn wait_partitions(&self, executor: &str, count: u32) {
        let what = format!("{count} partitions on {executor}");
        self.wait(&what, |log| (log.partitions.get(executor) == Some(&count)).then_some(())).await;
    }

    pub(crate) fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.shared.log.borrow())
    }
}

async fn lead(ha: &Path, session: u64, shared: Arc<Shared>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let leader = LeaderInfo { session, name: format!("coordinator-{session}"), pid: 1, rest: String::new(), rpc };
    let temporary = ha.join("leader.tmp");
    std::fs::write(&temporary, serde_json::to_vec(&leader).unwrap()).unwrap();
    std::fs::rename(temporary, ha.join("leader.json")).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(stream, session, shared.clone()));
        }
    });
}

async fn connection(stream: tokio::net::TcpStream, session: u64, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let (read, write) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
    let hello = read_hello(&mut reader, DEADLINE).await.unwrap();
    let name = hello.executor.0.clone();
    let heartbeat_timeout_ms = shared.heartbeat_timeout_ms.load(Ordering::SeqCst);
    let welcome = Welcome::Accepted { session, heartbeat_interval_ms: 20, heartbeat_timeout_ms };
    writer.send(&welcome).await.unwrap();
    let (sender, mut outgoing) = mpsc::unbounded_channel();
    let answers = sender.downgrade();
    shared.connections.lock().unwrap().insert(name.clone(), sender);
    shared.log.send_modify(|log| log.hellos.push(hello));
    loop {
        tokio::select! {
            // Ends when the test drops the sender.
            message = outgoing.recv() => match message {
                Some(message) => writer.send(&message).await.unwrap(),
                None => return,
            },
            message = reader.next::<ToCoordinator>() => match message {
                Ok(Some(message)) => note(message, &name, &shared, &answers),
                Ok(None) | Err(_) => return,
            },
        }
    }
}

fn note(message: ToCoordinator, name: &str, shared: &Shared, answers: &mpsc::WeakUnboundedSender<ToExecutor>) {
    if let ToCoordinator::RequestSplit { attempt, request } = message {
        let split = shared.splits.lock().unwrap().pop_front();
        if let Some(answers) = answers.upgrade() {
            let _ = answers.send(ToExecutor::Split { attempt, request, split });
        }
    }
    shared.log.send_modify(|log| match message {
        ToCoordinator::Heartbeat { metrics, partitions, cluster_partitions: _ } => {
            log.metrics.extend(metrics);
            log.partitions.insert(name.to_owned(), partitions);
        }
        other => log.messages.push(other),
    });
}

/// Waits for something that no message tells.
pub(crate) async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let wait = async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}
