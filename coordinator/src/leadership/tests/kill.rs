//! A leader that is killed with SIGKILL, wherever it stands. The leader is this test binary once more.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// Says to the child process that it is one, and which folder to lead.
const CHILD_DIR: &str = "STORMPROOF_TEST_LEADER_DIR";

/// The child: leads and writes without end, telling every number that it was given.
#[test]
fn child_leads_and_writes_until_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let leader = election(Path::new(&dir), "child").campaign().await.unwrap();
        leader.publish(info("child")).await.unwrap();
        let store = leader.store();
        if store.jobs().await.unwrap().is_empty() {
            store.add_job(&record(JOB)).await.unwrap();
        }
        loop {
            let id = store.next_checkpoint_id(JOB).await.unwrap();
            store.add_checkpoint(JOB, &pointer(id)).await.unwrap();
            store.put_result(&result(OTHER)).await.unwrap();
            println!("stored {id}");
            store.mark_result_clean(OTHER).await.unwrap();
            for old in store.checkpoints(JOB).await.unwrap().iter().filter(|old| old.id + 2 <= id) {
                store.remove_checkpoint(JOB, old.id).await.unwrap();
            }
        }
    });
}

struct Leader(Child);

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a leader, kills it after it has stored `rounds` checkpoints, and gives the number of the last one it told.
fn lead_and_die(dir: &Path, rounds: usize) -> u64 {
    let name = "leadership::tests::kill::child_leads_and_writes_until_killed";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut leader = Leader(child);
    let lines = BufReader::new(leader.0.stdout.take().unwrap()).lines();
    let numbers = lines.map_while(Result::ok).filter_map(|line| line.rsplit_once("stored ")?.1.parse().ok());
    let last = numbers.take(rounds).last().expect("the child stores checkpoints");
    leader.0.kill().unwrap();
    leader.0.wait().unwrap();
    last
}

#[tokio::test]
async fn nothing_told_is_lost_and_nothing_half_is_found_after_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        let path = dir.path().to_owned();
        let last = tokio::task::spawn_blocking(move || lead_and_die(&path, round * 3)).await.unwrap();
        let leader = lead(dir.path()).await;
        assert_eq!(leader.session(), 2 * round as u64, "the child led one session, this is the next");
        let store = leader.store();
        assert_eq!(store.jobs().await.unwrap(), [record(JOB)]);
        assert_eq!(store.results().await.unwrap().len(), 1);
        let kept: Vec<u64> = store.checkpoints(JOB).await.unwrap().iter().map(|pointer| pointer.id).collect();
        assert!(kept.iter().any(|id| *id >= last), "checkpoint {last} was stored, found {kept:?}");
        assert!(kept.len() <= 3 && kept.is_sorted(), "{kept:?}");
        let next = store.next_checkpoint_id(JOB).await.unwrap();
        assert!(kept.iter().all(|id| *id < next), "{next} was given out before: {kept:?}");
    }
}

#[tokio::test]
async fn a_standby_takes_over_from_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let killed = tokio::task::spawn_blocking(move || lead_and_die(&path, 1));
    let mut watch = leader_watch(dir.path()).unwrap();
    tokio::time::timeout(PATIENCE, watch.wait_for(Option::is_some)).await.expect("the child leads").unwrap();
    let successor = tokio::time::timeout(PATIENCE, election(dir.path(), "standby").campaign()).await;
    assert_eq!(successor.expect("a takeover").unwrap().session(), 2);
    killed.await.unwrap();
}
