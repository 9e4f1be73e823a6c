//! `s3` under clients of others, unchanged: AWS's SDK for Python, whose demands are in `s3.py`, Hadoop's S3A as Flink
//! bundles it (`S3a.java`), and rclone.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use stormproof::chaos::part::RealPart;

use crate::support::{Finished, Running, Sandbox};

/// Runs `test` with the endpoint of a server, started with these arguments besides, that is then stopped.
fn with_server(arguments: &[&str], test: impl FnOnce(&Sandbox, &str)) {
    let sandbox = Sandbox::new();
    let server = sandbox.start(&[&["s3", "--listen", "127.0.0.1:0", "--json"], arguments].concat());
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    test(&sandbox, ready["endpoint"].as_str().unwrap());
    server.signal(Signal::TERM);
    server.finish().ended_quietly(0);
    sandbox.assert_nothing_left();
}

/// A client that nothing reaches of what the user has set for AWS.
fn client(part: RealPart, sandbox: &Sandbox) -> Command {
    let mut client = Command::new(part.find().unwrap_or_else(|missing| panic!("{missing}")));
    client.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", sandbox.here());
    client.current_dir(sandbox.here());
    client
}

fn passes(client: Command) -> Finished {
    let finished = Running::start(client).finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    finished
}

pub(crate) fn the_sdk_of_aws_finds_what_aws_documents() {
    with_server(&[], |sandbox, endpoint| {
        let mut client = client(RealPart::PythonClients, sandbox);
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_parts/s3.py"));
        client.args([endpoint, "stormproof", "stormproof-secret"]);
        passes(client);
    });
}

pub(crate) fn hadoops_s3a_keeps_checkpoints_as_flink_does() {
    with_server(&["--bucket", "checkpoints"], |sandbox, endpoint| {
        let mut client = client(RealPart::JavaClients, sandbox);
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_parts/S3a.java"));
        client.args([endpoint, "stormproof", "stormproof-secret", "checkpoints"]);
        passes(client);
    });
}

pub(crate) fn rclone_copies_checks_and_removes() {
    with_server(&[], |sandbox, endpoint| {
        let rclone = |arguments: &[&str]| {
            let mut client = client(RealPart::Rclone, sandbox);
            client.args(["--config", "", "--retries", "1", "--low-level-retries", "1"]).args(arguments);
            for (name, value) in [
                ("TYPE", "s3"),
                ("PROVIDER", "Other"),
                ("ACCESS_KEY_ID", "stormproof"),
                ("SECRET_ACCESS_KEY", "stormproof-secret"),
                ("ENDPOINT", endpoint),
                // So that the large file goes in parts.
                ("UPLOAD_CUTOFF", "5M"),
                ("CHUNK_SIZE", "5M"),
            ] {
                client.env(format!("RCLONE_CONFIG_S_{name}"), value);
            }
            let finished = passes(client);
            assert!(!finished.stderr.contains("ERROR"), "{finished:?}");
            finished.stdout
        };
        let large = "0123456789abcde\n".repeat(700_000);
        for (name, text) in [("large", &*large), ("folder/with ü+space", "text"), ("empty", "")] {
            sandbox.file(&format!("from/{name}"), text);
        }
        rclone(&["mkdir", "S:bucket"]);
        rclone(&["copy", "from", "S:bucket/a"]);
        rclone(&["check", "from", "S:bucket/a"]);
        rclone(&["sync", "S:bucket/a", "S:bucket/b"]);
        rclone(&["move", "S:bucket/a", "S:bucket/c"]);
        rclone(&["check", "--download", "from", "S:bucket/b"]);
        rclone(&["copy", "S:bucket/c", "back"]);
        assert!(fs::read(sandbox.here().join("back/large")).unwrap() == large.as_bytes());
        let files = |path: &str| rclone(&["lsf", "--recursive", "--files-only", path]);
        assert_eq!(files("S:bucket/b"), "empty\nfolder/with ü+space\nlarge\n");
        assert_eq!(
            files("S:bucket"),
            "b/empty\nb/folder/with ü+space\nb/large\nc/empty\nc/folder/with ü+space\nc/large\n"
        );
        rclone(&["purge", "S:bucket"]);
        assert_eq!(rclone(&["lsd", "S:"]), "");
    });
}
