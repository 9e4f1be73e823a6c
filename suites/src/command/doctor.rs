//! `stormproof doctor`: what this machine can do, and what is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::json;
use stormproof::chaos::part::RealPart;
use stormproof::job::JobRegistry;
use stormproof::verdict::Verdict;

use super::output::say;
use super::{CommandError, parity};

/// Arguments of `stormproof doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Count the parity rows of the reference that have a test, from this workspace's sources
    #[arg(long)]
    parity: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    /// Nothing runs without it.
    needed: bool,
    found: Result<String, String>,
}

/// Looks at everything; exit code 6 (precondition) if something that is needed is missing.
pub(super) fn doctor(arguments: &DoctorArguments) -> Result<u8, CommandError> {
    if arguments.parity {
        return parity::print(arguments.json);
    }
    let checks = [
        Check { name: "processes", needed: true, found: own_binary() },
        Check { name: "process list", needed: true, found: process_list() },
        Check { name: "temporary folder", needed: true, found: temporary_folder() },
        Check { name: "loopback", needed: true, found: loopback() },
        Check { name: "jobs", needed: true, found: jobs() },
        Check { name: "real Toxiproxy", needed: false, found: real(RealPart::ToxiproxyServer, "--proxy toxiproxy") },
        Check { name: "toxiproxy-cli", needed: false, found: real(RealPart::ToxiproxyCli, "its tests") },
        Check { name: "real MinIO", needed: false, found: real(RealPart::Minio, "--store minio") },
        Check { name: "Java", needed: false, found: on_path("java", "needed only for a real Flink") },
        Check { name: "Docker", needed: false, found: docker() },
    ];
    if arguments.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|check| {
                let (ok, text) = match &check.found {
                    Ok(text) => (true, text),
                    Err(text) => (false, text),
                };
                json!({ "check": check.name, "needed": check.needed, "ok": ok, "found": text })
            })
            .collect();
        say(json!({ "checks": rows }));
    } else {
        for check in &checks {
            let (mark, text) = match (&check.found, check.needed) {
                (Ok(text), _) => ("ok", text),
                (Err(text), true) => ("MISSING", text),
                (Err(text), false) => ("absent", text),
            };
            say(format_args!("{mark:8} {:18} {text}", check.name));
        }
    }
    let sick = checks.iter().any(|check| check.needed && check.found.is_err());
    Ok(if sick { Verdict::Precondition.exit_code() } else { 0 })
}

fn own_binary() -> Result<String, String> {
    let path = std::env::current_exe().map_err(|error| format!("this binary cannot be found: {error}"))?;
    Ok(format!("executors are made of {}", path.display()))
}

fn process_list() -> Result<String, String> {
    match std::fs::read("/proc/self/environ") {
        Ok(_) => Ok("processes are found by their tag in /proc".to_owned()),
        Err(error) => Err(format!("/proc cannot be read ({error}); leftovers could not be found")),
    }
}

fn temporary_folder() -> Result<String, String> {
    let folder = std::env::temp_dir();
    let probe = folder.join(format!("stormproof-doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"probe").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => Ok(format!("{} can be written", folder.display())),
        Err(error) => Err(format!("{} cannot be written ({error}); set TMPDIR to another folder", folder.display())),
    }
}

fn loopback() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| format!("cannot listen: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::net::TcpStream::connect(address).map_err(|error| format!("cannot connect to {address}: {error}"))?;
    Ok("ports can be bound and reached".to_owned())
}

fn jobs() -> Result<String, String> {
    let mut registry = JobRegistry::default();
    crate::jobs::register(&mut registry);
    let names: Vec<&str> = registry.names().collect();
    if names.is_empty() { Err("this binary has no jobs".to_owned()) } else { Ok(names.join(", ")) }
}

fn real(part: RealPart, needed_for: &str) -> Result<String, String> {
    let missing = |missing| format!("{missing}; needed only for {needed_for}");
    part.find().map(|path| path.display().to_string()).map_err(missing)
}

fn on_path(program: &str, otherwise: &str) -> Result<String, String> {
    find(program)
        .map(|path| path.display().to_string())
        .ok_or_else(|| format!("`{program}` is not on PATH; {otherwise}"))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_file(file))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

fn docker() -> Result<String, String> {
    on_path("docker", "needed only for containers")?;
    let answer = Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output();
    match answer {
        Ok(output) if output.status.success() => {
            Ok(format!("engine {}", String::from_utf8_lossy(&output.stdout).trim()))
        }
        _ => Err("the client is there, but no engine answers; needed only for containers".to_owned()),
    }
}
