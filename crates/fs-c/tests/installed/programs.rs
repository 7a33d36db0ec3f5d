//! C programs, compiled against the installed header and library, under the address and undefined
//! behaviour sanitizers, or under valgrind (`make valgrind`), with a file system of real server processes. A leak is a failure.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_fs::agent::Agent;
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use causeway_testkit::installed::{checked, checks, is_under_valgrind, succeed};
use causeway_testkit::loopback;
use causeway_wire::fs::{ObjectId, SetAttributes};

use crate::prefix::LIBRARY;

fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    folder.join(name).with_extension("c")
}

/// A running file system and its directory.
struct Running {
    cluster: DevCluster,
    _directory: tempfile::TempDir,
}

/// Starts a file system whose servers are this program: see `server_process`.
fn start(servers: usize) -> Running {
    start_with(servers, |_| {})
}

/// The same, with a configuration that is changed first.
fn start_with(servers: usize, change: impl FnOnce(&mut Configuration)) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "--exact",
        "server_process",
        "--nocapture",
        "--test-threads=1",
        "{config}",
        "{server}",
    ];
    let command = ServerCommand {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![("CAUSEWAY_TEST_SERVER".to_owned(), "1".to_owned())],
    };
    let place = directory.path();
    let id = random_identity().unwrap();
    let mut made = Configuration::one_machine("dev", id, place, servers, Durability::Relaxed);
    change(&mut made);
    let file = place.join("causeway.toml");
    let cluster = DevCluster::create(made, &file, command).unwrap();
    Running {
        cluster,
        _directory: directory,
    }
}

impl Running {
    fn file(&self) -> &Path {
        self.cluster.configuration_file()
    }

    fn run(&self, program: &Path) {
        let mut command = checked(program);
        if is_under_valgrind() {
            // What servers write into the program's memory from their own processes (cross-memory attach) memcheck takes for never written.
            command.env("VALGRIND_OPTS", "--undef-value-errors=no");
        }
        succeed(command.arg(self.file()));
    }
}

fn run(name: &str) {
    let program = LIBRARY.compile(&source(name), checks(), name);
    start(2).run(&program);
}

#[test]
fn files() {
    run("files");
}

#[test]
fn arguments() {
    run("arguments");
}

#[test]
fn posted() {
    run("posted");
}

#[test]
fn fork() {
    run("fork");
}

/// The same program with the archive, which has no name in common with others.
#[test]
fn the_archive_does_what_the_shared_library_does() {
    let prefix = LIBRARY.installed();
    let program = LIBRARY.scratch("static").join("program");
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-D_GNU_SOURCE",
    ])
    .args(prefix.cflags())
    .arg(source("files"))
    .arg(prefix.path.join("lib/libcauseway_fs.a"))
    .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-o"])
    .arg(&program);
    succeed(&mut cc);
    let needed = succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("libcauseway"), "{needed}");
    start(1).run(&program);
    let archive = prefix.path.join("lib/libcauseway_fs.a");
    let symbols = succeed(
        Command::new("nm")
            .args(["-g", "--defined-only"])
            .arg(archive),
    );
    let foreign = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .find(|name| !name.starts_with("cwfs_"));
    assert_eq!(foreign, None);
}

