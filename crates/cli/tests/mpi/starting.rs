//! Programs that start others, programs that find each other, and launchers that do not fit.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{built, compile, left_out, run, run_by, run_with};

/// A program that no launcher has started; one that hangs is ended after a minute.
fn alone(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments);
    command.env("LD_LIBRARY_PATH", built());
    command.env("CAUSEWAY_COMMAND", env!("CARGO_BIN_EXE_causeway"));
    command.envs(environment.iter().copied());
    command
}

pub(crate) fn succeeded(output: &Output, what: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}: {errors}",
        output.status
    );
}

#[test]
fn state_of_the_whole_process_is_unchanged() {
    let program = compile("unchanged");
    let with_thread = [("CAUSEWAY_MPI_PROGRESS", "thread")];
    for environment in [&[][..], &with_thread] {
        let output = run_with(2, &program, &[], environment);
        succeeded(&output, "with a launcher");
        let output = alone(&program, &[], environment).output();
        succeeded(&output.expect("it starts"), "alone");
    }
}

/// Also if they are spelled like options of the launcher's.
#[test]
fn what_follows_a_program_is_its_own() {
    let scratch = tempfile::tempdir().expect("a directory");
    let program = scratch.path().join("program");
    std::fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$*\"\n").expect("a script");
    let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, may_run).expect("its mode");
    for arguments in [&["-n", "5", "--label"][..], &["--", "-n"], &["--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(["run", "-n", "2"])
            .arg(&program)
            .args(arguments)
            .output()
            .expect("it starts");
        succeeded(&output, "the script");
        let said = String::from_utf8_lossy(&output.stdout);
        let line = format!("{}\n", arguments.join(" "));
        assert_eq!(said, line.repeat(2));
    }
}

#[test]
fn an_abort_is_no_success_whatever_its_code() {
    let program = compile("absent");
    let output = alone(&program, &["abort"], &[]).output();
    assert_eq!(output.expect("it starts").status.code(), Some(1));
    assert_eq!(run(1, &program, &["abort"]).status.code(), Some(1));
}

#[test]
fn programs_start_others_and_talk_with_them() {
    let program = compile("spawn");
    for processes in [1, 3] {
        succeeded(&run(processes, &program, &[]), &format!("{processes}"));
    }
    let by_tcp = [("CAUSEWAY_MPI_METHODS", "tcp"), ("HOSTS", "each")];
    succeeded(&run_with(2, &program, &["short"], &by_tcp), "tcp");
}

#[test]
fn a_process_that_was_started_alone_starts_others() {
    let program = compile("spawn");
    let output = alone(&program, &[], &[]).output().expect("it starts");
    succeeded(&output, "alone");
    let no_command = [("CAUSEWAY_COMMAND", "/no/such/command")];
    let output = alone(&program, &[], &no_command)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(
        errors.contains("MPI_Comm_spawn") && errors.contains("/no/such/command"),
        "{errors}"
    );
}

