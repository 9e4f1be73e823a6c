//! `stormproof jobs` and `stormproof cancel`.

use clap::Args;
use serde_json::json;
use stormproof::flink::{RestClient, RestError};
use stormproof::job::JobId;

use super::output::say;
use super::{CommandError, runtime};

/// Where `stormproof up` puts a cluster unless told otherwise.
const DEFAULT_TARGET: &str = "http://127.0.0.1:8081";

/// Where a cluster is.
#[derive(Debug, Clone, Args)]
pub(super) struct TargetArgument {
    /// REST address of the cluster; several, separated by commas, in case one of its coordinators is gone
    #[arg(long, default_value = DEFAULT_TARGET, value_name = "URL", value_delimiter = ',')]
    target: Vec<String>,
}

impl TargetArgument {
    /// A client of the cluster.
    pub(super) fn client(&self) -> Result<RestClient, CommandError> {
        RestClient::new(self.target.clone()).map_err(|error| CommandError::bad_input(&error))
    }

    /// The argument for another command on the same cluster; nothing if it is the default.
    pub(super) fn repeated(&self) -> String {
        if self.target == [DEFAULT_TARGET] { String::new() } else { format!(" --target {}", self.target.join(",")) }
    }

    /// An error of a call, with what to do about it.
    pub(super) fn failed(&self, error: &RestError) -> CommandError {
        let cluster = self.target.join(", ");
        CommandError::usage(match error {
            RestError::Unreachable { reason, .. } => format!(
                "no cluster answers at {cluster} ({reason}); `stormproof up` starts one, --target names another"
            ),
            RestError::NotFound { message, .. } | RestError::Status { message, .. } if is_page(message) => format!(
                "what answers at {cluster} is no Flink REST API but a web page; --target names the address of a coordinator"
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

/// Flink answers in JSON, whatever went wrong.
fn is_page(message: &str) -> bool {
    message.starts_with('<')
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
    let id = &arguments.id;
    let over = runtime()?.block_on(async {
        match client.job(id).await {
            Ok(job) if job.is_globally_terminal() => Ok(Some(job.state)),
            // Whoever cannot be looked at may still be cancelled.
            _ => client.cancel(id).await.map(|()| None),
        }
    });
    let over = over.map_err(|error| arguments.target.failed(&error))?;
    if arguments.json {
        say(json!({ "id": id, "state": over.as_deref().unwrap_or("CANCELLING") }));
    } else if let Some(state) = over {
        say(format_args!("job {id} is {state} already: there is nothing to cancel"));
    } else {
        say(format_args!("job {id} is being cancelled"));
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
    fn another_command_is_told_where_the_cluster_is_unless_it_knows() {
        let repeated =
            |target: &[&str]| TargetArgument { target: target.iter().map(ToString::to_string).collect() }.repeated();
        assert_eq!(repeated(&[DEFAULT_TARGET]), "");
        assert_eq!(repeated(&["http://a:1", "http://b:2"]), " --target http://a:1,http://b:2");
    }

    #[test]
    fn an_identifier_is_32_hexadecimal_digits() {
        assert_eq!(job_id("00000000000000000000000000c0ffee").as_deref(), Ok("00000000000000000000000000c0ffee"));
        assert!(job_id("c0ffee").is_err_and(|error| error.contains("32 hexadecimal digits")));
    }
}
