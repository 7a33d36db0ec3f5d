//! MPI's files on the parallel file system, opened by a user who may not read the keys: the agent of the node makes the ranks' connections. Only
//! root can be several users; without that the test is left out.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_testkit::loopback;
use causeway_wire::fs::{ObjectId, SetAttributes};

use crate::files::{Running, array, start_with};
use crate::{built, compile, left_out};

const USER: u32 = 61_234;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// An agent in a process of its own.
struct AgentProcess(Child);

impl AgentProcess {
    fn start(config: &str, socket: &Path) -> Self {
        use std::io::BufRead as _;
        assert!(!socket.exists());
        let mut child = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(["fs", "agent", "--config", config])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        let read = std::io::BufReader::new(out).read_line(&mut line);
        assert!(read.is_ok() && line.contains("agent"), "{line}");
        Self(child)
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program with three ranks as the user.
fn run_as_user(program: &Path, arguments: &[&str], running: &Running) -> Output {
    let output = Command::new("timeout")
        .arg("60")
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args(["run", "--label", "--grace", "50", "-n", "3"])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", built())
        .env("CAUSEWAY_CONFIG", running.config())
        .uid(USER)
        .gid(USER)
        .output();
    output.expect("it starts")
}

#[test]
fn ranks_of_a_user_without_keys_use_files_through_their_nodes_agent() {
    if causeway_sys::process::user() != 0 {
        left_out("only root can be several users");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    set_mode(place.path(), 0o755);
    let key = place.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).expect("it is written");
    set_mode(&key, 0o600);
    let socket = place.path().join("run/agent.sock");
    let running = start_with(
        Duration::from_secs(50),
        |configuration: &mut Configuration| {
            configuration.key_file = Some(key);
            configuration.agent_socket = Some(socket.clone());
            for server in &mut configuration.servers {
                server.addresses = vec![format!("tcp://{}", loopback::fresh())];
            }
        },
    );
    let config = running.config();
    set_mode(Path::new(&config).parent().expect("a directory"), 0o755);
    let mut root = Client::connect(running.configuration(), ClientOptions::default())
        .expect("root reads the key");
    let everybody = SetAttributes {
        mode: Some(0o1777),
        ..SetAttributes::default()
    };
    root.set_attributes(ObjectId::ROOT, everybody)
        .expect("root may");

    let (tiles, order) = (compile("files-parallel"), compile("files-order"));
    // Without the agent, the ranks get an error that names what is missing.
    let output = run_as_user(&tiles, &["refused", "causeway:/tiles"], &running);
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("start it as root with `causeway fs agent`"),
        "{said}"
    );
    let _agent = AgentProcess::start(&config, &socket);
    for (program, arguments) in [
        (&tiles, ["tiles", "causeway:/tiles"]),
        (&tiles, ["passes", "causeway:/passing"]),
        (&order, ["records", "causeway:/records"]),
        (&order, ["atomic", "causeway:/atomic"]),
    ] {
        let output = run_as_user(program, &arguments, &running);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }
    assert!(running.content("/tiles") == array());
    let stat = root.stat(b"/tiles".as_slice(), false).expect("it is there");
    assert_eq!(stat.attributes.uid, USER);
    // What the user may not do, ranks may not do either.
    let shut = root
        .create(b"/shut".as_slice(), &Default::default())
        .expect("root may");
    let closed = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    root.set_attributes(shut.node.object, closed)
        .expect("root may");
    let output = run_as_user(&tiles, &["refused", "causeway:/shut"], &running);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("MPI_ERR_ACCESS"), "{said}");
}
