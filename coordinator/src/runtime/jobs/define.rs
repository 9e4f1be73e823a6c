//! What a job is: its graph and its settings, checked.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::job::JobConfig;
use crate::config::{ConfigError, Settings};
use crate::core::job::{JobInitError, check_barriers_pass};
use crate::core::regions::Regions;
use crate::core::topology::{LogicalGraph, Topology, TopologyError};
use crate::graph::{JobGraph, JobGraphError, JobRegistry, Params};

/// Longest time the user's function may take to build a graph.
const BUILD_DEADLINE: Duration = Duration::from_secs(60);

/// A job, ready to be initialized.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// Its graph.
    pub(crate) graph: JobGraph,
    /// Its settings.
    pub(crate) config: JobConfig,
    /// Its effective configuration, to be shown.
    pub(crate) shown: BTreeMap<String, String>,
}

/// A job cannot be defined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefineError {
    #[error(transparent)]
    Graph(#[from] JobGraphError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Checkpoints(#[from] JobInitError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(
        "`execution.checkpointing.interval` is set, but this coordinator has no checkpoint store; start it with one"
    )]
    NoStore,
    #[error("the job's own function {0}")]
    UserCode(String),
}

/// Builds job `name` and checks it. The user's code runs on a thread of its own.
pub(crate) async fn define(
    registry: &JobRegistry,
    cluster: &Settings,
    has_store: bool,
    name: &str,
    params: &Params,
    overrides: &BTreeMap<String, String>,
) -> Result<Definition, DefineError> {
    let overrides = Settings::from_map(overrides)?;
    overrides.check_for_job()?;
    let (registry, name, params) = (registry.clone(), name.to_owned(), params.clone());
    let build = tokio::task::spawn_blocking(move || registry.build(&name, &params));
    let graph = match tokio::time::timeout(BUILD_DEADLINE, build).await {
        Ok(Ok(graph)) => graph?,
        Ok(Err(panic)) => return Err(DefineError::UserCode(format!("panicked: {panic}"))),
        Err(_) => return Err(DefineError::UserCode(format!("took longer than {} s", BUILD_DEADLINE.as_secs()))),
    };
    let own = Settings::from_map(&graph.config)?;
    own.check_for_job()?;
    let settings = cluster.clone().overlay(&own).overlay(&overrides);
    let config = JobConfig::new(&settings, graph.kind)?;
    if config.core.checkpoint_interval_ms.is_some() {
        check_barriers_pass(&graph)?;
        if !has_store {
            return Err(DefineError::NoStore);
        }
    }
    let topology = Topology::build(LogicalGraph::of_job(&graph))?;
    if let Some(vertices) = Regions::build(&topology).deadlocked_vertices(&topology) {
        let names = vertices.into_iter().map(|vertex| graph.vertices[vertex].name.clone()).collect();
        return Err(JobGraphError::RegionDeadlock(names).into());
    }
    Ok(Definition { graph, config, shown: settings.effective() })
}
