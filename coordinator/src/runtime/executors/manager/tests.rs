use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::core::event::AllocatedSlot;
use crate::graph::AttemptId;
use crate::runtime::executors::connection::EXECUTOR_QUEUE_MESSAGES;
use crate::runtime::fatal::Fatal;
use crate::runtime::frames::MAGIC;
use crate::runtime::jobs::mailbox::{Inbox, mailbox};
use crate::runtime::protocol::PROTOCOL_VERSION;

const JOB: JobId = JobId([1; 16]);
const OTHER: JobId = JobId([2; 16]);

fn manager() -> ResourceManager {
    let manager = ResourceManager::new(Duration::from_secs(10), Duration::from_secs(50));
    manager.lead(7);
    manager
}

fn name(text: &str) -> ExecutorId {
    ExecutorId(text.to_owned())
}

fn hello(executor: &str, slots: u32) -> Hello {
    Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION,
        executor: name(executor),
        slots,
        data_address: format!("{executor}:1"),
        pid: 1,
    }
}

fn register(manager: &ResourceManager, executor: &str, slots: u32) -> (Connection, mpsc::Receiver<ToExecutor>) {
    let (connection, messages) = Connection::new(CancellationToken::new());
    assert_eq!(manager.register(&hello(executor, slots), "peer".into(), connection.clone()), Ok(7));
    (connection, messages)
}

fn start(manager: &ResourceManager, job: JobId) -> Inbox {
    let (sender, inbox) = mailbox(Fatal::default());
    manager.start_job(job, sender);
    inbox
}

fn slots(count: usize) -> Vec<SlotWish> {
    vec![SlotWish::default(); count]
}

fn granted(event: Option<JobEvent>) -> Vec<SlotId> {
    match event {
        Some(JobEvent::SlotsAllocated { slots, .. }) => {
            slots.into_iter().map(|AllocatedSlot { slot, .. }| slot).collect()
        }
        other => panic!("expected a grant, got {other:?}"),
    }
}

fn cancel_message() -> ToExecutor {
    let task = crate::graph::TaskId { vertex: crate::graph::VertexId([0; 16]), subtask: 0 };
    ToExecutor::Cancel(AttemptId { job: JOB, task, attempt: 0 })
}

#[test]
fn slots_are_granted_when_an_executor_comes_and_when_another_job_frees_them() {
    let manager = manager();
    let (mut inbox, mut other) = (start(&manager, JOB), start(&manager, OTHER));
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(0), slots(2));
    manager.request_slots(OTHER, JobKind::Batch, SlotRequestId(0), slots(1));
    assert_eq!(inbox.try_next(), None);
    let (_connection, _messages) = register(&manager, "e1", 2);
    let mine = granted(inbox.try_next());
    assert_eq!((mine.len(), other.try_next()), (2, None));
    manager.free_slot(JOB, &mine[1]);
    assert_eq!(granted(other.try_next()), [mine[1].clone()]);
    let view = &manager.executors()[0];
    assert_eq!((view.slots, view.free_slots, view.pid), (2, 0, 1));
}

#[test]
fn a_job_that_is_over_gives_up_everything_and_executors_are_told() {
    let manager = manager();
    let (_, mut other) = (start(&manager, JOB), start(&manager, OTHER));
    let (_connection, mut messages) = register(&manager, "e1", 1);
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(0), slots(1));
    manager.request_slots(OTHER, JobKind::Batch, SlotRequestId(4), slots(1));
    manager.remove_job(JOB);
    assert_eq!(granted(other.try_next()).len(), 1);
    assert_eq!(messages.try_recv(), Ok(ToExecutor::ReleaseJob(JOB)));
    assert!(matches!(manager.route(JOB), Route::Unknown));
    // Late requests of the job's last moments change nothing.
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(1), slots(1));
    manager.remove_job(OTHER);
    assert_eq!(manager.executors()[0].free_slots, 1);
}

fn partition(subtask: u32) -> ClusterPartition {
    let producer = crate::graph::TaskId { vertex: crate::graph::VertexId([0; 16]), subtask };
    let partition = crate::graph::PartitionId { producer, data_set: 0 };
    ClusterPartition {
        data_set: crate::graph::DataSetId::of(JOB, partition),
        total: 2,
        job: JOB,
        partition: crate::graph::ResultPartitionId { partition, attempt: 0 },
        subpartitions: 1,
    }
}

