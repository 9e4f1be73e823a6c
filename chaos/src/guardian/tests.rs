use std::process::{Command, Stdio};

use super::*;
use crate::journal::Undo;
use crate::process::RUN_TAG_VARIABLE;

/// A run that has left nothing yet; its journal lies in `folder`.
fn config(test: &str, folder: &Path) -> GuardianConfig {
    let tag = format!("{test}-{}", std::process::id());
    GuardianConfig { tag, journal: folder.join("journal"), work_dirs: vec![], index: None, own_dir: None }
}

#[test]
fn a_proxy_that_dies_while_it_is_asked_has_nothing_left_to_undo() {
    let folder = tempfile::tempdir().expect("folder");
    let config = GuardianConfig {
        index: Some(folder.path().join("index.json")),
        ..config("guardian-test-proxy", folder.path())
    };
    std::fs::write(folder.path().join("index.json"), b"{}").expect("written");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let api = format!("http://{}", listener.local_addr().expect("known"));
    let undo = Undo::RemoveToxic { api, proxy: "store".to_owned(), toxic: "blackhole".to_owned() };
    Journal::open(&config.journal).expect("open").record_open("blackhole", vec![undo]).expect("record");
    // One connection is accepted and cut; then nobody listens.
    let proxy = std::thread::spawn(move || drop(listener.accept().expect("asked")));
    let sweep = sweep(&config).expect("swept");
    proxy.join().expect("no panic");
    assert_eq!((sweep.undone, sweep.problems), (vec!["blackhole".to_owned()], vec![]));
    assert!(!folder.path().join("index.json").exists());
}

#[test]
fn a_call_of_the_dead_runner_that_came_late_is_undone_as_well() {
    let folder = tempfile::tempdir().expect("folder");
    let config = config("guardian-test-late", folder.path());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let api = format!("http://{}", listener.local_addr().expect("known"));
    let undo = Undo::RemoveToxic { api, proxy: "store".to_owned(), toxic: "late".to_owned() };
    Journal::open(&config.journal).expect("open").record_open("late", vec![undo]).expect("record");
    // The toxic arrives only after the guardian's first call.
    let proxy = std::thread::spawn(move || {
        for answer in ["404 Not Found\r\ncontent-length: 2\r\n\r\n{}", "204 No Content\r\n\r\n"] {
            let (mut stream, _) = listener.accept().expect("asked");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("a request");
            assert!(request[..length].starts_with(b"DELETE /proxies/store/toxics/late "));
            let answer = format!("HTTP/1.1 {answer}").replacen("\r\n", "\r\nconnection: close\r\n", 1);
            io::Write::write_all(&mut stream, answer.as_bytes()).expect("answered");
        }
    });
    let sweep = sweep(&config).expect("swept");
    assert_eq!((sweep.undone, sweep.problems), (vec!["late".to_owned()], vec![]));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !proxy.is_finished() {
        assert!(Instant::now() < deadline, "it was asked once only");
        std::thread::yield_now();
    }
    proxy.join().expect("asked as it should be");
}

#[test]
fn a_sweep_undoes_kills_and_removes_and_a_second_one_finds_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let work_dir = folder.path().join("work");
    std::fs::create_dir_all(work_dir.join("executor-1/partitions")).expect("made");
    let fault_file = folder.path().join("fail-count-0");
    std::fs::write(&fault_file, b"").expect("written");
    let config = GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-test", folder.path()) };
    let journal = Journal::open(&config.journal).expect("open");
    let healed = journal.record_open("healed", vec![Undo::RemoveFile { path: "/nonexistent".into() }]);
    journal.record_closed(healed.expect("record")).expect("record");
    journal.record_open("fail", vec![Undo::RemoveFile { path: fault_file.clone() }]).expect("record");
    let mut child = Command::new("cat")
        .env(RUN_TAG_VARIABLE, &config.tag)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("cat starts");
    // A stopped process must be killed as well.
    ProcessId::of(child.id()).expect("it runs").stop().expect("stopped");

    let first = sweep(&config).expect("swept");
    assert_eq!(first.undone, ["fail"]);
    assert_eq!(first.killed.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
    assert_eq!(first.removed, [work_dir.as_path()]);
    assert_eq!(first.problems, Vec::<String>::new());
    assert!(!fault_file.exists() && !work_dir.exists());
    child.wait().expect("reaped");

    let second = sweep(&config).expect("swept");
    assert_eq!((second.killed.len(), second.removed.len(), second.problems.len()), (0, 0, 0));
}

