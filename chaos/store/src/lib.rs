//! An embedded S3 server for tests of recovery.
//!
//! It is small, in memory, and strict where recovery depends on it: conditional writes are atomic, listings are
//! exact, ETags are those of S3, and every request is in a ledger, also one that is refused, hangs or is cut. It can
//! hurt requests by rule in ways that a network fault cannot: an error *after* the write has happened, a stale
//! listing, a body that stops at byte n.
//!
//! ```
//! use stormproof_store::{Effect, Nth, Operation, Rule, S3Server};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let server = S3Server::builder().credentials("key", "secret").start().await?;
//! server.backend().create_bucket("checkpoints")?;
//! println!("clients connect to {}", server.endpoint());
//!
//! // The second read of any _metadata gets its answer three seconds late.
//! let slow = Rule::new("slow metadata", Effect::StallHeaders { ms: 3_000 });
//! server.rules().add(slow.on(Operation::GetObject).key("*/_metadata").nth(Nth::only(2)))?;
//!
//! // ... run what is to be tested; then ask what it did and what it left.
//! let reads = server.ledger().count(|entry| entry.is(Operation::GetObject, "/_metadata"));
//! assert_eq!((reads, server.rules().counts()["slow metadata"].acted), (0, 0));
//! assert!(server.backend().leftovers().uploads.is_empty());
//! server.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it speaks
//!
//! Path-style requests over HTTP/1.1, signed with AWS signature 4 (header, presigned URL, `aws-chunked` bodies with
//! and without trailers), one pair of keys. Buckets (create, head, list, location, versioning (never on), delete); objects (put, get, head,
//! delete, delete many, copy; ranges, single parts, conditions on reads and writes, user metadata, checksums);
//! listings of both versions; multipart uploads including part copies. Anything else, such as tags or policies, answers
//! 501 `NotImplemented`, also a put that brings tags along. There are no versions: `null` is the only one that can be
//! asked for.
//!
//! As AWS, it wants every `x-amz-*` header of a request to be signed, takes a range that it cannot read or that has
//! several pieces for none, and limits user metadata (2 KB) and the life of presigned URLs (a week).
//!
//! A refused upload is read to its end before it is answered, so that its sender sees the answer and can go on with
//! the same connection.
//!
//! Conditional writes follow what AWS documents: 412 `PreconditionFailed` if the condition does not hold, 404
//! `NoSuchKey` for `If-Match` on an absent key, 409 `ConditionalRequestConflict` for a create-only put that was
//! under way while the key was deleted.
//!
//! A completion that is repeated word for word is answered as the first was; any other gets 404 `NoSuchUpload`.
//! Checksums are checked, kept, and given back where a reader asks (`x-amz-checksum-mode`); those of an object uploaded
//! in parts are of the parts or of the whole, as its creator wished.
//!
//! Known differences from AWS: an object that comes without a checksum gets none (AWS adds a CRC64NVME); the ETag of a
//! conditional request is compared without regard to weakness.
//!
//! The protocol crate logs every refused request as an error under the tracing target `s3s`, also the ordinary 404 of
//! a client that looks whether something exists; filter it (`s3s=off`) where that disturbs. The ledger has it anyway.
//!
//! # From outside of the process
//!
//! [`S3ServerConfig::admin`] opens a second port on which the same things can be asked for as JSON that the handles of
//! this crate give: `GET /ledger?since=SEQ`, `GET /leftovers`, `GET`, `PUT` and `DELETE /rules`, `DELETE /rules/NAME`,
//! `GET` and `POST /snapshots` (with `{"name": …, "bucket": …}`), `POST /snapshots/NAME/restore`,
//! `DELETE /snapshots/NAME`. It asks for no keys, so it is for loopback addresses only.
//!
//! # Over a restart
//!
//! With [`S3ServerConfig::data`] everything that was acknowledged is there again when the next server starts on the
//! same folder, also after `kill -9`; open uploads too. Memory stays the truth, and bounds what can be stored. Writes
//! go one after the other then, each synced before it is answered.
//!
//! # Layout
//!
//! | module | idea |
//! | --- | --- |
//! | `config`, `error`, `server` | start, serve, stop |
//! | `admin` | the second port, on which ledger, leftovers, rules and snapshots are asked for |
//! | `edge` | what wraps every connection: tells operations apart, counts bytes, keeps the ledger, applies rules |
//! | `ledger` | what was asked, and what became of it |
//! | `rules`, `effects` | which request is hurt, and how |
//! | `s3` | the S3 protocol, one file per group of operations |
//! | `backend` | what is stored, behind one lock; `backend::disk` keeps it in a folder |
//!
//! A request passes `edge::service` (ledger entry opened, rule chosen) → `s3s` (signature, XML) → `s3` →
//! `backend`, and its answer passes `edge::body` (bytes counted, entry closed) on the way out.

mod admin;
mod backend;
mod config;
mod edge;
mod effects;
mod error;
mod ledger;
mod rules;
mod s3;
mod server;

pub use backend::Backend;
pub use backend::disk::DataError;
pub use backend::error::BackendError;
pub use backend::object::ObjectInfo;
pub use backend::snapshot::{BucketSnapshot, Leftovers};
pub use backend::uploads::OpenUpload;
pub use config::{Limits, S3ServerConfig};
pub use edge::operation::{Operation, UnknownOperation};
pub use effects::Effect;
pub use error::StoreError;
pub use ledger::{Entry, Ledger, LedgerEvent, Outcome};
pub use rules::glob::glob_matches;
pub use rules::{Nth, Rule, RuleCount, RuleError, RuleSet, Rules};
pub use server::{S3Server, S3ServerBuilder, ShutdownReport};
