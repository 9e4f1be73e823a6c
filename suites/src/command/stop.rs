//! SIGINT and SIGTERM: the first asks for a clean end, the second does not wait for it.

use std::process;

use stormproof::verdict::EXIT_INTERRUPTED;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::CommandError;
use super::output::note;

/// Watches for both signals from now on, on the current runtime. The first cancels what is returned; the second ends
/// the process at once, and the guardians tidy up.
///
/// Call it before anything is started: a signal must not be lost, nor end us half-way.
pub(super) fn at_signal() -> Result<CancellationToken, CommandError> {
    at_signal_with(|| ())
}

/// The same for a command that has no guardians: what it serves ends with it.
pub(super) fn at_signal_alone() -> Result<CancellationToken, CommandError> {
    watched("", || ())
}

/// The same, for a command that has a result to print although it ends at the second signal: `last_words` does.
pub(super) fn at_signal_with(last_words: impl FnOnce() + Send + 'static) -> Result<CancellationToken, CommandError> {
    watched("; the guardians tidy up", last_words)
}

fn watched(
    afterwards: &'static str,
    last_words: impl FnOnce() + Send + 'static,
) -> Result<CancellationToken, CommandError> {
    let watch = |kind| signal(kind).map_err(|error| CommandError::internal(&error));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        told.cancel();
        either(&mut interrupt, &mut terminate).await;
        note(format_args!("stormproof: ended at the second signal without waiting{afterwards}"));
        last_words();
        process::exit(i32::from(EXIT_INTERRUPTED));
    });
    Ok(stop)
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
