//! `stormproof jobs` and `stormproof cancel`.

use clap::Args;
use serde_json::json;
use stormproof::flink::{RestClient, RestError};

use super::{CommandError, runtime};

/// Where a cluster is.
#[derive(Debug, Clone, Args)]
pub(super) struct TargetArgument {
    /// REST address of the cluster; several, separated by commas, if it has standbys
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
        let hint = match error {
            RestError::Unreachable { .. } => "; is a cluster up? `stormproof up` starts one, --target names another",
            _ => "",
        };
        CommandError::usage(format!("{error}{hint}"))
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
    /// Identifier of the job
    id: String,
    #[command(flatten)]
    target: TargetArgument,
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
        println!("{}", json!({ "jobs": jobs }));
    } else if answer.jobs.is_empty() {
        println!("no jobs");
    } else {
        for job in &answer.jobs {
            println!("{}  {:12}  {}", job.jid, job.state, job.name);
        }
    }
    Ok(0)
}

/// Cancels a job.
pub(super) fn cancel(arguments: &CancelArguments) -> Result<u8, CommandError> {
    let client = arguments.target.client()?;
    runtime()?.block_on(client.cancel(&arguments.id)).map_err(|error| arguments.target.failed(&error))?;
    println!("job {} is being cancelled", arguments.id);
    Ok(0)
}