#[test]
fn deaths_of_started_processes_are_reported_also_to_their_parents() {
    let program = compile("spawn");
    let output = run(2, &program, &["dies"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    for told in [
        "[0] a parent is told",
        "[1] a parent is told",
        "[1.1] a sibling is told",
    ] {
        assert!(said.contains(told), "{told}: {said}\n{errors}");
    }
    let reported = "rank 0 of spawned program 1 was killed by SIGKILL";
    assert!(errors.contains(reported), "{errors}");
    assert_eq!(output.status.code(), Some(128 + 9), "{errors}");
    let output = alone(&program, &["dies"], &[]).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(reported), "{errors}");
    assert!(!output.status.success(), "{errors}");
}

#[test]
fn a_started_program_without_mpi_keeps_no_process_waiting() {
    let program = compile("spawn");
    // Only their launcher ends the waiting ranks soon.
    let output = run_by("shm,tcp", 2, &program, &["silent"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    let reported = "rank 0 of spawned program 1 has ended without MPI_Finalize";
    assert!(errors.contains(reported), "{errors}");
    assert_eq!(output.status.code(), Some(1), "{errors}");
}

#[test]
fn groups_of_one_program_meet_at_ports() {
    let program = compile("ports");
    for processes in [1, 2, 5] {
        succeeded(&run(processes, &program, &[]), &format!("{processes}"));
    }
}

#[test]
fn programs_find_each_other_by_name() {
    let program = compile("ports");
    let names = tempfile::tempdir().expect("a directory");
    let place = names.path().join("names");
    let environment = [("CAUSEWAY_MPI_NAMES", place.to_str().expect("UTF-8"))];
    std::thread::scope(|scope| {
        let server = scope.spawn(|| run_with(2, &program, &["serve", "life", "3"], &environment));
        let clients = [1, 3].map(|processes| {
            let (program, environment) = (&program, &environment);
            scope.spawn(move || run_with(processes, program, &["connect", "life"], environment))
        });
        let output = alone(&program, &["connect", "life"], &environment).output();
        succeeded(&output.expect("it starts"), "alone");
        for client in clients {
            succeeded(&client.join().expect("no panic"), "client");
        }
        succeeded(&server.join().expect("no panic"), "server");
    });
    let left = std::fs::read_dir(&place).expect("it was made").count();
    assert_eq!(left, 0, "names that were not taken back");
}

#[test]
fn a_port_of_a_process_that_has_ended_is_an_error() {
    let program = compile("ports");
    let output = run(1, &program, &["open"]);
    succeeded(&output, "open");
    let said = String::from_utf8_lossy(&output.stdout);
    let port = said.trim().trim_start_matches("[0] ");
    assert!(port.starts_with("causeway;"), "{port}");
    succeeded(&run(1, &program, &["gone", port]), "gone");
}

#[test]
fn processes_that_meet_at_a_port_notice_the_death_of_the_other() {
    let program = compile("ports");
    for what in ["server-dies", "client-dies"] {
        let output = run(2, &program, &[what]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("the other one is told"),
            "{what}: {said}\n{errors}"
        );
        assert_eq!(output.status.code(), Some(128 + 9), "{what}: {errors}");
    }
}

#[test]
fn two_processes_with_a_socket_join() {
    let program = compile("ports");
    let output = alone(&program, &["join"], &[]).output().expect("it starts");
    succeeded(&output, "join");
}

#[test]
fn launchers_that_do_not_fit_are_explained() {
    let program = compile("spawn");
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("OMPI_COMM_WORLD_SIZE", "2")], "Open MPI"),
        (
            &[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
            "--mpi=pmi2",
        ),
        (&[("PMI_SIZE", "2"), ("PMI_RANK", "0")], "PMI_FD"),
        (
            &[
                ("PMIX_RANK", "0"),
                ("CAUSEWAY_PMIX_LIBRARY", "/no/such/libpmix.so"),
            ],
            "/no/such/libpmix.so",
        ),
    ];
    for (environment, told) in cases {
        let output = alone(&program, &["short"], environment)
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{environment:?}: {errors}");
        assert!(
            errors.contains(told) && errors.contains("causeway run"),
            "{errors}"
        );
    }
    // A single process needs no launcher, and several do not where the environment asks for that.
    for environment in [
        &[("OMPI_COMM_WORLD_SIZE", "1")][..],
        &[("SLURM_STEP_NUM_TASKS", "2")],
        &[("OMPI_COMM_WORLD_SIZE", "2"), ("CAUSEWAY_MPI_ALONE", "1")],
    ] {
        let output = alone(&program, &["short"], environment)
            .output()
            .expect("it starts");
        succeeded(&output, &format!("{environment:?}"));
    }
}

/// Of two hosts, one has a part of the ranks that start others.
#[test]
fn programs_on_two_hosts_start_others() {
    if Command::new("ip").arg("-V").output().is_err() {
        left_out("iproute2's `ip` is not installed");
        return;
    }
    let program = compile("spawn");
    let script = super::root().join("crates/mpi-c/tests/two-hosts.sh");
    let output = Command::new("timeout")
        .args([
            "60",
            "unshare",
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "sh",
        ])
        .arg(&script)
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "-n", "3", "sh"])
        .arg(&script)
        .arg("--host")
        .arg(&program)
        .arg("others")
        .env("LD_LIBRARY_PATH", built())
        .env("HOSTS", "several")
        .output();
    succeeded(&output.expect("util-linux's unshare runs"), "two hosts");
}

