//! `stormproof proxy`: Toxiproxy's flags, Toxiproxy's API.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::num::ParseIntError;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use stormproof::chaos::process::raise_open_files_limit;
use stormproof::chaos::toxiproxy::{ServerConfig, ServerError, ToxiproxyServer};
use stormproof::logging::{self, Logging};

use super::output::{note, say};
use super::{CommandError, runtime, stop};

/// Environment variable of the level from which on lines are logged.
const LOG_LEVEL: &str = "LOG_LEVEL";

/// What stands below the flags.
const LOGS: &str = "LOG_LEVEL in the environment (trace, debug, info, warn, error or disabled; default warn) says what \
    is logged, on standard error";

/// Flags that Toxiproxy's users write with one dash.
const ONE_DASH: [&str; 7] = ["-host", "-port", "-config", "-seed", "-version", "-proxy-metrics", "-runtime-metrics"];

/// Arguments of `stormproof proxy`. Toxiproxy's own flags may be written with one dash or two.
#[derive(Debug, Args)]
#[command(version = concat!(env!("CARGO_PKG_VERSION"), " (as Toxiproxy 2.12.0)"), after_help = LOGS)]
pub(super) struct ProxyArguments {
    /// Host that the API listens on
    #[arg(long, default_value = "localhost")]
    host: String,
    /// Port that the API listens on; 0 takes any
    #[arg(long, default_value_t = 8474)]
    port: u16,
    /// JSON file of proxies to create, as for `/populate`; toxics in it are honoured
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start even if the file is bad or not there, and say so, as Toxiproxy does
    #[arg(long)]
    lenient: bool,
    /// Refuse attributes that a toxic does not have, and let populate bring back proxies to what it says of them
    #[arg(long)]
    strict: bool,
    /// Seed of every random choice; may be negative, as Toxiproxy's
    #[arg(long, default_value = "0", value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Serve byte counters at /metrics
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    proxy_metrics: bool,
    /// Serve build information at /metrics
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    runtime_metrics: bool,
    /// Print the endpoint as JSON
    #[arg(long)]
    json: bool,
}

/// Writes Toxiproxy's single-dash flags with two dashes, for the `proxy` command only.
pub(super) fn with_two_dashes(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_proxy = false;
    arguments
        .enumerate()
        .map(|(position, argument)| {
            let Some(text) = argument.to_str() else { return argument };
            is_proxy |= position == 1 && text == "proxy";
            let flag = text.split('=').next().unwrap_or_default();
            if is_proxy && ONE_DASH.contains(&flag) { OsString::from(format!("-{text}")) } else { argument }
        })
        .collect()
}

/// A number of 64 bits, with or without a sign.
fn seed(text: &str) -> Result<u64, ParseIntError> {
    text.parse().or_else(|_| text.parse().map(i64::cast_unsigned))
}

/// Logging as the environment asks for it. What cannot be understood is told; the server has to run all the same.
fn start_logging() -> Logging {
    let asked = std::env::var(LOG_LEVEL).unwrap_or_default();
    let level = if asked.is_empty() { Ok(logging::Level::default()) } else { asked.parse() };
    logging::start(level.unwrap_or_else(|unknown| {
        note(format_args!("stormproof: {LOG_LEVEL}: {unknown}; going on as if it were not set"));
        logging::Level::default()
    }))
}

/// Serves until interrupted.
pub(super) fn proxy(arguments: &ProxyArguments) -> Result<u8, CommandError> {
    let config = ServerConfig {
        listen: address(&arguments.host, arguments.port)?.to_string(),
        seed: arguments.seed,
        proxies_json: proxies(arguments)?,
        strict: arguments.strict,
        lenient: arguments.lenient,
        proxy_metrics: arguments.proxy_metrics,
        runtime_metrics: arguments.runtime_metrics,
        ..ServerConfig::default()
    };
    raise_open_files_limit();
    let _logging = start_logging();
    runtime()?.block_on(async {
        let stop = stop::at_signal_alone()?;
        let server = ToxiproxyServer::start(config).await.map_err(|error| not_started(arguments, &error))?;
        if let (Some(file), Some(error)) = (&arguments.config, server.proxies_error()) {
            note(format_args!(
                "stormproof: {} cannot be applied: {error}; going on without the rest of it",
                file.display()
            ));
        }
        let api = format!("http://{}", server.api_address());
        if arguments.json {
            say(json!({ "proxy-api": api }));
        } else {
            say(format_args!("proxy API {api}"));
        }
        stop.cancelled().await;
        server.shutdown().await;
        Ok(0)
    })
}

/// The text of the config file.
fn proxies(arguments: &ProxyArguments) -> Result<Option<String>, CommandError> {
    let Some(file) = &arguments.config else { return Ok(None) };
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if arguments.lenient => {
            note(format_args!("stormproof: cannot read {}: {error}; going on without it", file.display()));
            Ok(None)
        }
        Err(error) => Err(CommandError::usage(format!(
            "cannot read {}: {error}; name another file, or go on without it with --lenient",
            file.display()
        ))),
    }
}

/// With the name of the file, if that is what is wrong.
fn not_started(arguments: &ProxyArguments, error: &ServerError) -> CommandError {
    match (&arguments.config, error) {
        (Some(file), ServerError::Proxies { message }) => CommandError::usage(format!(
            "{} cannot be applied: {message}; correct it, or go on without the rest of it with --lenient",
            file.display()
        )),
        _ => CommandError::bad_input(error),
    }
}

fn address(host: &str, port: u16) -> Result<SocketAddr, CommandError> {
    let unknown = |reason: String| CommandError::usage(format!("cannot listen on {host}:{port}: {reason}"));
    let mut found = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    // `localhost` may come out as ::1 first; Toxiproxy's clients expect 127.0.0.1.
    let all: Vec<SocketAddr> = found.by_ref().collect();
    let chosen = all.iter().find(|address| address.is_ipv4()).or(all.first());
    chosen.copied().ok_or_else(|| unknown("the name has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from);
        let changed = with_two_dashes(arguments);
        changed.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn toxiproxys_flags_may_have_one_dash() {
        assert_eq!(
            changed("stormproof proxy -host 0.0.0.0 -port=8475 --seed 3"),
            "stormproof proxy --host 0.0.0.0 --port=8475 --seed 3"
        );
    }

    #[test]
    fn a_seed_may_have_a_sign() {
        assert_eq!((seed("7"), seed("-1"), seed("18446744073709551615")), (Ok(7), Ok(u64::MAX), Ok(u64::MAX)));
        assert!(seed("x").is_err());
    }

    #[test]
    fn other_commands_keep_theirs() {
        assert_eq!(changed("stormproof submit proxy -p port=1"), "stormproof submit proxy -p port=1");
        assert_eq!(changed("stormproof run -port"), "stormproof run -port");
    }
}
