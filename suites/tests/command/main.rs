//! The `stormproof` command from outside: exit codes, what it prints, what it leaves.
//!
//! | module | what it tests |
//! | --- | --- |
//! | `bad_input` | one sentence, exit code 2, nothing started |
//! | `cluster` | `up`, and `submit`, `jobs` and `cancel` on it |
//! | `heal` | what is left when the guardian dies as well |
//! | `inject` | one fault on a proxy or a process that is there already |
//! | `lease` | faults end although their runner hangs |
//! | `proxy` | Toxiproxy's flags, and `proxy` after ten thousand connections |
//! | `read_only` | `doctor`, lists, dry runs: one JSON document each |
//! | `run` | `run` from start to report |
//! | `s3` | `s3` with rules: what they do to requests, and what is told of them |
//! | `signals` | SIGINT and SIGTERM |
//! | `kill` | SIGKILL at many moments |
//!
//! `support` starts the command in a sandbox with a temporary folder of its own, by which everything that belongs to it
//! is found, and waits for facts.

mod bad_input;
mod cluster;
mod heal;
mod inject;
mod kill;
mod lease;
mod proxy;
mod read_only;
mod run;
mod s3;
mod signals;
mod support;
