//! Why a server could not be started.

use std::io;
use std::net::SocketAddr;

use crate::backend::disk::DataError;

/// What can go wrong while an [`S3Server`](crate::S3Server) starts or stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process (or another server of this process) listens on the address.
    #[error("cannot listen on {address}: the address is in use; choose another port, or port 0 to get a free one")]
    AddressInUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// Listening failed for another reason, such as an address that is not of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The data folder cannot be used.
    #[error("cannot begin with what was stored")]
    Data {
        /// Why not.
        #[source]
        source: DataError,
    },
    /// An access key or a secret key is empty.
    #[error("the {which} is empty; set one, clients sign their requests with it")]
    EmptyCredential {
        /// `access key` or `secret key`.
        which: &'static str,
    },
    /// The admin port asks for no keys.
    #[error("the admin port cannot listen on {address}, where others reach it: it asks for no keys; use 127.0.0.1")]
    AdminNotLocal {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// A limit has a value that cannot work.
    #[error("limit {name} is {value}, it must be {want}")]
    BadLimit {
        /// The field of [`Limits`](crate::Limits).
        name: &'static str,
        /// Its value.
        value: u64,
        /// What would be accepted.
        want: &'static str,
    },
    /// Connections were still open after they had been cut; the runtime is overloaded.
    #[error("{open} connections were still open {waited_ms} ms after they had been cut")]
    NotStopped {
        /// Connections whose tasks had not ended.
        open: usize,
        /// How long the server waited, in milliseconds.
        waited_ms: u64,
    },
}
