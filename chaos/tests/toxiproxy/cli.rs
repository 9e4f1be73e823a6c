//! Toxiproxy's own `toxiproxy-cli`, unchanged, drives both servers and cannot tell them apart.

use std::process::{Output, Stdio};

use stormproof_chaos::part::RealPart;
use stormproof_chaos::toxiproxy::Proxy;

use crate::fixture::{Server, World, connect, echo, is_closed, quiet_host, round_trip, within};
use crate::trials::Trials;

async fn call(world: &World, arguments: &str) -> Output {
    let program = RealPart::ToxiproxyCli.find().unwrap_or_else(|missing| panic!("{missing}"));
    let mut command = tokio::process::Command::new(program);
    command.args(["-h", world.client.base_url()]).args(arguments.split(' ')).stdin(Stdio::null()).kill_on_drop(true);
    within(arguments, command.output()).await.expect("it starts")
}

/// What it prints on success.
async fn says(world: &World, arguments: &str) -> String {
    let output = call(world, arguments).await;
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What it prints on failure.
async fn fails(world: &World, arguments: &str) -> String {
    let output = call(world, arguments).await;
    assert_eq!(output.status.code(), Some(1), "{arguments}: {output:?}");
    String::from_utf8(output.stderr).expect("text").trim().to_owned()
}

async fn proxies_are_created_listed_toggled_and_deleted(server: Server) {
    let world = World::new(server).await;
    let (upstream, host) = (echo().await, quiet_host());
    assert_eq!(says(&world, "list").await, "");
    assert_eq!(says(&world, &format!("create -l {host}:0 -u {upstream} p")).await, "Created new proxy p\n");
    let Proxy { listen, .. } = world.client.get("p").await.expect("it is there");
    assert_eq!(says(&world, "list").await, format!("p\t{listen}\t{upstream}\tenabled\t0\n"));
    round_trip(&mut connect(&listen).await, b"up").await;
    assert_eq!(says(&world, "toggle p").await, "Proxy p is now disabled\n");
    assert!(is_closed(&listen).await);
    assert_eq!(says(&world, "list").await, format!("p\t{listen}\t{upstream}\tdisabled\t0\n"));
    assert_eq!(says(&world, "toggle p").await, "Proxy p is now enabled\n");
    round_trip(&mut connect(&listen).await, b"up again").await;
    assert!(fails(&world, &format!("create -l {host}:0 -u {upstream} p")).await.contains("proxy already exists"));
    assert_eq!(says(&world, "delete p").await, "Deleted proxy p\n");
    assert!(fails(&world, "delete p").await.contains("HTTP 404: proxy not found"));
    assert!(world.client.list().await.expect("a list").is_empty());
}

async fn toxics_are_added_inspected_updated_and_removed(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", &echo().await).await;
    let added = says(&world, "toxic add -t latency -n slow -a latency=100 -a jitter=5 --tox 0.5 -d p").await;
    assert_eq!(added, "Added downstream latency toxic 'slow' on proxy 'p'\n");
    let added = says(&world, "toxic add -t bandwidth -a rate=7 -u p").await;
    assert_eq!(added, "Added upstream bandwidth toxic 'bandwidth_upstream' on proxy 'p'\n");
    let bandwidth = "bandwidth_upstream\ttype=bandwidth\tstream=upstream\ttoxicity=1.00\tattributes=[\trate=7\t]\n";
    let slow = |toxicity: &str, latency: u32| {
        format!(
            "slow\ttype=latency\tstream=downstream\ttoxicity={toxicity}\tattributes=[\tjitter=5\tlatency={latency}\t]\n"
        )
    };
    assert_eq!(says(&world, "inspect p").await, format!("{bandwidth}{}", slow("0.50", 100)));
    // Without --toxicity the client sets it to 1.
    assert_eq!(says(&world, "toxic update -n slow -a latency=7 p").await, "Updated toxic 'slow' on proxy 'p'\n");
    assert_eq!(says(&world, "inspect p").await, format!("{bandwidth}{}", slow("1.00", 7)));
    assert_eq!(says(&world, "toxic remove -n slow p").await, "Removed toxic 'slow' on proxy 'p'\n");
    assert_eq!(says(&world, "inspect p").await, bandwidth);
    assert!(fails(&world, "toxic add -t nonsense p").await.contains("HTTP 400: invalid toxic type"));
    assert!(fails(&world, "toxic remove -n slow p").await.contains("HTTP 404: toxic not found"));
    assert!(fails(&world, "inspect none").await.contains("HTTP 404: proxy not found"));
}

pub(crate) fn trials(trials: &mut Trials) {
    let (module, cli) = (module_path!(), RealPart::ToxiproxyCli);
    trials.both_with(
        module,
        "proxies_are_created_listed_toggled_and_deleted",
        cli,
        proxies_are_created_listed_toggled_and_deleted,
    );
    trials.both_with(
        module,
        "toxics_are_added_inspected_updated_and_removed",
        cli,
        toxics_are_added_inspected_updated_and_removed,
    );
}
