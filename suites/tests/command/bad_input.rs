//! Bad input: one clear sentence, exit code 2, nothing started, nothing left.

use std::net::TcpListener;
use std::process::Command;

use crate::support::{Bystander, Running, Sandbox, names};

/// No process listens on it, and none may without being root.
const NOBODY: &str = "http://127.0.0.1:1";

/// Each command line is refused with one sentence that holds these parts, and leaves everything as it was.
fn all_refused(sandbox: &Sandbox, cases: &[(&[&str], &[&str])]) {
    let before = names(&sandbox.here());
    for (arguments, parts) in cases {
        println!("{arguments:?}");
        sandbox.run(arguments).refused(parts);
        sandbox.assert_nothing_left();
        assert_eq!(names(&sandbox.here()), before, "{arguments:?} made something");
    }
}

fn taken_port() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn run_refuses_what_it_cannot_run() {
    let sandbox = Sandbox::new();
    sandbox.file("old/summary.json", "{}");
    sandbox.file("killed/batch.control/timeline.jsonl", "");
    sandbox.file("a-file", "text");
    std::fs::create_dir(sandbox.here().join("empty")).unwrap();
    all_refused(
        &sandbox,
        &[
            (&["run", "batch::nothing"], &["`batch::nothing`", "batch::control"]),
            (&["run", "--exact", "batch"], &["`batch`", "batch::control"]),
            (&["run", "--input", "no/such"], &["no/such", "No such file"]),
            (&["run", "--input", "a-file"], &["a-file", "Not a directory"]),
            (&["run", "--input", "empty"], &["empty holds no text file", "--input"]),
            (&["run", "--report", "old"], &["old holds a report already", "--report"]),
            (&["run", "--report", "killed"], &["killed holds a report already"]),
            (&["run", "--report", "a-file"], &["a-file"]),
            (&["run", "--junit", "no/such/junit.xml"], &["--junit no/such/junit.xml"]),
            (&["run", "--junit", "/proc/junit.xml"], &["--junit /proc/junit.xml cannot be written"]),
            (&["run", "--jobs", "0"], &["'0'", "--jobs", "1..=16"]),
            (&["run", "--seed", "many"], &["'many'", "--seed"]),
            (&["run", "--target", "moon"], &["'moon'", "bundled"]),
            (&["run", "--store", "moon"], &["`moon`", "embedded", "minio"]),
            (&["run", "--sead", "1"], &["'--sead'", "'--seed'"]),
            (&["rum"], &["'rum'", "'run'"]),
        ],
    );
}

#[test]
fn up_refuses_what_would_not_come_up() {
    let sandbox = Sandbox::new();
    sandbox.file("a-file", "text");
    let (_listener, taken) = taken_port();
    all_refused(
        &sandbox,
        &[
            (
                &["up", "--rest", "127.0.0.1:0", "-D", "heartbeat.intervall=1 s"],
                &["`heartbeat.intervall`", "did you mean `heartbeat.interval`"],
            ),
            (&["up", "-D", "heartbeat.interval"], &["`-D heartbeat.interval`", "key=value"]),
            (&["up", "--rest", "127.0.0.1:0", "-D", "heartbeat.interval=soon"], &["`heartbeat.interval`", "`soon`"]),
            (
                &["up", "--rest", "127.0.0.1:0", "-D", "heartbeat.interval=20 s"],
                &["`heartbeat.interval` (20 s)", "`heartbeat.timeout` (10 s)"],
            ),
            (&["up", "--rest", &taken], &[&taken, "is in use", "port 0"]),
            (&["up", "--rest", "somewhere"], &["'somewhere'", "--rest"]),
            (&["up", "--executors", "0"], &["'0'", "--executors", "1..=64"]),
            (&["up", "--slots", "-1"], &["'-1'"]),
            (&["up", "--slots", "2", "-D", "taskmanager.numberOfTaskSlots=5"], &["--slots 2", "contradict each other"]),
            (&["up", "--proxy", "./no-such-program"], &["./no-such-program", "no executable file"]),
            (&["up", "--rest", "127.0.0.1:0", "--logs", "a-file"], &["a-file"]),
        ],
    );
}

#[test]
fn up_that_fails_half_way_tidies_up_before_it_ends() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("a-file", "text");
    let up = ["up", "--rest", "127.0.0.1:0", "--ha"];
    sandbox.run(&[&up[..], &[file.to_str().unwrap()]].concat()).refused(&["a-file"]);
    sandbox.assert_nothing_left();

    std::fs::remove_dir(sandbox.temporary()).unwrap();
    sandbox.run(&up[..3]).refused(&["could not create folder", "stormproof-", "No such file"]);
    assert_eq!(sandbox.processes(), []);
    assert!(!sandbox.temporary().exists());
}

