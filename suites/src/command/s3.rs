//! `stormproof s3`.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use stormproof::store::{S3Server, S3ServerConfig};

use super::output::say;
use super::{CommandError, runtime, stop};

/// Arguments of `stormproof s3`.
#[derive(Debug, Args)]
pub(super) struct S3Arguments {
    /// Address to listen on; port 0 takes any
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDR")]
    listen: SocketAddr,
    /// The only access key that is let in
    #[arg(long, default_value = "stormproof")]
    access_key: String,
    /// Its secret
    #[arg(long, default_value = "stormproof-secret", env = "STORMPROOF_SECRET_KEY", hide_env_values = true)]
    secret_key: String,
    /// Buckets to create
    #[arg(long = "bucket", value_name = "NAME")]
    buckets: Vec<String>,
    /// Print the endpoint as JSON
    #[arg(long)]
    json: bool,
}

/// Serves until interrupted. Everything is in memory.
pub(super) fn s3(arguments: &S3Arguments) -> Result<u8, CommandError> {
    runtime()?.block_on(async {
        let stop = stop::at_signal()?;
        let config = S3ServerConfig {
            listen: arguments.listen,
            access_key: arguments.access_key.clone(),
            secret_key: arguments.secret_key.clone(),
            ..S3ServerConfig::default()
        };
        let server = S3Server::start(config).await.map_err(|error| CommandError::bad_input(&error))?;
        for bucket in &arguments.buckets {
            server.backend().create_bucket(bucket).map_err(|error| CommandError::bad_input(&error))?;
        }
        if arguments.json {
            say(json!({ "endpoint": server.endpoint(), "buckets": arguments.buckets }));
        } else {
            say(format_args!("S3 at {}", server.endpoint()));
        }
        stop.cancelled().await;
        server.shutdown().await.map_err(|error| CommandError::internal(&error))?;
        Ok(0)
    })
}
