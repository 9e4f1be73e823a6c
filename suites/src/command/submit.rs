//! `stormproof submit`.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use stormproof::flink::job::JobDetail;
use stormproof::flink::{RestClient, RestError, RunRequest};
use stormproof::verdict::Verdict;

use super::jobs::TargetArgument;
use super::{CommandError, INTERRUPTED, interrupted, runtime, settings};

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
        let id = client.run_jar(&arguments.job, &request).await.map_err(|error| arguments.target.failed(&error))?;
        if arguments.detach {
            report(arguments, &id, "SUBMITTED");
            return Ok(0);
        }
        tokio::select! {
            ended = wait_for_end(&client, &id) => {
                let state = ended.map_err(|error| arguments.target.failed(&error))?;
                report(arguments, &id, &state);
                Ok(if state == "FINISHED" { 0 } else { Verdict::Fail.exit_code() })
            }
            () = interrupted() => {
                eprintln!("stopped waiting; the job goes on, `stormproof cancel {id}` ends it");
                Ok(INTERRUPTED)
            }
        }
    })
}

fn report(arguments: &SubmitArguments, id: &str, state: &str) {
    if arguments.json {
        println!("{}", json!({ "id": id, "state": state }));
    } else {
        println!("{id}  {state}");
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