// P180, P181, P183
#[test]
fn promotions_end_by_an_answer_or_a_loss_and_a_lost_part_releases_the_rest() {
    let manager = manager();
    let _inbox = start(&manager, JOB);
    let (first, mut to_first) = register(&manager, "e1", 1);
    let (second, _to_second) = register(&manager, "e2", 1);
    let mut answered = manager.promote(JOB, &name("e1"), vec![partition(0)]);
    let mut lost = manager.promote(JOB, &name("e2"), vec![partition(1)]);
    assert_eq!(to_first.try_recv(), Ok(ToExecutor::PromotePartitions { job: JOB, partitions: vec![partition(0)] }));
    let is_over = |wait: &mut oneshot::Receiver<()>| wait.try_recv() == Err(oneshot::error::TryRecvError::Closed);
    assert!(is_over(&mut manager.promote(JOB, &name("e3"), vec![])), "nobody would ever answer");
    // An answer about another job, a heartbeat from before: neither is the answer.
    manager.has_cluster_partitions(&name("e1"), &first, Some(OTHER), &[]);
    manager.heard(&name("e1"), &first, 1, &[]);
    assert!(!is_over(&mut answered));
    manager.has_cluster_partitions(&name("e1"), &first, Some(JOB), &[partition(0)]);
    assert!(is_over(&mut answered) && !is_over(&mut lost));

    let id = partition(0).data_set;
    assert!(manager.cached([&id].into_iter()).is_empty(), "one part is missing");
    manager.has_cluster_partitions(&name("e2"), &second, None, &[partition(1)]);
    let cached = manager.cached([&id, &crate::graph::DataSetId([9; 16])].into_iter());
    let found: Vec<_> = cached[&id].iter().map(|it| (it.partition, it.address.as_str())).collect();
    assert_eq!((cached.len(), found), (1, vec![(partition(0), "e1:1"), (partition(1), "e2:1")]));
    manager.lost(&name("e2"), &second, "test");
    assert!(is_over(&mut lost));
    assert_eq!(to_first.try_recv(), Ok(ToExecutor::ReleaseDataSets(vec![id])));
    // What an executor that is replaced says does not count.
    manager.has_cluster_partitions(&name("e2"), &second, None, &[partition(1)]);
    assert_eq!(manager.data_sets(), BTreeMap::from([(id, false)]));
    manager.has_cluster_partitions(&name("e1"), &first, None, &[]);
    assert!(manager.data_sets().is_empty());
}

#[test]
fn a_request_times_out_once_and_only_while_it_waits() {
    let manager = manager();
    let mut inbox = start(&manager, JOB);
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(0), slots(1));
    assert!(!manager.time_out_request(JOB, SlotRequestId(0), Duration::from_millis(5)));
    let Some(JobEvent::SlotRequestFailed { request, reason }) = inbox.try_next() else { panic!("no failure") };
    assert_eq!(request, SlotRequestId(0));
    assert!(reason.contains("slot.request.timeout"), "{reason}");
    let (_connection, _messages) = register(&manager, "e1", 1);
    assert_eq!(inbox.try_next(), None, "a timed-out request is not served");
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(1), slots(1));
    assert_eq!(granted(inbox.try_next()).len(), 1);
    assert!(!manager.time_out_request(JOB, SlotRequestId(1), Duration::from_millis(5)));
    assert_eq!(inbox.try_next(), None, "a served request does not time out");
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(2), slots(1));
    assert!(manager.time_out_request(JOB, SlotRequestId(2), Duration::from_millis(5)), "the slot will be free");
    assert_eq!(inbox.try_next(), None);
    manager.request_slots(JOB, JobKind::Streaming, SlotRequestId(3), slots(1));
    assert!(!manager.time_out_request(JOB, SlotRequestId(3), Duration::from_millis(5)));
    assert!(matches!(inbox.try_next(), Some(JobEvent::SlotRequestFailed { request: SlotRequestId(3), .. })));
}

