//! MPI's files on the parallel file system: programs for the operating system's files run there too, and the client library reads
//! the files that they have written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use tempfile::TempDir;

use crate::{built, compile, has_ip, run_on_two_hosts, run_with};

/// Rows and columns of the program's array.
const ARRAY: (usize, usize) = (96, 5040);
/// Servers with datafiles.
const SERVERS: usize = 3;

pub(crate) struct Running {
    cluster: DevCluster,
    directory: TempDir,
}

/// Starts a file system whose operations fail after this time.
fn start(timeout: Duration) -> Running {
    start_with(timeout, |_| {})
}

/// The same, with a configuration that is changed first.
pub(crate) fn start_with(timeout: Duration, change: impl FnOnce(&mut Configuration)) -> Running {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "fs", "serve", "--config", "{config}", "--server", "{server}",
    ];
    let command = ServerCommand {
        program: env!("CARGO_BIN_EXE_causeway").into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: Vec::new(),
    };
    let place = directory.path();
    let id = random_identity().expect("a number");
    let mut made = Configuration::one_machine("dev", id, place, SERVERS, Durability::Relaxed);
    made.timeout = timeout;
    change(&mut made);
    let cluster = DevCluster::create(made, &place.join("causeway.toml"), command);
    Running {
        cluster: cluster.expect("it starts"),
        directory,
    }
}

impl Running {
    pub(crate) fn configuration(&self) -> &Configuration {
        self.cluster.configuration()
    }

    pub(crate) fn config(&self) -> String {
        self.cluster.configuration_file().display().to_string()
    }

    /// A file's content, read by the client library.
    pub(crate) fn content(&self, path: &str) -> Vec<u8> {
        let configuration = self.cluster.configuration();
        let client = Client::connect(configuration, ClientOptions::default());
        let mut client = client.expect("a client");
        let mut file = client.open(path.as_bytes()).expect("the file");
        let mut content = vec![0; file.node.attributes.size as usize];
        let count = client.read_at(&mut file, 0, &mut content);
        assert_eq!(count.expect("it is read"), content.len());
        content
    }

