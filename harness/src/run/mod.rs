//! Runs a plan on a target: submits, watches, breaks, heals, and writes everything down.
//!
//! The runner decides nothing about the engine: it only records. Judging is done afterwards, from the record.

mod held;
mod options;
mod outcome;

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use stormproof_chaos::journal::Journal;
use stormproof_chaos::toxiproxy::ApiUrl;
use tokio::time::{Instant, sleep, timeout};

pub use options::{Progress, RunOptions, Silent};
pub use outcome::Outcome;

pub(crate) use self::held::HEAL_DEADLINE;
use self::held::HeldFaults;
use crate::observe::Observer;
use crate::plan::{
    FAULTS_PLACEHOLDER, Facts, JobCall, NotInGraph, OUTPUT_PLACEHOLDER, Plan, PlanError, Trigger, admit_host,
};
use crate::probe::{ProbeConfig, Prober, ask_job};
use crate::report::TIMELINE;
use crate::role::chain;
use crate::target::bundled::{BundledCluster, BundledConfig};
use crate::target::{Capability, StoreRequest, Target, TargetError};
use crate::timeline::{RecordKind, Recorder, RunStart, TimelineError};
use crate::verdict::Verdict;

/// Pause between two looks at the cluster.
const LOOK_EVERY: Duration = Duration::from_millis(15);

/// How long what is left of an ended job may take to disappear: releasing is asynchronous.
const LEFTOVERS_DEADLINE: Duration = Duration::from_secs(5);

/// What the kernel says of a disk without room (`ENOSPC`).
const NO_SPACE: &str = "No space left on device";

/// A run could not be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run's record.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// The target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The fault journal.
    #[error(transparent)]
    Journal(#[from] stormproof_chaos::journal::JournalError),
}

/// Runs `plan` on a bundled cluster of its own.
///
/// The record is in `options.run_dir` whatever happens. A target that cannot be brought up is verdict *precondition*,
/// an injector that breaks is *invalid*: neither blames the engine.
///
/// # Errors
/// When the plan contradicts itself or nothing can be recorded.
pub async fn run_bundled(plan: &Plan, options: &RunOptions) -> Result<Outcome, RunError> {
    plan.check()?;
    let began = Instant::now();
    let config = bundled_config(plan, options);
    let recorder = begin_record(plan, options, &config)?;
    let mut timings = None;
    match BundledCluster::start(config).await {
        Err(TargetError::Stopped) => stopped(&recorder),
        Err(error) => precondition(&recorder, &error),
        Ok(cluster) => {
            timings = Some(cluster.timings());
            let journal = Journal::open(cluster.journal())?.with_ttl(options.lease_ttl);
            Runner::new(plan, options, &cluster, recorder.clone(), journal).run().await;
            note_shutdown(&recorder, cluster.shutdown().await);
        }
    }
    recorder.finish()?;
    Ok(Outcome::judge(options, &recorder.timeline(), began.elapsed(), timings))
}

/// The cluster that `plan` asks for, run as `options` say.
fn bundled_config(plan: &Plan, options: &RunOptions) -> BundledConfig {
    BundledConfig {
        shape: plan.cluster.clone(),
        run_dir: options.run_dir.clone(),
        seed: options.seed,
        stop: options.stop.clone(),
        parts: options.parts.clone(),
        lease_ttl: Some(options.lease_ttl),
        network_links: plan.needs().contains(&Capability::NetworkLinks),
        ..BundledConfig::default()
    }
}

