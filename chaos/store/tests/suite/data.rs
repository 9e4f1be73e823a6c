//! A data folder: over a restart, and under `kill -9`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minio::s3::MinioClient;
use minio::s3::types::S3Api as _;
use stormproof_store::{S3Server, S3ServerBuilder, StoreError};

use crate::support::{BUCKET, KEY, SECRET, minio_client, soon};

const FOLDER: &str = "STORMPROOF_TEST_DATA_FOLDER";
const WRITERS: usize = 4;
/// Answers after which the server is killed.
const ANSWERS: usize = 60;

fn server(folder: &Path) -> S3ServerBuilder {
    S3Server::builder().credentials(KEY, SECRET).data(folder)
}

#[tokio::test]
async fn objects_survive_a_restart_and_a_bad_folder_opens_no_port() {
    let root = tempfile::tempdir().expect("a folder");
    let first = server(root.path()).start().await.expect("a server");
    first.backend().create_bucket(BUCKET).expect("a bucket");
    let client = minio_client(&first.endpoint(), SECRET);
    client.put_object_content(BUCKET, "k", "v").expect("names").build().send().await.expect("put");
    let listing = first.backend().list_objects(BUCKET, "").expect("a list");

    let port = first.address();
    let second = server(root.path()).start().await.expect_err("one server at a time");
    assert!(matches!(second, StoreError::Data { .. }), "{second}");
    soon(first.shutdown()).await.expect("an end");

    let third = server(root.path()).listen(port).start().await.expect("the next server");
    assert_eq!(third.backend().list_objects(BUCKET, "").expect("a list"), listing);
    assert_eq!(third.backend().get(BUCKET, "k").expect("get"), "v");
    soon(third.shutdown()).await.expect("an end");

    std::fs::write(root.path().join("notes"), "not of a server").expect("written");
    server(root.path()).listen(port).start().await.expect_err("the folder is not a server's alone");
    assert!(tokio::net::TcpStream::connect(port).await.is_err(), "no port was opened");
}

/// What is known of a key: what was acknowledged last, and what was asked for since.
#[derive(Debug, Clone, Default)]
struct Known {
    acknowledged: Option<String>,
    asked: Vec<Option<String>>,
}

/// Writes and deletes until the server is gone.
async fn write_on(client: MinioClient, writer: usize, answers: Arc<AtomicUsize>) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for step in 0.. {
        let key = format!("writer-{writer}/{}", step % 5);
        let value = (step % 3 != 2).then(|| format!("{step} {}", "x".repeat(step * 97 % 30_000)));
        let entry = known.entry(key.clone()).or_default();
        entry.asked.push(value.clone());
        let done = match &value {
            Some(text) => {
                let put = client.put_object_content(BUCKET, &*key, text.clone()).expect("names");
                put.build().send().await.is_ok()
            }
            None => client.delete_object(BUCKET, &*key).expect("names").build().send().await.is_ok(),
        };
        if !done {
            break;
        }
        *entry = Known { acknowledged: value, asked: vec![] };
        answers.fetch_add(1, Ordering::Relaxed);
    }
    known
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_has_lost_nothing_that_it_acknowledged() {
    let root = tempfile::tempdir().expect("a folder");
    for round in 0..3 {
        let (mut process, endpoint) = start(root.path());
        let answers = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let client = minio_client(&endpoint, SECRET);
                tokio::spawn(write_on(client, round * WRITERS + writer, Arc::clone(&answers)))
            })
            .collect();
        soon(async {
            while answers.load(Ordering::Relaxed) < ANSWERS {
                tokio::task::yield_now().await;
            }
        })
        .await;
        process.kill().expect("killed");
        process.wait().expect("reaped");
        let next = server(root.path()).start().await.expect("it starts with what is there");
        for writer in writers {
            for (key, known) in soon(writer).await.expect("a writer ends") {
                let found = next.backend().get(BUCKET, &key).ok();
                let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let may_be = found == known.acknowledged || known.asked.contains(&found);
                assert!(may_be, "{key} is {found:?}, known is {known:?}");
            }
        }
        soon(next.shutdown()).await.expect("an end");
    }
}

/// A server in a process of its own, and its endpoint.
fn start(folder: &Path) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--exact", "data::the_server_that_is_killed", "--ignored", "--nocapture"]).env(FOLDER, folder);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let endpoint = lines.map(|line| line.expect("text")).find(|line| line.starts_with("http://"));
    (process, endpoint.expect("it says where it is"))
}

#[test]
#[ignore = "not a test: the process that another test kills"]
fn the_server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(server(Path::new(&folder)).start()).expect("a server");
    // There from the second round on.
    let _ = server.backend().create_bucket(BUCKET);
    println!("\n{}", server.endpoint());
    // Ends with the test, should that not come to kill it.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
