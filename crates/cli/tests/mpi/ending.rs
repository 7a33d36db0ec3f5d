//! How `causeway run` and the processes that it has started stop and end together. These programs do not use MPI.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{compile, run};

/// A launcher of one process that runs a script, once that has printed `up`.
fn launch(script: &str) -> (Child, ChildStdin, ChildStdout) {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let input = launcher.stdin.take().expect("a pipe");
    let mut output = launcher.stdout.take().expect("a pipe");
    let mut up = [0; b"up\n".len()];
    output.read_exact(&mut up).expect("the script runs");
    (launcher, input, output)
}

#[test]
fn processes_do_not_outlive_a_launcher_that_is_killed() {
    let script = "trap '' TERM HUP; echo up; read line; echo survived";
    let (mut launcher, mut input, mut output) = launch(script);
    launcher.kill().expect("it runs");
    launcher.wait().expect("it has been killed");
    // The process gets no further than its `read`.
    let _ = input.write_all(b"line\n");
    let mut said = String::new();
    output.read_to_string(&mut said).expect("its output");
    assert_eq!(said, "");
}

#[test]
fn spawned_processes_outlive_those_that_have_spawned_them() {
    let output = run(1, &compile("outlives"), &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("outlived"), "{said}\n{errors}");
    assert!(output.status.success(), "{errors}");
}

/// A shell gives the terminal back when the process that it has started stops.
#[test]
fn a_launcher_that_is_told_to_stop_stops_until_it_is_told_to_go_on() {
    let script = "echo up; read line; echo went on";
    let (mut launcher, mut input, mut output) = launch(script);
    let pid = Pid::from_child(&launcher);
    kill_process(pid, Signal::TSTP).expect("it runs");
    let late = Instant::now() + Duration::from_secs(60);
    while !causeway_sys::process::is_stopped(pid.as_raw_nonzero().get()) {
        if Instant::now() > late {
            launcher.kill().expect("it runs");
            panic!("it does not stop");
        }
        std::thread::yield_now();
    }
    kill_process(pid, Signal::CONT).expect("it is stopped");
    input.write_all(b"line\n").expect("the process reads");
    let mut said = String::new();
    output.read_to_string(&mut said).expect("its output");
    assert_eq!(said, "went on\n");
    assert!(launcher.wait().expect("it ends").success());
}

/// The process that stays has the output open, and ends when its own input does.
#[test]
fn with_labels_a_process_that_a_rank_leaves_behind_keeps_nobody_waiting() {
    let script = "echo up >&2; exec 3<&0; (read line <&3) & exit 3";
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "--label", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let input = launcher.stdin.take().expect("a pipe");
    let late = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match launcher.try_wait().expect("its state") {
            Some(status) => break status,
            None if Instant::now() > late => {
                drop(input);
                let _ = launcher.wait();
                panic!("it waits for the process that stays");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    drop(input);
    let mut said = String::new();
    let mut errors = launcher.stderr.take().expect("a pipe");
    errors.read_to_string(&mut said).expect("its errors");
    assert!(said.contains("[0] up\n"), "{said}");
    assert_eq!(status.code(), Some(3), "{said}");
}

#[test]
fn output_that_cannot_be_printed_is_a_failure() {
    let full = std::fs::File::create("/dev/full").expect("a device of every Linux");
    let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "--label", "echo", "lost"])
        .stdout(full)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let told = "the output of rank 0 cannot be printed: No space left on device";
    assert!(errors.contains(told), "{errors}");
}
