//! Real executors in this process: real exchanges, real state, a real object store.

mod batch;
mod data_sets;
mod jobs;
mod streaming;

use stormproof_coordinator::config::ExecutorConfig;
use stormproof_coordinator::executor;
use stormproof_coordinator::graph::ExecutorId;
use tokio::task::JoinHandle;

use crate::support::{Running, Setup, eventually};

/// A real executor on a runtime of its own, as its process would have.
pub(crate) struct RealExecutor {
    id: ExecutorId,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RealExecutor {
    /// Starts it; it finds the leader by the HA folder.
    pub(crate) fn start(setup: &Setup, name: &str, slots: u32) -> Self {
        let config = ExecutorConfig {
            name: name.to_owned(),
            slots,
            ha_dir: setup.ha_dir(),
            work_dir: setup.folder.path().join(name),
            data_address: "127.0.0.1:0".to_owned(),
            store: setup.store.clone(),
            chaos_dir: Some(setup.folder.path().join("chaos")),
            routes: None,
            settings: setup.settings.clone(),
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = executor::run(config, setup.registry.clone(), |_| {}, async move {
            let _ = stopped.await;
        });
        let task = tokio::spawn(async move { run.await.unwrap() });
        Self { id: ExecutorId(name.to_owned()), stop: Some(stop), task }
    }

    /// Waits until it is registered.
    pub(crate) async fn registered(&self, coordinator: &Running) {
        let registered = || coordinator.cluster.executors().iter().any(|view| view.id == self.id).then_some(());
        eventually("it is registered", registered).await;
    }

    /// Drops everything at once, as a kill does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Ends it cleanly.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// Files below a folder.
pub(crate) fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}