#[test]
fn servers_refuse_ports_in_use_and_bad_values() {
    let sandbox = Sandbox::new();
    let (_listener, taken) = taken_port();
    let port = taken.rsplit_once(':').unwrap().1;
    all_refused(
        &sandbox,
        &[
            (&["proxy", "--port", port], &[&taken, "in use"]),
            (&["proxy", "-port", port], &[&taken, "in use"]),
            (&["proxy", "--port", "70000"], &["'70000'", "--port"]),
            (&["proxy", "--host", "no.such.host.invalid"], &["no.such.host.invalid:8474"]),
            (&["s3", "--listen", &taken], &[&taken, "in use"]),
            (&["s3", "--listen", "nowhere"], &["'nowhere'", "--listen"]),
            (&["s3", "--listen", "127.0.0.1:0", "--access-key", ""], &["access key is empty"]),
            (&["s3", "--listen", "127.0.0.1:0", "--bucket", "No_"], &["\"No_\"", "bucket name"]),
        ],
    );
}

#[test]
fn a_bad_rules_file_is_named_with_what_is_wrong() {
    let sandbox = Sandbox::new();
    sandbox.file("typo.toml", "[[rules]]\nname = 'x'\nefect = { kind = 'reset-after' }");
    sandbox.file("zero.toml", "[[rules]]\nname = 'x'\nnth = { first = 0 }\neffect = { kind = 'reset-after' }");
    sandbox.file("cut.json", "{");
    let s3 = |file: &'static str| ["s3", "--listen", "127.0.0.1:0", "--rules", file];
    all_refused(
        &sandbox,
        &[
            (&s3("none.toml"), &["none.toml", "No such file"]),
            (&s3("typo.toml"), &["typo.toml", "line 3", "unknown field `efect`"]),
            (&s3("zero.toml"), &["zero.toml", "nth.first is 0", "at least 1"]),
            (&s3("cut.json"), &["cut.json", "EOF"]),
        ],
    );
}

#[test]
fn a_bad_proxy_file_is_named_with_what_is_wrong() {
    let sandbox = Sandbox::new();
    let (_listener, taken) = taken_port();
    sandbox.file("cut.json", r#"[{"name": "a", "upstream": "#);
    sandbox.file("partial.json", r#"[{"name": "a", "listen": "127.0.0.1:0"}]"#);
    let toxic = r#""toxics": [{"type": "latenzy"}]"#;
    sandbox.file(
        "toxic.json",
        &format!(r#"[{{"name": "a", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1", {toxic}}}]"#),
    );
    sandbox.file("taken.json", &format!(r#"[{{"name": "a", "listen": "{taken}", "upstream": "127.0.0.1:1"}}]"#));
    let proxy = |file: &'static str| ["proxy", "--port", "0", "--config", file];
    all_refused(
        &sandbox,
        &[
            (&proxy("none.json"), &["none.json", "No such file"]),
            (&proxy("cut.json"), &["cut.json", "cannot be applied", "EOF", "--lenient"]),
            (&proxy("partial.json"), &["partial.json", "upstream"]),
            (&proxy("toxic.json"), &["toxic.json", "invalid toxic type"]),
            (&proxy("taken.json"), &["taken.json", &taken]),
        ],
    );
}

#[test]
fn clients_say_that_no_cluster_is_there() {
    let sandbox = Sandbox::new();
    let id = "00000000000000000000000000c0ffee";
    let nobody: &[&str] = &["no cluster answers", NOBODY, "stormproof up", "--target"];
    all_refused(
        &sandbox,
        &[
            (&["submit", "word-count", "--target", NOBODY], nobody),
            (&["jobs", "--target", NOBODY], nobody),
            (&["jobs", "--json", "--target", NOBODY], nobody),
            (&["cancel", id, "--target", NOBODY], nobody),
            (&["cancel", "c0ffee", "--target", NOBODY], &["`c0ffee`", "32 hexadecimal digits"]),
            (&["cancel"], &["<ID>"]),
            (&["jobs", "--target", "nowhere"], &["`nowhere`", "http://host:port"]),
            (&["submit", "word-count", "-p", "input", "--target", NOBODY], &["`-p input`", "key=value"]),
            (&["submit"], &["<JOB>"]),
        ],
    );
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_sudden_end() {
    let sandbox = Sandbox::new();
    let limited = |arguments: &[&str]| {
        let command = sandbox.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""]).arg(command.get_program()).args(arguments);
        shell.current_dir(sandbox.here()).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Running::start(shell).finish()
    };
    limited(&["s3", "--listen", "127.0.0.1:0", "--data", "d"]).refused(&["d", "File too large"]);
    let bystander = Bystander::start();
    let pid = bystander.pid().to_string();
    limited(&["inject", "hang", "--pid", &pid]).refused(&["could not write", "File too large"]);
    assert!(!bystander.is_stopped());
    sandbox.assert_nothing_left();
}
