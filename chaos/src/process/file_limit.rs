//! How large files a process may write: `RLIMIT_FSIZE`.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, prlimit};

use super::identity::{ProcessError, ProcessId};

/// The line of `/proc/<pid>/limits`.
const LINE: &str = "Max file size";

impl ProcessId {
    /// Bytes beyond which it may not write any file; none: no limit.
    ///
    /// # Errors
    /// When it is gone or nobody may know.
    pub fn file_size_limit(&self) -> Result<Option<u64>, ProcessError> {
        Ok(self.file_size_limits()?.current)
    }

    /// Sets that limit, as far as its hard limit allows. Writing beyond it fails with `EFBIG`; a process that does not
    /// handle `SIGXFSZ` is killed.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn limit_file_size(&self, bytes: Option<u64>) -> Result<(), ProcessError> {
        let Rlimit { maximum, .. } = self.file_size_limits()?;
        let current = [bytes, maximum].into_iter().flatten().min();
        match prlimit(Some(self.kernel_pid()?), Resource::Fsize, Rlimit { current, maximum }) {
            Ok(_) => Ok(()),
            Err(Errno::SRCH) => Err(ProcessError::Gone(self.pid)),
            Err(errno) => {
                Err(ProcessError::Refused { action: "limit the files of", pid: self.pid, source: errno.into() })
            }
        }
    }

    /// Soft and hard.
    fn file_size_limits(&self) -> Result<Rlimit, ProcessError> {
        if !self.is_alive() {
            return Err(ProcessError::Gone(self.pid));
        }
        let unreadable = |source| ProcessError::Unreadable { pid: self.pid, source };
        let text = fs::read_to_string(format!("/proc/{}/limits", self.pid)).map_err(unreadable)?;
        parse(&text).ok_or_else(|| unreadable(io::Error::other("malformed limits")))
    }
}

fn parse(text: &str) -> Option<Rlimit> {
    let limit = |word: &str| if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) };
    let line = text.lines().find_map(|line| line.strip_prefix(LINE))?;
    let mut words = line.split_whitespace();
    Some(Rlimit { current: limit(words.next()?)?, maximum: limit(words.next()?)? })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max file size             4096                 unlimited            bytes     \n";
        let limits = parse(text).expect("a line");
        assert_eq!((limits.current, limits.maximum), (Some(4096), None));
        assert!(parse("").is_none() && parse("Max file size  many  few").is_none());
    }

    #[test]
    fn a_limit_is_set_raised_again_and_gone_with_its_process() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let process = ProcessId::of(child.id()).expect("it runs");
        let before = process.file_size_limit().expect("known");
        process.limit_file_size(Some(4096)).expect("limited");
        assert_eq!(process.file_size_limit().expect("known"), Some(4096));
        process.limit_file_size(before).expect("raised");
        assert_eq!(process.file_size_limit().expect("known"), before);
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(matches!(process.limit_file_size(None), Err(ProcessError::Gone(_))));
    }
}
