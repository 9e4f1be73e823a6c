//! `stormproof up`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use stormproof::plan::ClusterShape;
use stormproof::target::TargetError;
use stormproof::target::bundled::{BundledCluster, BundledConfig};

use super::output::say;
use super::parts::PartsArguments;
use super::{CommandError, runtime, settings, stop};

/// Slots of each executor, unless told otherwise.
const DEFAULT_SLOTS: u32 = 2;

/// Most slots of each executor.
const MAX_SLOTS: i64 = 1024;

/// Flink's key for the slots of each executor.
const SLOTS_KEY: &str = "taskmanager.numberOfTaskSlots";

/// Arguments of `stormproof up`.
#[derive(Debug, Args)]
pub(super) struct UpArguments {
    /// Number of executors
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    executors: u32,
    /// Slots of each executor [default: 2, or what -D taskmanager.numberOfTaskSlots says]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MAX_SLOTS))]
    slots: Option<u32>,
    /// Coordinators that wait to take over
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=8))]
    standbys: u32,
    /// Address of the first coordinator's REST API; port 0 takes any
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDR")]
    rest: SocketAddr,
    #[command(flatten)]
    parts: PartsArguments,
    /// Folder of the HA store, kept after the end [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    ha: Option<PathBuf>,
    /// Folder for logs and the fault journal
    #[arg(long, value_name = "DIR", default_value = "stormproof-up")]
    logs: PathBuf,
    /// Cluster configuration, by Flink's keys
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print the endpoints as JSON
    #[arg(long)]
    json: bool,
}

/// Starts a cluster and stays until interrupted.
pub(super) fn up(arguments: &UpArguments) -> Result<u8, CommandError> {
    let settings = settings::pairs("-D", &arguments.settings)?;
    let parts = arguments.parts.choices()?;
    let slots = slots(arguments.slots, &settings)?;
    let shape = ClusterShape { executors: arguments.executors, slots, standbys: arguments.standbys, settings };
    runtime()?.block_on(async {
        let stop = stop::at_signal()?;
        let config = BundledConfig {
            shape,
            run_dir: arguments.logs.clone(),
            rest: Some(arguments.rest),
            ha_dir: arguments.ha.clone(),
            seed: 0,
            parts,
            lease_ttl: None,
            network_links: false,
            stop: stop.clone(),
        };
        let cluster = match BundledCluster::start(config).await {
            Ok(cluster) => cluster,
            Err(TargetError::Stopped) => return Ok(0),
            Err(error) => return Err(not_started(&error)),
        };
        announce(&cluster, arguments.json);
        stop.cancelled().await;
        cluster.shutdown().await.map_err(|error| CommandError::internal(&error))?;
        Ok(0)
    })
}

/// Slots of each executor: as the flag says, or the configuration, and not each in its own way.
fn slots(flag: Option<u32>, settings: &BTreeMap<String, String>) -> Result<u32, CommandError> {
    let Some(text) = settings.get(SLOTS_KEY) else { return Ok(flag.unwrap_or(DEFAULT_SLOTS)) };
    let slots = text.trim().parse().ok().filter(|slots| (1..=MAX_SLOTS).contains(&i64::from(*slots)));
    let slots: u32 = slots
        .ok_or_else(|| CommandError::usage(format!("-D {SLOTS_KEY}={text} is no number from 1 to {MAX_SLOTS}")))?;
    match flag {
        Some(other) if other != slots => Err(CommandError::usage(format!(
            "--slots {other} and -D {SLOTS_KEY}={text} contradict each other; leave one of them out"
        ))),
        _ => Ok(slots),
    }
}

/// What was asked for is wrong, or this machine is.
fn not_started(error: &TargetError) -> CommandError {
    match error {
        TargetError::Settings(_)
        | TargetError::AddressInUse(_)
        | TargetError::Address { .. }
        | TargetError::HaInUse { .. }
        | TargetError::Record(_)
        | TargetError::File { .. } => CommandError::bad_input(error),
        _ => CommandError::precondition(error),
    }
}

fn announce(cluster: &BundledCluster, json: bool) {
    let link = cluster.store_link();
    if json {
        let ready = json!({
            "rest": cluster.rest_addresses(),
            "store": cluster.store_endpoint(),
            "store-through-proxy": format!("http://{}", link.address),
            "proxy-api": link.client.base_url(),
            "processes": cluster.processes().iter().map(|(name, process)| (name.clone(), process.pid)).collect::<std::collections::BTreeMap<_, _>>(),
            "ready-ms": cluster.timings().ready.as_millis(),
        });
        say(ready);
    } else {
        say(format_args!(
            "ready after {} ms: REST {}; store {} (through proxy: http://{}); proxy API {}",
            cluster.timings().ready.as_millis(),
            cluster.rest_addresses().join(" "),
            cluster.store_endpoint(),
            link.address,
            link.client.base_url(),
        ));
        for (name, process) in cluster.processes() {
            say(format_args!("  {name} ({process})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_told_once() {
        let with = |text: &str| BTreeMap::from([(SLOTS_KEY.to_owned(), text.to_owned())]);
        let slots = |flag, settings| slots(flag, &settings).map_err(|error| error.message);
        assert_eq!(slots(None, BTreeMap::new()), Ok(DEFAULT_SLOTS));
        assert_eq!(slots(Some(3), BTreeMap::new()), Ok(3));
        assert_eq!(slots(None, with("5")), Ok(5));
        assert_eq!(slots(Some(5), with("5")), Ok(5));
        assert!(slots(Some(2), with("5")).is_err_and(|error| error.contains("contradict each other")));
        assert!(slots(None, with("0")).is_err_and(|error| error.contains("no number from 1 to 1024")));
    }
}