/// Kernels from before Linux 5.1 are in use for many years.
#[test]
fn programs_run_on_older_kernels() {
    let (older, program) = (compile("older-kernel"), compile("messages"));
    for methods in ["shm,tcp", "tcp"] {
        let output = Command::new("timeout")
            .arg("60")
            .arg(&older)
            .arg(env!("CARGO_BIN_EXE_causeway"))
            .args(["run", "-n", "2"])
            .arg(&program)
            .env("LD_LIBRARY_PATH", built())
            .env("CAUSEWAY_MPI_METHODS", methods)
            .output()
            .expect("it starts");
        if output.status.code() == Some(77) {
            left_out("a filter of system calls cannot be set here");
            return;
        }
        succeeded(&output, methods);
    }
}

/// A launcher of another library, if it is installed where `make peers` puts it.
fn peer(path: &str) -> Option<Command> {
    let file = super::target().join("peers").join(path);
    if !file.is_file() {
        left_out(&format!("{} is not installed (make peers)", file.display()));
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg("60").arg(file);
    command.env("LD_LIBRARY_PATH", built()).stdin(Stdio::null());
    Some(command)
}

#[test]
fn programs_start_others_under_hydra() {
    let (spawn, ports) = (compile("spawn"), compile("ports"));
    for (program, arguments) in [(&spawn, &["others"][..]), (&ports, &[])] {
        let Some(mut hydra) = peer("mpich/bin/mpiexec") else {
            return;
        };
        let output = hydra
            .args(["-n", "2"])
            .arg(program)
            .args(arguments)
            .output();
        succeeded(&output.expect("it starts"), "Hydra");
    }
}

#[test]
fn programs_run_under_open_mpi_s_launcher() {
    let program = compile("spawn");
    let Some(mut mpirun) = peer("openmpi/bin/mpirun") else {
        return;
    };
    let own = super::target().join("peers/openmpi/lib/openmpi/libpmix.so.2");
    if own.is_file() {
        mpirun.env("CAUSEWAY_PMIX_LIBRARY", own);
    }
    let options = ["--allow-run-as-root", "--oversubscribe", "-n", "2"];
    let output = mpirun.args(options).arg(&program).arg("short").output();
    succeeded(&output.expect("it starts"), "mpirun");
}

/// A Fortran program, by wrappers that convert handles.
#[test]
fn a_fortran_program_runs_by_way_of_converted_handles() {
    if Command::new("gfortran").arg("--version").output().is_err() {
        left_out("gfortran is not installed");
        return;
    }
    let sources = super::root().join("crates/mpi-c/tests/fortran");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (object, program) = (place.join("mpi-wrappers.o"), place.join("mpi-rows"));
    let mut compilers = [Command::new("cc"), Command::new("gfortran")];
    compilers[0].args(["-Wall", "-Wextra", "-Werror", "-O1", "-c", "-I"]);
    compilers[0].arg(super::root().join("crates/mpi-c/include"));
    compilers[0]
        .arg(sources.join("wrappers.c"))
        .arg("-o")
        .arg(&object);
    // Buffers have any type.
    compilers[1].args(["-std=legacy", "-fallow-argument-mismatch", "-w", "-O1"]);
    compilers[1].arg(sources.join("rows.f90")).arg(&object);
    compilers[1]
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(built())
        .arg("-lmpi_abi");
    for mut compiler in compilers {
        succeeded(&compiler.output().expect("a compiler"), "compiling");
    }
    for processes in [1, 3] {
        succeeded(&run(processes, &program, &[]), &format!("{processes}"));
    }
}
