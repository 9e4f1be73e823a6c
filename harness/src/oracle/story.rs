//! Timelines for tests of oracles.

use crate::timeline::{
    FaultEvent, Losses, ObservedEdge, ObservedPlan, ObservedVertex, ProbeAnswer, Record, RecordKind, TaskName, Timeline,
};

/// The one job of a story.
pub(crate) const JOB: &str = "00000000000000000000000000c0ffee";

/// A timeline under construction; one millisecond a record unless told otherwise.
pub(crate) struct Story {
    records: Vec<Record>,
    now_ms: u64,
}

impl Story {
    pub(crate) fn new() -> Self {
        let mut story = Self { records: vec![], now_ms: 0 };
        story.record(RecordKind::JobSubmitted { job: JOB.into(), name: "job".into() });
        story
    }

    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::new(self.records.clone())
    }

    pub(crate) fn at(&mut self, ms: u64) -> &mut Self {
        self.now_ms = ms;
        self
    }

    pub(crate) fn record(&mut self, kind: RecordKind) -> &mut Self {
        let seq = self.records.len() as u64;
        self.records.push(Record { seq, at_ms: self.now_ms, wall_ms: 0, kind });
        self.now_ms += 1;
        self
    }

    pub(crate) fn plan(&mut self, vertices: &[(&str, u32)], edges: &[(&str, &str, &str, &str)]) -> &mut Self {
        let vertex =
            |(name, parallelism): &(&str, u32)| ObservedVertex { name: (*name).into(), parallelism: *parallelism };
        let edge = |(from, to, exchange, ship): &(&str, &str, &str, &str)| ObservedEdge {
            from: (*from).into(),
            to: (*to).into(),
            exchange: (*exchange).into(),
            ship_strategy: (*ship).into(),
            data_set: None,
        };
        let plan =
            ObservedPlan { vertices: vertices.iter().map(vertex).collect(), edges: edges.iter().map(edge).collect() };
        self.record(RecordKind::Plan { job: JOB.into(), plan })
    }

    pub(crate) fn status(&mut self, status: &str) -> &mut Self {
        self.record(RecordKind::JobStatus { job: JOB.into(), status: status.into() })
    }

    pub(crate) fn task(
        &mut self,
        vertex: &str,
        subtask: u32,
        attempt: u32,
        state: &str,
        executor: Option<&str>,
    ) -> &mut Self {
        let (job, task) = (JOB.into(), TaskName::new(vertex, subtask));
        let executor = executor.map(Into::into);
        self.record(RecordKind::TaskState { job, task, attempt, state: state.into(), executor })
    }

    pub(crate) fn event(&mut self, fault: &str, event: FaultEvent) -> &mut Self {
        self.record(RecordKind::Fault { fault: fault.into(), event })
    }

    pub(crate) fn injected(&mut self, fault: &str) -> &mut Self {
        self.event(fault, FaultEvent::Injected)
    }

    pub(crate) fn effective(&mut self, fault: &str, losses: Losses) -> &mut Self {
        self.event(fault, FaultEvent::Effective { losses })
    }

    pub(crate) fn fault(&mut self, fault: &str, losses: Losses) -> &mut Self {
        self.injected(fault).effective(fault, losses)
    }

    pub(crate) fn probe(&mut self, due_ms: u64, latency_ms: u64, answer: ProbeAnswer) -> &mut Self {
        let (probe, latency_us) = ("job".into(), latency_ms * 1000);
        self.at(due_ms + latency_ms).record(RecordKind::Probe { probe, due_ms, latency_us, answer })
    }
}
