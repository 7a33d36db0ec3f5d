//! The agent of a node, and the limits of processes for which it speaks: a hostile client sends any request, by connections that the agent
//! has made for it. Only root can be several users; without that the tests are left out.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use causeway_bmi::Config;
use causeway_bmi::agent as bmi_agent;
use causeway_fs::agent::{Agent, AgentHandle};
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{CapabilityRule, Configuration};
use causeway_sys::memory::Memory;
use causeway_sys::socket::{Accepted, Received, RecordListener, RecordSocket};
use causeway_wire::agent::{
    FORMATS as AGENT_FORMATS, MAX_MESSAGE_BYTES, Open, Reply, Request as AgentRequest,
};
use causeway_wire::codec::Wire as _;
use causeway_wire::formats::Formats;
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{Errno, ObjectId, Operation, ReplyBody, Request};
use causeway_wire::tcp::{Auth, FORMATS as TCP_FORMATS, Hello, Holder, Purpose};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Gid, Uid};

use crate::capabilities::{here, store};
use crate::cluster::{Fixture, Shape, pattern};
use crate::liar::{GENEROUS, Liar};

/// Users as whom these tests act.
const USER: u32 = 61_234;
const OTHER: u32 = 61_235;

/// A file system with a key that only root may read, and a running agent.
struct Stand {
    fixture: Fixture,
    socket: PathBuf,
    handle: AgentHandle,
    running: Option<std::thread::JoinHandle<()>>,
    _open: tempfile::TempDir,
}

impl Stand {
    fn start() -> Option<Self> {
        Self::start_with(CapabilityRule::Required)
    }

    fn start_with(capabilities: CapabilityRule) -> Option<Self> {
        Self::start_patient(capabilities, GENEROUS)
    }

    /// With this time-out.
    fn start_patient(capabilities: CapabilityRule, timeout: Duration) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can be several users");
            return None;
        }
        // Floods take descriptors of this process, at both ends.
        causeway_sys::limits::raise_open_files();
        let open = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(open.path(), 0o755);
        let key = open.path().join("key");
        std::fs::write(&key, "5a".repeat(32)).unwrap();
        mode(&key, 0o600);
        let socket = open.path().join("run/agent.sock");
        let shape = Shape {
            tcp: true,
            ..Shape::default()
        };
        let fixture = Fixture::start_with(&shape, |configuration| {
            configuration.key_file = Some(key);
            configuration.agent_socket = Some(socket.clone());
            configuration.access.capabilities = capabilities;
            configuration.timeout = timeout;
        });
        let (handle, running) = run_agent(&fixture);
        Some(Self {
            fixture,
            socket,
            handle,
            running: Some(running),
            _open: open,
        })
    }

    fn stop_agent(&mut self) {
        self.handle.stop();
        if let Some(running) = self.running.take() {
            let ended = running.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }

    fn start_agent(&mut self) {
        let (handle, running) = run_agent(&self.fixture);
        self.handle = handle;
        self.running = Some(running);
    }

    fn liar(&self, uid: u32) -> Liar {
        self.liar_of(77, uid)
    }

    /// One with this client's number.
    fn liar_of(&self, client: u128, uid: u32) -> Liar {
        let config = Config {
            agent: Some(bmi_agent::Agent {
                socket: self.socket.clone(),
                nodes: false,
            }),
            ..Config::default()
        };
        Liar::with(&self.fixture, config, client, uid)
    }

    fn call(&self) -> RecordSocket {
        RecordSocket::connect(&self.socket).unwrap()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop_agent();
    }
}

/// An agent for a file system's nodes, in a thread.
fn run_agent(fixture: &Fixture) -> (AgentHandle, std::thread::JoinHandle<()>) {
    let agent = Agent::start(fixture.cluster.configuration()).unwrap();
    let handle = agent.handle(&fixture.config_file()).unwrap();
    (handle, std::thread::spawn(|| agent.run().unwrap()))
}

/// Runs `act` on a thread of this user: in the kernel, users belong to threads.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

/// The next reply; `None` at the end.
fn reply(socket: &RecordSocket) -> Option<Reply> {
    let mut room = [0; MAX_MESSAGE_BYTES];
    let until = Instant::now() + GENEROUS;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        let ready = poll(&mut polled, Some(&left)).unwrap();
        assert!(ready > 0, "no reply");
        match socket.receive(&mut room).unwrap() {
            Received::Record(len, _) => return Reply::from_bytes(&room[..len]).ok(),
            Received::Nothing => {}
            _ => return None,
        }
    }
}

