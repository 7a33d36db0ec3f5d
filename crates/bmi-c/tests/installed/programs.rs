//! C programs, compiled against the installed header and library, under the address and undefined
//! behaviour sanitizers, or under valgrind (`make valgrind`), which checks the library, too. A leak is a
//! failure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::installed::{checked, checks, is_under_valgrind, run, succeed};
use causeway_testkit::loopback;

use crate::prefix::LIBRARY;

fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    folder.join(name).with_extension("c")
}

fn compile(source: &Path, name: &str) -> PathBuf {
    LIBRARY.compile(source, checks(), name)
}

/// Runs a program, over shared memory and over TCP. Its own alarm ends it if it hangs.
fn over_both(name: &str) {
    let program = compile(&source(name), name);
    let folder = tempfile::tempdir().unwrap();
    let shm = format!("shm://{}/s", folder.path().display());
    for address in [shm.as_str(), "tcp://127.0.0.1:0"] {
        let mut command = checked(&program);
        if address == shm {
            // What a peer writes into
            // our memory from its own process (cross-memory attach) memcheck takes for never written.
            command.env("VALGRIND_OPTS", "--undef-value-errors=no");
        }
        succeed(command.arg(address));
    }
}

#[test]
fn messages() {
    over_both("messages");
}

#[test]
fn failures() {
    over_both("failures");
}

#[test]
fn arguments() {
    over_both("arguments");
}

#[test]
fn remote() {
    over_both("remote");
}

#[test]
fn threads() {
    over_both("threads");
}

#[test]
fn state_of_the_whole_process_is_unchanged() {
    over_both("unchanged");
}

#[test]
fn fork() {
    over_both("fork");
}

#[test]
fn warnings_are_written_unless_the_log_is_off() {
    let program = compile(&source("log"), "log");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let say = |variables: &[(&str, &str)]| {
        let mut command = checked(&program);
        command.env_remove("CAUSEWAY_LOG");
        command.env_remove("CAUSEWAY_LOG_FILE");
        command.envs(variables.iter().copied());
        let output = run(command.arg("tcp://127.0.0.1:0"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let is_warning = |text: &str| {
        let mut lines = text.lines();
        lines.clone().count() == 2
            && lines.all(|line| {
                line.contains(" WARN  transport.tcp: ") && line.contains("will not reach it")
            })
    };
    let (code, said) = say(&[]);
    assert!(code == Some(0) && is_warning(&said), "{said}");
    assert_eq!(say(&[("CAUSEWAY_LOG", "off")]), (Some(0), String::new()));
    let place = file.display().to_string();
    assert_eq!(
        say(&[("CAUSEWAY_LOG_FILE", &place)]),
        (Some(0), String::new())
    );
    let logged = std::fs::read_to_string(&file).unwrap();
    assert!(is_warning(&logged), "{logged}");
    let (code, said) = say(&[("CAUSEWAY_LOG", "loud")]);
    assert!(
        code == Some(2) && said.contains("`loud` is no level"),
        "{said}"
    );
    let (code, said) = say(&[("CAUSEWAY_LOG_FILE", "/nowhere/log")]);
    assert!(code == Some(2) && said.contains("/nowhere/log"), "{said}");
    // A reader of standard error that has gone away does not end the program.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = checked(&program)
        .arg("tcp://127.0.0.1:0")
        .stderr(writer)
        .status();
    assert_eq!(status.unwrap().code(), Some(0));
}

/// Leaks are found, also of memory that the library hands out.
#[test]
fn a_leak_is_found() {
    let program = compile(&source("leak"), "leak");
    let output = run(checked(&program).arg("tcp://127.0.0.1:0"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    let finder = if is_under_valgrind() {
        "definitely lost"
    } else {
        "LeakSanitizer"
    };
    assert!(
        error.contains(finder) && error.contains("77 byte"),
        "{error}"
    );
}

/// A server that is ended with the test, whether that fails or not.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It has usually ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_example_serves_requests() {
    let source = LIBRARY.root().join("examples/bmi.c");
    let lines = std::fs::read_to_string(&source).unwrap().lines().count();
    assert!(lines <= 60, "an example of {lines} lines");
    let program = compile(&source, "example");
    let folder = tempfile::tempdir().unwrap();
    let tcp = format!("tcp://{}", loopback::fresh());
    let shm = format!("shm://{}/s", folder.path().display());
    for (at, ask_at) in [(&shm, &shm), (&tcp, &tcp), (&format!("{shm},{tcp}"), &tcp)] {
        let mut serve = checked(&program);
        let mut server = Server(serve.args(["serve", at]).spawn().unwrap());
        let ask = |text: &str| run(checked(&program).args(["ask", ask_at, text]));
        let mut output = ask("hello");
        wait_for("the server replies", || {
            let error = String::from_utf8_lossy(&output.stderr);
            let is_early = error.contains("nothing listens there");
            assert!(output.status.success() || is_early, "{error}");
            if is_early {
                output = ask("hello");
            }
            !is_early
        });
        assert_eq!(String::from_utf8_lossy(&output.stdout), "HELLO\n");
        assert_eq!(String::from_utf8_lossy(&ask("quit").stdout), "QUIT\n");
        wait_for("the server ends", || server.0.try_wait().unwrap().is_some());
        assert!(server.0.wait().unwrap().success());
    }
    let wrong = Command::new(&program).stderr(Stdio::null()).status();
    assert_eq!(wrong.unwrap().code(), Some(2));
}

/// Installing into a staging directory, and uninstalling.
#[test]
fn uninstalling_removes_all_installed_files() {
    let stage = LIBRARY.scratch("stage");
    let settings = [
        format!("DESTDIR={}", stage.display()),
        "PREFIX=/opt/x".to_owned(),
    ];
    LIBRARY.make("install-bmi", &settings);
    let placed = |path: &str| stage.join("opt/x").join(path);
    let pc = std::fs::read_to_string(placed("lib/pkgconfig/causeway-bmi.pc")).unwrap();
    assert!(
        pc.starts_with("prefix=/opt/x\n") && !pc.contains('@'),
        "{pc}"
    );
    assert!(placed("include/causeway/bmi.h").is_file());
    for name in ["libcauseway_bmi.so", "libcauseway_bmi.so.0"] {
        let link = placed("lib").join(name);
        let target = std::fs::read_link(&link).unwrap();
        assert!(target.is_relative() && link.is_file(), "{name}");
    }
    LIBRARY.make("uninstall", &settings);
    let left = succeed(Command::new("find").arg(&stage).args(["!", "-type", "d"]));
    assert_eq!(left, "");
}
