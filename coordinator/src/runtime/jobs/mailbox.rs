//! The way into a job's serial thread.
//!
//! Two queues. *Task events* come from executors, whose connections wait when the queue is full: back-pressure down to
//! the socket. *Control events* come from parts that must not wait (the resource manager, under its lock), or answer
//! the job's own commands; their number is bounded by what the job asked for and by the number of executors.
//!
//! A mailbox belongs to one JobMaster of one leader session and closes with it. That is the fence: what an earlier
//! session left running finds a closed mailbox.

use tokio::sync::mpsc;

use crate::core::event::JobEvent;
use crate::runtime::error::CoordinatorError;
use crate::runtime::fatal::Fatal;

/// Control events waiting for one job: answers, timers, grants, lost executors.
const CONTROL_QUEUE_EVENTS: usize = 16_384;

/// Events of tasks waiting for one job.
const TASK_QUEUE_EVENTS: usize = 4_096;

/// Sends events to a job. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mailbox {
    control: mpsc::Sender<JobEvent>,
    tasks: mpsc::Sender<JobEvent>,
    fatal: Fatal,
}

/// The receiving end, held by the job's serial thread.
pub(crate) struct Inbox {
    control: mpsc::Receiver<JobEvent>,
    tasks: mpsc::Receiver<JobEvent>,
}

/// A mailbox and its receiving end.
pub(crate) fn mailbox(fatal: Fatal) -> (Mailbox, Inbox) {
    let (control, control_in) = mpsc::channel(CONTROL_QUEUE_EVENTS);
    let (tasks, tasks_in) = mpsc::channel(TASK_QUEUE_EVENTS);
    (Mailbox { control, tasks, fatal }, Inbox { control: control_in, tasks: tasks_in })
}

impl Mailbox {
    /// Sends a control event without waiting. A full queue means that the job's thread has stopped handling events:
    /// losing one would corrupt the job, so the process ends and another coordinator takes over.
    pub(crate) fn control(&self, event: JobEvent) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.control.try_send(event) {
            self.fatal.raise(CoordinatorError::Fatal(format!(
                "a job's thread does not keep up: {CONTROL_QUEUE_EVENTS} control events wait for it"
            )));
        }
    }

    /// Sends an answer to one of the job's own commands.
    pub(crate) async fn answer(&self, event: JobEvent) {
        // Closed: the job ended, nobody waits for the answer.
        let _ = self.control.send(event).await;
    }

    /// Sends an event of a task; waits while the queue is full.
    pub(crate) async fn task(&self, event: JobEvent) {
        let _ = self.tasks.send(event).await;
    }
}

impl Inbox {
    /// The next event; control events first. `None` once every mailbox is gone.
    pub(crate) async fn next(&mut self) -> Option<JobEvent> {
        tokio::select! {
            biased;
            Some(event) = self.control.recv() => Some(event),
            Some(event) = self.tasks.recv() => Some(event),
            else => None,
        }
    }

    /// The next event if one waits.
    pub(crate) fn try_next(&mut self) -> Option<JobEvent> {
        self.control.try_recv().or_else(|_| self.tasks.try_recv()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::TimerId;

    #[tokio::test]
    async fn control_events_overtake_and_a_closed_mailbox_swallows() {
        let (sender, mut inbox) = mailbox(Fatal::default());
        sender.task(JobEvent::Metrics(vec![])).await;
        sender.control(JobEvent::Cancel);
        sender.answer(JobEvent::Timer(TimerId(1))).await;
        assert_eq!(inbox.next().await, Some(JobEvent::Cancel));
        assert_eq!(inbox.try_next(), Some(JobEvent::Timer(TimerId(1))));
        assert_eq!(inbox.try_next(), Some(JobEvent::Metrics(vec![])));
        assert_eq!(inbox.try_next(), None);
        let other = sender.clone();
        drop(inbox);
        other.control(JobEvent::Cancel);
        other.answer(JobEvent::Cancel).await;
    }

    #[tokio::test]
    async fn a_full_control_queue_ends_the_process_instead_of_losing_an_event() {
        let fatal = Fatal::default();
        let (sender, _inbox) = mailbox(fatal.clone());
        for _ in 0..=CONTROL_QUEUE_EVENTS {
            sender.control(JobEvent::Cancel);
        }
        assert!(fatal.wait().await.to_string().contains("does not keep up"));
    }
}
