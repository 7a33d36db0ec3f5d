//! The log events that a panicking process prints.
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};

const CHILD: &str = "CAUSEWAY_TEST_PANICS";

/// The test runs itself again as a process that panics.
#[test]
fn a_panic_prints_the_latest_events() {
    use causeway_watch::log;
    if std::env::var_os(CHILD).is_some() {
        log::start(&"off".parse().expect("masks")).expect("a log");
        tracing::debug!(answer = 42, "on the way");
        tracing::trace!("not recorded");
        panic!("the end");
    }
    let file = std::env::temp_dir().join(format!("causeway-panic-{}", std::process::id()));
    let status = Command::new(std::env::current_exe().expect("the test knows its own binary"))
        .args(["--exact", "a_panic_prints_the_latest_events"])
        .env(CHILD, "1")
        .env(log::MASKS_VARIABLE, "error/debug")
        .env(log::FILE_VARIABLE, &file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the test runs again");
    let left = std::fs::read_to_string(&file).expect("a log file");
    std::fs::remove_file(&file).expect("it was there");
    assert!(!status.success());
    let lines: Vec<&str> = left.lines().collect();
    assert_eq!(lines.len(), 2, "{left}");
    assert_eq!(lines[0], "the latest 1 log events were:");
    assert!(
        lines[1].ends_with("DEBUG panic: on the way answer=42"),
        "{left}"
    );
}
