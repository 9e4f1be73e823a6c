//! What a run comes to whose faults misbehave: the engine is never blamed for it.

#[path = "../../tests/rest/server.rs"]
mod server;

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use server::Server;
use stormproof_chaos::fault::{Description, Effect, Fault, FaultError};
use stormproof_chaos::journal::{Undo, open_entries};
use stormproof_chaos::process::ProcessError;

use super::*;
use crate::flink::RestClient;
use crate::oracle::{self, Expectation};
use crate::plan::{Budget, FaultSpec, OutputFacts};
use crate::target::Leftovers;
use crate::timeline::{Losses, Timeline};

/// The job of every run here; it has finished when it is looked at first.
const JOB: &str = "j";

/// The proxy of most runs here; nobody calls it.
const HERE: &str = "http://127.0.0.1:8474";

/// How a fault misbehaves, and in which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misdeed {
    None,
    Panics(&'static str),
    Fails(&'static str),
    /// Nothing comes of it.
    Idle,
    /// What it was to break vanished after it was found.
    VictimGone,
    /// There was nothing to break from the start.
    NoVictim,
}

/// Writes down what is asked of it, and misbehaves.
#[derive(Clone)]
struct Scripted {
    misdeed: Misdeed,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Scripted {
    fn called(&self, step: &'static str) -> Result<(), FaultError> {
        self.calls.lock().expect("no panic while it is held").push(step);
        match self.misdeed {
            Misdeed::Panics(where_to) if where_to == step => panic!("{step} is broken"),
            Misdeed::Fails(where_to) if where_to == step => {
                Err(FaultError::Nothing { what: step.to_owned(), hint: "try again" })
            }
            Misdeed::VictimGone if step == "inject" => Err(ProcessError::Gone(7).into()),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Fault for Scripted {
    fn describe(&self) -> Description {
        Description::new("scripted", "nothing")
    }

    fn undo(&self) -> Vec<Undo> {
        vec![Undo::RemoveFile { path: "nothing".into() }]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        self.called("inject")
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        self.called("effect")?;
        Ok(Effect { bites: self.misdeed != Misdeed::Idle, ..Effect::default() })
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        self.called("heal")
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        self.called("probe").map(|()| true)
    }
}

/// A cluster of which only the REST API is there.
struct Stage {
    rest: RestClient,
    fault: Scripted,
    takes_jobs: bool,
    /// Base URL of the proxy that faults are done in.
    proxy: &'static str,
    capabilities: BTreeSet<Capability>,
}

#[async_trait]
impl Target for Stage {
    fn name(&self) -> &str {
        "stage"
    }

    fn capabilities(&self) -> &BTreeSet<Capability> {
        &self.capabilities
    }

    fn rest(&self) -> &RestClient {
        &self.rest
    }

    fn faults_dir(&self) -> Option<&Path> {
        None
    }

    async fn submit(&self, _: &JobCall) -> Result<String, TargetError> {
        if self.takes_jobs {
            return Ok(JOB.to_owned());
        }
        Err(TargetError::NoVictim { what: "the cluster".to_owned(), hint: "it vanished".to_owned() })
    }

    async fn fault(
        &self,
        _: &FaultSpec,
        _: &Timeline,
        _: Option<&str>,
        _: &str,
    ) -> Result<(Box<dyn Fault>, Losses), TargetError> {
        if self.fault.misdeed == Misdeed::NoVictim {
            let (what, hint) = ("no such process".to_owned(), "there is none".to_owned());
            return Err(TargetError::NoVictim { what, hint });
        }
        Ok((Box::new(self.fault.clone()), Losses::default()))
    }

    fn servers(&self, _: &FaultSpec) -> Vec<String> {
        vec![self.proxy.to_owned()]
    }

    fn store_requests(&self, _: u64) -> Vec<StoreRequest> {
        vec![]
    }

    async fn link_bytes(&self) -> Result<u64, TargetError> {
        Ok(0)
    }

    async fn leftovers(&self, _: &str) -> Result<Leftovers, TargetError> {
        Ok(Leftovers::default())
    }
}

/// What a run came to.
struct Came {
    verdict: Verdict,
    /// Of all judgements.
    words: String,
    notes: Vec<String>,
    /// What the fault was asked to do.
    calls: Vec<&'static str>,
    /// Faults that are open in the journal: the guardian undoes them.
    open: usize,
}

/// Runs a job that ends FINISHED on a stage, with one fault from before its submission to its end.
async fn run(misdeed: Misdeed, expected: &str, takes_jobs: bool) -> Came {
    let plan = Plan::new("stage::misdeed", "", "job")
        .fault("scripted", FaultSpec::RefuseStore, Trigger::BeforeSubmission)
        .expect(Expectation::job_ends(expected));
    run_plan(plan, misdeed, takes_jobs).await
}

/// A finished job as a real cluster told of it.
fn finished_job() -> serde_json::Value {
    let sample = include_str!("../../tests/flink-rest/2.3.0/batch_finished_after_tm_kill_job.json");
    serde_json::from_str(sample).expect("JSON")
}

/// The same without its tasks: how they fared is not the question.
fn finished_job_alone() -> serde_json::Value {
    let mut job = finished_job();
    job["vertices"] = serde_json::json!([]);
    job["plan"]["nodes"] = serde_json::json!([]);
    job
}

async fn run_plan(plan: Plan, misdeed: Misdeed, takes_jobs: bool) -> Came {
    run_plan_of(finished_job_alone(), plan, misdeed, takes_jobs, HERE).await
}

/// Runs `plan`, whose job is told of as `job` and whose faults are done in `proxy`. The environment allows hosts
/// elsewhere.
async fn run_plan_of(
    job: serde_json::Value,
    plan: Plan,
    misdeed: Misdeed,
    takes_jobs: bool,
    proxy: &'static str,
) -> Came {
    let none = serde_json::json!({ "exceptionHistory": { "entries": [], "truncated": false } });
    run_plan_failing(job, plan, misdeed, takes_jobs, proxy, &none).await
}

/// The same, whose failures are told of as `failures`.
async fn run_plan_failing(
    job: serde_json::Value,
    mut plan: Plan,
    misdeed: Misdeed,
    takes_jobs: bool,
    proxy: &'static str,
    failures: &serde_json::Value,
) -> Came {
    let server = Server::start().await;
    for (path, body) in [
        ("jobs/j", job.to_string()),
        ("taskmanagers", r#"{"taskmanagers": []}"#.to_owned()),
        ("jobs/j/exceptions", failures.to_string()),
        ("jobs/j/metrics", "[]".to_owned()),
    ] {
        server.answer(&format!("GET /{path}"), 200, &body);
    }
    let fault = Scripted { misdeed, calls: Arc::default() };
    let stage = Stage {
        rest: RestClient::new(vec![server.url.clone()]).expect("an address"),
        fault: fault.clone(),
        takes_jobs,
        proxy,
        capabilities: BTreeSet::from([Capability::StoreLink, Capability::UserCode]),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let options = RunOptions { is_remote_allowed: true, ..RunOptions::new(folder.path(), "again") };
    plan.deadline = Duration::from_secs(20);
    let recorder = begin_record(&plan, &options, &bundled_config(&plan, &options)).expect("recorded");
    let path = folder.path().join("journal");
    let journal = Journal::open(&path).expect("a journal");
    Runner::new(&plan, &options, &stage, recorder.clone(), journal).run().await;
    recorder.finish().expect("written");
    assert_eq!(server.asked().is_empty(), !takes_jobs, "a job that was not taken is not looked for");
    let judged = oracle::judge(&recorder.timeline());
    let words = judged.judgements.iter().map(|judgement| {
        format!(
            "{} {}: {}; {}\n",
            judgement.verdict,
            judgement.oracle,
            judgement.summary,
            judgement.evidence.join("; ")
        )
    });
    let calls = fault.calls.lock().expect("no panic while it is held").clone();
    let timeline = recorder.timeline();
    let notes = timeline.records().iter().filter_map(|record| match &record.kind {
        RecordKind::Note { text } => Some(text.clone()),
        _ => None,
    });
    let notes = notes.collect();
    Came {
        verdict: judged.verdict,
        notes,
        words: words.collect(),
        calls,
        open: open_entries(&path).expect("read").len(),
    }
}

#[test]
fn the_lease_of_a_run_is_that_of_its_proxy_as_well() {
    let lease_ttl = Duration::from_secs(7);
    let options = RunOptions { lease_ttl, ..RunOptions::new("run", "again") };
    let config = bundled_config(&Plan::new("a::b", "", "job"), &options);
    assert_eq!(config.lease_ttl, Some(lease_ttl));
}

#[test]
fn only_a_plan_that_cuts_the_network_gets_proxies_on_it() {
    let has_links = |fault| {
        let plan = Plan::new("a::b", "", "job").fault("it", fault, Trigger::AllTasksRunning);
        bundled_config(&plan, &RunOptions::new("run", "again")).network_links
    };
    assert!(has_links(FaultSpec::IsolateCoordinator));
    assert!(!has_links(FaultSpec::HangCoordinator));
}

#[tokio::test]
async fn a_fault_that_behaves_lets_the_job_be_judged() {
    let came = run(Misdeed::None, "FINISHED", true).await;
    assert_eq!((came.verdict, came.open), (Verdict::Pass, 0), "{}", came.words);
    assert_eq!(came.calls, ["inject", "effect", "heal", "probe"]);
    let came = run(Misdeed::None, "CANCELED", true).await;
    assert_eq!(came.verdict, Verdict::Fail, "{}", came.words);
}

#[tokio::test]
async fn a_fault_whose_code_panics_makes_the_run_invalid_and_is_healed_all_the_same() {
    for (step, name) in [("inject", "inject"), ("effect", "observe"), ("heal", "heal"), ("probe", "probe")] {
        // The engine did not do what was expected of it either, and is not blamed.
        let came = run(Misdeed::Panics(step), "CANCELED", true).await;
        assert_eq!(came.verdict, Verdict::Invalid, "{step}: {}", came.words);
        let why = format!("could not {name} scripted on nothing: its code panicked: {step} is broken");
        assert!(came.words.contains(&why), "{step}: {}", came.words);
        assert!(came.calls.contains(&"heal"), "{step}: {:?}", came.calls);
        // Where its heal or the proof of it broke, the guardian has to do it again.
        assert_eq!(came.open, usize::from(matches!(step, "heal" | "probe")), "{step}");
    }
}

#[tokio::test]
async fn a_heal_that_fails_makes_the_run_invalid_and_stays_open_for_the_guardian() {
    for step in ["heal", "probe"] {
        let came = run(Misdeed::Fails(step), "CANCELED", true).await;
        assert_eq!((came.verdict, came.open), (Verdict::Invalid, 1), "{step}: {}", came.words);
        assert!(came.words.contains("could not heal") || came.words.contains("could not probe"), "{}", came.words);
    }
}

#[tokio::test]
async fn a_victim_that_vanished_makes_the_run_invalid() {
    for (misdeed, why) in [(Misdeed::VictimGone, "process 7 is gone"), (Misdeed::NoVictim, "no such process")] {
        let came = run(misdeed, "CANCELED", true).await;
        assert_eq!((came.verdict, came.open), (Verdict::Invalid, 0), "{}", came.words);
        assert!(came.words.contains(why), "{}", came.words);
    }
}

#[tokio::test]
async fn a_fault_that_nothing_comes_of_makes_the_run_vacuous() {
    let came = run(Misdeed::Idle, "FINISHED", true).await;
    assert_eq!((came.verdict, came.open), (Verdict::Vacuous, 0), "{}", came.words);
    // It may be what should have kept the job from its end.
    assert_eq!(run(Misdeed::Idle, "CANCELED", true).await.verdict, Verdict::Vacuous);
    // A broken promise is one all the same.
    let lossy = Plan::new("stage::lossy", "", "job")
        .fault("scripted", FaultSpec::RefuseStore, Trigger::BeforeSubmission)
        .expect(Expectation::exactly_once())
        .output(|_| Ok(OutputFacts::counted(2, 1)));
    assert_eq!(run_plan(lossy, Misdeed::Idle, true).await.verdict, Verdict::Fail);
}

#[tokio::test]
async fn a_cluster_that_vanished_before_the_job_is_a_precondition_and_the_fault_is_healed() {
    let came = run(Misdeed::None, "FINISHED", false).await;
    assert_eq!((came.verdict, came.open), (Verdict::Precondition, 0), "{}", came.words);
    assert!(came.words.contains("it vanished"), "{}", came.words);
    assert_eq!(came.calls, ["inject", "effect", "heal", "probe"]);
}

#[tokio::test]
async fn a_disk_that_is_full_is_no_fault_of_the_engine() {
    let full = "TaskException: cannot write a result partition\nCaused by: No space left on device (os error 28)";
    let entry = serde_json::json!({
        "exceptionName": "TaskException", "stacktrace": full, "timestamp": 1, "taskName": "count (1/2)",
    });
    let failures = serde_json::json!({ "exceptionHistory": { "entries": [entry], "truncated": false } });
    let plan = Plan::new("stage::full", "", "job").expect(Expectation::job_ends("CANCELED"));
    let came = run_plan_failing(finished_job_alone(), plan, Misdeed::None, true, HERE, &failures).await;
    assert_eq!(came.verdict, Verdict::Precondition, "{}", came.words);
    assert!(came.words.contains("a disk of this machine is full, as count"), "{}", came.words);
}

// The second fault would be one too many: it is not even begun, the job is not submitted, the first is healed.
#[tokio::test]
async fn a_fault_beyond_the_budget_is_refused_and_everything_else_healed() {
    let budget = Budget { concurrent: 1, ..Budget::default() };
    let hold = FaultSpec::HoldUserCode { vertex: "v".into(), subtasks: vec![0] };
    let plan = Plan::new("stage::greedy", "", "job")
        .fault("stage direction", hold, Trigger::BeforeSubmission)
        .fault("first", FaultSpec::RefuseStore, Trigger::BeforeSubmission)
        .fault("second", FaultSpec::BlackholeStore, Trigger::BeforeSubmission)
        .budget(budget);
    let came = run_plan(plan, Misdeed::None, false).await;
    assert_eq!((came.verdict, came.open), (Verdict::Refused, 0), "{}", came.words);
    assert!(came.words.contains("`second` would hurt nothing: that makes 2 faults at the same time"), "{}", came.words);
    assert_eq!(came.calls, ["inject", "effect", "inject", "effect", "heal", "probe", "heal", "probe"]);
}

#[tokio::test]
async fn a_host_that_the_budget_does_not_name_is_refused_before_anything_is_done() {
    let plan = |hosts: &[&str]| {
        Plan::new("stage::elsewhere", "", "job")
            .fault("first", FaultSpec::RefuseStore, Trigger::BeforeSubmission)
            .budget(Budget { hosts: hosts.iter().map(ToString::to_string).collect(), ..Budget::default() })
    };
    let elsewhere = "http://staging:8474";
    let came = run_plan_of(finished_job(), plan(&["production"]), Misdeed::None, false, elsewhere).await;
    assert_eq!((came.verdict, came.open), (Verdict::Refused, 0), "{}", came.words);
    assert!(came.words.contains("`first` is not begun: http://staging:8474 is not on this machine"), "{}", came.words);
    assert!(came.calls.is_empty(), "{:?}", came.calls);
    let came = run_plan_of(finished_job(), plan(&["staging"]), Misdeed::None, false, elsewhere).await;
    assert_eq!((came.verdict, came.calls[0]), (Verdict::Precondition, "inject"), "{}", came.words);
}

#[tokio::test]
async fn a_fault_is_healed_when_its_time_is_over_whatever_its_plan_waits_for() {
    let plan = Plan::new("stage::patient", "", "job")
        .fault("scripted", FaultSpec::RefuseStore, Trigger::BeforeSubmission)
        .expect(Expectation::job_ends("FINISHED"))
        .budget(Budget { duration: Duration::ZERO, ..Budget::default() });
    let came = run_plan(plan, Misdeed::None, true).await;
    assert_eq!((came.verdict, came.open), (Verdict::Pass, 0), "{}", came.words);
    assert!(came.notes.iter().any(|note| note.contains("`scripted` was healed because")), "{:?}", came.notes);
}

// The job runs on for as long as anybody looks, and the fault would wait for its trigger all that time.
#[tokio::test]
async fn a_vertex_that_the_job_does_not_have_ends_the_run_at_once() {
    let mut job = finished_job();
    job["state"] = "RUNNING".into();
    let name = job["vertices"][0]["name"].as_str().expect("a name").to_owned();
    let fail = |vertex: &str| FaultSpec::FailUserCode { vertex: vertex.to_owned(), subtask: 0 };
    let plan = Plan::new("stage::typo", "", "job").fault("fail", fail(&format!("{name}x")), Trigger::Never);
    let came = run_plan_of(job, plan, Misdeed::None, true, HERE).await;
    assert_eq!((came.verdict, came.open), (Verdict::Invalid, 0), "{}", came.words);
    let why = format!("fault `fail`: job `job` has no vertex `{name}x`; did you mean `{name}`?");
    assert!(came.words.contains(&why), "{why}: {}", came.words);
    let late = came.notes.iter().any(|note| note.ends_with("after 20 s"));
    assert!(!late && came.calls.is_empty(), "{:?} {:?}", came.notes, came.calls);
}
