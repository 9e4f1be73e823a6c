//! Undoing what a journal has open.

use std::io;

use crate::journal::{OpenEntry, Undo};
use crate::process::ProcessError;
use crate::toxiproxy::{ClientError, ToxiproxyClient};

/// Undoes one fault, in reverse order of how it was done. A step that fails does not keep the others; all that failed
/// is returned.
pub(super) async fn undo_entry(entry: &OpenEntry) -> Result<(), Vec<String>> {
    let mut problems = vec![];
    for undo in entry.undo.iter().rev() {
        if let Err(problem) = apply(undo).await {
            problems.push(format!("{}: {problem}", entry.what));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Applies one undo; "already gone" is done.
async fn apply(undo: &Undo) -> Result<(), String> {
    match undo {
        Undo::RemoveToxic { api, proxy, toxic } => {
            gone_is_done(ToxiproxyClient::new(api).remove_toxic(proxy, toxic).await)
        }
        Undo::EnableProxy { api, proxy } => gone_is_done(ToxiproxyClient::new(api).enable(proxy).await),
        Undo::Resume { process } => match process.resume() {
            Ok(()) | Err(ProcessError::Gone(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        Undo::RemoveFile { path } => match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        },
    }
}

/// A proxy that is gone (the embedded one dies with its runner) has nothing left to undo.
fn gone_is_done<T>(result: Result<T, ClientError>) -> Result<(), String> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(ClientError::Transport { source, .. }) if source.is_connect() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
