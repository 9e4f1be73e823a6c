//! A real Toxiproxy as a process: how it is told to start, and when it is ready.
//!
//! It takes any free port, and the kernel tells which: it does not end when its port is taken but stays without one,
//! so a port chosen beforehand could be answered by somebody else.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ToxiproxyClient;
use crate::process::ProcessId;

/// Its arguments: loopback, any free port.
pub const ARGUMENTS: [&str; 4] = ["-host", "127.0.0.1", "-port", "0"];

/// Pause between two looks whether it is ready.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A real Toxiproxy did not come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Its process has ended.
    #[error("toxiproxy-server ended at its start")]
    Ended,
    /// Its API does not answer.
    #[error("the API of toxiproxy-server did not answer within {} s", .0.as_secs())]
    Silent(Duration),
}

/// Waits until the API of `process` answers; its base URL.
///
/// # Errors
/// When the process ends or `deadline` passes.
pub async fn ready(process: ProcessId, deadline: Duration) -> Result<String, NotReady> {
    let end = Instant::now() + deadline;
    loop {
        // It has no proxy yet, so the one address is that of the API.
        if let Some(address) = process.listens_on().first() {
            let url = format!("http://{address}");
            if ToxiproxyClient::new(&url).version().await.is_ok() {
                return Ok(url);
            }
        }
        if !process.is_alive() {
            return Err(NotReady::Ended);
        }
        if Instant::now() >= end {
            return Err(NotReady::Silent(deadline));
        }
        sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn a_process_that_ends_or_stays_silent_is_told_apart() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let process = ProcessId::of(child.id()).expect("it runs");
        let short = Duration::from_millis(20);
        assert_eq!(ready(process, short).await, Err(NotReady::Silent(short)));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(ready(process, Duration::from_secs(20)).await, Err(NotReady::Ended));
    }
}