#[test]
fn every_started_job_learns_of_a_loss_at_once() {
    let manager = manager();
    let (mut inbox, mut other) = (start(&manager, JOB), start(&manager, OTHER));
    manager.add_job(JobId([3; 16]));
    let (connection, _messages) = register(&manager, "e1", 1);
    manager.lost(&name("e1"), &connection, "it died");
    let lost = || Some(JobEvent::ExecutorLost { executor: name("e1"), reason: "it died".into() });
    assert_eq!((inbox.try_next(), other.try_next()), (lost(), lost()));
    manager.lost(&name("e1"), &connection, "again");
    assert_eq!(inbox.try_next(), None);
    assert!(manager.executors().is_empty());
}

#[test]
fn until_a_job_has_handled_a_loss_its_words_mean_the_lost_executor() {
    let manager = manager();
    let mut inbox = start(&manager, JOB);
    let (old, _old_messages) = register(&manager, "e1", 1);
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(0), slots(1));
    let slot = granted(inbox.try_next()).remove(0);
    manager.lost(&name("e1"), &old, "it died");
    let (_new, mut messages) = register(&manager, "e1", 1);
    manager.request_slots(JOB, JobKind::Batch, SlotRequestId(1), slots(1));
    // The job does not know yet: it returns the old slot and talks to the old executor.
    manager.free_slot(JOB, &slot);
    manager.send(JOB, &name("e1"), cancel_message());
    assert_eq!(messages.try_recv().ok(), None);
    assert_eq!(manager.executors()[0].free_slots, 0, "the new grant was not taken back");
    assert!(matches!(inbox.try_next(), Some(JobEvent::ExecutorLost { .. })), "the loss comes before the new grant");
    manager.loss_seen(JOB, &name("e1"));
    assert_eq!(granted(inbox.try_next()), vec![slot.clone()]);
    manager.send(JOB, &name("e1"), cancel_message());
    assert_eq!(messages.try_recv(), Ok(cancel_message()));
    manager.free_slot(JOB, &slot);
    assert_eq!(manager.executors()[0].free_slots, 1);
}

// P210
#[test]
fn a_name_in_use_is_refused_and_a_dead_connections_name_is_taken_over() {
    let manager = manager();
    let mut inbox = start(&manager, JOB);
    let (old, _messages) = register(&manager, "e1", 1);
    let (second, _) = Connection::new(CancellationToken::new());
    let refusal = manager.register(&hello("e1", 1), "peer".into(), second.clone()).unwrap_err();
    assert!(refusal.contains("e1 is in use"), "{refusal}");
    assert_eq!(inbox.try_next(), None);
    old.close("broken");
    assert_eq!(manager.register(&hello("e1", 3), "peer".into(), second), Ok(7));
    assert!(matches!(inbox.try_next(), Some(JobEvent::ExecutorLost { .. })));
    // The old connection's own end comes later and must not take the new one with it.
    manager.lost(&name("e1"), &old, "broken");
    assert_eq!(manager.executors().len(), 1);
    assert_eq!(manager.executors()[0].slots, 3);
}

#[test]
fn nobody_registers_with_a_standby_or_without_slots() {
    let standby = ResourceManager::new(Duration::from_secs(10), Duration::from_secs(50));
    let (connection, _messages) = Connection::new(CancellationToken::new());
    let refusal = standby.register(&hello("e1", 1), "peer".into(), connection.clone()).unwrap_err();
    assert_eq!(refusal, "this coordinator does not lead");
    let refusal = manager().register(&hello("e1", 0), "peer".into(), connection).unwrap_err();
    assert!(refusal.contains("0 slots"), "{refusal}");
}

#[test]
fn an_executor_that_does_not_read_is_dropped_and_holds_nobody_up() {
    let manager = manager();
    let _inbox = start(&manager, JOB);
    let (connection, _messages) = register(&manager, "e1", 1);
    for _ in 0..EXECUTOR_QUEUE_MESSAGES {
        manager.send(JOB, &name("e1"), cancel_message());
    }
    assert!(!connection.is_closed());
    manager.send(JOB, &name("e1"), cancel_message());
    assert!(connection.is_closed());
}
