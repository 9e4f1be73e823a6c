//! How a new client is received: the toxics that act before its upstream is dialled.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::effects::count;
use super::proxy::ProxyCore;
use super::random::Draws;
use super::spec::{ToxicList, ToxicSpec};
use super::toxic::attributes::Reception;

/// What a client has met.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) reception: Reception,
    toxic: u64,
    client: IpAddr,
    draw: f64,
}

impl ProxyCore {
    /// What the connection with this number meets first, if anything. Asked once per connection, in order of accept, so
    /// that equal runs hit the same connections.
    pub(crate) fn receive(&self, number: u64, client: IpAddr) -> Option<Met> {
        let list = self.list();
        list.listed().into_iter().find_map(|toxic| {
            let (reception, connect) = toxic.attributes.reception()?;
            let draw = Draws::new(self.settings.seed, &self.name, number, &toxic.name).toxicity();
            if !toxic.acts_on(client, draw) {
                return None;
            }
            let hit = &toxic.counters.connections_hit;
            hit.fetch_update(Relaxed, Relaxed, |before| connect.takes(before).then_some(before + 1)).ok()?;
            if reception == Reception::Refuse {
                count(&toxic.counters.connections_closed, 1);
            }
            Some(Met { reception, toxic: toxic.id, client, draw })
        })
    }
}

impl Met {
    fn holds(&self, list: &ToxicList) -> bool {
        let still = |toxic: &ToxicSpec| toxic.id == self.toxic && toxic.acts_on(self.client, self.draw);
        list.toxics.iter().any(still)
    }

    /// Keeps silent until the toxic has gone; whether the client is still there then.
    pub(crate) async fn keep_silent(&self, client: &TcpStream, mut wanted: watch::Receiver<Arc<ToxicList>>) -> bool {
        let gone = async {
            while self.holds(&wanted.borrow_and_update()) {
                if wanted.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = gone => true,
            () = leaves(client) => false,
        }
    }
}

/// The same socket, registered anew: what was noticed of its bytes while it was kept silent is to be noticed once more.
pub(crate) fn registered_anew(client: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(client.into_std()?)
}

/// Waits until the client finishes or is gone. Its bytes stay where they are.
async fn leaves(client: &TcpStream) {
    loop {
        match client.ready(Interest::READABLE | Interest::ERROR).await {
            Ok(ready) if !ready.is_read_closed() && !ready.is_error() => {
                // Only forgets that there are bytes, so that the next event is waited for.
                let _ = client.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
            _ => return,
        }
    }
}
