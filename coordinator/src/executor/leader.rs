//! Staying registered with whoever leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::partitions::PartitionTable;
use super::routes::Routes;
use super::run::ExecutorError;
use super::session::Session;
use super::tasks::TaskTable;
use crate::leadership::LeaderInfo;
use crate::runtime::protocol::Hello;

/// Pause after the first failed attempt to register; doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One executor's membership in the cluster.
pub(crate) struct Membership {
    pub(crate) hello: Hello,
    pub(crate) leader: watch::Receiver<Option<LeaderInfo>>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) registration_timeout: Duration,
    pub(crate) tasks: Arc<TaskTable>,
    pub(crate) partitions: Arc<PartitionTable>,
}

impl Membership {
    /// Registers with the leader, serves it, and starts again when it is lost. Returns only when no leader could be
    /// joined for the registration timeout.
    pub(crate) async fn keep(mut self) -> ExecutorError {
        if let Err(error) = self.routes.known(self.registration_timeout).await {
            return error.into();
        }
        let mut deadline = Instant::now() + self.registration_timeout;
        let mut pause = FIRST_PAUSE;
        loop {
            let Ok((leader, joined)) = tokio::time::timeout_at(deadline, self.join()).await else {
                return ExecutorError::NotRegistered(self.registration_timeout);
            };
            match joined {
                Ok(session) => {
                    self.serve(&leader, session).await;
                    deadline = Instant::now() + self.registration_timeout;
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "will register again");
                    if Instant::now() >= deadline {
                        return ExecutorError::NotRegistered(self.registration_timeout);
                    }
                }
            }
            // Another leader is worth another attempt at once.
            let _ = tokio::time::timeout(pause, other_leader(&mut self.leader, &leader)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn join(&mut self) -> (LeaderInfo, Result<Session, super::session::JoinError>) {
        let leader = loop {
            if let Some(leader) = self.leader.borrow_and_update().clone() {
                break leader;
            }
            if self.leader.changed().await.is_err() {
                // The watching thread is gone; the registration timeout ends this.
                std::future::pending::<()>().await;
            }
        };
        let session = Session::join(&self.routes.to(&leader.name, &leader.rpc), &self.hello).await;
        (leader, session)
    }

    /// Serves one leader; afterwards nothing of it is left here (reference 4.4).
    async fn serve(&mut self, leader: &LeaderInfo, session: Session) {
        tokio::select! {
            lost = session.serve(&self.tasks, &self.partitions) => {
                warn!(error = &lost as &dyn std::error::Error, "the coordinator is lost: all tasks are cancelled");
            }
            () = other_leader(&mut self.leader, leader) => info!("another coordinator leads: all tasks are cancelled"),
        }
        self.tasks.discard_all();
        self.tasks.all_ended().await;
        self.partitions.release_all();
    }
}

/// Resolves once somebody else leads. That nobody leads says nothing: the connection decides.
async fn other_leader(watch: &mut watch::Receiver<Option<LeaderInfo>>, known: &LeaderInfo) {
    let other = watch.wait_for(|leader| leader.as_ref().is_some_and(|leader| leader != known)).await.is_err();
    if other {
        std::future::pending::<()>().await;
    }
}
