//! The tokio shell around [`crate::core`].

pub mod frames;
pub mod protocol;
