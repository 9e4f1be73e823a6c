//! Log lines on standard error, for a server that runs on its own.
//!
//! Whoever does not read them holds up nobody: lines wait in a queue, a thread writes them, and what does not fit is
//! counted and left out.

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 4_096;

/// How long the end waits for the last lines.
const FLUSH_LIMIT: Duration = Duration::from_millis(200);

/// From which level on lines are written; `warn` unless something else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(LevelFilter);

impl Default for Level {
    fn default() -> Self {
        Self(LevelFilter::WARN)
    }
}

/// A name that is no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no log level; choose trace, debug, info, warn, error or disabled")]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    /// By Toxiproxy's names, in any case. Nothing of ours is worse than an error.
    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        Ok(Self(match name.to_ascii_lowercase().as_str() {
            "trace" => LevelFilter::TRACE,
            "debug" => LevelFilter::DEBUG,
            "info" => LevelFilter::INFO,
            "warn" => LevelFilter::WARN,
            "error" => LevelFilter::ERROR,
            "fatal" | "panic" | "disabled" => LevelFilter::OFF,
            _ => return Err(UnknownLevel(name.to_owned())),
        }))
    }
}

/// Logging as long as the process lasts. Dropping it waits a moment for the last lines.
#[derive(Debug)]
pub struct Logging(SyncSender<Message>);

/// Writes the lines of this process from `level` on to standard error. The first call of a process counts.
#[must_use]
pub fn start(level: Level) -> Logging {
    let (to, messages) = sync_channel(QUEUE_LINES);
    let queue = Queue { to: to.clone(), lost: Arc::default() };
    let lost = Arc::clone(&queue.lost);
    thread::spawn(move || write_all(&messages, &lost, io::stderr()));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || queue.clone());
    let _ = tracing_subscriber::registry().with(lines.with_filter(level.0)).try_init();
    Logging(to)
}

impl Drop for Logging {
    fn drop(&mut self) {
        let (done, is_done) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(FLUSH_LIMIT);
        }
    }
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// To be answered when all before it is written.
    Flush(SyncSender<()>),
}

/// Where lines are written to.
#[derive(Clone)]
struct Queue {
    to: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Until nobody can send any more. If nobody can read it there is nobody to tell.
fn write_all(messages: &Receiver<Message>, lost: &AtomicU64, mut out: impl Write) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let _ = out.write_all(&line);
            }
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
        let lost = lost.swap(0, Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "{lost} log lines are missing here: they were not read fast enough");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_toxiproxys_names() {
        assert_eq!("WARN".parse(), Ok(Level::default()));
        assert_eq!("disabled".parse(), Ok(Level(LevelFilter::OFF)));
        let error = Level::from_str("loud").expect_err("unknown").to_string();
        assert_eq!(error, "\"loud\" is no log level; choose trace, debug, info, warn, error or disabled");
    }

    #[test]
    fn a_full_queue_holds_up_nobody_and_is_told() {
        let (to, messages) = sync_channel(2);
        let mut queue = Queue { to, lost: Arc::default() };
        let lost = Arc::clone(&queue.lost);
        for number in 0..5 {
            queue.write_all(format!("{number}\n").as_bytes()).expect("never fails");
        }
        drop(queue);
        let mut out = Vec::new();
        write_all(&messages, &lost, &mut out);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "0\n3 log lines are missing here: they were not read fast enough\n1\n");
    }
}
