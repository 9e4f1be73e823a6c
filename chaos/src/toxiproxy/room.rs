//! Room for connections. Each of them needs two descriptors; some are kept back, so that the API answers however many
//! clients there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::process::{open_files, open_files_limit};

/// Descriptors of one connection: its client and its upstream.
const FILES_PER_CONNECTION: u64 = 2;

/// The least that is kept back, in descriptors: for connections to the API, listeners, and what else the process opens.
const KEPT_FILES: u64 = 16;

/// The share of the limit that is kept back if that is more: one in so many.
const KEPT_SHARE: u64 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    places: Arc<Semaphore>,
    /// Somebody has been told that it is full.
    is_told: AtomicBool,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held only to be dropped")] Option<OwnedSemaphorePermit>);

impl Room {
    /// As much as the limit of this process leaves now.
    pub(crate) fn of_this_process() -> Self {
        let connections = open_files_limit().map_or(u64::MAX, |limit| connections(limit, open_files()));
        Self::for_connections(usize::try_from(connections).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS))
    }

    fn for_connections(count: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(count)), is_told: AtomicBool::new(false) }
    }

    /// Waits for a place, in turn.
    pub(crate) async fn take(&self) -> Place {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Place(Some(place));
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!("connections wait until others end: raise the limit of open files (ulimit -n)");
        }
        // It is never closed.
        Place(Arc::clone(&self.places).acquire_owned().await.ok())
    }
}

/// How many fit, if so many files are open already.
fn connections(limit: u64, open: u64) -> u64 {
    let kept = KEPT_FILES.max(limit / KEPT_SHARE);
    (limit.saturating_sub(open.saturating_add(kept)) / FILES_PER_CONNECTION).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_back() {
        assert_eq!(connections(64, 12), 18);
        assert_eq!(connections(1_024, 24), 468);
        assert_eq!(connections(8, 12), 1, "a proxy that passes nothing is of no use");
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_ends() {
        let room = Room::for_connections(1);
        let place = room.take().await;
        let next = room.take();
        tokio::pin!(next);
        tokio::select! {
            biased;
            _ = &mut next => panic!("there is one place only"),
            () = std::future::ready(()) => {}
        }
        drop(place);
        next.await;
    }
}
