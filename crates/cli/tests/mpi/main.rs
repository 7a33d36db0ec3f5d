//! MPI as a C programmer meets it: the programs in `crates/mpi-c/tests/c`, built with the header and the library, started with
//! `causeway run`.

mod abuse;
mod agent;
mod double;
mod ending;
mod files;
mod installed;
mod observed;
mod opening;
mod pointers;
mod starting;
mod windows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use causeway_testkit::installed::forget_callers;

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
    forget_callers(&mut make);
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

/// Says that a test, or a part of it, is left out: also without `--nocapture`, as a test that passes would hide it.
fn left_out(why: &str) {
    let this = std::thread::current();
    let test = this.name().unwrap_or("a test");
    let line = format!("{test}: left out: {why}\n");
    // A failure to print is not one of the test.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

fn compile(name: &str) -> PathBuf {
    // Once, as others may be running it already.
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{name}"));
    if !compiled.insert(name.to_owned()) {
        return program;
    }
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

/// Runs a program with this number of processes; a program that hangs is ended after a minute. The survivors of a dead
/// process have almost that long to notice, as other programs may use the processors.
fn run(processes: u32, program: &Path, arguments: &[&str]) -> Output {
    run_with(processes, program, arguments, &[])
}

/// The same, with more in the environment.
fn run_with(
    processes: u32,
    program: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Output {
    let output = Command::new("timeout")
        .arg("60")
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "--label", "--grace", "50"])
        .args(["-n", &processes.to_string()])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", built())
        .envs(environment.iter().copied())
        .output();
    output.expect("it starts")
}

fn succeeds(name: &str) {
    succeeds_with(name, &[]);
}

fn succeeds_with(name: &str, environment: &[(&str, &str)]) {
    let program = compile(name);
    for processes in [1, 2, 3, 4, 7] {
        let output = run_with(processes, &program, &[], environment);
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
fn messages_with_gaps() {
    succeeds("strided");
    let program = compile("strided");
    for (processes, methods) in [(2, "tcp"), (3, "tcp")] {
        let output = run_by(methods, processes, &program, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{processes} by {methods}: {errors}"
        );
    }
    for dies in ["sender-dies", "receiver-dies"] {
        let output = run(2, &program, &[dies]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("[0] rank 0 is told: "),
            "{dies}: {said}\n{errors}"
        );
        assert_eq!(output.status.code(), Some(128 + 9), "{dies}: {errors}");
    }
}

#[test]
fn cancelled_sends_are_received_or_not_and_never_both() {
    let program = compile("cancels");
    for methods in ["shm", "tcp"] {
        let output = run_by(methods, 2, &program, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{methods}: {errors}");
    }
}

#[test]
fn more_unexpected_messages_than_fit() {
    succeeds("pressure");
}

/// Over shared memory. Over `tcp` messages of a megabyte allocate.
#[test]
fn usual_messages_allocate_nothing() {
    let output = run_by("shm", 2, &compile("allocations"), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn threads_that_call_at_the_same_time() {
    succeeds("threads");
}

#[test]
fn a_forked_child_is_refused_and_disturbs_no_process() {
    let program = compile("fork");
    for (level, environment) in [
        ("0", &[][..]),
        ("1", &[]),
        ("0", &[("CAUSEWAY_MPI_PROGRESS", "thread")]),
        ("0", &[("CAUSEWAY_MPI_METHODS", "tcp")]),
    ] {
        let output = run_with(2, &program, &[level], environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{level} {environment:?}: {errors}");
    }
}

#[test]
fn collective_operations() {
    succeeds("collectives");
}

#[test]
fn data_to_send_where_the_result_is_to_be_are_refused() {
    succeeds("aliases");
}

#[test]
fn an_error_of_one_rank_in_a_collective_operation_is_that_of_all() {
    let program = compile("truncated");
    let output = run_by("tcp", 3, &program, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn messages_longer_than_their_receives_are_errors_whichever_way_they_come() {
    let program = compile("truncations");
    for methods in ["shm", "tcp"] {
        for processes in [1, 2, 3] {
            let output = run_by(methods, processes, &program, &[]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{methods}, {processes}: {errors}");
        }
    }
}

/// The setting of `make waits` does not apply: ranks look after a time whether others call something else, or take no part.
const LOOKS: (&str, &str) = ("CAUSEWAY_WAITS", "");

#[test]
fn lengths_that_differ_between_ranks_are_errors_and_no_rank_waits_for_ever() {
    succeeds_with("lengths", &[LOOKS]);
    let environment = [LOOKS, ("CAUSEWAY_MPI_METHODS", "tcp")];
    for processes in [2, 3, 4] {
        let output = run_with(processes, &compile("lengths"), &["messages"], &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

#[test]
fn calls_that_a_rank_does_not_begin_concern_the_others_only_if_they_have_begun_them() {
    succeeds("refusals");
    let environment = [("CAUSEWAY_MPI_METHODS", "tcp")];
    let output = run_with(3, &compile("refusals"), &["messages"], &environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn long_operations_in_which_ranks_read_each_others_memory_or_one_cannot() {
    let program = compile("reading");
    for (processes, arguments) in [(2, &[][..]), (3, &[]), (2, &["blind"]), (4, &["blind"])] {
        let output = run(processes, &program, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{processes} {arguments:?}: {errors}"
        );
        if errors.contains("left out") {
            left_out(&errors);
        }
    }
    // Without memory of the communicator, and with it, but without reading.
    for formats in ["1-5", "1-6"] {
        run_with_earlier_formats(formats, 3, "reading");
    }
}

/// Runs a program in which rank 1 speaks only these formats of messages.
fn run_with_earlier_formats(formats: &str, processes: u32, name: &str) {
    let script =
        format!("[ \"$PMI_RANK\" != 1 ] || export CAUSEWAY_MPI_FORMATS={formats}; exec \"$0\"");
    let program = compile(name);
    let program = program.to_str().expect("a name in UTF-8");
    let output = run(processes, Path::new("sh"), &["-c", &script, program]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{processes}, {name}, {formats}: {errors}"
    );
}

#[test]
fn reductions_by_operations_of_the_program_count_alike_in_all_ranks() {
    succeeds("uses");
    for processes in [2, 3] {
        run_with_earlier_formats("1-5", processes, "uses");
    }
}

/// Runs a case of the program `ends`; prints what it says if it fails.
fn ends_well(processes: u32, case: &str, environment: &[(&str, &str)]) {
    let arguments = Vec::from_iter(case.split(' '));
    let environment = [&[LOOKS], environment].concat();
    let output = run_with(processes, &compile("ends"), &arguments, &environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{processes}, {case}: {errors}");
}

#[test]
fn a_rank_that_ends_leaves_none_waiting_in_an_operation() {
    let uses = ["odd first used", "odd last new", "others last used"];
    for operation in 0..16 {
        for (at, of) in uses.iter().enumerate() {
            let (late, use_of) = of.split_once(' ').unwrap_or_default();
            let bytes = ["4", "60000", "500000"][(operation + at) % 3];
            let how = ["refuse", "free"][(operation / 3 + at) % 2];
            let case = format!("{operation} {bytes} {how} {use_of} {late}");
            ends_well([2, 3, 5][at], &case, &[]);
        }
    }
    let tcp = [("CAUSEWAY_MPI_METHODS", "tcp")];
    ends_well(3, "5 4 refuse last used others", &tcp);
    ends_well(3, "0 60000 free first new odd", &tcp);
    ends_well(1, "0 4 refuse first used odd", &[]);
    for case in ["0 4", "0 500000", "5 4", "9 4", "11 4", "14 4", "15 4"] {
        for how in ["skip", "old", "held", "busy"] {
            ends_well(3, &format!("{case} {how} last used others"), &[]);
        }
        ends_well(2, &format!("{case} skip first new odd"), &tcp);
    }
    for (processes, operation) in [(3, 5), (8, 5), (4, 10)] {
        for how in ["ahead", "instead"] {
            let case = format!("{operation} 4 {how} last used others");
            ends_well(processes, &case, &[]);
        }
    }
}

#[test]
fn a_rank_that_is_done_early_disturbs_no_operation_of_the_others() {
    let program = compile("stated");
    for arguments in [&[][..], &["refuse"]] {
        for methods in ["shm", "tcp"] {
            let environment = [("CAUSEWAY_MPI_METHODS", methods)];
            let output = run_with(4, &program, arguments, &environment);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?} {methods}: {errors}");
        }
    }
}

#[test]
fn a_rank_that_is_done_early_connects_with_no_others() {
    for methods in ["shm", "tcp"] {
        let environment = [("CAUSEWAY_MPI_METHODS", methods)];
        let output = run_with(5, &compile("quiet"), &[], &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{methods}: {errors}");
    }
}

#[test]
fn many_refused_calls_are_stated() {
    let output = run(3, &compile("often"), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn requests_that_cannot_be_made_and_handles_that_are_none_leave_the_others_as_they_are() {
    let program = compile("requests-wrong");
    for processes in [1, 2, 3] {
        let output = run(processes, &program, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

#[test]
fn random_sequences_of_collective_operations() {
    let program = compile("sequences");
    for (processes, environment) in [
        (1, None),
        (2, None),
        (3, None),
        (4, Some(("CAUSEWAY_MPI_CHECK", "1"))),
        (4, Some(("CAUSEWAY_MPI_METHODS", "tcp"))),
        (8, None),
    ] {
        let environment = Vec::from_iter(environment);
        let steps = if environment.is_empty() { "300" } else { "60" };
        let seed = processes.to_string();
        let output = run_with(processes, &program, &[steps, &seed], &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
    let output = run(3, &program, &["100", "5", "threads"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // All do scans and blocks of any lengths by messages, where one of them knows no better.
    run_with_earlier_formats("1-7", 3, "sequences");
}

#[test]
fn a_thread_makes_progress_while_the_program_computes() {
    let with_thread = [("CAUSEWAY_MPI_PROGRESS", "thread")];
    let program = compile("progress");
    for processes in [1, 2, 4] {
        let output = run_with(processes, &program, &[], &with_thread);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
    for name in ["messages", "requests", "sequences", "threads"] {
        let output = run_with(3, &compile(name), &[], &with_thread);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
    }
    let odd = [("CAUSEWAY_MPI_PROGRESS", "perhaps")];
    let output = run_with(2, &program, &[], &odd);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("CAUSEWAY_MPI_PROGRESS is"), "{errors}");
}

/// The same program with counts of both types. Over tcp, no operation uses shared memory.
#[test]
fn every_form_of_every_operation_that_has_counts() {
    for name in ["counts-int", "counts-large"] {
        succeeds(name);
        let output = run_by("tcp", 3, &compile(name), &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} by tcp: {errors}");
    }
}

#[test]
fn each_receive_gets_the_message_that_the_rules_give_it() {
    let program = compile("order");
    for (processes, methods) in [(1, "shm"), (2, "shm"), (3, "tcp"), (4, "shm"), (7, "shm")] {
        let allowed = [("CAUSEWAY_MPI_METHODS", methods)];
        let seed = processes.to_string();
        let output = run_with(processes, &program, &[&seed], &allowed);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{processes} by {methods}: {errors}"
        );
    }
}

#[test]
fn properties_of_objects_and_their_fortran_handles() {
    succeeds("objects");
}

#[test]
fn reductions() {
    succeeds("reductions");
}

#[test]
fn operations_of_the_program_on_datatypes_with_gaps() {
    succeeds("program-operations");
    let program = compile("program-operations");
    let output = run_by("tcp", 3, &program, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn errors_go_to_the_handler_of_the_object_of_a_call() {
    succeeds("handlers");
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
fn inter_communicators() {
    succeeds("intercommunicators");
}

#[test]
fn persistent_operations_and_neighbours() {
    succeeds("persistent");
}

#[test]
fn generalized_requests_and_queries_of_the_library() {
    succeeds("requests");
}

#[test]
fn calls_that_always_find_a_request_find_the_others_soon() {
    succeeds("passing");
}

#[test]
fn attributes_of_all_objects_and_their_end() {
    succeeds("attributes");
}

#[test]
fn partitioned_messages() {
    succeeds("partitioned");
}

#[test]
fn sessions_alone_and_beside_the_world() {
    succeeds("sessions");
    let program = compile("sessions");
    for arguments in [&["and-world"][..], &["and-world", "in-a-thread"]] {
        let output = run(3, &program, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }
}

#[test]
fn calls_that_do_not_belong_together_are_named_in_the_checking_mode() {
    let program = compile("mismatch");
    for processes in [1, 2, 3, 4] {
        let output = run_with(processes, &program, &[], &[("CAUSEWAY_MPI_CHECK", "1")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
        for leak in [
            "1 requests not freed: ",
            "1 communicators not freed: ",
            "(forgotten)",
            "1 windows not freed: ",
            "(open)",
            "1 error handlers not freed: ",
            "1 attribute keys not freed: ",
        ] {
            let told = errors.matches(leak).count();
            assert_eq!(told, processes as usize, "{leak}: {errors}");
        }
    }
}

#[test]
fn a_killed_rank_is_an_error_of_operations_between_groups() {
    let program = compile("death");
    for what in ["inter-barrier", "inter-allreduce"] {
        let output = run(4, &program, &[what]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        for rank in [0, 2, 3] {
            let told = format!("[{rank}] rank {rank} is told: ");
            assert!(said.contains(&told), "{what}: {said}\n{errors}");
        }
        assert_eq!(output.status.code(), Some(128 + 9), "{what}: {errors}");
    }
}

#[test]
fn topologies() {
    succeeds("topologies");
}

/// As `run`, with these methods allowed.
fn run_by(methods: &str, processes: u32, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(env!("CARGO_BIN_EXE_causeway"));
    command.args(["run", "-n", &processes.to_string()]);
    command.arg(program).args(arguments);
    command.env("LD_LIBRARY_PATH", built());
    command.env("CAUSEWAY_MPI_METHODS", methods);
    command.output().expect("it starts")
}

#[test]
fn methods_are_those_that_are_allowed() {
    let program = compile("hosts");
    for (methods, sharing) in [("shm,tcp", "3"), ("shm", "3"), ("tcp", "1")] {
        let output = run_by(methods, 3, &program, &[sharing]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{methods}: {errors}");
    }
    let output = run_by("shm,carrier-pigeon", 2, &program, &["2"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("carrier-pigeon"), "{errors}");
}

/// Ranks in two network namespaces: ranks that can share memory do, the others use tcp.
#[test]
fn ranks_on_two_hosts() {
    if !has_ip() {
        return;
    }
    let program = compile("hosts");
    for (processes, methods, works) in [(4, "shm,tcp", true), (2, "shm", false)] {
        let output = run_on_two_hosts(methods, processes, &program, &["2"], &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), works, "{methods}: {errors}");
        assert!(works || errors.contains("does not allow tcp"), "{errors}");
    }
}

/// Processes on two hosts of which one has many addresses find each other in the network that both have, whatever
/// its IP version, and in the one that is chosen.
#[test]
fn hosts_with_several_networks() {
    if !has_ip() {
        return;
    }
    let program = compile("hosts");
    for (environment, refused) in [
        (("IP_VERSION", "6"), ""),
        (("CAUSEWAY_MPI_NETWORKS", "lo0,10.77.0.0/16"), ""),
        // Two processes on each host.
        (("CAUSEWAY_MPI_PORTS", "41000-41001"), ""),
        (
            ("CAUSEWAY_MPI_PORTS", "41000"),
            "none of the 1 ports of CAUSEWAY_MPI_PORTS can be listened at",
        ),
        (
            ("CAUSEWAY_MPI_NETWORKS", "one"),
            "CAUSEWAY_MPI_NETWORKS=one: none of this host's addresses is in these networks: 10.98.1.2 (lo)",
        ),
    ] {
        let output = run_on_two_hosts("shm,tcp", 4, &program, &["2"], &[environment]);
        let errors = String::from_utf8_lossy(&output.stderr);
        let succeeds = output.status.success();
        assert_eq!(succeeds, refused.is_empty(), "{environment:?}: {errors}");
        assert!(errors.contains(refused), "{environment:?}: {errors}");
    }
}

/// The first process records what crosses its network.
#[test]
fn messages_between_hosts_are_encrypted_unless_the_user_says_no() {
    if !has_ip() {
        return;
    }
    let program = compile("overheard");
    let (yes, no) = (
        [("CAUSEWAY_MPI_ENCRYPT", "yes")],
        [("CAUSEWAY_MPI_ENCRYPT", "no")],
    );
    for (environment, expected) in [(&[][..], "not"), (&yes, "not"), (&no, "overheard")] {
        let output = run_on_two_hosts("shm,tcp", 2, &program, &[expected], environment);
        starting::succeeded(&output, &format!("{environment:?}"));
    }
}

/// Whether networks can be made.
fn has_ip() -> bool {
    let has_ip = Command::new("ip").arg("-V").output().is_ok();
    if !has_ip {
        left_out("iproute2's `ip` is not installed");
    }
    has_ip
}

/// As `run_by`, with every second rank in another network namespace, and more in the environment.
fn run_on_two_hosts(
    methods: &str,
    processes: u32,
    program: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Output {
    let script = root().join("crates/mpi-c/tests/two-hosts.sh");
    let alone = ["--user", "--map-root-user", "--net", "--mount", "sh"];
    Command::new("timeout")
        .args(["60", "unshare"])
        .args(alone)
        .arg(&script)
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "-n", &processes.to_string(), "sh"])
        .arg(&script)
        .arg("--host")
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", built())
        .env("CAUSEWAY_MPI_METHODS", methods)
        .envs(environment.iter().copied())
        .output()
        .expect("util-linux's unshare runs")
}

#[test]
fn a_killed_rank_is_named_to_all_others_and_nothing_hangs() {
    let program = compile("death");
    let shared = [
        "shared-barrier",
        "shared-allreduce",
        "shared-bcast",
        "shared-long",
    ];
    for what in ["receive", "any", "barrier"].into_iter().chain(shared) {
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
