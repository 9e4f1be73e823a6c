//! What ties a child to its runner: the parent-death signal, and the end of the standard input pipe.

use std::io;
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use stormproof_chaos::guardian::await_end;
use tokio::sync::oneshot;

/// How long a clean end may take once the pipe has ended; then the process exits all the same.
const GRACE: Duration = Duration::from_secs(5);

/// The tie. [`Lifeline::ended`] completes when the process should end.
#[derive(Debug)]
pub(super) struct Lifeline {
    ended: oneshot::Receiver<()>,
}

/// Asks the kernel to kill us (even while stopped) when the *thread* that started us ends, which is why the launcher
/// starts children from a thread that lives as long as the cluster.
pub(super) fn die_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the call above: then nobody will ever send the signal.
    if getppid().is_none_or(|parent| parent.is_init()) {
        return Err(io::Error::other("the runner is gone"));
    }
    Ok(())
}

impl Lifeline {
    /// Ties this process to its parent. Call once, after the configuration line was read.
    pub(super) fn tie() -> io::Result<Self> {
        die_with_parent()?;
        let (send, ended) = oneshot::channel();
        std::thread::Builder::new().name("lifeline".to_owned()).spawn(move || {
            await_end(io::stdin().lock());
            let _ = send.send(());
            // The last resort if the clean end hangs; normally the process is gone long before.
            std::thread::sleep(GRACE);
            eprintln!("the clean end took more than {} s", GRACE.as_secs());
            std::process::exit(1);
        })?;
        Ok(Self { ended })
    }

    /// Completes when the pipe has ended.
    pub(super) async fn ended(self) {
        // A dropped sender means the lifeline thread is gone: end as well.
        let _ = self.ended.await;
    }
}
