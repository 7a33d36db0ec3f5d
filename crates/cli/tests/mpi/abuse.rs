//! Abuse of the library: wrong arguments, very many objects, processes that die in the middle or start late.

use crate::{compile, run, run_with};

#[test]
fn wrong_arguments_and_much_of_everything() {
    let program = compile("abuse");
    for (processes, arguments) in [
        (1, ["100", "1000"]),
        // More than have room with a peer, or regions there.
        (2, ["1000", "20000"]),
        (8, ["20", "100"]),
    ] {
        let output = run(processes, &program, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

#[test]
fn null_pointers_are_refused_and_error_handlers_decide_what_calls_return() {
    let program = compile("absences");
    for processes in [1, 3] {
        let output = run(processes, &program, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

#[test]
fn a_killed_rank_is_an_error_of_every_family_of_calls() {
    let program = compile("death-families");
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("file");
    let file = file.to_str().expect("a path in UTF-8");
    for methods in ["shm", "tcp"] {
        // Microseconds until it is killed, in the middle of operations or before them.
        for delay in ["0", "900", "20000"] {
            let allowed = [("CAUSEWAY_MPI_METHODS", methods)];
            let output = run_with(3, &program, &[file, delay], &allowed);
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            let expected = match delay {
                "0" => " is told 41 times",
                _ => " is told: class 58",
            };
            for rank in [0, 2] {
                let told = format!("[{rank}] rank {rank}{expected}");
                assert!(said.contains(&told), "{methods} {delay}: {said}\n{errors}");
            }
            assert!(!said.contains(": class 0"), "{methods} {delay}: {said}");
        }
    }
}

#[test]
fn a_process_that_computes_for_long_is_waited_for() {
    let program = compile("late");
    let output = run(3, &program, &["6"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// Also more elements than 31 bits count, if the program gets a second argument; that takes 8 GiB.
#[test]
fn the_edges_of_the_standard() {
    let program = compile("edges");
    for (processes, methods, requests) in [
        (1, "shm", "20000"),
        (2, "shm", "5000"),
        (3, "tcp", "500"),
        (4, "shm", "500"),
        (16, "shm", "100"),
    ] {
        let allowed = [("CAUSEWAY_MPI_METHODS", methods)];
        let output = run_with(processes, &program, &[requests], &allowed);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

#[test]
fn processes_that_are_done_early() {
    let program = compile("early");
    for methods in ["shm", "tcp"] {
        let allowed = [("CAUSEWAY_MPI_METHODS", methods)];
        for what in ["short", "long", "buffered", "others"] {
            let output = run_with(3, &program, &[what], &allowed);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{methods} {what}: {errors}");
        }
        let output = run_with(3, &program, &["exit"], &allowed);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        for rank in [0, 2] {
            let told = format!("[{rank}] rank {rank} is told: class 58");
            assert!(said.contains(&told), "{methods}: {said}\n{errors}");
        }
    }
}

#[test]
fn a_rank_that_ends_without_mpi_init_is_named_and_nothing_hangs() {
    let program = compile("absent");
    for when in ["early", "late"] {
        let output = run(3, &program, &[when]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{when}: {said}\n{errors}");
        let named = "rank 1 has ended without MPI_Init, in which rank ";
        assert!(errors.contains(named), "{when}: {errors}");
        assert!(errors.contains("MPI_Init: "), "{when}: {errors}");
        assert!(!said.contains("begun"), "{when}: {said}");
    }
}
