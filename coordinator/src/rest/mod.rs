//! Flink's REST API: same paths, same JSON.

pub mod cluster;
