//! `stormproof s3`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use stormproof::chaos::process::raise_open_files_limit;
use stormproof::store::{BackendError, RuleSet, Rules, S3Server, S3ServerConfig};

use super::output::say;
use super::{CommandError, runtime, stop};

/// The example of [`RuleSet`], of which the rest can be guessed, and what the admin port is asked.
const MORE: &str = "A rules file: the second read of any checkpoint's metadata waits for 3 s

  seed = 7

  [[rules]]
  name = \"slow metadata\"
  operations = [\"GetObject\"]
  key = \"*/_metadata\"
  nth = { first = 2, count = 1 }
  effect = { kind = \"stall-headers\", ms = 3000 }

The admin port is asked with JSON over HTTP
  GET /ledger?since=SEQ          the requests so far, those above a number
  GET /leftovers                 every object and open upload in the store
  GET /rules                     what each rule matched and acted on
  PUT /rules                     a set of rules, in the place of all others
  DELETE /rules[/NAME]           heal: remove all rules, or one
  GET /snapshots                 the snapshots that are kept
  POST /snapshots                keep a bucket as it is: {\"name\": …, \"bucket\": …}
  POST /snapshots/NAME/restore   set the bucket back to it
  DELETE /snapshots/NAME         forget it";

/// Arguments of `stormproof s3`.
#[derive(Debug, Args)]
#[command(after_help = MORE)]
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
    /// Rules that hurt requests, as TOML, see below (or JSON, if the name ends in .json); what each did is told at the end
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Address of this machine on which the server is looked into and set back, see below; port 0 takes any [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Folder in which everything is kept over a restart; made if it is not there. Without it all is in memory only
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the endpoint, and at the end what the rules did, as JSON
    #[arg(long)]
    json: bool,
}

/// Serves until interrupted.
pub(super) fn s3(arguments: &S3Arguments) -> Result<u8, CommandError> {
    let rules = arguments.rules.as_deref().map(read_rules).transpose()?;
    raise_open_files_limit();
    runtime()?.block_on(async {
        let stop = stop::at_signal_alone()?;
        let config = S3ServerConfig {
            listen: arguments.listen,
            access_key: arguments.access_key.clone(),
            secret_key: arguments.secret_key.clone(),
            admin: arguments.admin,
            data: arguments.data.clone(),
            ..S3ServerConfig::default()
        };
        let server = S3Server::start(config).await.map_err(|error| CommandError::bad_input(&error))?;
        for bucket in &arguments.buckets {
            match server.backend().create_bucket(bucket) {
                // It comes from the data folder.
                Err(BackendError::BucketExists { .. }) if arguments.data.is_some() => {}
                created => created.map_err(|error| CommandError::bad_input(&error))?,
            }
        }
        if let Some(rules) = rules {
            server.rules().set(rules).map_err(|error| CommandError::bad_input(&error))?;
        }
        if arguments.json {
            let (endpoint, admin) = (server.endpoint(), server.admin_endpoint());
            say(json!({ "endpoint": endpoint, "buckets": arguments.buckets, "admin": admin }));
        } else {
            let admin = server.admin_endpoint().map_or(String::new(), |admin| format!(", its admin port at {admin}"));
            say(format_args!("S3 at {}{admin}", server.endpoint()));
        }
        stop.cancelled().await;
        // Those that came over the admin port, too.
        if arguments.rules.is_some() || !server.rules().counts().is_empty() {
            tell(&server.rules(), arguments.json);
        }
        server.shutdown().await.map_err(|error| CommandError::internal(&error))?;
        Ok(0)
    })
}

fn read_rules(path: &Path) -> Result<RuleSet, CommandError> {
    let refused = |why: String| CommandError::usage(format!("the rules file {} cannot be used: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let parsed = if is_json {
        serde_json::from_str::<RuleSet>(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str::<RuleSet>(&text).map_err(|error| in_one_line(&text, &error))
    };
    let rules = parsed.map_err(refused)?;
    rules.check().map_err(|error| refused(error.to_string()))?;
    Ok(rules)
}

/// Where and what, without the picture of the line that the parser would draw.
fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let place = before.map_or(String::new(), |before| format!("line {}: ", before.matches('\n').count() + 1));
    place + error.message()
}

/// What each rule did. One that did nothing is what a user must not overlook: the test behind it proved nothing.
fn tell(rules: &Rules, as_json: bool) {
    let counts = rules.counts();
    if as_json {
        say(json!({ "rules": counts }));
        return;
    }
    for (name, count) in counts {
        let idle = if count.acted == 0 { ": it did nothing" } else { "" };
        say(format_args!("rule {name:?} matched {}, acted on {}{idle}", count.matched, count.acted));
    }
}
