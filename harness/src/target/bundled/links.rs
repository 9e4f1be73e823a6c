//! The links between the parties of a cluster: who dials whom, and a proxy on each way.
//!
//! There is one proxy for each ordered pair, named `<who dials>-to-<who is dialled>`. Executors dial each other for
//! data, and the coordinators to register; a coordinator dials nobody. Only clusters whose plan breaks the network have
//! them: others are not slower for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stormproof_chaos::fault::SilentLink;
use stormproof_chaos::toxiproxy::{Proxy, Stream, ToxiproxyClient};
use stormproof_chaos::whole_file;

use crate::role::{Child, Role};
use crate::target::TargetError;

/// Where an executor finds its routes.
pub(super) fn routes_file(folder: &Path, executor: &str) -> PathBuf {
    folder.join(format!("{executor}.json"))
}

/// Puts a proxy on every link between `children` and tells the executors their routes, by files in `folder`.
pub(super) async fn lay(client: &ToxiproxyClient, children: &[Child], folder: &Path) -> Result<(), TargetError> {
    for dialling in children.iter().filter(|child| child.role == Role::Executor) {
        let mut routes = BTreeMap::new();
        for dialled in children.iter().filter(|child| child.name != dialling.name) {
            let Some(address) = dialled.ready.as_ref().and_then(|ready| ready.data.as_ref().or(ready.rpc.as_ref()))
            else {
                continue;
            };
            let proxy = Proxy::new(proxy_name(&dialling.name, &dialled.name), "127.0.0.1:0", address);
            routes.insert(dialled.name.as_str(), client.create(&proxy).await?.listen);
        }
        write(&routes_file(folder, &dialling.name), &routes)?;
    }
    Ok(())
}

fn proxy_name(dialling: &str, dialled: &str) -> String {
    format!("{dialling}-to-{dialled}")
}

/// Whole or not at all: its executor looks for it all the time.
fn write(file: &Path, routes: &BTreeMap<&str, String>) -> Result<(), TargetError> {
    let unfinished = file.with_extension("tmp");
    let text = serde_json::to_vec(routes).map_err(std::io::Error::from);
    text.and_then(|text| whole_file::replace(file, &unfinished, text)).map_err(|source| TargetError::File {
        action: "write",
        path: file.to_owned(),
        source,
    })
}

/// The links on which bytes pass from one of `from` to one of `to`, and with `both_ways` also back. Only `executors`
/// dial.
///
/// # Errors
/// When there is none.
pub(super) fn between(
    from: &BTreeSet<String>,
    to: &BTreeSet<String>,
    both_ways: bool,
    executors: &BTreeSet<String>,
) -> Result<Vec<SilentLink>, TargetError> {
    let mut links: BTreeMap<String, BTreeSet<Stream>> = BTreeMap::new();
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
    let back = pairs.clone().map(|(from, to)| (to, from)).filter(|_| both_ways);
    for (from, to) in pairs.clone().chain(back).filter(|(from, to)| from != to) {
        for (dialling, dialled, stream) in [(from, to, Stream::Upstream), (to, from, Stream::Downstream)] {
            if executors.contains(dialling) {
                links.entry(proxy_name(dialling, dialled)).or_default().insert(stream);
            }
        }
    }
    if links.is_empty() {
        return Err(TargetError::NoVictim {
            what: format!("no network lies between {} and {}", names(from), names(to)),
            hint: "choose tasks that run on different executors".to_owned(),
        });
    }
    let links = links.into_iter();
    Ok(links.map(|(proxy, streams)| SilentLink { proxy, streams: streams.into_iter().collect() }).collect())
}

/// For people.
pub(super) fn names(parties: &BTreeSet<String>) -> String {
    parties.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn links(from: &[&str], to: &[&str], both_ways: bool) -> Result<Vec<SilentLink>, TargetError> {
        between(&side(from), &side(to), both_ways, &side(&["e1", "e2", "e3"]))
    }

    /// Which bytes of which links vanish, `>` those of who dials.
    fn silent(from: &[&str], to: &[&str], both_ways: bool) -> Vec<String> {
        let shown = |link: SilentLink| {
            let streams = link.streams.iter().map(|stream| if *stream == Stream::Upstream { '>' } else { '<' });
            format!("{} {}", link.proxy, streams.collect::<String>())
        };
        links(from, to, both_ways).expect("there is a network").into_iter().map(shown).collect()
    }

    #[test]
    fn executors_dial_each_other_so_one_direction_is_half_of_two_links() {
        assert_eq!(silent(&["e1"], &["e2"], false), ["e1-to-e2 >", "e2-to-e1 <"]);
        assert_eq!(silent(&["e1"], &["e2"], true), ["e1-to-e2 ><", "e2-to-e1 ><"]);
    }

    #[test]
    fn a_coordinator_dials_nobody() {
        assert_eq!(silent(&["e1"], &["c1"], false), ["e1-to-c1 >"]);
        assert_eq!(silent(&["c1"], &["e1"], false), ["e1-to-c1 <"]);
        assert_eq!(silent(&["e1", "e2"], &["c1"], true), ["e1-to-c1 ><", "e2-to-c1 ><"]);
    }

    #[test]
    fn nobody_has_a_link_to_oneself() {
        let error = links(&["e1"], &["e1"], true).expect_err("there is none").to_string();
        assert!(error.contains("between e1 and e1") && error.contains("different executors"), "{error}");
        let all = ["e1", "e2", "e3"];
        assert_eq!(silent(&["e3"], &all, false), ["e1-to-e3 <", "e2-to-e3 <", "e3-to-e1 >", "e3-to-e2 >"]);
        assert_eq!(silent(&all, &all, false).len(), 6);
    }
}
