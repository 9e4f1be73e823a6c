//! Clients that others wrote for Shopify's server, unchanged, drive both servers: they list, create, populate, add and
//! update toxics, see them in real traffic, remove and reset. What they run is in `tests/clients`.

use std::process::{Output, Stdio};
use std::time::Duration;

use stormproof_chaos::part::RealPart;
use tokio::process::Command;
use tokio::time::timeout;

use crate::fixture::{Server, World, echo, quiet_host};
use crate::trials::Trials;

/// How long a client may take: an interpreter or a compiler starts with it, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Toxiproxy's tests start a server that says it is version `git`. A released one does not.
const NOT_OF_A_RELEASE: &str = "^TestVersionEndpointReturnsVersion$";

/// What a client says about the server; the test fails with its words.
async fn passes(part: RealPart, command: &mut Command) -> String {
    let output = timeout(LIMIT, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.unwrap_or_else(|_| panic!("{part} did not end within {LIMIT:?}"));
    let Output { status, stdout, stderr } = output.expect("it starts");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{part}: {status}\n{stdout}{stderr}");
    stdout
}

fn command(part: RealPart) -> Command {
    Command::new(part.find().unwrap_or_else(|missing| panic!("{missing}")))
}

/// Runs a script that is given the API's host and port, an echo server, and a host to listen on.
async fn script(server: Server, part: RealPart, file: &str) {
    let world = World::new(server).await;
    let address = world.client.base_url().strip_prefix("http://").expect("a plain URL");
    let (host, port) = address.rsplit_once(':').expect("a port");
    let file = format!("{}/tests/clients/{file}", env!("CARGO_MANIFEST_DIR"));
    // A host of our own: nobody else takes the port of a proxy that is disabled for a moment.
    passes(part, command(part).args([file.as_str(), host, port, &echo().await, &quiet_host()])).await;
}

async fn go_and_its_own_tests(server: Server) {
    let world = World::new(server).await;
    let part = RealPart::GoClients;
    let mut tests = command(part);
    tests.args(["-test.v", "-test.skip", NOT_OF_A_RELEASE]);
    let told = passes(part, tests.env("TOXIPROXY_API", world.client.base_url()).env("ECHO", echo().await)).await;
    // Its own 34 and ours, and nothing skipped among them.
    let passed = told.lines().filter(|line| line.starts_with("--- PASS: Test")).count();
    assert_eq!(passed, 35, "{told}");
}

async fn python(server: Server) {
    script(server, RealPart::PythonClients, "client.py").await;
}

async fn node(server: Server) {
    script(server, RealPart::NodeClients, "client.js").await;
}

async fn java(server: Server) {
    script(server, RealPart::JavaClients, "Client.java").await;
}

pub(crate) fn trials(trials: &mut Trials) {
    let module = module_path!();
    trials.both_with(module, "go_and_its_own_tests", RealPart::GoClients, go_and_its_own_tests);
    trials.both_with(module, "python", RealPart::PythonClients, python);
    trials.both_with(module, "node", RealPart::NodeClients, node);
    trials.both_with(module, "java", RealPart::JavaClients, java);
}