/// The first request of a call. The agent waits for the server that it names, for longer than the test takes.
fn open() -> AgentRequest {
    let hello = |formats, drawn| {
        let hello = Hello {
            formats,
            auth: Auth::ClusterKey,
            encrypt: true,
            holder: Holder::drawn([drawn; 8]),
            fast_aes: false,
            nodes: false,
            connections: 1,
            purpose: Purpose::Peer,
        };
        hello.encode()
    };
    AgentRequest::Open(Open {
        formats: AGENT_FORMATS,
        address: "tcp://127.0.0.1:7".to_owned(),
        ours: hello(Formats::only(TCP_FORMATS.highest), 1),
        theirs: hello(TCP_FORMATS, 2),
    })
}

#[test]
fn a_process_with_a_connection_of_an_agent_acts_for_its_user_alone() {
    let Some(stand) = Stand::start() else { return };
    as_user(USER, || {
        // Without the agent, the user can neither connect nor read the key.
        let own: &Configuration = stand.fixture.cluster.configuration();
        assert!(own.key().is_err());
        assert_eq!(
            own.agent().map(|agent| agent.socket),
            Some(stand.socket.clone())
        );
        let mut liar = stand.liar(USER);
        let look = || Operation::GetNode {
            object: ObjectId::ROOT,
            content: false,
        };
        assert!(liar.metadata(look()).is_ok());
        let refused = |liar: &mut Liar, operation, lie: &dyn Fn(&mut Request)| {
            let failure = liar.ask_with(0, operation, None, lie).unwrap_err();
            assert_eq!(failure.errno, Errno::EPERM, "{failure:?}");
            failure.message
        };
        for uid in [0, OTHER] {
            let said = refused(&mut liar, look(), &|request| request.caller.uid = uid);
            assert!(said.contains(&format!("act as user {uid}")), "{said}");
        }
        for group in [0, OTHER] {
            let said = refused(&mut liar, look(), &|request| request.caller.gid = group);
            assert!(said.contains(&format!("group {group}")), "{said}");
            refused(&mut liar, look(), &|request| {
                request.caller.groups = vec![group];
            });
        }
        // Operators' requests, under the user's own number and root's.
        for operation in [
            Operation::Authorize,
            Operation::AddServer {
                name: "io0".to_owned(),
            },
            Operation::Remove {
                objects: vec![ObjectId(5)],
            },
        ] {
            refused(&mut liar, operation.clone(), &|_| {});
            refused(&mut liar, operation, &|request| request.caller.uid = 0);
        }
        // Still the same connection, good for its user.
        assert!(liar.metadata(look()).is_ok());
    });
    // Another user has connections of their own.
    as_user(OTHER, || {
        let mut liar = stand.liar(OTHER);
        let capacity = Operation::StorageStatus;
        assert!(liar.ask_with(1, capacity, None, |_| {}).is_ok());
    });
}

/// The configuration may allow clients of earlier builds to go without capabilities; users of agents need them, or they could access all files.
#[test]
fn users_of_agents_need_capabilities_whatever_others_do() {
    let Some(stand) = Stand::start_with(CapabilityRule::Optional) else {
        return;
    };
    as_user(USER, || {
        let mut liar = stand.liar(USER);
        let stored = Operation::StoredData {
            object: ObjectId(5),
        };
        let failure = liar.ask_with(1, stored, None, |_| {}).unwrap_err();
        assert!(failure.message.contains("capabilit"), "{failure:?}");
        let status = Operation::StorageStatus;
        assert!(liar.ask_with(1, status, None, |_| {}).is_ok());
    });
}

#[test]
fn garbage_ends_the_call_that_it_comes_in_and_no_other() {
    let Some(stand) = Stand::start() else { return };
    let waiting = stand.call();
    waiting.send(&open().to_bytes(), &[]).unwrap();
    assert!(matches!(reply(&waiting), Some(Reply::SendStep(_))));
    for garbage in [
        &b"\0"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 3000],
        &[1; MAX_MESSAGE_BYTES + 1],
        &AgentRequest::PeerStep(vec![7; 48]).to_bytes(),
    ] {
        let call = as_user(USER, || stand.call());
        call.send(garbage, &[]).unwrap();
        let said = reply(&call);
        assert!(matches!(said, Some(Reply::Refused(_)) | None), "{said:?}");
        assert_eq!(reply(&call), None, "it goes on");
    }
    // With a descriptor.
    let call = as_user(USER, || stand.call());
    let request = AgentRequest::PeerStep(vec![7; 48]).to_bytes();
    let descriptor = std::os::fd::AsFd::as_fd(&waiting);
    call.send(&request, &[descriptor]).unwrap();
    assert!(matches!(reply(&call), Some(Reply::Refused(_))));
    as_user(USER, || drop(stand.liar(USER)));
    assert!(!waiting.is_hung_up());
}

