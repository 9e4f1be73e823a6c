//! The resource manager: which executors there are, their connections, and who holds their slots.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`manager`] | [`ResourceManager`]: the registry of executors and jobs, behind one short lock |
//! | [`connection`] | one executor's connection: handshake, a reader and a writer with bounded queues, heartbeats |
//! | [`listener`] | accepts connections |

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod manager;

pub(crate) use manager::ResourceManager;
