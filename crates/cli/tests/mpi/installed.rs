//! MPI as `make mpi-install` leaves it: wrappers, pkg-config file, and binaries that were compiled for another library of the
//! same ABI.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{left_out, make, root};

/// Another library's compiler wrapper for the standard ABI, such as MPICH's `mpicc_abi`.
const OTHER: &str = "CAUSEWAY_MPICC_ABI";

fn prefix() -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi-prefix");
    let _ = std::fs::remove_dir_all(&prefix);
    make(&[
        "mpi-install",
        "MPI_PLAIN_NAMES=yes",
        &format!("PREFIX={}", prefix.display()),
    ]);
    prefix
}

fn output(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run_with(prefix: &Path, program: &Path) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_causeway"));
    run.args(["run", "-n", "2"]).arg(program);
    run.env("LD_LIBRARY_PATH", prefix.join("lib/causeway-mpi"));
    output(&mut run);
}

#[test]
fn an_installed_wrapper_compiles_programs_that_run() {
    let prefix = prefix();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = root().join("crates/mpi-c/tests/c/datatypes.c");
    for wrapper in ["causeway-mpicc", "mpicc"] {
        let wrapper = prefix.join("bin").join(wrapper);
        let program = scratch.join("mpi-wrapped");
        // In two steps, as makefiles do.
        let object = scratch.join("mpi-wrapped.o");
        output(
            Command::new(&wrapper)
                .arg("-c")
                .arg(&source)
                .arg("-o")
                .arg(&object),
        );
        output(Command::new(&wrapper).arg(&object).arg("-o").arg(&program));
        let mut run = Command::new(env!("CARGO_BIN_EXE_causeway"));
        // Without LD_LIBRARY_PATH: the wrapper's path is in the program.
        output(run.args(["run", "-n", "2"]).arg(&program));
    }
    let mut wrapper = Command::new(prefix.join("bin/causeway-mpicc"));
    let shown = output(wrapper.args(["-show", "a.c"]));
    assert!(shown.starts_with("cc a.c -I"), "{shown}");
    assert!(shown.contains("-lmpi_abi"), "{shown}");
    let mut wrapper = Command::new(prefix.join("bin/causeway-mpicxx"));
    let shown = output(wrapper.arg("-compile-info"));
    assert!(shown.starts_with("c++ -I"), "{shown}");
    assert!(!shown.contains("-lmpi_abi"), "{shown}");
    let mut wrapper = Command::new(prefix.join("bin/causeway-mpicc"));
    let shown = output(wrapper.args(["-show", "-c", "a.c"]));
    assert!(!shown.contains("-lmpi_abi"), "{shown}");
    let flags = std::fs::read_to_string(prefix.join("lib/pkgconfig/causeway-mpi.pc"));
    let flags = flags.expect("a pkg-config file");
    assert!(!flags.contains('@'), "{flags}");
    assert!(
        flags.contains("includedir=${prefix}/include/causeway-mpi"),
        "{flags}"
    );
    let Some(other) = std::env::var_os(OTHER) else {
        left_out(&format!("{OTHER} is not set"));
        return;
    };
    let program = scratch.join("mpi-foreign");
    let mut compile = Command::new(other);
    output(compile.arg(&source).arg("-o").arg(&program));
    run_with(&prefix, &program);
}
