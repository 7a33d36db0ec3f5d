//! MPI as a C programmer meets it: the programs in `crates/mpi-c/tests/c`, built with the header and the library, started with
//! `causeway run`.

mod installed;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

fn root() -> &'static Path {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_directory
        .ancestors()
        .nth(2)
        .expect("the crate lies two levels down")
}

/// Where things are built.
fn target() -> &'static Path {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    target.expect("tmp lies in target")
}

/// `make` with these arguments, for the debug build of the library.
fn make(arguments: &[&str]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut make = Command::new("make");
    make.current_dir(root())
        .arg("MPI_PROFILE=dev")
        .args(arguments);
    make.env("CARGO_TARGET_DIR", target());
    for (name, _) in std::env::vars() {
        // Of the make and the cargo that run this test.
        if name.starts_with("MAKE")
            || name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
        {
            make.env_remove(name);
        }
    }
    let output = make.output().expect("make");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Where the library and the programs are.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        make(&["mpi"]);
        target().join("debug")
    })
}

fn compile(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{name}"));
    let output = Command::new("cc")
        .args([
            "-std=c11",
            "-D_DEFAULT_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-I",
        ])
        .arg(root().join("crates/mpi-c/include"))
        .arg(root().join(format!("crates/mpi-c/tests/c/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(built())
        .arg("-lmpi_abi")
        .output()
        .expect("a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Runs a program with so many processes; one that hangs is ended after a minute.
fn run(processes: u32, program: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("timeout")
        .arg("60")
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "--label", "-n", &processes.to_string()])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", built())
        .output();
    output.expect("it starts")
}

fn succeeds(name: &str) {
    let program = compile(name);
    for processes in [1, 2, 3, 4, 7] {
        let output = run(processes, &program, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{processes}: {}\n{errors}",
            output.status
        );
    }
}

#[test]
fn messages() {
    succeeds("messages");
}

#[test]
fn collective_operations() {
    succeeds("collectives");
}

#[test]
fn communicators() {
    succeeds("communicators");
}

#[test]
fn datatypes() {
    succeeds("datatypes");
}

#[test]
fn topologies() {
    succeeds("topologies");
}

#[test]
fn a_killed_rank_is_named_to_all_others_and_nothing_hangs() {
    let program = compile("death");
    for what in ["receive", "any", "barrier"] {
        let start = Instant::now();
        let output = run(4, &program, &[what]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        for rank in [0, 2, 3] {
            let told = format!("[{rank}] rank {rank} is told: ");
            assert!(said.contains(&told), "{what}: {said}\n{errors}");
        }
        assert!(
            errors.contains("rank 1 was killed by SIGKILL"),
            "{what}: {errors}"
        );
        assert_eq!(output.status.code(), Some(128 + 9), "{what}: {errors}");
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
    }
}

#[test]
fn files() {
    succeeds("files");
}

#[test]
fn tools() {
    succeeds("tools");
}