#[test]
fn the_runs_own_folder_stays_until_nothing_is_left() {
    let folder = tempfile::tempdir().expect("folder");
    let own_dir = folder.path().join("own");
    std::fs::create_dir(&own_dir).expect("made");
    let journal = own_dir.join("journal");
    let config = GuardianConfig {
        journal: journal.clone(),
        index: Some(folder.path().join("index.json")),
        own_dir: Some(own_dir.clone()),
        ..config("guardian-own-test", folder.path())
    };
    let records = ["index.json", "index.unfinished"].map(|name| folder.path().join(name));
    // One that was killed while it wrote leaves both.
    records.iter().for_each(|record| std::fs::write(record, b"{}").expect("written"));
    // A folder cannot be removed as a file.
    let stuck = folder.path().join("stuck");
    std::fs::create_dir(&stuck).expect("made");
    let undo = vec![Undo::RemoveFile { path: stuck.clone() }];
    Journal::open(&journal).expect("open").record_open("stuck", undo).expect("record");
    assert_eq!(sweep(&config).expect("swept").problems.len(), 1);
    assert!(journal.exists() && folder.path().join("index.json").exists(), "whoever heals by hand needs them");
    std::fs::remove_dir(&stuck).expect("removed");
    assert_eq!(sweep(&config).expect("swept").undone, ["stuck"]);
    assert!(!own_dir.exists() && !records.iter().any(|record| record.exists()));
}

#[test]
fn a_signal_is_not_the_end_of_the_pipe() {
    struct Signalled {
        reads: u32,
    }
    impl Read for &mut Signalled {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads == 1 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(0) }
        }
    }
    let mut pipe = Signalled { reads: 0 };
    await_end(&mut pipe);
    assert_eq!(pipe.reads, 2);
}

#[test]
fn the_end_of_the_pipe_starts_the_sweep() {
    let folder = tempfile::tempdir().expect("folder");
    let work_dir = folder.path().join("work");
    std::fs::create_dir(&work_dir).expect("made");
    let config = GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-pipe-test", folder.path()) };
    let swept = watch_and_sweep(&b"anything"[..], &config, |_| ()).expect("swept");
    assert_eq!(swept.removed, [work_dir]);
}

#[test]
fn what_is_not_renewed_is_undone_although_the_runner_lives() {
    let folder = tempfile::tempdir().expect("folder");
    let config = config("guardian-lease-test", folder.path());
    let (held, lost) = (folder.path().join("hold-a-0"), folder.path().join("hold-b-0"));
    for file in [&held, &lost] {
        std::fs::write(file, b"").expect("written");
    }
    let journal = Journal::open(&config.journal).expect("open");
    let long = journal.clone().with_ttl(Duration::from_secs(3600));
    long.record_open("held", vec![Undo::RemoveFile { path: held.clone() }]).expect("record");
    let brief = journal.clone().with_ttl(Duration::from_millis(300));
    let id = brief.record_open("lost", vec![Undo::RemoveFile { path: lost.clone() }]).expect("record");

    let (reader, writer) = io::pipe().expect("a pipe");
    let watched = config.clone();
    let guardian = std::thread::spawn(move || watch_and_sweep(reader, &watched, |_| ()));
    let deadline = Instant::now() + Duration::from_secs(20);
    let expired = || {
        let open = open_entries(&config.journal).expect("read");
        open.iter().filter(|entry| entry.expired).map(|entry| entry.what.clone()).collect::<Vec<_>>()
    };
    while expired().is_empty() {
        assert!(Instant::now() < deadline, "the lease never ends");
        std::thread::yield_now();
    }
    assert_eq!(expired(), ["lost"]);
    assert!(held.exists() && !lost.exists());
    assert!(brief.is_lost(id));
    drop(writer);
    let swept = guardian.join().expect("no panic").expect("swept");
    assert_eq!(swept.undone, ["lost", "held"], "newest first; what expired may have been done afterwards");
    assert!(!held.exists());
    assert_eq!(open_entries(&config.journal).expect("read"), []);
}

#[test]
fn a_folder_that_is_still_being_filled_is_removed_all_the_same() {
    let folder = tempfile::tempdir().expect("folder");
    let work_dir = folder.path().join("work");
    std::fs::create_dir(&work_dir).expect("made");
    let config = GuardianConfig { work_dirs: vec![work_dir.clone()], ..config("guardian-folder-test", folder.path()) };
    let filled = work_dir.clone();
    let (began, begins) = mpsc::channel();
    // Ends when its folder is gone, or after a while: then the sweep must still be trying.
    let filler = std::thread::spawn(move || {
        let mut number = 0;
        let mut end = None;
        let is_over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() > end);
        while !is_over(end) && std::fs::write(filled.join(number.to_string()), b"").is_ok() {
            number += 1;
            if number == 500 {
                end = Some(Instant::now() + Duration::from_millis(500));
                began.send(()).expect("somebody waits");
            }
        }
    });
    begins.recv_timeout(Duration::from_secs(20)).expect("it fills");
    let swept = sweep(&config).expect("swept");
    filler.join().expect("no panic");
    assert_eq!((swept.removed, swept.problems), (vec![work_dir.clone()], vec![]));
    assert!(!work_dir.exists());
}
