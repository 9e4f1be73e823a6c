//! Where a task's input arrives: a bounded queue for each channel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::channel::ChannelFailure;
use super::wire::Frame;
use super::{CHANNEL_FRAMES, wire};
use crate::executor::signal::{TaskSignal, lock};

/// Something that arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A frame of channel `channel`, which took this many bytes on the wire.
    Frame { channel: usize, frame: wire::Frame, bytes: usize },
    /// A channel broke. Overtakes everything: what is left in the queues is of no use any more.
    Failure(ChannelFailure),
}

/// Queues between the runtime's channel readers and the task's thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    queues: Mutex<Queues>,
    room: Vec<Notify>,
    signal: Arc<TaskSignal>,
}

#[derive(Debug)]
struct Queues {
    channels: Vec<VecDeque<(Frame, usize)>>,
    failure: Option<ChannelFailure>,
    /// Channel to look at first: all channels get their turn.
    first: usize,
}

impl Inbox {
    pub(crate) fn new(channels: usize, signal: Arc<TaskSignal>) -> Self {
        let queues = Queues { channels: vec![VecDeque::new(); channels], failure: None, first: 0 };
        Self { queues: Mutex::new(queues), room: (0..channels).map(|_| Notify::new()).collect(), signal }
    }

    /// Adds a frame once there is room.
    pub(super) async fn push(&self, channel: usize, frame: Frame, bytes: usize) {
        loop {
            {
                let mut queues = lock(&self.queues);
                let queue = &mut queues.channels[channel];
                if queue.len() < CHANNEL_FRAMES {
                    queue.push_back((frame, bytes));
                    break;
                }
            }
            self.room[channel].notified().await;
        }
        self.signal.wake();
    }

    /// Reports that a channel broke. The first report counts.
    pub(super) fn fail(&self, failure: ChannelFailure) {
        lock(&self.queues).failure.get_or_insert(failure);
        self.signal.wake();
    }

    /// The next arrival among the channels that are not blocked. A failure stays: it is given again and again.
    pub(crate) fn poll(&self, is_blocked: impl Fn(usize) -> bool) -> Option<Arrival> {
        let mut queues = lock(&self.queues);
        if let Some(failure) = &queues.failure {
            return Some(Arrival::Failure(failure.clone()));
        }
        let count = queues.channels.len();
        let first = queues.first;
        let channel = (first..count).chain(0..first).find(|&c| !queues.channels[c].is_empty() && !is_blocked(c))?;
        let (frame, bytes) = queues.channels[channel].pop_front()?;
        queues.first = (channel + 1) % count;
        drop(queues);
        self.room[channel].notify_one();
        Some(Arrival::Frame { channel, frame, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn channels_are_bounded_take_turns_and_can_be_blocked() {
        let inbox = Arc::new(Inbox::new(2, Arc::default()));
        let feeder = {
            let inbox = inbox.clone();
            tokio::spawn(async move {
                for id in 0..20 {
                    inbox.push(0, Frame::Barrier(id), 9).await;
                }
            })
        };
        inbox.push(1, Frame::EndOfData, 1).await;
        while lock(&inbox.queues).channels[0].len() < CHANNEL_FRAMES {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        assert_eq!(lock(&inbox.queues).channels[0].len(), CHANNEL_FRAMES);
        let mut order = vec![];
        while order.len() < 3 {
            match inbox.poll(|channel| channel == 0 && order.len() == 2) {
                Some(Arrival::Frame { channel, .. }) => order.push(channel),
                other => {
                    assert!(other.is_none());
                    break;
                }
            }
        }
        assert_eq!(order, [0, 1], "channel 0 is blocked then");
        let mut next = 1;
        while next < 20 {
            if let Some(Arrival::Frame { frame, .. }) = inbox.poll(|_| false) {
                assert_eq!(frame, Frame::Barrier(next));
                next += 1;
            }
            tokio::task::yield_now().await;
        }
        feeder.await.unwrap();
        inbox.fail(ChannelFailure::ProducerFailed);
        assert!(matches!(inbox.poll(|_| true), Some(Arrival::Failure(ChannelFailure::ProducerFailed))));
    }
}
