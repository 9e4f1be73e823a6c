//! Writes beyond the largest size of a file: they fail, like those to a full disk, and do not kill the process.

use std::convert::Infallible;
use std::path::Path;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

/// Outlives such writes from now on. None: they end the process.
pub(super) fn outlived() -> Option<Signal> {
    // The handler stays for the life of the process, also when nobody listens any more.
    let handled = signal(SignalKind::from_raw(Number::XFSZ.as_raw()));
    handled
        .inspect_err(|error| warn!(%error, "cannot handle SIGXFSZ: a file that grows too large ends the process"))
        .ok()
}

/// Tells whoever has set the limit that a write has met it, by the file `full-<executor>` in the chaos folder. The file
/// stays empty: it is one of those that cannot grow. Never resolves.
pub(super) async fn told(met: Option<Signal>, folder: Option<&Path>, executor: &str) -> Infallible {
    let (Some(mut met), Some(folder)) = (met, folder) else { return std::future::pending().await };
    let file = folder.join(format!("full-{executor}"));
    while met.recv().await.is_some() {
        if let Err(error) = tokio::fs::File::create(&file).await {
            warn!(%error, file = %file.display(), "cannot tell that a write failed for the size of its file");
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_write_that_met_the_limit_is_told_by_an_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("full-executor-1");
        let met = outlived();
        let telling = told(met, Some(folder.path()), "executor-1");
        let met_and_told = async {
            // What the kernel sends with such a write.
            rustix::process::kill_process(rustix::process::getpid(), Number::XFSZ).unwrap();
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            never = telling => match never {},
            waited = tokio::time::timeout(Duration::from_secs(20), met_and_told) => waited.expect("it is told"),
        }
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    }
}
