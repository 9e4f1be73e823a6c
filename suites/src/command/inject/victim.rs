//! What is to be broken: found, and refused if it must not be.

use std::time::Duration;

use serde_json::json;
use stormproof::chaos::fault::{Fault, HangProcess, KillProcess, ProxyDown, ProxyToxics, SlowProcess};
use stormproof::chaos::process::{OffLimits, ProcessError, ProcessId, victim};
use stormproof::chaos::toxiproxy::{ApiUrl, Toxic, ToxiproxyClient};
use stormproof::plan::{ALLOW_REMOTE, HostNotAllowed, admit_host, is_remote_allowed};

use super::arguments::{FaultArguments, HoldArguments, PlaceArguments};
use super::toxic::{check_real, toxic};
use crate::command::CommandError;

/// In place of the lease's name where there is none yet.
const ANY_LEASE: &str = "LEASE";

/// How often a lease is renewed in its time to live.
const RENEWALS: u8 = 3;

/// A fault and what it will act on.
pub(super) struct Victim {
    fault: Chosen,
    lease_ttl: Duration,
}

enum Chosen {
    Toxic { at: Place, toxic: Toxic },
    Blackhole { at: Place },
    Refuse { at: Place },
    Hang { process: ProcessId },
    Slow { process: ProcessId, percent: u8 },
    Kill { process: ProcessId },
}

/// A proxy that is there.
struct Place {
    client: ToxiproxyClient,
    proxy: String,
    listen: String,
    upstream: String,
    /// Ours tells what its toxics did.
    is_ours: bool,
    is_enabled: bool,
}

impl Victim {
    /// Refuses what must not be hurt, before anything is called, and looks whether it is there.
    pub(super) async fn find(arguments: &FaultArguments) -> Result<Self, CommandError> {
        arguments.hold().map_or(Ok(()), check_duration)?;
        let fault = match arguments {
            FaultArguments::Toxic(arguments) => {
                let toxic = toxic(arguments)?;
                let at = Place::find(&arguments.place).await?;
                if !at.is_ours {
                    check_real(&toxic, at.client.base_url())?;
                }
                Chosen::Toxic { at, toxic }
            }
            FaultArguments::Blackhole(arguments) => Chosen::Blackhole { at: Place::find(&arguments.place).await? },
            FaultArguments::Refuse(arguments) => {
                let at = Place::find(&arguments.place).await?;
                if !at.is_enabled {
                    return Err(CommandError::not_there(format!(
                        "proxy {} of {} is disabled already; enabling it afterwards would undo what somebody else did",
                        at.proxy,
                        at.client.base_url()
                    )));
                }
                Chosen::Refuse { at }
            }
            FaultArguments::Hang(arguments) => Chosen::Hang { process: running(arguments.pid)? },
            FaultArguments::Slow(arguments) => {
                Chosen::Slow { process: running(arguments.process.pid)?, percent: arguments.percent }
            }
            FaultArguments::Kill(arguments) => Chosen::Kill { process: process(arguments.pid)? },
        };
        Ok(Self { fault, lease_ttl: arguments.hold().map_or(Duration::ZERO, HoldArguments::lease_ttl) })
    }

    /// The fault, held by the run `tag`.
    pub(super) fn fault(&self, tag: &str) -> Box<dyn Fault> {
        match &self.fault {
            Chosen::Toxic { at, .. } | Chosen::Blackhole { at } => Box::new(self.toxics(at, tag)),
            Chosen::Refuse { at } => {
                let fault = ProxyDown::new(at.client.clone(), &at.proxy, self.lease_ttl);
                Box::new(fault.with_way(&at.listen, &at.upstream))
            }
            Chosen::Hang { process } => Box::new(HangProcess::new("hang", process.name(), *process)),
            Chosen::Slow { process, percent } => Box::new(SlowProcess::new("slow", process.name(), *process, *percent)),
            Chosen::Kill { process } => Box::new(KillProcess::new("kill", process.name(), *process)),
        }
    }

    fn toxics(&self, at: &Place, tag: &str) -> ProxyToxics {
        let client = at.client.clone();
        let fault = match &self.fault {
            Chosen::Toxic { toxic, .. } => ProxyToxics::one(client, &at.proxy, toxic.clone(), tag, self.lease_ttl),
            _ => ProxyToxics::blackhole(client, &at.proxy, at.is_ours, tag, self.lease_ttl),
        };
        fault.with_way(&at.listen, &at.upstream)
    }

    /// Where the proxy listens and where it leads to; none for a process.
    pub(super) fn way(&self) -> Option<(&str, &str)> {
        match &self.fault {
            Chosen::Toxic { at, .. } | Chosen::Blackhole { at } | Chosen::Refuse { at } => {
                Some((&at.listen, &at.upstream))
            }
            Chosen::Hang { .. } | Chosen::Slow { .. } | Chosen::Kill { .. } => None,
        }
    }