fn begin_record(plan: &Plan, options: &RunOptions, config: &BundledConfig) -> Result<Recorder, RunError> {
    std::fs::create_dir_all(&options.run_dir).map_err(|source| TargetError::File {
        action: "create folder",
        path: options.run_dir.clone(),
        source,
    })?;
    let recorder = Recorder::to_file(&options.run_dir.join(TIMELINE))?;
    recorder.record(RecordKind::RunStarted(RunStart {
        suite: plan.name.clone(),
        about: plan.about.clone(),
        plan_hash: plan.hash(),
        seed: options.seed,
        target: config.parts.target_name(),
        engine: format!("stormproof {}", env!("CARGO_PKG_VERSION")),
        repeat: options.repeat.clone(),
    }));
    let capabilities = config.capabilities();
    for expectation in plan.expectations.iter().cloned() {
        let unseen = expectation.needs().filter(|needed| !capabilities.contains(needed));
        recorder.record(match unseen {
            None => RecordKind::Expected(expectation),
            Some(needed) => RecordKind::Waived { expectation, reason: lacks(&config.parts.target_name(), needed) },
        });
    }
    Ok(recorder)
}

fn lacks(target: &str, needed: Capability) -> String {
    format!("target {target} lacks {}", needed.name())
}

fn precondition(recorder: &Recorder, error: &TargetError) {
    recorder.record(RecordKind::Outcome { verdict: Verdict::Precondition, reason: chain(error) });
}

fn stopped(recorder: &Recorder) {
    let reason = "the run was told to stop before its job had ended".to_owned();
    recorder.record(RecordKind::Outcome { verdict: Verdict::Invalid, reason });
}

fn note_shutdown(recorder: &Recorder, result: Result<crate::target::Leftovers, TargetError>) {
    match result {
        Ok(left) => {
            recorder.record(RecordKind::Leftovers {
                what: "processes".to_owned(),
                looked_at: 1,
                found: left.processes,
            });
        }
        Err(error) => {
            recorder.record(RecordKind::Outcome { verdict: Verdict::Invalid, reason: chain(&error) });
        }
    }
}

struct Runner<'a> {
    plan: &'a Plan,
    options: &'a RunOptions,
    target: &'a dyn Target,
    recorder: Recorder,
    held: HeldFaults<'a>,
    facts: Facts,
    /// Records up to here are in `facts`.
    taken: u64,
    /// Store requests up to here are recorded; unfinished ones are looked at again.
    store_seen: BTreeSet<u64>,
    store_from: u64,
    /// A trigger waits for what passes the store's link: it is one more call at each look.
    watches_link: bool,
    ends: Instant,
}

impl<'a> Runner<'a> {
    fn new(
        plan: &'a Plan,
        options: &'a RunOptions,
        target: &'a dyn Target,
        recorder: Recorder,
        journal: Journal,
    ) -> Self {
        Self {
            plan,
            options,
            target,
            held: HeldFaults::new(plan, target, recorder.clone(), journal),
            recorder,
            facts: Facts::watching(plan.faults.iter().flat_map(|fault| [&fault.begin, &fault.heal])),
            taken: 0,
            store_seen: BTreeSet::new(),
            store_from: 1,
            watches_link: plan.needs().contains(&Capability::LinkTraffic),
            ends: Instant::now() + plan.deadline,
        }
    }

    async fn run(mut self) {
        let missing: Vec<_> = self.plan.needs().difference(self.target.capabilities()).copied().collect();
        if let Some(missing) = missing.first() {
            self.outcome(Verdict::Skipped, lacks(self.target.name(), *missing));
            return;
        }
        if let Err(reason) = self.check_hosts() {
            self.outcome(Verdict::Refused, reason);
            return;
        }
        let stop = self.options.stop.clone();
        let ended = tokio::select! {
            () = self.run_job() => true,
            () = stop.cancelled() => false,
        };
        if !ended {
            // A fault that was just being injected or healed is open in the journal: the guardian undoes it.
            stopped(&self.recorder);
        }
        self.held.heal_all().await;
    }

    /// Whether the plan may hurt all that its faults would call.
    fn check_hosts(&self) -> Result<(), String> {
        for fault in &self.plan.faults {
            for server in self.target.servers(&fault.spec) {
                let api = ApiUrl::parse(&server).map_err(|error| chain(&error))?;
                let admitted = admit_host(&api, &self.plan.budget.hosts, self.options.is_remote_allowed);
                admitted.map_err(|error| format!("`{}` is not begun: {error}", fault.name))?;
            }
        }
        Ok(())
    }

