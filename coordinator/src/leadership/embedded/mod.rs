//! The HA store as a folder.
//!
//! ```text
//! <dir>/
//!   leader.lock                     held by the leader as long as it leads; the kernel releases it on kill -9
//!   write.lock                      held for the moment of one write
//!   session                         the current session: its number and who holds it
//!   leader.json                     the leader's addresses, once it can be used
//!   jobs/<job>.json                 records of jobs that have not ended
//!   results/<job>.json              how jobs ended
//!   checkpoints/<job>/counter       the last checkpoint number given out
//!   checkpoints/<job>/<%019d>.json  pointers to completed checkpoints, so that the order of names is numeric
//! ```
//!
//! An entry is written as `.tmp-…`, synced and renamed: a reader, and whoever comes after a kill -9, sees the old
//! content or the new one. Names that are none of the above are ignored.
//!
//! Fencing: a write takes `write.lock`, checks that `session` still names its own session, and only then writes. A
//! new leader raises `session` under the same lock, so a write is either over before the new session begins or
//! refused.

mod files;
mod session;
mod store;

pub(super) use files::Folder;
pub(super) use session::SessionToken;
pub use store::EmbeddedHaStore;