    /// What would be done and undone by the run `tag`, call by call.
    pub(super) fn steps(&self, tag: &str) -> Vec<String> {
        match &self.fault {
            Chosen::Toxic { at, .. } | Chosen::Blackhole { at } => {
                let fault = self.toxics(at, tag);
                let path = format!("{}/proxies/{}/toxics", at.client.base_url(), at.proxy);
                let add = |toxic: &Toxic| format!("POST {path} {}", json!(toxic));
                let remove = |toxic: &Toxic| format!("DELETE {path}/{}", toxic.name);
                let (add, remove) = (fault.toxics().iter().map(add), fault.toxics().iter().rev().map(remove));
                self.leased(at, add.collect(), remove.collect())
            }
            Chosen::Refuse { at } => {
                let path = format!("{}/proxies/{}", at.client.base_url(), at.proxy);
                let [down, up] =
                    [false, true].map(|enabled| vec![format!("PATCH {path} {}", json!({ "enabled": enabled }))]);
                self.leased(at, down, up)
            }
            Chosen::Hang { process } => ["SIGSTOP", "SIGCONT"].map(|signal| format!("{signal} to {process}")).to_vec(),
            Chosen::Slow { process, percent } => {
                let rest = 100 - percent;
                vec![
                    format!("SIGSTOP and SIGCONT in turn to {process}, stopped for {rest} % of the time"),
                    format!("SIGCONT to {process}"),
                ]
            }
            Chosen::Kill { process } => vec![format!("SIGKILL to {process}")],
        }
    }

    /// The same with the lease that they belong to. Whether a server knows leases is found out by asking for one.
    fn leased(&self, at: &Place, done: Vec<String>, undone: Vec<String>) -> Vec<String> {
        let leases = format!("{}/leases", at.client.base_url());
        let body = json!({ "id": ANY_LEASE, "ttl_ms": u64::try_from(self.lease_ttl.as_millis()).unwrap_or(u64::MAX) });
        let take = format!("POST {leases} {body}");
        if !at.is_ours {
            let take = format!("{take} (answered 404: it knows no leases)");
            return [vec![take], done, undone].concat();
        }
        let every = self.lease_ttl.as_secs_f64() / f64::from(RENEWALS);
        let renew = format!("PATCH {leases}/{ANY_LEASE} {body} (each {every:.1} s while it is held)");
        let end = format!("DELETE {leases}/{ANY_LEASE}");
        [vec![take], done, vec![renew], undone, vec![end]].concat()
    }
}

fn check_duration(hold: &HoldArguments) -> Result<(), CommandError> {
    if hold.hold_for <= hold.max {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "a fault of {} s is longer than the {} s that are allowed; --max allows more",
        hold.hold_for.as_secs_f64(),
        hold.max.as_secs_f64()
    )))
}

/// A process that is not stopped.
fn running(pid: u32) -> Result<ProcessId, CommandError> {
    let process = process(pid)?;
    if process.is_stopped() {
        return Err(CommandError::not_there(format!(
            "{process} is stopped already; continuing it afterwards would undo what somebody else did"
        )));
    }
    Ok(process)
}

fn process(pid: u32) -> Result<ProcessId, CommandError> {
    match victim(pid) {
        Ok(process) if process.is_alive() => Ok(process),
        Ok(_) => Err(CommandError::not_there(format!("pid {pid} is dead already"))),
        Err(error @ OffLimits::Process(ProcessError::Gone(_))) => Err(CommandError::not_there(error.to_string())),
        Err(error @ OffLimits::Process(_)) => Err(CommandError::precondition(&error)),
        Err(error) => Err(CommandError::refused(format!("{error}, so it is not touched"))),
    }
}

impl Place {
    async fn find(arguments: &PlaceArguments) -> Result<Self, CommandError> {
        let api = ApiUrl::parse(&arguments.proxy_api).map_err(|error| CommandError::bad_input(&error))?;
        let named = arguments.allowed_hosts.iter().cloned().collect();
        admit_host(&api, &named, is_remote_allowed()).map_err(|error| not_allowed(&error))?;
        let client = ToxiproxyClient::new(&api.url);
        let mut proxies = client.list().await.map_err(|error| CommandError::precondition(&error))?;
        let Some(found) = proxies.remove(&arguments.proxy) else {
            let names = proxies.into_keys().collect::<Vec<_>>().join(", ");
            let others = if names.is_empty() { "there is none".to_owned() } else { format!("there are {names}") };
            return Err(CommandError::not_there(format!(
                "no proxy of {} is called {}; {others}",
                api.url, arguments.proxy
            )));
        };
        let is_ours = match client.effects(&found.name).await {
            Err(error) if error.is_not_found() => false,
            other => other.map(|_| true).map_err(|error| CommandError::precondition(&error))?,
        };
        Ok(Self {
            client,
            proxy: found.name,
            listen: found.listen,
            upstream: found.upstream,
            is_ours,
            is_enabled: found.enabled,
        })
    }
}

fn not_allowed(error: &HostNotAllowed) -> CommandError {
    CommandError::refused(format!(
        "{} is not on this machine; if it may be hurt, say so twice: with --allow-host {} and with {ALLOW_REMOTE}=1 in the environment",
        error.url, error.host
    ))
}
