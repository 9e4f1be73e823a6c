//! The server as clients see it: through the `minio` SDK, and by hand-signed requests where the SDK cannot say it.

mod admin;
mod data;
mod faults;
mod ledger;
mod lists;
mod reads;
mod server;
mod speed;
mod support;
mod uploads;
mod writes;
