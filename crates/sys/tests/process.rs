//! The operating system's view of other processes. Separate from the other tests: a child has its parent's descriptors until
//! it runs its own program, and keeps descriptors open that other tests have just closed.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway_sys::process::is_stopped;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_stopped_process_is_distinguished_from_a_running_one() {
    assert!(!is_stopped(std::process::id() as i32));
    assert!(!is_stopped(0));
    let mut child = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id() as i32;
    let pid = Pid::from_raw(id).unwrap();
    for (signal, stopped) in [(Signal::STOP, true), (Signal::CONT, false)] {
        kill_process(pid, signal).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while is_stopped(id) != stopped {
            assert!(Instant::now() < until, "{signal:?} is not seen");
            std::thread::yield_now();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_stopped(id));
}