    async fn run_job(&mut self) {
        self.held.step(&self.facts, None, |trigger| *trigger == Trigger::BeforeSubmission).await;
        if self.held.is_refused() {
            return;
        }
        let output = self.options.output_dir();
        match self.submit(&output).await {
            Ok(job) => self.watch(&job, &output).await,
            Err(error) => self.outcome(Verdict::Precondition, chain(&error)),
        }
    }

    fn outcome(&self, verdict: Verdict, reason: String) {
        self.recorder.record(RecordKind::Outcome { verdict, reason });
    }

    async fn submit(&self, output: &Path) -> Result<String, TargetError> {
        std::fs::create_dir_all(output).map_err(|source| TargetError::File {
            action: "create folder",
            path: output.to_owned(),
            source,
        })?;
        let faults = self.target.faults_dir().unwrap_or(output).display().to_string();
        let fill = |value: &String| {
            value.replace(OUTPUT_PLACEHOLDER, &output.display().to_string()).replace(FAULTS_PLACEHOLDER, &faults)
        };
        let params = self.plan.job.params.iter().map(|(key, value)| (key.clone(), fill(value))).collect();
        let job = self.target.submit(&JobCall { params, ..self.plan.job.clone() }).await?;
        self.recorder.record(RecordKind::JobSubmitted { job: job.clone(), name: self.plan.job.name.clone() });
        Ok(job)
    }

    async fn watch(&mut self, job: &str, output: &Path) {
        let mut observer = Observer::new(self.target.rest().clone(), self.recorder.clone(), job);
        let prober = self.start_probes(job);
        let mut is_checked = false;
        while !observer.is_over() && !self.held.is_refused() && Instant::now() < self.ends {
            let mut look = pin!(observer.look());
            // An unanswered look is what the probes measure; here it only means that there is nothing new.
            while timeout(LOOK_EVERY, &mut look).await.is_err() {
                // A silent control plane keeps no fault from beginning or ending in time. But half a look is no fact.
                self.facts.at(self.recorder.now_ms());
                self.step(job).await;
            }
            self.note_store_requests();
            self.note_link_traffic().await;
            self.take_facts();
            if !is_checked && let Some(checked) = self.check_names(job) {
                is_checked = true;
                if let Err(error) = checked {
                    self.outcome(Verdict::Invalid, error.to_string());
                    break;
                }
            }
            self.step(job).await;
            self.options.progress.status(&self.plan.name, self.facts.status().unwrap_or("submitted"));
            sleep(LOOK_EVERY).await;
        }
        prober.stop().await;
        if !observer.is_over() {
            let waited = (Instant::now() + self.plan.deadline - self.ends).as_secs();
            let status = self.facts.status().unwrap_or("unknown").to_owned();
            let reason = format!("the job was still {status} after {waited} s");
            self.recorder.record(RecordKind::Note { text: reason });
            let _ = self.target.rest().cancel(job).await;
        }
        if let Err(error) = observer.look_back().await {
            // A control plane that does not answer is what we are here to find.
            self.outcome(Verdict::Fail, format!("the job could not be read at its end: {}", chain(&error)));
        }
        self.note_store_requests();
        self.note_full_disk();
        self.note_output(output);
        self.note_leftovers(job).await;
    }

