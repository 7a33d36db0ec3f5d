//! One-sided communication, over memory that is shared and over connections.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{compile, run_with};

fn succeeds_over_all(name: &str) {
    let program = compile(name);
    for methods in ["shm", "tcp"] {
        for processes in [1, 2, 4] {
            let output = run_with(
                processes,
                &program,
                &[],
                &[("CAUSEWAY_MPI_METHODS", methods)],
            );
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{methods}, {processes}: {}\n{errors}",
                output.status
            );
        }
    }
}

#[test]
fn windows_of_every_kind() {
    succeeds_over_all("windows");
}

#[test]
fn random_accesses_agree_with_plain_arrays() {
    succeeds_over_all("windows-model");
}

/// Runs the program in which rank 1 is killed.
fn is_told(program: &Path, methods: &str, kind: &str, what: &str) {
    let start = Instant::now();
    let output = run_with(
        4,
        program,
        &[what, kind],
        &[("CAUSEWAY_MPI_METHODS", methods)],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let case = format!("{methods}, {kind}, {what}");
    for rank in [0, 2, 3] {
        let told = format!("[{rank}] rank {rank} is told: ");
        assert!(said.contains(&told), "{case}: {said}\n{errors}");
    }
    let killed = errors.contains("rank 1 was killed by SIGKILL");
    assert!(killed, "{case}: {errors}");
    assert!(start.elapsed() < Duration::from_secs(30), "{case}");
}

#[test]
fn a_killed_rank_ends_waits_for_its_locks_and_epochs() {
    let program = compile("windows-death");
    for what in ["fence", "exclusive", "shared", "start", "wait", "flush"] {
        if what != "flush" {
            // Shared memory of a dead process can still be accessed.
            is_told(&program, "shm", "allocate", what);
        }
        is_told(&program, "shm", "create", what);
        is_told(&program, "tcp", "create", what);
    }
}

#[test]
fn a_killed_rank_ends_accesses_in_each_of_several_windows() {
    let program = compile("windows-death");
    is_told(&program, "shm", "create", "two");
    is_told(&program, "tcp", "create", "two");
}

#[test]
fn calls_for_locks_that_fail_leave_those_of_earlier_calls() {
    let program = compile("windows-kept");
    for what in ["one", "all"] {
        for (methods, kind) in [("shm", "allocate"), ("shm", "create"), ("tcp", "create")] {
            is_told(&program, methods, kind, what);
        }
    }
}
