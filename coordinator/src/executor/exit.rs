//! The end of the process on demand: as after running out of memory, at once and without a word to anybody.
//!
//! The file `exit-<executor>` in the chaos folder asks for it. Empty, or one JSON object: `{"code": 137,
//! "until_unix_ms": 1796011461123}`, both of which may be left out.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tracing::{error, warn};

use crate::graph::TaskError;
use crate::runtime::clock::now_ms;

/// The file is looked for so often.
const INTERVAL: Duration = Duration::from_millis(20);

/// What a shell shows of a process that the kernel killed for its memory.
const KILLED: u8 = 137;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default = "killed")]
    code: u8,
    until_unix_ms: Option<u64>,
}

fn killed() -> u8 {
    KILLED
}

/// Ends the process when it is asked to. Never resolves without a folder, nor with one.
pub(super) async fn on_demand(folder: Option<&Path>, executor: &str) -> Infallible {
    let Some(folder) = folder else { return std::future::pending().await };
    let file = folder.join(format!("exit-{executor}"));
    loop {
        if let Some(code) = asked(&file) {
            error!(file = %file.display(), code, "told to exit at once, as if out of memory");
            std::process::exit(i32::from(code));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The code to exit with, if that is asked for. A request is taken away, whatever comes of it.
fn asked(file: &PathBuf) -> Option<u8> {
    let content = std::fs::read(file).ok()?;
    std::fs::remove_file(file).ok()?;
    if content.trim_ascii().is_empty() {
        return Some(KILLED);
    }
    match serde_json::from_slice::<Request>(&content) {
        Ok(Request { until_unix_ms: Some(until), .. }) if until <= now_ms() => {
            warn!(file = %file.display(), "a request to exit came too late and is not obeyed");
            None
        }
        Ok(request) => Some(request.code),
        Err(error) => {
            let error = TaskError::from_error(&error);
            error!(file = %file.display(), %error, "a request to exit cannot be understood and is not obeyed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_if_it_is_one_and_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("exit-executor-1");
        let in_an_hour = format!(r#"{{"code": 3, "until_unix_ms": {}}}"#, now_ms() + 3_600_000);
        let cases = [
            ("", Some(137)),
            ("{}", Some(137)),
            (&*in_an_hour, Some(3)),
            (r#"{"code": 3, "until_unix_ms": 1}"#, None),
            (r#"{"cod": 3}"#, None),
            ("now", None),
        ];
        assert_eq!(asked(&file), None);
        for (content, code) in cases {
            std::fs::write(&file, content).unwrap();
            assert_eq!(asked(&file), code, "{content}");
            assert!(!file.exists(), "{content}");
        }
    }
}
