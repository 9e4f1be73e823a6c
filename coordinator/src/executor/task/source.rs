//! Driving a source.

use std::time::{Duration, Instant};

use super::Stop;
use super::driver::Driver;
use crate::graph::{Source, SourceStatus};

impl Driver<'_, dyn Source> {
    /// Polls to the end of input; then, if checkpoints are taken, goes on with barriers until the final one is durable.
    pub(super) fn run_source(mut self) -> Result<(), Stop> {
        loop {
            self.handle_news()?;
            self.task.signal.check()?;
            self.parts.faults.check()?;
            match self.parts.code.poll(&mut self.parts.context, &mut self.parts.outputs)? {
                SourceStatus::More => {}
                SourceStatus::Idle(pause) => self.idle(pause)?,
                SourceStatus::Finished => break,
            }
        }
        self.end_of_data()?;
        while self.checkpointing && !self.may_end {
            let controls = &self.task.controls;
            self.task.signal.wait_until(None, || controls.has_news().then_some(()))?;
            self.handle_news()?;
        }
        self.finish()
    }

    fn idle(&mut self, pause: Duration) -> Result<(), Stop> {
        // Too long for the clock: for ever.
        let until = Instant::now().checked_add(pause);
        let controls = &self.task.controls;
        while self.task.signal.wait_until(until, || controls.has_news().then_some(()))?.is_some() {
            self.handle_news()?;
        }
        Ok(())
    }

    fn handle_news(&mut self) -> Result<(), Stop> {
        let Some(news) = self.news()? else { return Ok(()) };
        news.triggers.into_iter().try_for_each(|checkpoint| self.checkpoint(checkpoint))
    }
}
