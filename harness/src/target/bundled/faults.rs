//! From a fault as the plan names it to the process, folder or proxy of this cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use stormproof_chaos::fault::{
    BlackholeStore, CorruptPartition, DropPartition, ExitProcess, FailUserCode, FailUserCodeByRule, Fault, HangProcess,
    HidePartition, HoldUserCode, KillProcess, LimitFiles, PartitionNetwork, RefuseStore, SlowProcess,
};
use stormproof_coordinator::graph::VertexId;

use super::store_rule::HurtStoreRequests;
use super::{BundledCluster, links};
use crate::plan::{FaultSpec, Party};
use crate::role::Role;
use crate::target::TargetError;
use crate::timeline::{Losses, PartitionName, TaskName, Timeline};

/// Finds the victims of `spec`.
pub(super) fn resolve(
    cluster: &BundledCluster,
    spec: &FaultSpec,
    timeline: &Timeline,
    job: Option<&str>,
    tag: &str,
) -> Result<(Box<dyn Fault>, Losses), TargetError> {
    let none = Losses::default;
    let faults_dir = &cluster.faults_dir;
    Ok(match spec {
        FaultSpec::KillExecutorOf { vertex, subtask } => {
            let name = executor_of(timeline, job, vertex, *subtask)?;
            let fault = KillProcess::new("kill-executor", &name, process(cluster, &name)?);
            (Box::new(fault), Losses { executors: vec![name], ..none() })
        }
        FaultSpec::HangExecutorOf { vertex, subtask } => {
            let name = executor_of(timeline, job, vertex, *subtask)?;
            let fault = HangProcess::new("hang-executor", &name, process(cluster, &name)?);
            (Box::new(fault), Losses { executors: vec![name], ..none() })
        }
        FaultSpec::SlowExecutorOf { vertex, subtask, percent } => {
            let name = executor_of(timeline, job, vertex, *subtask)?;
            (Box::new(SlowProcess::new("slow-executor", &name, process(cluster, &name)?, *percent)), none())
        }
        FaultSpec::ExitExecutorOf { vertex, subtask, code } => {
            let name = executor_of(timeline, job, vertex, *subtask)?;
            let fault = ExitProcess::new(faults_dir, &name, process(cluster, &name)?, *code, cluster.link.lease_ttl);
            (Box::new(fault), Losses { executors: vec![name], ..none() })
        }
        FaultSpec::LimitFilesOf { vertex, subtask, bytes } => {
            let name = executor_of(timeline, job, vertex, *subtask)?;
            let fault = LimitFiles::new(faults_dir, &name, process(cluster, &name)?, *bytes)?;
            (Box::new(fault), Losses { impaired: vec![name], ..none() })
        }
        FaultSpec::HangCoordinator => {
            let name = leader(cluster)?;
            (Box::new(HangProcess::new("hang-coordinator", &name, process(cluster, &name)?)), none())
        }
        FaultSpec::KillCoordinator => {
            let name = leader(cluster)?;
            (Box::new(KillProcess::new("kill-coordinator", &name, process(cluster, &name)?)), none())
        }
        FaultSpec::PartitionNetwork { from, to, both_ways } => {
            let party = |party| parties(cluster, timeline, job, party);
            partition(cluster, "partition-network", [&party(from)?, &party(to)?], *both_ways, tag)?
        }
        FaultSpec::IsolateCoordinator => {
            let leader = BTreeSet::from([leader(cluster)?]);
            partition(cluster, "isolate-coordinator", [&executors(cluster), &leader], true, tag)?
        }
        FaultSpec::DropPartitionOf { vertex, subtask } => {
            let (name, folders, losses) = partitions(cluster, timeline, job, vertex, *subtask)?;
            (Box::new(DropPartition::new(name, folders)), losses)
        }
        FaultSpec::HidePartitionOf { vertex, subtask } => {
            let (name, folders, losses) = partitions(cluster, timeline, job, vertex, *subtask)?;
            (Box::new(HidePartition::new(name, folders, &cluster.work_dir.join("hidden"))), losses)
        }
        FaultSpec::CorruptPartitionOf { vertex, subtask } => {
            let (name, folders, losses) = partitions(cluster, timeline, job, vertex, *subtask)?;
            (Box::new(CorruptPartition::new(name, &folders)?), losses)
        }
        FaultSpec::FailUserCode { vertex, subtask } => {
            let losses = Losses { tasks: vec![TaskName::new(vertex, *subtask)], ..none() };
            (Box::new(FailUserCode::new(faults_dir, vertex, *subtask)), losses)
        }
        FaultSpec::FailUserCodeByRule { vertex, subtask, rule } => {
            let losses = Losses { tasks: vec![TaskName::new(vertex, *subtask)], ..none() };
            let ttl = cluster.link.lease_ttl;
            (Box::new(FailUserCodeByRule::new(faults_dir, vertex, *subtask, rule.clone(), ttl)), losses)
        }
        FaultSpec::HoldUserCode { vertex, subtasks } => {
            (Box::new(HoldUserCode::new(faults_dir, vertex, subtasks.iter().copied())), none())
        }
        FaultSpec::BlackholeStore => (Box::new(BlackholeStore::new(cluster.link.clone(), tag)), none()),
        FaultSpec::HurtStoreRequests { rule } => {
            let rules = cluster.store.rules().ok_or_else(|| TargetError::NoVictim {
                what: "the store of this cluster obeys no rules".to_owned(),
                hint: "take the embedded one".to_owned(),
            })?;
            (Box::new(HurtStoreRequests::new(rules, rule, tag)), none())
        }
        FaultSpec::RefuseStore => (Box::new(RefuseStore::new(cluster.link.clone())), none()),
    })
}

