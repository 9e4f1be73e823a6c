//! Executors, as Flink's TaskManagers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::status::current;
use crate::core::snapshot::JobSnapshot;
use crate::graph::{ExecutorId, JobId};
use crate::rest::cluster::ExecutorView;

/// For each job with live tasks on an executor: their number by vertex.
type Load = BTreeMap<JobId, Vec<usize>>;

/// `/taskmanagers`.
pub(in crate::rest) fn list(executors: &[ExecutorView], jobs: &[Arc<JobSnapshot>]) -> Value {
    let one = |executor| Value::Object(fields(executor, &load(&executor.id, jobs)));
    json!({ "taskmanagers": executors.iter().map(one).collect::<Vec<_>>() })
}

/// `/taskmanagers/:id`.
pub(in crate::rest) fn details(executor: &ExecutorView, jobs: &[Arc<JobSnapshot>]) -> Value {
    let load = load(&executor.id, jobs);
    let mut object = fields(executor, &load);
    object.insert("allocatedSlots".into(), load.iter().flat_map(|(job, by_vertex)| slots(*job, by_vertex)).collect());
    // Of a Java process; kept for clients that expect them.
    object.insert(
        "metrics".into(),
        json!({
            "heapUsed": 0, "heapCommitted": 0, "heapMax": 0, "nonHeapUsed": 0, "nonHeapCommitted": 0, "nonHeapMax": 0,
            "directCount": 0, "directUsed": 0, "directMax": 0, "mappedCount": 0, "mappedUsed": 0, "mappedMax": 0,
            "nettyShuffleMemorySegmentsAvailable": 0, "nettyShuffleMemorySegmentsUsed": 0,
            "nettyShuffleMemorySegmentsTotal": 0, "nettyShuffleMemoryAvailable": 0, "nettyShuffleMemoryUsed": 0,
            "nettyShuffleMemoryTotal": 0, "garbageCollectors": [],
        }),
    );
    Value::Object(object)
}

fn load(executor: &ExecutorId, jobs: &[Arc<JobSnapshot>]) -> Load {
    let live = |job: &JobSnapshot| {
        let by_vertex = job.vertices.iter().map(|vertex| {
            let here = current(vertex).filter(|attempt| attempt.executor.as_ref() == Some(executor));
            here.filter(|attempt| !attempt.state.is_terminal()).count()
        });
        by_vertex.filter(|tasks| *tasks > 0).collect::<Vec<_>>()
    };
    jobs.iter().map(|job| (job.id, live(job))).filter(|(_, by_vertex)| !by_vertex.is_empty()).collect()
}

/// A slot holds at most one subtask of each vertex, so a job has as many here as its busiest vertex has subtasks.
fn slots(job: JobId, by_vertex: &[usize]) -> Vec<Value> {
    let number = by_vertex.iter().copied().max().unwrap_or(0);
    let slot = |index| {
        let tasks = by_vertex.iter().filter(|tasks| **tasks > index).count();
        json!({ "jobId": job, "resource": resource(1.0), "assignedTasks": tasks })
    };
    (0..number).map(slot).collect()
}

fn fields(executor: &ExecutorView, load: &Load) -> serde_json::Map<String, Value> {
    let port = executor.data_address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let fields = json!({
        "id": executor.id,
        "path": executor.path,
        "dataPort": port.map_or(-1, i32::from),
        "jmxPort": -1,
        "timeSinceLastHeartbeat": executor.last_heartbeat_ms,
        "slotsNumber": executor.slots,
        "freeSlots": executor.free_slots,
        "assignedTasks": load.values().flatten().sum::<usize>(),
        "totalResource": resource(f64::from(executor.slots)),
        "freeResource": resource(f64::from(executor.free_slots)),
        "hardware": { "cpuCores": 0, "physicalMemory": 0, "freeMemory": 0, "managedMemory": 0 },
        "memoryConfiguration": {
            "frameworkHeap": 0, "taskHeap": 0, "frameworkOffHeap": 0, "taskOffHeap": 0, "networkMemory": 0,
            "managedMemory": 0, "jvmMetaspace": 0, "jvmOverhead": 0, "totalFlinkMemory": 0, "totalProcessMemory": 0,
        },
        "stormproof": {
            "pid": executor.pid,
            "partitions": executor.partitions,
            "data-address": executor.data_address,
        },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("the literal above is an object"),
    }
}

/// Memory is not managed here; one slot counts as one core.
fn resource(cores: f64) -> Value {
    json!({
        "cpuCores": cores, "taskHeapMemory": 0, "taskOffHeapMemory": 0, "managedMemory": 0, "networkMemory": 0,
        "extendedResources": {},
    })
}
