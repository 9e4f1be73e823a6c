//! Undoing what a journal has open.

use std::io;

use crate::fault::{put_back, restore_bytes};
use crate::journal::{OpenEntry, Undo};
use crate::process;
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

/// Once more what was undone in a proxy: a call that the dead runner had under way may have come after ours. Ours have
/// been answered, so there is nothing to wait for and nobody to tell.
pub(super) async fn undo_again(entry: &OpenEntry) {
    let is_in_proxy = |undo: &&Undo| matches!(undo, Undo::RemoveToxic { .. } | Undo::EnableProxy { .. });
    for undo in entry.undo.iter().rev().filter(is_in_proxy) {
        if let Err(problem) = apply(undo).await {
            tracing::debug!(problem, "it was undone before");
        }
    }
}

/// Applies one undo; "already gone" is done.
async fn apply(undo: &Undo) -> Result<(), String> {
    match undo {
        Undo::RemoveToxic { api, proxy, toxic } => {
            gone_is_done(ToxiproxyClient::new(api).remove_toxic(proxy, toxic).await)
        }
        Undo::EnableProxy { api, proxy } => gone_is_done(ToxiproxyClient::new(api).enable(proxy).await),
        Undo::Resume { process } => process::gone_is_done(process.resume()).map_err(|error| with_cause(&error)),
        Undo::LimitFiles { process, bytes } => {
            process::gone_is_done(process.limit_file_size(*bytes)).map_err(|error| with_cause(&error))
        }
        Undo::RemoveFile { path } => match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        },
        Undo::PutBack { place, aside } => put_back(place, aside).map_err(|error| with_cause(&error)),
        Undo::RestoreBytes { path, offset, was, is } => {
            restore_bytes(path, *offset, was, is).map_err(|error| with_cause(&error))
        }
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

/// The error and why, in one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Undoes a fault as the guardian does when its holder has died: from the journal's words alone, and once more.
    pub(crate) async fn undone_by_the_guardian(undo: Vec<Undo>) {
        let words = serde_json::to_string(&undo).expect("written");
        let undo = serde_json::from_str(&words).expect("read");
        let entry = OpenEntry { id: 1, what: "a fault".to_owned(), undo, until_unix_ms: 0, expired: false };
        undo_entry(&entry).await.expect("undone");
        undo_entry(&entry).await.expect("a second time there is nothing to do");
    }
}