fn process(cluster: &BundledCluster, name: &str) -> Result<stormproof_chaos::process::ProcessId, TargetError> {
    cluster.processes.get(name).copied().ok_or_else(|| TargetError::NoVictim {
        what: format!("no process of this cluster is called {name}"),
        hint: format!("there are {}", cluster.processes.keys().cloned().collect::<Vec<_>>().join(", ")),
    })
}

fn executor_of(timeline: &Timeline, job: Option<&str>, vertex: &str, subtask: u32) -> Result<String, TargetError> {
    let task = TaskName::new(vertex, subtask);
    let tasks = timeline.tasks(job.unwrap_or_default(), timeline.records().len());
    tasks.get(&task).and_then(|fact| fact.executor.clone()).ok_or_else(|| TargetError::NoVictim {
        what: format!("{task} runs on no executor"),
        hint: "let the fault wait until the task is RUNNING".to_owned(),
    })
}

/// The leading coordinator: the one whose REST API answered last.
fn leader(cluster: &BundledCluster) -> Result<String, TargetError> {
    let address = cluster.rest.leader();
    cluster.coordinators.get(address).cloned().ok_or_else(|| TargetError::NoVictim {
        what: format!("the leader at {address} is no coordinator of this cluster"),
        hint: "this is a bug".to_owned(),
    })
}

/// The names of all executors.
fn executors(cluster: &BundledCluster) -> BTreeSet<String> {
    let executors = cluster.children.iter().filter(|child| child.role == Role::Executor);
    executors.map(|child| child.name.clone()).collect()
}

/// Who is meant.
fn parties(
    cluster: &BundledCluster,
    timeline: &Timeline,
    job: Option<&str>,
    party: &Party,
) -> Result<BTreeSet<String>, TargetError> {
    Ok(match party {
        Party::ExecutorOf { vertex, subtask } => BTreeSet::from([executor_of(timeline, job, vertex, *subtask)?]),
        Party::AllExecutors => executors(cluster),
        Party::LeadingCoordinator => BTreeSet::from([leader(cluster)?]),
    })
}

/// The links between two sides fall silent. Tasks of any executor on either side may fail of it.
fn partition(
    cluster: &BundledCluster,
    kind: &'static str,
    [from, to]: [&BTreeSet<String>; 2],
    both_ways: bool,
    tag: &str,
) -> Result<(Box<dyn Fault>, Losses), TargetError> {
    let executors = executors(cluster);
    let silent = links::between(from, to, both_ways, &executors)?;
    let (one, other) = (links::names(from), links::names(to));
    let target =
        if both_ways { format!("links between {one} and {other}") } else { format!("links from {one} to {other}") };
    let link = &cluster.link;
    let fault = PartitionNetwork::new(kind, target, &link.client, &silent, tag, link.lease_ttl);
    let impaired = from.union(to).filter(|party| executors.contains(*party)).cloned().collect();
    Ok((Box::new(fault), Losses { impaired, ..Losses::default() }))
}

/// The name of a task whose partitions are broken, where they lie, and that they are lost.
fn partitions(
    cluster: &BundledCluster,
    timeline: &Timeline,
    job: Option<&str>,
    vertex: &str,
    subtask: u32,
) -> Result<(String, Vec<PathBuf>, Losses), TargetError> {
    let task = TaskName::new(vertex, subtask);
    let folders = partition_folders(cluster, timeline, job, &task)?;
    let name = task.to_string();
    let partition = PartitionName { producer: task, data_set: None };
    Ok((name, folders, Losses { partitions: vec![partition], ..Losses::default() }))
}

/// Where the partitions of a task's current attempt lie.
fn partition_folders(
    cluster: &BundledCluster,
    timeline: &Timeline,
    job: Option<&str>,
    task: &TaskName,
) -> Result<Vec<PathBuf>, TargetError> {
    let executor = executor_of(timeline, job, &task.vertex, task.subtask)?;
    let job = job.unwrap_or_default();
    let attempt = timeline.tasks(job, timeline.records().len()).get(task).map(|fact| fact.attempt).unwrap_or_default();
    let folder = cluster.work_dir.join(executor).join("partitions").join(job);
    let prefix = format!("{}-", VertexId::of_name(&task.vertex));
    let suffix = format!("-{}-{attempt}", task.subtask);
    let entries = std::fs::read_dir(&folder).map_err(|source| TargetError::File {
        action: "list",
        path: folder.clone(),
        source,
    })?;
    let matches = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(&suffix)
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(matches).collect())
}
