//! `stormproof submit`.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use stormproof::flink::job::{ExceptionEntry, JobDetail};
use stormproof::flink::{RestClient, RestError, RunRequest};
use stormproof::verdict::{EXIT_INTERRUPTED, Verdict};

use super::jobs::TargetArgument;
use super::output::{note, say};
use super::{CommandError, runtime, settings, stop};

/// Pause between two looks at the job.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the cluster may be silent before we give up waiting. The job goes on.
const SILENCE: Duration = Duration::from_secs(60);

/// Arguments of `stormproof submit`.
#[derive(Debug, Args)]
pub(super) struct SubmitArguments {
    /// Name of the job; `stormproof doctor` lists those of this binary
    job: String,
    /// A parameter of the job
    #[arg(short = 'p', value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// Configuration of the job, by Flink's keys
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    target: TargetArgument,
    /// Do not wait for the job's end
    #[arg(long)]
    detach: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Submits a job and waits for its end.
pub(super) fn submit(arguments: &SubmitArguments) -> Result<u8, CommandError> {
    let params = settings::pairs("-p", &arguments.params)?;
    let request = RunRequest {
        program_args_list: params.into_iter().flat_map(|(key, value)| [format!("--{key}"), value]).collect(),
        flink_configuration: settings::pairs("-D", &arguments.settings)?,
        job_id: None,
    };
    let client = arguments.target.client()?;
    runtime()?.block_on(async {
        let stop = stop::at_signal()?;
        let id = client.run_jar(&arguments.job, &request).await.map_err(|error| arguments.target.failed(&error))?;
        if arguments.detach {
            report(arguments, &id, "SUBMITTED");
            return Ok(0);
        }
        tokio::select! {
            ended = wait_for_end(&client, &id) => {
                let state = ended.map_err(|error| arguments.target.failed(&error))?;
                report(arguments, &id, &state);
                if state == "FAILED" {
                    tell_why(&client, &id).await;
                }
                Ok(if state == "FINISHED" { 0 } else { Verdict::Fail.exit_code() })
            }
            () = stop.cancelled() => {
                let target = arguments.target.repeated();
                note(format_args!("stopped waiting; the job goes on, `stormproof cancel {id}{target}` ends it"));
                Ok(EXIT_INTERRUPTED)
            }
        }
    })
}

fn report(arguments: &SubmitArguments, id: &str, state: &str) {
    if arguments.json {
        say(json!({ "id": id, "state": state }));
    } else {
        say(format_args!("{id}  {state}"));
    }
}

/// The newest failure, with the task it began in.
async fn tell_why(client: &RestClient, id: &str) {
    let Ok(failures) = client.exceptions(id).await else { return };
    if let Some(failure) = failures.history.entries.first() {
        note(format_args!("stormproof: job {id} failed: {}", reason(failure)));
    }
}

/// The task that failed first, and the chain of causes in one line.
fn reason(failure: &ExceptionEntry) -> String {
    let chain = failure.causes();
    let tasks = std::iter::once(failure).chain(&failure.concurrent_exceptions);
    match tasks.filter_map(|entry| entry.task_name.as_ref()).next() {
        Some(task) => format!("{task}: {chain}"),
        None => chain,
    }
}

async fn wait_for_end(client: &RestClient, id: &str) -> Result<String, RestError> {
    let bar = progress_bar();
    let mut silent_since = None;
    loop {
        match client.job(id).await {
            Ok(job) => {
                silent_since = None;
                bar.set_message(format!("job {id} {}", job.state));
                let (done, all) = finished_tasks(&job);
                bar.set_length(all);
                bar.set_position(done);
                if job.is_globally_terminal() {
                    bar.finish_and_clear();
                    return Ok(job.state);
                }
            }
            Err(error) if error.is_transient() => {
                let since = *silent_since.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() > SILENCE {
                    return Err(error);
                }
                bar.set_message(format!("waiting for the cluster: {error}"));
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn finished_tasks(job: &JobDetail) -> (u64, u64) {
    let done = job.vertices.iter().filter_map(|vertex| vertex.tasks.get("FINISHED")).sum::<i64>();
    let all = job.vertices.iter().map(|vertex| u64::from(vertex.parallelism)).sum();
    (u64::try_from(done).unwrap_or(0), all)
}

fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {pos}/{len} tasks finished  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(stacktrace: &str, task: Option<&str>) -> ExceptionEntry {
        ExceptionEntry {
            stacktrace: stacktrace.to_owned(),
            task_name: task.map(ToOwned::to_owned),
            ..ExceptionEntry::default()
        }
    }

    #[test]
    fn the_reason_is_the_chain_of_causes_and_the_task_it_began_in() {
        assert_eq!(reason(&failure("Boom: why\n\tat a.b.C", Some("map (1/2)"))), "map (1/2): Boom: why");
        let inner = failure("Boom: why", Some("map (1/2)"));
        let outer = ExceptionEntry {
            concurrent_exceptions: vec![inner],
            ..failure("JobException: suppressed\n\tat x\nCaused by: A: b\nCaused by: why", None)
        };
        assert_eq!(reason(&outer), "map (1/2): JobException: suppressed: A: b: why");
        assert_eq!(reason(&failure("no checkpoint store", None)), "no checkpoint store");
    }
}
