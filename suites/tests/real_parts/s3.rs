//! `s3` under AWS's SDK for Python, unchanged. What it asks for and expects is in `s3.py`.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use stormproof::chaos::part::RealPart;

use crate::support::{Running, Sandbox};

pub(crate) fn the_sdk_of_aws_finds_what_aws_documents() {
    let sandbox = Sandbox::new();
    let server = sandbox.start(&["s3", "--listen", "127.0.0.1:0", "--json"]);
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let mut client = Command::new(RealPart::PythonClients.find().unwrap_or_else(|missing| panic!("{missing}")));
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_parts/s3.py"));
    client.args([ready["endpoint"].as_str().unwrap(), "stormproof", "stormproof-secret"]);
    // Nothing that the user has set for AWS must reach it.
    client.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", sandbox.here());
    let finished = Running::start(client).finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    server.signal(Signal::TERM);
    server.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
}