/// The program prints when it is ready; then a server is killed, and later started again.
#[test]
fn a_killed_server_is_an_error_and_no_hang() {
    let program = LIBRARY.compile(&source("killed"), checks(), "killed");
    let mut running = start(2);
    let mut child = checked(&program)
        .arg(running.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut say = child.stdin.take().unwrap();
    let mut next = || told.next().map(Result::unwrap);
    assert_eq!(next().as_deref(), Some("ready"));
    let server = running.cluster.configuration().io_servers()[0];
    running.cluster.kill(server).unwrap();
    say.write_all(b"\n").unwrap();
    assert_eq!(next().as_deref(), Some("failed"));
    running.cluster.restart(server).unwrap();
    say.write_all(b"\n").unwrap();
    assert_eq!(next().as_deref(), Some("went on"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_example_copies_files_in_and_out() {
    let source = LIBRARY.root().join("examples/fs.c");
    let lines = std::fs::read_to_string(&source).unwrap().lines().count();
    assert!(lines <= 60, "an example of {lines} lines");
    let program = LIBRARY.compile(&source, checks(), "example");
    let running = start(1);
    let folder = tempfile::tempdir().unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    let content: Vec<u8> = (0..3_000_000u32)
        .map(|at| (at / 251 + at * 7) as u8)
        .collect();
    std::fs::write(&from, &content).unwrap();
    let example = |arguments: [&str; 3]| {
        let mut command = Command::new(&program);
        command.env("CAUSEWAY_CONFIG", running.file());
        succeed(command.args(arguments))
    };
    example(["put", from.to_str().unwrap(), "/copy"]);
    example(["get", "/copy", back.to_str().unwrap()]);
    assert!(std::fs::read(&back).unwrap() == content);
}

/// Installing into a staging directory, and uninstalling.
#[test]
fn uninstalling_removes_all_installed_files() {
    let stage = LIBRARY.scratch("stage");
    let settings = [
        format!("DESTDIR={}", stage.display()),
        "PREFIX=/opt/x".to_owned(),
    ];
    LIBRARY.make("install-fs", &settings);
    let placed = |path: &str| stage.join("opt/x").join(path);
    let pc = std::fs::read_to_string(placed("lib/pkgconfig/causeway-fs.pc")).unwrap();
    assert!(
        pc.starts_with("prefix=/opt/x\n") && !pc.contains('@'),
        "{pc}"
    );
    for path in [
        "include/causeway/fs.h",
        "lib/libcauseway_fs.so",
        "lib/libcauseway_fs.a",
    ] {
        assert!(placed(path).is_file(), "{path}");
    }
    LIBRARY.make("uninstall", &settings);
    let left = succeed(Command::new("find").arg(&stage).args(["!", "-type", "d"]));
    assert_eq!(left, "");
}

/// A user who may not read the key: an agent speaks for the program, and without one it is told so at once. Only root can be several users.
#[test]
fn a_user_without_keys_uses_the_file_system_through_an_agent() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const USER: u32 = 61_234;
    if causeway_sys::process::user() != 0 {
        eprintln!("left out: only root can be several users");
        return;
    }
    let source = LIBRARY.root().join("examples/fs.c");
    let program = LIBRARY.compile(&source, checks(), "example-agent");
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    let sockets = tempfile::tempdir().unwrap();
    let running = start_with(1, |configuration| {
        configuration.key_file = Some(key.path().to_owned());
        configuration.agent_socket = Some(sockets.path().join("agent.sock"));
        for server in &mut configuration.servers {
            server.addresses = vec![format!("tcp://{}", loopback::fresh())];
        }
    });
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(running.file().parent().unwrap(), 0o755);
    mode(sockets.path(), 0o711);
    let configuration = running.cluster.configuration();
    let mut root = Client::connect(configuration, ClientOptions::default()).unwrap();
    let set = SetAttributes {
        mode: Some(0o1777),
        ..SetAttributes::default()
    };
    root.set_attributes(ObjectId::ROOT, set).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(USER), Some(USER)).unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    std::fs::write(&from, vec![7; 2_000_000]).unwrap();
    mode(&from, 0o644);
    let example = |arguments: [&str; 3]| {
        let mut command = Command::new(&program);
        command
            .env("CAUSEWAY_CONFIG", running.file())
            .uid(USER)
            .gid(USER);
        command.args(arguments);
        command
    };
    let put = ["put", from.to_str().unwrap(), "/copy"];
    let output = example(put).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("start it as root with `causeway fs agent`"),
        "{said}"
    );
    let agent = Agent::start(configuration).unwrap();
    let mut handle = agent.handle(running.file()).unwrap();
    let serving = std::thread::spawn(|| agent.run().unwrap());
    succeed(&mut example(put));
    succeed(&mut example(["get", "/copy", back.to_str().unwrap()]));
    assert!(std::fs::read(&back).unwrap() == vec![7; 2_000_000]);
    assert_eq!(root.stat(b"/copy", false).unwrap().attributes.uid, USER);
    handle.stop();
    serving.join().unwrap();
}
