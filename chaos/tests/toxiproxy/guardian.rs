//! What a dead runner left on a proxy that lives on is removed, and nothing else.

use std::time::Duration;

use stormproof_chaos::fault::{BlackholeStore, Fault, RefuseStore, StoreLink};
use stormproof_chaos::guardian::{GuardianConfig, Sweep, sweep};
use stormproof_chaos::journal::{DEFAULT_TTL, Journal};
use stormproof_chaos::lease::Lease;
use stormproof_chaos::toxiproxy::{Stream, Toxic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::{Server, World};

/// A store that answers every request, as far as a probe can tell.
async fn store() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 256]).await;
                let _ = stream.write_all(b"HTTP/1.0 403 Forbidden\r\n\r\n").await;
            });
        }
    });
    address
}

async fn swept(config: GuardianConfig) -> Sweep {
    // It brings a runtime of its own, as in the process it is made for.
    let result = tokio::task::spawn_blocking(move || sweep(&config)).await.expect("it does not panic");
    result.expect("the journal can be read")
}

async fn faults_of_a_dead_runner_are_undone_and_toxics_of_others_stay(server: Server) {
    let world = World::new(server).await;
    let proxy = world.proxy("store", &store().await).await;
    let foreign = Toxic::latency(Stream::Upstream, Duration::from_millis(1), Duration::ZERO).named("not-ours");
    world.client.add_toxic("store", &foreign).await.expect("added");
    let folder = tempfile::tempdir().expect("a folder");
    let config = GuardianConfig {
        tag: format!("guardian-suite-{}-{server:?}", std::process::id()),
        journal: folder.path().join("journal"),
        work_dirs: vec![folder.path().join("work")],
        index: None,
        own_dir: None,
    };
    let link = || StoreLink {
        client: world.client.clone(),
        proxy: "store".to_owned(),
        address: proxy.listen.clone(),
        lease_ttl: DEFAULT_TTL,
    };
    let journal = Journal::open(&config.journal).expect("a journal");
    let hole = Lease::inject(Box::new(BlackholeStore::new(link(), "t")), &journal).await.expect("injected");
    let refusal = Lease::inject(Box::new(RefuseStore::new(link())), &journal).await.expect("injected");
    let during = world.client.get("store").await.expect("there");
    assert_eq!((during.enabled, during.toxics.len()), (false, 3));
    // The runner is dead: nobody heals.
    drop((hole, refusal, journal));

    let first = swept(config.clone()).await;
    assert_eq!((first.undone.len(), first.problems), (2, vec![]));
    let after = world.client.get("store").await.expect("there");
    assert_eq!((after.enabled, after.toxics), (true, vec![foreign]));
    assert!(BlackholeStore::new(link(), "t").is_healed().await.expect("probed"), "the store does not answer again");
    assert_eq!(swept(config).await.problems, Vec::<String>::new(), "a second sweep");
}

crate::trials! {
    both: [faults_of_a_dead_runner_are_undone_and_toxics_of_others_stay]
}
