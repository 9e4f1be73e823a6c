//! Becoming leader.
//!
//! The leader holds an exclusive lock on `leader.lock`. The kernel releases it when the process ends, however it
//! ends, and wakes one waiting candidate at once: a takeover needs no time-out. The other side of this: a coordinator
//! that is *stopped* (SIGSTOP) keeps leading, as nothing short of its end takes the lock from it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::embedded::{EmbeddedHaStore, Folder, SessionToken};
use super::ha::{HaError, HaStore, LeaderInfo};

/// The file that the leader has locked.
const LOCK: &str = "leader.lock";

/// Who wants to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the coordinator, for people.
    pub name: String,
}

/// Takes part in the election of one HA folder.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    dir: PathBuf,
    candidate: Candidate,
}

/// A won election. While it lives, no other candidate of the folder leads; dropping it ends the session.
#[derive(Debug)]
pub struct Leadership {
    session: u64,
    store: EmbeddedHaStore,
    // Unlocked by the kernel when closed.
    _lock: File,
}

impl LeaderElection {
    /// Takes part in the election of `dir`. Nothing is touched before [`Self::campaign`].
    pub fn new(dir: impl Into<PathBuf>, candidate: Candidate) -> Self {
        Self { dir: dir.into(), candidate }
    }

    /// Waits until this candidate leads. By its nature this wait has no deadline: a standby may wait for ever.
    /// Dropping the future withdraws the candidate.
    ///
    /// # Errors
    ///
    /// [`HaError::Io`] if the folder or its lock cannot be used, [`HaError::Corrupt`] if its session counter is
    /// damaged.
    pub async fn campaign(&self) -> Result<Leadership, HaError> {
        const OP: &str = "waiting for leadership";
        let (send, receive) = oneshot::channel();
        let (dir, candidate) = (self.dir.clone(), self.candidate.clone());
        let failed = |source| HaError::Io { op: OP.to_owned(), path: self.dir.clone(), maybe_written: false, source };
        // A thread of its own: the wait blocks for as long as another one leads, and must not take a thread of the
        // runtime's pool with it.
        std::thread::Builder::new()
            .name("leader-election".into())
            .spawn(move || {
                let lock = Folder::open(dir).and_then(|folder| {
                    let file = folder.lock_file(OP, LOCK)?;
                    file.lock().map_err(|source| HaError::Io {
                        op: OP.to_owned(),
                        path: folder.path(LOCK),
                        maybe_written: false,
                        source,
                    })?;
                    // The candidate may be gone; then it must not count as a session.
                    if send.is_closed() {
                        return Ok(None);
                    }
                    let token = SessionToken::begin(&folder, &candidate.name, now_ns())?;
                    let session = token.session;
                    let store = EmbeddedHaStore::for_session(folder, token);
                    Ok(Some(Leadership { session, store, _lock: file }))
                });
                if let Some(outcome) = lock.transpose() {
                    // Nobody waits any more: dropping the leadership releases the lock.
                    let _ = send.send(outcome);
                }
            })
            .map_err(failed)?;
        receive.await.unwrap_or_else(|_| Err(failed(std::io::Error::other("the election thread ended"))))
    }
}

impl Leadership {
    /// Number of this session.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The HA store, writing for this session. Handles outlive the session, and are refused then.
    #[must_use]
    pub fn store(&self) -> Arc<dyn HaStore> {
        Arc::new(self.store.clone())
    }

    /// Tells executors and clients where the leader is: only now, when it can be used. The session of `leader` is
    /// set to this one.
    ///
    /// # Errors
    ///
    /// As all writes of [`HaStore`].
    pub async fn publish(&self, leader: LeaderInfo) -> Result<(), HaError> {
        self.store.publish(LeaderInfo { session: self.session, ..leader }).await
    }

    /// Steps down: takes the address back, waits for what is under way, so that nothing is written any more, then lets
    /// the next candidate in.
    ///
    /// # Errors
    ///
    /// As all writes of [`HaStore`]; the session is over all the same.
    pub async fn resign(self) -> Result<(), HaError> {
        let withdrawn = self.store.withdraw().await;
        self.store.settle().await;
        withdrawn
    }
}

/// Whether somebody leads in the HA folder `dir` now. Nothing is made there.
#[must_use]
pub fn is_led(dir: &Path) -> bool {
    File::open(dir.join(LOCK)).is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
