//! Driving an operator: input, alignment, end of input.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::alignment::{Alignment, Step};
use super::driver::Driver;
use super::{Environment, Stop};
use crate::executor::exchange::wire::{Frame, Records};
use crate::executor::exchange::{Arrival, Inbox, open_channels};
use crate::executor::signal::TaskSignal;
use crate::graph::{Operator, TaskError};
use crate::runtime::protocol::TaskDeployment;

/// All input of a task.
pub(super) struct Inputs {
    inbox: Arc<Inbox>,
    /// Gate of each channel.
    gates: Vec<usize>,
    /// Channels that will bring no more records.
    data_ended: Vec<bool>,
    alignment: Alignment,
    /// Dropping it closes the connections.
    _readers: JoinSet<()>,
}

impl Inputs {
    pub(super) fn open(deployment: &TaskDeployment, signal: &Arc<TaskSignal>, environment: &Environment) -> Self {
        let gates: Vec<usize> = deployment
            .inputs
            .iter()
            .enumerate()
            .flat_map(|(gate, input)| std::iter::repeat_n(gate, input.channels.len()))
            .collect();
        let inbox = Arc::new(Inbox::new(gates.len(), signal.clone()));
        Self {
            data_ended: vec![false; gates.len()],
            alignment: Alignment::new(gates.len()),
            gates,
            _readers: open_channels(deployment.attempt.job, &deployment.inputs, &inbox, environment),
            inbox,
        }
    }

    fn data_has_ended(&self) -> bool {
        self.data_ended.iter().all(|ended| *ended)
    }
}

/// What the task's thread woke up for.
enum Wake {
    News,
    Arrival(Arrival),
}

impl Driver<'_, dyn Operator> {
    /// Processes records and barriers to the end.
    pub(super) fn run_operator(mut self, mut inputs: Inputs) -> Result<(), Stop> {
        let mut finished_data = false;
        loop {
            if !finished_data && inputs.data_has_ended() {
                finished_data = true;
                self.parts.faults.check()?;
                self.parts.code.finish(&mut self.parts.context, &mut self.parts.outputs)?;
                self.end_of_data()?;
            }
            // With checkpoints the final one decides, without them the end of the last stream.
            let done = if self.checkpointing { self.may_end } else { inputs.alignment.all_ended() };
            if finished_data && done {
                return self.finish();
            }
            let (controls, alignment) = (&self.task.controls, &inputs.alignment);
            let wake = self.task.signal.wait_until(None, || {
                if controls.has_news() {
                    return Some(Wake::News);
                }
                inputs.inbox.poll(|channel| alignment.is_held(channel)).map(Wake::Arrival)
            })?;
            match wake {
                Some(Wake::Arrival(Arrival::Failure(failure))) => return Err(failure.into()),
                Some(Wake::Arrival(Arrival::Frame { channel, frame, bytes })) => {
                    self.task.counters.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.frame(&mut inputs, channel, frame)?;
                }
                Some(Wake::News) => self.handle_news(&mut inputs.alignment)?,
                None => {}
            }
        }
    }

    fn frame(&mut self, inputs: &mut Inputs, channel: usize, frame: Frame) -> Result<(), Stop> {
        match frame {
            Frame::Records(batch) => self.records(inputs, channel, batch),
            Frame::Barrier(id) => {
                let step = inputs.alignment.barrier(channel, id);
                self.step(step)
            }
            Frame::EndOfData => {
                inputs.data_ended[channel] = true;
                Ok(())
            }
            Frame::EndOfPartition => {
                inputs.data_ended[channel] = true;
                let step = inputs.alignment.end(channel);
                self.step(step)
            }
            // Handled where the channel is read.
            Frame::Alive | Frame::Error(_) => Ok(()),
        }
    }

    fn records(&mut self, inputs: &mut Inputs, channel: usize, batch: Bytes) -> Result<(), Stop> {
        for record in Records(batch) {
            let record = record.map_err(|error| TaskError::from_error(&error))?;
            self.handle_news(&mut inputs.alignment)?;
            self.task.signal.check()?;
            self.parts.faults.check()?;
            self.task.counters.read_records.fetch_add(1, Ordering::Relaxed);
            let gate = inputs.gates[channel];
            self.parts.code.process(gate, record, &mut self.parts.context, &mut self.parts.outputs)?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Stop> {
        if let Some(checkpoint) = step.subsumed {
            self.decline(checkpoint, "a newer barrier overtook it".to_owned())?;
        }
        step.complete.map_or(Ok(()), |checkpoint| self.checkpoint(checkpoint))
    }

    fn handle_news(&mut self, alignment: &mut Alignment) -> Result<(), Stop> {
        let Some(news) = self.news()? else { return Ok(()) };
        for checkpoint in news.aborted {
            alignment.abort(checkpoint);
        }
        for checkpoint in news.triggers {
            // Flink triggers a task directly when all its inputs have ended (FLIP-147).
            if alignment.all_ended() {
                self.checkpoint(checkpoint)?;
            } else {
                self.decline(checkpoint, "barriers come from the task's inputs, which have not ended".to_owned())?;
            }
        }
        Ok(())
    }
}
