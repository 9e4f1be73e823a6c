//! A suite of one's own, whole: the example of the README.
use std::{fs, process::ExitCode};
use stormproof::prelude::*;

struct Numbers;
impl Source for Numbers {
    fn poll(&mut self, _: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        (0..1000).try_for_each(|n| out.emit(Record::new(n.to_string(), "")))?;
        Ok(SourceStatus::Finished)
    }
}

struct Count(u64, std::path::PathBuf);
impl Operator for Count {
    fn process(
        &mut self,
        _: usize,
        _: Record,
        _: &mut dyn TaskContext,
        _: &mut dyn Collector,
    ) -> Result<(), TaskError> {
        self.0 += 1;
        Ok(())
    }
    fn finish(&mut self, _: &mut dyn TaskContext, _: &mut dyn Collector) -> Result<(), TaskError> {
        Ok(fs::write(&self.1, self.0.to_string())?)
    }
}

fn job(params: &Params) -> Result<JobGraph, JobGraphError> {
    let file = std::path::PathBuf::from(params.require("output")?).join("count");
    let mut job = JobGraph::builder("numbers", JobKind::Batch);
    let numbers = job.source("numbers", 2, |_| Ok(Box::new(Numbers)));
    let count = job.operator("count", 1, move |_| Ok(Box::new(Count(0, file.clone()))));
    job.connect(numbers, count, ShipStrategy::Hash, ResultPartitionType::Blocking);
    job.build()
}

fn main() -> ExitCode {
    let fail = FaultSpec::FailUserCode { vertex: "count".into(), subtask: 0 };
    let plan = Plan::new("numbers::user_failure", "count fails once; numbers does not run again.", "numbers")
        .param("output", "{output}")
        .setting("restart-strategy.type", "fixed-delay")
        .fault("fail", fail, Trigger::BeforeSubmission)
        .expect(Expectation::job_ends("FINISHED"))
        .expect(Expectation::restart_set())
        .expect(Expectation::exactly_once())
        .output(|folder| {
            Ok(OutputFacts::counted(2000, fs::read_to_string(folder.join("count"))?.parse().unwrap_or(0)))
        });
    stormproof::main(|app| {
        app.job("numbers", job).suite(plan);
    })
}
