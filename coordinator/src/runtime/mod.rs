//! The tokio shell around [`crate::core`].
pub mod protocol;