    /// The output of a run that succeeds.
    fn run(&self, processes: u32, program: &Path, arguments: &[&str]) -> String {
        let config = self.config();
        let environment = [("CAUSEWAY_CONFIG", config.as_str())];
        let output = run_with(processes, program, arguments, &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{processes}, {arguments:?}: {errors}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

const PATIENT: Duration = Duration::from_secs(50);

#[test]
fn the_test_of_local_files_passes_on_the_parallel_file_system() {
    let running = start(PATIENT);
    let program = compile("files");
    for processes in [1, 2, 3, 7] {
        let name = format!("causeway:/files-{processes}");
        running.run(processes, &program, &[&name]);
    }
}

#[test]
fn arguments_that_are_wrong_at_one_rank_are_an_error_of_all() {
    let program = compile("files-wrong");
    let scratch = tempfile::tempdir().expect("a directory");
    for processes in [1, 2, 4] {
        let name = scratch.path().join(processes.to_string());
        let name = name.to_str().expect("a path in UTF-8");
        let output = run_with(processes, &program, &[name], &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes}: {errors}");
    }
}

/// With tcp alone, each rank appears to be on a host of its own: the servers then keep shared pointers and order atomic accesses.
#[test]
fn shared_pointers_and_atomic_mode_on_several_hosts() {
    let running = start(PATIENT);
    let config = running.config();
    let environment = [
        ("CAUSEWAY_CONFIG", config.as_str()),
        ("CAUSEWAY_MPI_METHODS", "tcp"),
    ];
    let (files, order) = (compile("files"), compile("files-order"));
    for (processes, program, arguments) in [
        (3, &files, &["causeway:/files"][..]),
        (1, &order, &["records", "causeway:/records-1"]),
        (4, &order, &["records", "causeway:/records"]),
        (4, &order, &["atomic", "causeway:/atomic"]),
    ] {
        let output = run_with(processes, program, arguments, &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }
    // Among processes that share memory, too.
    for what in ["records", "atomic"] {
        running.run(4, &order, &[what, &format!("causeway:/here-{what}")]);
    }
    if !has_ip() {
        return;
    }
    for what in ["records", "atomic"] {
        let name = format!("causeway:/two-hosts-{what}");
        let output = run_on_two_hosts("shm,tcp", 4, &order, &[what, &name], &environment[..1]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what} on two hosts: {errors}");
    }
}

/// The array that the program writes.
pub(crate) fn array() -> Vec<u8> {
    (0..ARRAY.0 * ARRAY.1)
        .map(|n| (n * 7 + n / 251) as u8)
        .collect()
}

#[test]
fn the_client_library_reads_files_that_ranks_have_written_alone_and_together() {
    let running = start(PATIENT);
    let program = compile("files-parallel");
    let hints: [&[&str]; 4] = [
        &[],
        &["striping_factor", "2", "striping_unit", "16384"],
        &["romio_cb_write", "enable", "romio_cb_read", "disable"],
        &[
            "collective_buffering",
            "true",
            "cb_buffer_size",
            "8192",
            "cb_nodes",
            "1",
        ],
    ];
    for (number, hints) in hints.into_iter().enumerate() {
        // Rows of one rank have 5,040 bytes, and are handed over as they lie.
        for processes in [1, 2, 4] {
            let path = format!("/tiles-{number}-{processes}");
            let name = format!("causeway:{path}");
            let arguments = [&["tiles", &name], hints].concat();
            running.run(processes, &program, &arguments);
            assert!(running.content(&path) == array(), "{path}");
        }
    }
}

#[test]
fn a_configuration_is_named_by_a_hint_too() {
    let running = start(PATIENT);
    let program = compile("files-parallel");
    let config = running.config();
    let elsewhere = [("CAUSEWAY_CONFIG", "/nowhere.toml")];
    // The file that is removed when it is closed is that of the hint, too.
    for [verb, name] in [
        ["tiles", "causeway:/by-hint"],
        ["passes", "causeway:/passing"],
    ] {
        let arguments = [verb, name, "causeway_config", &config];
        let output = run_with(2, &program, &arguments, &elsewhere);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {errors}");
    }
    assert!(running.content("/by-hint") == array());
}

#[test]
fn hints_beyond_the_number_of_servers_do_not_keep_files_from_opening() {
    let running = start(PATIENT);
    let program = compile("files-parallel");
    let many = ["striping_factor", "1000", "start_iodevice", "1000"];
    running.run(
        2,
        &program,
        &[&["passes", "causeway:/beyond"], &many[..]].concat(),
    );
}

#[test]
fn errors_have_classes_and_say_what_to_do() {
    let running = start(PATIENT);
    let program = compile("files-parallel");
    for (name, class, text) in [
        ("causeway:/nothing", "MPI_ERR_NO_SUCH_FILE", "/nothing"),
        ("causeway:relative", "MPI_ERR_BAD_FILE", "begins with `/`"),
        ("causeway:/", "MPI_ERR_BAD_FILE", "directory"),
    ] {
        let said = running.run(3, &program, &["refused", name]);
        for rank in 0..3 {
            let told = format!("rank {rank}, open: {class}: ");
            assert!(said.contains(&told), "{name}: {said}");
        }
        assert!(said.contains(text), "{name}: {said}");
    }
    let none = [("CAUSEWAY_CONFIG", "/nowhere.toml")];
    let output = run_with(2, &program, &["refused", "causeway:/a"], &none);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for part in ["open: MPI_ERR_IO", "/nowhere.toml", "causeway fs init"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_killed_server_is_an_error_on_all_ranks() {
    let mut running = start(Duration::from_secs(10));
    let program = compile("files-parallel");
    let mut job = Command::new("timeout")
        .arg("120")
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "-n", "3"])
        .arg(&program)
        .args(["loses", "causeway:/lost"])
        .env("LD_LIBRARY_PATH", built())
        .env("CAUSEWAY_CONFIG", running.config())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(job.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert_eq!(first, "written");
    let server = running.cluster.configuration().io_servers()[0];
    running.cluster.kill(server).expect("it is killed");
    let said: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let status = job.wait().expect("it ends");
    assert!(status.success(), "{status}: {said:?}");
    for rank in 0..3 {
        let told = format!("rank {rank}, write: MPI_ERR_IO: ");
        assert!(said.iter().any(|line| line.contains(&told)), "{said:?}");
    }
    let advice = said.iter().any(|line| line.contains("causeway fs ping"));
    assert!(advice, "{said:?}");
    assert!(running.directory.path().exists());
}
