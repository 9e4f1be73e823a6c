//! A coordinator in this process, first with scripted executors, then with real ones and a real object store.
//!
//! | module | what it tests |
//! | --- | --- |
//! | `submission` | what is refused, and how |
//! | `batch` | batch jobs on scripted executors: slots, restarts, lost executors, the end |
//! | `initializing` | a store that hangs, is damaged or comes back while a job is recovered |
//! | `labels` | failure enrichers that answer late or panic |
//! | `leadership` | standby, takeover, fencing, results of earlier leaders |
//! | `outside` | what is slow hangs, one thing at a time |
//! | `real` | real executors, real exchanges, checkpoints in the embedded S3 server |
//!
//! `support` starts coordinators and waits for facts, `fake` is the scripted executor.

mod batch;
mod fake;
mod initializing;
mod labels;
mod leadership;
mod outside;
mod real;
mod submission;
mod support;
