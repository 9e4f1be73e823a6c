use std::{fs, path::PathBuf, process::ExitCode};
use stormproof::prelude::*;

struct Numbers(u64);
impl Source for Numbers {
    fn poll(&mut self, _: &mut dyn TaskContext, out: &mut dyn Collector) -> Result<SourceStatus, TaskError> {
        self.0 += 1;
        out.emit(Record::new(self.0.to_string(), ""))?;
        Ok(if self.0 < 1000 { SourceStatus::More } else { SourceStatus::Finished })
    }
}

struct Count(u64, PathBuf);
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
    let folder = PathBuf::from(params.require("output")?);
    let mut job = JobGraph::builder("numbers", JobKind::Batch);
    let numbers = job.source("numbers", 2, |_| Ok(Box::new(Numbers(0))));
    let count = job.operator("count", 2, move |me| Ok(Box::new(Count(0, folder.join(me.subtask.to_string())))));
    job.connect(numbers, count, ShipStrategy::Hash, ResultPartitionType::Blocking);
    job.build()
}

fn main() -> ExitCode {
    stormproof::main(|app| {
        let plan = Plan::new("numbers::user_failure", "count[1] fails once: numbers does not run again.", "numbers")
            .param("output", "{output}")
            .setting("restart-strategy.type", "fixed-delay")
            .fault("fail", FaultSpec::FailUserCode { vertex: "count".into(), subtask: 1 }, Trigger::BeforeSubmission)
            .expect(Expectation::job_ends("FINISHED"))
            .expect(Expectation::restart_set())
            .expect(Expectation::exactly_once())
            .output(|folder| {
                let counted =
                    |task: &str| Ok::<u64, std::io::Error>(fs::read_to_string(folder.join(task))?.parse().unwrap_or(0));
                Ok(OutputFacts::counted(2000, counted("0")? + counted("1")?))
            });
        app.job("numbers", job).suite(plan);
    })
}
