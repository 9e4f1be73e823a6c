//! From a deployment to running user code.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::context::Context;
use super::driver::{Driver, Parts, UserCode};
use super::faults::Faults;
use super::operator::Inputs;
use super::snapshots::SnapshotWriter;
use super::{Environment, Stop, TaskHandle};
use crate::executor::exchange::Outputs;
use crate::graph::{TaskContext, TaskError, TaskInfo, Vertex, VertexCode};
use crate::runtime::protocol::{TaskDeployment, TaskRestore, TaskUpdate, ToCoordinator};

/// The life of a task up to (not including) its last report.
pub(super) fn run(
    environment: &Environment,
    task: &Arc<TaskHandle>,
    deployment: &TaskDeployment,
    reports: &mpsc::Sender<ToCoordinator>,
) -> Result<(), Stop> {
    report(task, reports, TaskUpdate::Initializing)?;
    // First of all: consumers may ask already.
    let outputs = Outputs::open(
        deployment.attempt.job,
        &deployment.outputs,
        &environment.partitions,
        task.signal.clone(),
        task.counters.clone(),
    )
    .map_err(|error| TaskError::from_error(&error).context("cannot open the task's outputs"))?;

    let vertex = vertex(environment, deployment)?;
    let info = TaskInfo {
        attempt: deployment.attempt,
        vertex: deployment.vertex.clone(),
        subtask: deployment.attempt.task.subtask,
        parallelism: deployment.parallelism,
        params: deployment.params.clone(),
    };
    let is_source = matches!(vertex.code, VertexCode::Source(_));
    let mut faults = Faults::new(environment.chaos_dir.as_deref(), &info, is_source, task.counters.clone());
    let mut context = Context::new(info, is_source, task.signal.clone(), task.controls.clone(), reports.clone());
    let storage = environment.storage.clone();
    let snapshots = SnapshotWriter::start(&environment.runtime, storage, task.attempt, reports.clone());
    faults.check()?;
    match &vertex.code {
        VertexCode::Source(make) => {
            let mut code = make(context.info())?;
            restore(environment, task, deployment.restore.as_ref(), code.as_mut(), &mut context)?;
            report(task, reports, TaskUpdate::Running)?;
            let parts = Parts { code, context, outputs, faults, snapshots };
            Driver::new(parts, task, reports, deployment.checkpointing).run_source()
        }
        VertexCode::Operator(make) => {
            let mut code = make(context.info())?;
            restore(environment, task, deployment.restore.as_ref(), code.as_mut(), &mut context)?;
            let inputs = Inputs::open(deployment, &task.signal, environment);
            report(task, reports, TaskUpdate::Running)?;
            let parts = Parts { code, context, outputs, faults, snapshots };
            Driver::new(parts, task, reports, deployment.checkpointing).run_operator(inputs)
        }
    }
}

/// Builds the job again and takes the vertex out of it.
fn vertex(environment: &Environment, deployment: &TaskDeployment) -> Result<Vertex, TaskError> {
    let doing = || format!("cannot build job `{}`", deployment.job_name);
    let graph = environment.registry.build(&deployment.job_name, &deployment.params);
    let graph = graph.map_err(|error| TaskError::from_error(&error).context(doing()))?;
    let position = graph.position(deployment.attempt.task.vertex);
    position.map(|position| graph.vertices[position].clone()).ok_or_else(|| {
        let problem = "the graph has no such vertex here; it must be the same in every process";
        TaskError::new(format!("vertex `{}`: {problem}", deployment.vertex)).context(doing())
    })
}

fn restore<C: UserCode + ?Sized>(
    environment: &Environment,
    task: &TaskHandle,
    from: Option<&TaskRestore>,
    code: &mut C,
    context: &mut Context,
) -> Result<(), Stop> {
    let Some(from) = from else { return Ok(()) };
    let read = async {
        tokio::select! {
            () = task.signal.cancelled().cancelled() => None,
            snapshot = environment.storage.read_snapshot(&from.state) => Some(snapshot),
        }
    };
    let Some(snapshot) = environment.runtime.block_on(read) else { return Err(Stop::Canceled) };
    let doing = || format!("cannot restore checkpoint {}", from.checkpoint);
    let snapshot = snapshot.map_err(|error| TaskError::from_error(&error).context(doing()))?;
    context.keyed = snapshot.keyed;
    code.restore(&snapshot.operator).map_err(|error| error.context(doing()))?;
    Ok(())
}

fn report(task: &TaskHandle, reports: &mpsc::Sender<ToCoordinator>, update: TaskUpdate) -> Result<(), Stop> {
    task.signal.check()?;
    let message = ToCoordinator::TaskUpdate { attempt: task.attempt, update, metrics: task.counters.metrics() };
    reports.blocking_send(message).map_err(|_| Stop::Canceled)
}