/// Calls the agent until it admits no more calls of this process's user, and returns them with its last reply.
fn flood(socket: &Path) -> (Vec<RecordSocket>, Option<Reply>) {
    let mut calls = Vec::new();
    loop {
        let call = match RecordSocket::connect(socket) {
            Ok(call) => call,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // The agent has to admit some calls first.
                std::thread::yield_now();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(calls.len() < 2000, "there is no end of calls");
        // The call may have been refused already.
        let _ = call.send(&open().to_bytes(), &[]);
        match reply(&call) {
            Some(Reply::SendStep(_)) => calls.push(call),
            said => return (calls, said),
        }
    }
}

/// One user has all calls that a user may have, and continues to call; another user is served nevertheless.
#[test]
fn a_user_who_floods_the_agent_does_not_stop_another() {
    let Some(stand) = Stand::start() else { return };
    let (calls, said) = as_user(USER, || flood(&stand.socket));
    let why = format!("user {USER}");
    assert!(
        matches!(&said, Some(Reply::Busy(busy)) if busy.contains(&why)),
        "{said:?}"
    );
    as_user(OTHER, || {
        let mut liar = stand.liar(OTHER);
        assert!(
            liar.ask_with(1, Operation::StorageStatus, None, |_| {})
                .is_ok()
        );
    });
    drop(calls);
    as_user(USER, || drop(stand.liar(USER)));
}

/// A user makes more writes than a server has buffers for, by many connections, and sends no data for them: another user is served nevertheless,
/// while the first one's writes last.
#[test]
fn a_user_who_lets_requests_last_does_not_stop_another() {
    const BYTES: usize = 2 << 20;
    /// Each write takes four of the 64 buffers.
    const CLIENTS: usize = 40;
    const TIMEOUT: Duration = Duration::from_secs(3000);
    let Some(stand) = Stand::start_patient(CapabilityRule::Required, TIMEOUT) else {
        return;
    };
    let object = store(&stand.fixture, b"/one", USER, 0o600);
    store(&stand.fixture, b"/another", OTHER, 0o600);
    let mut asking = Liar::new(&stand.fixture, 78, 0);
    let mut in_progress = || {
        let status = asking.ask_with(1, Operation::StorageStatus, None, |_| {});
        match status {
            Ok((ReplyBody::StorageStatus { busy, .. }, _)) => busy as usize,
            other => panic!("{other:?}"),
        }
    };
    let memory = Memory::zeroed(1 << 20);
    let clients = as_user(USER, || {
        let write = |liar: &mut Liar, number| Operation::Write {
            object,
            number,
            repeated: None,
            at_least: 0,
            regions: here(0, memory.len() as u64),
            memory: vec![liar.export(1, &memory)],
            inline: Vec::new(),
            append_lock: 0,
        };
        let stall = |client: u128| {
            let mut liar = stand.liar_of(100 + client, USER);
            let shown = liar.capability(object);
            let operation = write(&mut liar, 1);
            let (server, target) = liar.servers[1];
            let request = liar.request(target, operation, Some(shown));
            // The client makes no progress after this.
            liar.post(server, &request.to_bytes(FORMATS));
            liar
        };
        (0..CLIENTS as u128).map(stall).collect::<Vec<_>>()
    });
    let begun = Instant::now();
    let mut count = 0;
    while count < CLIENTS {
        assert!(begun.elapsed() < GENEROUS, "{count} alone begin");
        count = in_progress();
    }
    as_user(OTHER, || {
        let configuration = stand.fixture.cluster.configuration();
        let mut client = Client::connect(configuration, ClientOptions::default()).unwrap();
        client.limit(GENEROUS);
        let mut file = client.open(b"/another".as_slice()).unwrap();
        let content = pattern(9, BYTES);
        client.write_at(&mut file, 0, &content).unwrap();
        client.fsync(&mut file).unwrap();
        let mut back = vec![0; BYTES];
        let count = client.read_at(&mut file, 0, &mut back).unwrap();
        assert!(count == BYTES && back == content);
    });
    assert!(in_progress() >= CLIENTS, "they have not lasted");
    drop(clients);
}

/// A client that runs repeats its calls while its node's agent is away; a new client gets an error
/// at once.
#[test]
fn clients_outlive_an_agent_that_is_started_again_and_new_ones_are_told_at_once() {
    let Some(mut stand) = Stand::start() else {
        return;
    };
    let configuration = stand.fixture.cluster.configuration().clone();
    let metadata = configuration.metadata_server();
    std::thread::scope(|scope| {
        let (says, hears) = channel();
        let (tells, told) = channel();
        let user = scope.spawn(move || {
            as_user(USER, move || {
                let mut client = Client::connect(&configuration, ClientOptions::default()).unwrap();
                client.stat(b"/", false).unwrap();
                says.send("connected").unwrap();
                told.recv().unwrap();
                // The agent is away, and no connection stands.
                let refused = Client::connect(&configuration, ClientOptions::default());
                let error = refused.map(|_| ()).unwrap_err();
                assert_eq!(error.errno, Errno::ENOKEY, "{error}");
                for part in ["agent.sock", "causeway fs agent"] {
                    assert!(error.to_string().contains(part), "{error}");
                }
                says.send("calling").unwrap();
                client.stat(b"/", false).unwrap();
            });
        });
        assert_eq!(hears.recv_timeout(GENEROUS), Ok("connected"));
        stand.stop_agent();
        stand.fixture.cluster.kill(metadata).unwrap();
        stand.fixture.cluster.restart(metadata).unwrap();
        tells.send(()).unwrap();
        assert_eq!(hears.recv_timeout(GENEROUS), Ok("calling"));
        stand.start_agent();
        user.join().unwrap();
    });
}

/// A process that listens in the agent's place and is neither root's nor the caller's own gets no
/// request.
#[test]
fn a_process_of_another_user_is_no_agent() {
    let Some(stand) = Stand::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    std::os::unix::fs::chown(directory.path(), Some(OTHER), Some(OTHER)).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(directory.path(), 0o755);
    let mut listener = as_user(OTHER, || RecordListener::bind(&path).unwrap());
    mode(&path, 0o666);
    let mut configuration = stand.fixture.cluster.configuration().clone();
    configuration.agent_socket = Some(path);
    let connect = || {
        let connected = Client::connect(&configuration, ClientOptions::default());
        connected.map(|_| ()).map_err(|error| error.to_string())
    };
    let said = as_user(USER, connect).unwrap_err();
    for part in [
        &format!("user {OTHER}"),
        "listens at the address of this node's agent",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Nothing was sent to it.
    let Ok(Accepted::Connection(socket)) = listener.accept(&[]) else {
        panic!("nobody has called");
    };
    let mut room = [0; MAX_MESSAGE_BYTES];
    assert!(matches!(socket.receive(&mut room), Ok(Received::Closed)));
    // Its own user may well use it.
    assert_eq!(as_user(OTHER, connect), Ok(()));
}

/// Names the agent's socket to the process of the test below.
const CALLED: &str = "CAUSEWAY_TEST_CALLED_AGENT";

/// The process of the test below: calls until the agent says for which user it has called too often.
#[test]
fn a_process_in_a_namespace_plays_its_role() {
    let Some(socket) = std::env::var_os(CALLED) else {
        return;
    };
    causeway_sys::limits::raise_open_files();
    let (_calls, said) = flood(Path::new(&socket));
    println!("replied: {said:?}");
}

/// A user namespace that lasts as long as this value, made by a process of [`USER`] and mapped by root: 0 is the user, 1 to 100 are numbers from
/// [`RANGE`] on, as with a range in `/etc/subuid`.
struct Namespace(Child);

/// The first number of the range.
const RANGE: u32 = 700_000;

impl Namespace {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "sh", "-c", "echo made; read end"]);
        command.uid(USER).gid(USER).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut made = Self(command.spawn().ok()?);
        let mut said = [0; 5];
        let read = made.0.stdout.as_mut()?.read_exact(&mut said);
        if read.is_err() {
            eprintln!("left out: there are no user namespaces here");
            return None;
        }
        for map in ["uid_map", "gid_map"] {
            let path = format!("/proc/{}/{map}", made.0.id());
            let text = format!("0 {USER} 1\n1 {RANGE} 100\n");
            std::fs::write(path, text).unwrap();
        }
        Some(made)
    }

    /// What the agent says at last to a process that has this number in the namespace.
    fn call(&self, socket: &Path, number: u32) -> String {
        let output = Command::new("nsenter")
            .args(["--user", "--target", &self.0.id().to_string()])
            .args([format!("--setuid={number}"), format!("--setgid={number}")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "agent::a_process_in_a_namespace_plays_its_role"])
            .args(["--nocapture", "--test-threads=1"])
            .current_dir("/")
            .env(CALLED, socket)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        said
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It ends with its input, too.
        let _ = self.0.stdin.take().map(|mut input| input.write_all(b"\n"));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Root of a user namespace is its user for the agent, and the numbers of a range are those of the host.
#[test]
fn the_agent_speaks_for_the_numbers_of_the_host_whatever_a_namespace_calls_them() {
    let Some(stand) = Stand::start() else { return };
    let Some(namespace) = Namespace::new() else {
        return;
    };
    for (number, on_host) in [(0, USER), (1, RANGE), (5, RANGE + 4), (100, RANGE + 99)] {
        let said = namespace.call(&stand.socket, number);
        let expected = format!("Busy(\"user {on_host} has");
        assert!(said.contains(&expected), "{number}: {said}");
    }
    // The user is served as ever.
    as_user(OTHER, || drop(stand.liar(OTHER)));
}
