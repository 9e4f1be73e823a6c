//! Prometheus metrics, under Toxiproxy's names (P61, P62).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::effects::Traffic;
use super::proxy::lock;
use super::stream::Stream;

/// Labels in the order in which Prometheus prints them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    direction: Stream,
    listener: String,
    proxy: String,
    upstream: String,
}

type Counter = fn(&Traffic) -> &AtomicU64;

const FAMILIES: [(&str, Counter); 2] =
    [("received", |traffic| &traffic.received_bytes), ("sent", |traffic| &traffic.sent_bytes)];

/// All series since the server started. As in Prometheus, a series outlives its proxy.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    traffic: Mutex<BTreeMap<Labels, Arc<Traffic>>>,
}

impl Metrics {
    /// The counters of one series.
    pub(crate) fn traffic(&self, direction: Stream, proxy: &str, listener: &str, upstream: &str) -> Arc<Traffic> {
        let labels =
            Labels { direction, listener: listener.to_owned(), proxy: proxy.to_owned(), upstream: upstream.to_owned() };
        Arc::clone(lock(&self.traffic).entry(labels).or_default())
    }

    /// The byte counters in Prometheus' text format.
    pub(crate) fn render_proxies(&self) -> String {
        let mut text = String::new();
        for (verb, counter) in FAMILIES {
            let name = format!("toxiproxy_proxy_{verb}_bytes_total");
            let _ = writeln!(text, "# HELP {name} Bytes {verb} by the proxy.\n# TYPE {name} counter");
            for (labels, traffic) in lock(&self.traffic).iter() {
                let _ = writeln!(
                    text,
                    "{name}{{direction=\"{}\",listener=\"{}\",proxy=\"{}\",upstream=\"{}\"}} {}",
                    labels.direction,
                    escape(&labels.listener),
                    escape(&labels.proxy),
                    escape(&labels.upstream),
                    counter(traffic).load(Relaxed)
                );
            }
        }
        text
    }
}

/// Build information, under the name that Go programs use.
pub(crate) fn render_build_info() -> String {
    format!(
        "# HELP go_build_info Build information about the main module.\n# TYPE go_build_info gauge\n\
         go_build_info{{checksum=\"unknown\",path=\"{}\",version=\"{}\"}} 1\n",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION")
    )
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_their_labels_and_values() {
        // P61
        let metrics = Metrics::default();
        metrics.traffic(Stream::Upstream, "a\"b", "127.0.0.1:1", "db:2").sent_bytes.store(7, Relaxed);
        let text = metrics.render_proxies();
        let series = r#"toxiproxy_proxy_sent_bytes_total{direction="upstream",listener="127.0.0.1:1",proxy="a\"b",upstream="db:2"} 7"#;
        assert!(text.lines().any(|line| line == series), "{text}");
    }
}
