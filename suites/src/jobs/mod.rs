//! The test jobs, as ordinary Rust. They run on the bundled cluster; their outputs can be checked to the record.

pub mod gate;
pub mod sink;
pub mod stream;
pub mod text;
pub mod word_count;

use stormproof::job::JobRegistry;

/// Registers every job of this crate.
pub fn register(registry: &mut JobRegistry) {
    registry.register(word_count::NAME, word_count::graph).has_params(&word_count::PARAMS);
    registry.register(stream::NAME, stream::graph).has_params(&stream::PARAMS);
}
