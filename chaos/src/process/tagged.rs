//! Processes that belong to a run, found by the tag in their environment.

use std::fs;

use super::ProcessId;

/// Environment variable that every process of a run carries: the run's own tag, and nobody else's.
pub const RUN_TAG_VARIABLE: &str = "STORMPROOF_RUN";

/// All live processes whose environment says that they belong to run `tag`, except this one.
///
/// The environment is read as it was at `exec`, so a process cannot lose its tag. Processes of other users are not
/// readable and therefore never found.
#[must_use]
pub fn tagged_processes(tag: &str) -> Vec<ProcessId> {
    let wanted = format!("{RUN_TAG_VARIABLE}={tag}");
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    let mut found: Vec<ProcessId> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != std::process::id())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes()))
        })
        .filter_map(|pid| ProcessId::of(pid).ok())
        .filter(ProcessId::is_alive)
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn finds_its_own_and_no_other() {
        let tag = format!("tagged-test-{}", std::process::id());
        let spawn = |tag: &str| {
            Command::new("cat")
                .env(RUN_TAG_VARIABLE, tag)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("cat starts")
        };
        let (mut ours, mut other) = (spawn(&tag), spawn(&format!("{tag}-other")));
        let found: Vec<u32> = tagged_processes(&tag).iter().map(|process| process.pid).collect();
        assert_eq!(found, [ours.id()]);
        for child in [&mut ours, &mut other] {
            child.kill().expect("kill");
            child.wait().expect("reaped");
        }
        assert!(tagged_processes(&tag).is_empty());
    }
}
