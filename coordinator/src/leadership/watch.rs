//! Following the leader's address.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use super::ha::LeaderInfo;

/// How often a watcher looks: bounds how late it learns of a new leader. A look at an unchanged file is one `stat`.
pub const LEADER_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Follows the published leader of an HA folder: `None` while there is none. The folder need not exist yet.
///
/// One thread polls every [`LEADER_POLL_INTERVAL`], as file notification is not there on all file systems; it ends
/// once the last receiver is dropped. An unreadable file counts as no leader: it is replaced whole, so this can only
/// be damage, which the next leader repairs.
///
/// # Errors
///
/// If the thread cannot be started.
pub fn leader_watch(dir: impl Into<PathBuf>) -> std::io::Result<watch::Receiver<Option<LeaderInfo>>> {
    let path = dir.into().join("leader.json");
    let mut last = Look::at(&path);
    let (send, receive) = watch::channel(last.as_ref().and_then(|_| read(&path)));
    std::thread::Builder::new().name("leader-watch".into()).spawn(move || {
        while !send.is_closed() {
            std::thread::sleep(LEADER_POLL_INTERVAL);
            let look = Look::at(&path);
            if look != last {
                let leader = look.as_ref().and_then(|_| read(&path));
                send.send_if_modified(|current| {
                    let changed = *current != leader;
                    *current = leader;
                    changed
                });
                last = look;
            }
        }
    })?;
    Ok(receive)
}

/// What tells one version of a file from the next: a rename always brings another inode or another time.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let stat = fs::metadata(path).ok()?;
        Some(Self { inode: stat.ino(), modified: (stat.mtime(), stat.mtime_nsec()), size: stat.size() })
    }
}

fn read(path: &Path) -> Option<LeaderInfo> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