    /// A task that found this machine's disk full blames nobody else. (A fault that limits files makes writes fail in
    /// another way.)
    fn note_full_disk(&self) {
        let timeline = self.recorder.timeline();
        let failed = timeline.records().iter().find_map(|record| match &record.kind {
            RecordKind::Exception { task, message, .. } if message.contains(NO_SPACE) => {
                Some(task.clone().unwrap_or_else(|| "the job".to_owned()))
            }
            _ => None,
        });
        if let Some(task) = failed {
            let (work, memory) = (std::env::temp_dir(), crate::guard::MEMORY_DIR);
            let reason = format!(
                "a disk of this machine is full, as {task} found: {NO_SPACE}; make room in {} and {memory}, or set TMPDIR \
                 to another folder",
                work.display()
            );
            self.outcome(Verdict::Precondition, reason);
        }
    }

    /// Whether the plan speaks of what the job has; none until the job's graph was seen.
    fn check_names(&self, job: &str) -> Option<Result<(), NotInGraph>> {
        let timeline = self.recorder.timeline();
        let graph = timeline.plan(job).filter(|graph| !graph.vertices.is_empty())?;
        Some(self.plan.check_names(graph))
    }

    async fn step(&mut self, job: &str) {
        self.held.step(&self.facts, Some(job), |trigger| self.facts.held_after(trigger, 0)).await;
    }

    fn start_probes(&self, job: &str) -> Prober {
        let (rest, job) = (self.target.rest().clone(), job.to_owned());
        Prober::start(ProbeConfig::new("job"), self.recorder.clone(), move || ask_job(rest.clone(), job.clone()))
    }

    /// Takes new records into `facts`.
    fn take_facts(&mut self) {
        let facts = &mut self.facts;
        self.taken += self.recorder.look(self.taken, |records| {
            records.iter().for_each(|record| facts.take(record));
            records.len() as u64
        });
        self.facts.at(self.recorder.now_ms());
    }

    fn note_store_requests(&mut self) {
        for request in self.target.store_requests(self.store_from) {
            if !request.over || !self.store_seen.insert(request.sequence) {
                continue;
            }
            self.recorder.record(store_record(request));
        }
        // Everything before the first gap is done with.
        while self.store_seen.remove(&self.store_from) {
            self.store_from += 1;
        }
    }

    async fn note_link_traffic(&self) {
        if !self.watches_link {
            return;
        }
        match self.target.link_bytes().await {
            Ok(bytes) if bytes == self.facts.link_bytes() => {}
            Ok(bytes) => drop(self.recorder.record(RecordKind::LinkTraffic { bytes })),
            Err(error) => tracing::debug!(error = %chain(&error), "nobody says how much has passed the store's link"),
        }
    }

    fn note_output(&self, output: &Path) {
        let Some(check) = &self.plan.output else { return };
        match check(output) {
            Ok(facts) => {
                self.recorder.record(RecordKind::Output {
                    expected: facts.expected,
                    seen: facts.seen,
                    lost: facts.lost,
                    doubled: facts.doubled,
                    alien: facts.alien,
                    examples: facts.examples,
                });
            }
            Err(error) => self.outcome(Verdict::Invalid, format!("the output could not be checked: {error}")),
        }
    }

    /// Releasing is asynchronous, so what is found is looked for again until it is gone or it is late.
    async fn note_leftovers(&self, job: &str) {
        let end = Instant::now() + LEFTOVERS_DEADLINE;
        loop {
            match self.target.leftovers(job).await {
                Err(error) => return self.outcome(Verdict::Invalid, chain(&error)),
                Ok(left) if left.iter().next().is_some() && Instant::now() < end => sleep(LOOK_EVERY).await,
                Ok(left) => {
                    for (what, found) in
                        [("partitions", left.partitions), ("objects", left.objects), ("uploads", left.uploads)]
                    {
                        self.recorder.record(RecordKind::Leftovers { what: what.to_owned(), looked_at: 1, found });
                    }
                    return;
                }
            }
        }
    }
}

fn store_record(request: StoreRequest) -> RecordKind {
    RecordKind::StoreRequest {
        op: request.operation,
        key: request.key,
        status: request.status.unwrap_or_default(),
        bytes: request.bytes,
    }
}

#[cfg(test)]
mod tests;
