//! `inject`: one fault on a proxy or a process that is there already.
//!
//! | module | what it tests |
//! | --- | --- |
//! | `effect` | what each fault does, and what is told of it |
//! | `end` | it ends, whoever dies or ends it before its time |
//! | `kill` | SIGKILL at many moments |
//! | `refused` | what is refused or only asked for is not done |

mod effect;
mod end;
mod kill;
mod refused;

use crate::support::{DEADLINE, Finished, NAME, ProxyServer, Running, Sandbox, eventually};

/// `inject` with a fault on the proxy of `server`.
fn on_proxy<'a>(server: &'a ProxyServer, fault: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["inject", fault, "--proxy-api", &server.api, "--proxy", NAME], more].concat()
}

/// Long enough for a test to notice that something is broken, and to use it.
const WINDOW: &str = "2s";

const LATENCY: [&str; 4] = ["--type", "latency", "--attribute", "latency=200"];

/// Without what its progress said: that is no part of the result.
fn ended(finished: &Finished, code: i32) -> &Finished {
    assert_eq!(finished.code(), Some(code), "{finished:?}");
    finished
}

/// The proxy is broken.
fn until_broken(server: &ProxyServer) {
    eventually("something is broken", DEADLINE, || (!server.is_whole()).then_some(()));
}

/// Everything but the proxy server itself is gone.
fn assert_only_left(sandbox: &Sandbox, proxy: &Running) {
    let pids: Vec<u32> = sandbox.processes().iter().map(|found| found.pid).collect();
    assert_eq!((pids, sandbox.leftovers()), (vec![proxy.pid()], vec![]));
}
