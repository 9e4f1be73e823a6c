//! `stormproof jobs` and `stormproof cancel`.

use clap::Args;
use serde_json::json;
use stormproof::flink::{RestClient, RestError};
use stormproof::job::JobId;

use super::output::say;
use super::{CommandError, runtime};

/// Where a cluster is.
#[derive(Debug, Clone, Args)]
pub(super) struct TargetArgument {
    /// REST address of the cluster; several, separated by commas, in case one of its coordinators is gone
    #[arg(long, default_value = "http://127.0.0.1:8081", value_name = "URL", value_delimiter = ',')]
    target: Vec<String>,
}

impl TargetArgument {
    /// A client of the cluster.
    pub(super) fn client(&self) -> Result<RestClient, CommandError> {
        RestClient::new(self.target.clone()).map_err(|error| CommandError::bad_input(&error))
    }

    /// An error of a call, with what to do about it.
    pub(super) fn failed(&self, error: &RestError) -> CommandError {
        let cluster = self.target.join(", ");
        CommandError::usage(match error {
            RestError::Unreachable { reason, .. } => format!(
                "no cluster answers at {cluster} ({reason}); `stormproof up` starts one, --target names another"
            ),
            // What was asked for is wrong, and the cluster says why.
            RestError::NotFound { message, .. }
            | RestError::Conflict { message, .. }
            | RestError::Status { status: 400..500, message, .. } => {
                format!("the cluster at {cluster} refused: {}", plain(message))
            }
            _ => format!("the cluster at {cluster} did not do it: {error}"),
        })
    }
}

/// A message without the Java class that Flink's clients expect in front.
fn plain(message: &str) -> &str {
    match message.split_once(": ") {
        Some((class, rest)) if class.contains('.') && !class.contains(' ') => rest,
        _ => message,
    }
}

/// Arguments of `stormproof jobs`.
#[derive(Debug, Args)]
pub(super) struct JobsArguments {
    #[command(flatten)]
    target: TargetArgument,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `stormproof cancel`.
#[derive(Debug, Args)]
pub(super) struct CancelArguments {
    /// Identifier of the job, as `stormproof jobs` lists it
    #[arg(value_parser = job_id)]
    id: String,
    #[command(flatten)]
    target: TargetArgument,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Checked here, so that a slip of the hand needs no cluster to be found.
fn job_id(text: &str) -> Result<String, String> {
    text.parse::<JobId>().map(|id| id.to_string()).map_err(|error| error.to_string())
}

/// Lists jobs.
pub(super) fn jobs(arguments: &JobsArguments) -> Result<u8, CommandError> {
    let client = arguments.target.client()?;
    let answer = runtime()?.block_on(client.jobs_overview()).map_err(|error| arguments.target.failed(&error))?;
    if arguments.json {
        let jobs: Vec<_> = answer
            .jobs
            .iter()
            .map(|job| json!({"id": job.jid, "name": job.name, "state": job.state, "start-time": job.start_time}))
            .collect();
        say(json!({ "jobs": jobs }));
    } else if answer.jobs.is_empty() {
        say("no jobs");
    } else {
        for job in &answer.jobs {
            say(format_args!("{}  {:12}  {}", job.jid, job.state, job.name));
        }
    }
    Ok(0)
}

/// Cancels a job.
pub(super) fn cancel(arguments: &CancelArguments) -> Result<u8, CommandError> {
    let client = arguments.target.client()?;
    runtime()?.block_on(client.cancel(&arguments.id)).map_err(|error| arguments.target.failed(&error))?;
    if arguments.json {
        say(json!({ "id": arguments.id, "state": "CANCELLING" }));
    } else {
        say(format_args!("job {} is being cancelled", arguments.id));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_classes_are_not_shown_to_people() {
        assert_eq!(plain("org.apache.flink.runtime.rest.NotFoundException: Job 1 not found"), "Job 1 not found");
        assert_eq!(
            plain("savepoints are not supported: leave them out"),
            "savepoints are not supported: leave them out"
        );
    }

    #[test]
    fn an_identifier_is_32_hexadecimal_digits() {
        assert_eq!(job_id("00000000000000000000000000c0ffee").as_deref(), Ok("00000000000000000000000000c0ffee"));
        assert!(job_id("c0ffee").is_err_and(|error| error.contains("32 hexadecimal digits")));
    }
}
