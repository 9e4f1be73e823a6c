use super::*;
use crate::graph::{PartitionId, TaskId, VertexId};

const JOB: JobId = JobId([7; 16]);

fn id(subtask: u32) -> ResultPartitionId {
    let producer = TaskId { vertex: VertexId::of_name("map"), subtask };
    ResultPartitionId { partition: PartitionId { producer, data_set: 0 }, attempt: 0 }
}

fn memory() -> Partition {
    Partition::Memory(Arc::new(PipelinedPartition::new(1, false, Arc::default())))
}

async fn gone(path: &Path) {
    let wait = async {
        while path.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the folder is deleted");
}

#[tokio::test]
async fn requests_wait_for_registration_and_hear_of_failures() {
    let work = tempfile::tempdir().unwrap();
    let table = Arc::new(PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap());
    let waiting = {
        let table = table.clone();
        tokio::spawn(async move { table.wait_for(JOB, id(0), Duration::from_secs(20)).await })
    };
    table.register(JOB, id(0), memory());
    assert!(matches!(waiting.await.unwrap(), Lookup::Found(_)));
    assert!(matches!(table.wait_for(JOB, id(1), Duration::from_millis(5)).await, Lookup::Missing));
    table.producer_failed(JOB, [id(0)]);
    assert!(matches!(table.find(JOB, id(0)), Lookup::ProducerFailed));
    table.release_job(JOB);
    assert!(matches!(table.find(JOB, id(0)), Lookup::Missing));
}

// P190
#[test]
fn a_blocked_delete_blocks_nobody_and_frees_the_name_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    let work = tempfile::tempdir().unwrap();
    let table = PartitionTable::open(work.path(), runtime.handle().clone()).unwrap();
    // The only thread for deletes hangs, as on a dead disk.
    let (release, hang) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || hang.recv());
    on_disk(&table, 0);
    table.release(JOB, &[id(0)]);
    assert_eq!(table.on_disk(), 0);
    let folder = on_disk(&table, 0);
    drop(release);
    runtime.block_on(async {
        gone(&table.root.join("deleted-0")).await;
    });
    assert!(folder.exists(), "the delete hits only what was released");
}

fn on_disk(table: &PartitionTable, subtask: u32) -> PathBuf {
    let folder = table.folder(JOB, id(subtask));
    std::fs::create_dir_all(&folder).unwrap();
    table.register(JOB, id(subtask), Partition::Files(Arc::new(FilePartition::new(folder.clone(), 1))));
    folder
}

fn promoted(subtask: u32, data_set: u8) -> ClusterPartition {
    let data_set = DataSetId([data_set; 16]);
    ClusterPartition { data_set, total: 2, job: JOB, partition: id(subtask), subpartitions: 1 }
}

// P182, P187
#[tokio::test]
async fn promoted_partitions_outlive_their_job_until_their_data_set_is_released() {
    let work = tempfile::tempdir().unwrap();
    let table = PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap();
    let folders = [0, 1, 2].map(|subtask| on_disk(&table, subtask));
    table.register(JOB, id(3), memory());
    assert_eq!(table.cluster_partitions(), []);
    table.promote(JOB, vec![promoted(0, 1), promoted(1, 2), promoted(3, 2), promoted(9, 2)]);
    table.promote(JobId([8; 16]), vec![promoted(2, 1)]);
    let reported = [promoted(0, 1), promoted(1, 2)];
    assert_eq!(table.cluster_partitions(), reported, "unknown ones and those in memory are ignored");

    table.release(JOB, &[id(0)]);
    table.release_job(JOB);
    gone(&folders[2]).await;
    assert!(folders[0].exists() && folders[1].exists());
    assert!(matches!(table.find(JOB, id(0)), Lookup::Found(_)), "it can be read");
    assert_eq!((table.on_disk(), table.cluster_partitions()), (2, reported.to_vec()));

    table.release_data_sets(&[]);
    table.release_data_sets(&[promoted(0, 1).data_set, DataSetId([9; 16])]);
    gone(&folders[0]).await;
    assert!(matches!(table.find(JOB, id(0)), Lookup::Missing));
    assert_eq!(table.cluster_partitions(), [promoted(1, 2)]);
    table.release_data_sets(&[promoted(1, 2).data_set]);
    gone(folders[1].parent().unwrap()).await;
    assert!(lock(&table.jobs).is_empty(), "no empty entry stays");
}

// Reference 4.4: with the leader's connection all of it is gone.
#[tokio::test]
async fn a_lost_coordinator_costs_the_data_sets() {
    let work = tempfile::tempdir().unwrap();
    let table = PartitionTable::open(work.path(), tokio::runtime::Handle::current()).unwrap();
    let folder = on_disk(&table, 0);
    table.promote(JOB, vec![promoted(0, 1)]);
    table.release_all();
    gone(folder.parent().unwrap()).await;
    assert_eq!((table.on_disk(), table.cluster_partitions()), (0, vec![]));
}

#[tokio::test]
async fn earlier_runs_are_swept_and_releases_delete() {
    let work = tempfile::tempdir().unwrap();
    let work_dir = work.path().join("executor-1");
    std::fs::create_dir_all(work_dir.join("partitions/old/rest")).unwrap();
    let table = PartitionTable::open(&work_dir, tokio::runtime::Handle::current()).unwrap();
    assert_eq!(std::fs::read_dir(work_dir.join("partitions")).unwrap().count(), 0);

    let folders: Vec<_> = (0..3).map(|subtask| on_disk(&table, subtask)).collect();
    table.register(JOB, id(3), memory());
    assert_eq!(table.on_disk(), 3);
    table.release(JOB, &[id(0), id(9)]);
    gone(&folders[0]).await;
    assert!(folders[1].exists());
    assert_eq!(table.on_disk(), 2);
    table.producer_failed(JOB, [id(1)]);
    gone(&folders[1]).await;
    table.release_all();
    gone(folders[2].parent().unwrap()).await;
    assert_eq!(table.on_disk(), 0);
    table.close().unwrap();
    assert!(!work_dir.exists());
}
