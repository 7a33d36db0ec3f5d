//! Users who may not read the keys, and the agent of their node: real servers, a real agent, and programs of two users. Only root can act as
//! several users; without that the tests are left out.

use std::io::Read as _;
use std::path::PathBuf;

use crate::nodes::{Cluster, Lines, Server, bounded, large};
use crate::stand::{Run, send, until, write_as};

/// A user with rights of their own, and another one.
const USER: u32 = 61_234;
const OTHER: u32 = 61_235;

/// A cluster whose client's node `laptop` is also that of users without keys.
struct Stand {
    cluster: Cluster,
    agent: Option<Server>,
}

impl Stand {
    /// Starts a cluster with a directory `/open` in which all users may write, and an agent that listens.
    fn start() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can be several users");
            return None;
        }
        let cluster = Cluster::running();
        let mut this = Self {
            cluster,
            agent: None,
        };
        this.mode("", 0o755);
        let socket = this.cluster.path("run/agent.sock");
        let text = this.cluster.text("laptop.toml");
        let text = format!("{text}\n[agent]\nsocket = {socket:?}\n");
        this.cluster.write("laptop.toml", &text);
        for user in [USER, OTHER] {
            let home = this.home(user);
            std::fs::create_dir(&home).unwrap();
            std::os::unix::fs::chown(&home, Some(user), Some(user)).unwrap();
        }
        this.root(&["mkdir", "/open"]).ok();
        this.root(&["chmod", "1777", "/open"]).ok();
        this.start_agent();
        Some(this)
    }

    fn start_agent(&mut self) {
        let agent = Server::start("agent", &self.root(&["agent"]));
        let line = agent.out.next();
        assert!(
            line.contains("agent of node laptop listens"),
            "{line}{}",
            agent.err.rest()
        );
        self.agent = Some(agent);
    }

    fn mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.cluster.path(name), permissions).unwrap();
    }

    fn home(&self, user: u32) -> PathBuf {
        self.cluster.path(&format!("home-{user}"))
    }

    /// Runs `causeway fs ARGUMENTS…` on the node as root, who may read the keys.
    fn root(&self, arguments: &[&str]) -> Run {
        self.cluster.fs("laptop.toml", arguments)
    }

    /// The same as a user, who may not read the keys.
    fn user(&self, user: u32, arguments: &[&str]) -> Run {
        let all = [&["fs"], arguments].concat();
        Run::new(&self.home(user), &all)
            .config(&self.cluster.path("laptop.toml"))
            .user(Some(user))
    }
}

#[test]
fn users_without_keys_use_the_file_system_through_their_nodes_agent() {
    let Some(mut stand) = Stand::start() else {
        return;
    };
    let file = stand.home(USER).join("file");
    write_as(&file, "the user's", 0o600, Some(USER));
    stand.user(USER, &["put", "file", "/open/mine"]).ok();
    stand.user(USER, &["put", "file", "/open/shut"]).ok();
    stand.user(USER, &["chmod", "600", "/open/shut"]).ok();
    stand.user(USER, &["chmod", "644", "/open/mine"]).ok();
    let listed = stand.user(USER, &["ls", "/open"]).ok();
    assert_eq!(
        String::from_utf8(listed)
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["mine", "shut"]
    );
    let stat = stand.user(USER, &["stat", "--json", "/open/mine"]).json();
    assert_eq!(
        stat["entries"][0]["uid"].as_u64(),
        Some(USER.into()),
        "{stat}"
    );
    stand.user(USER, &["get", "/open/shut", "back"]).ok();
    let back = stand.home(USER).join("back");
    assert_eq!(std::fs::read_to_string(back).unwrap(), "the user's");
    // Another user may do what permissions allow.
    assert_eq!(
        stand.user(OTHER, &["cat", "/open/mine"]).ok(),
        b"the user's"
    );
    let said = stand.user(OTHER, &["cat", "/open/shut"]).fails(1);
    assert!(said.contains("permission denied"), "{said}");
    stand.user(OTHER, &["rm", "/open/mine"]).fails(1);
    // Shared memory does not circumvent the permissions.
    let said = stand.user(USER, &["ls", "--via", "shm", "/open"]).fails(1);
    assert!(said.contains("over tcp alone"), "{said}");
    // Operators' commands are refused to users.
    let said = stand.user(USER, &["servers", "add", "io1"]).fails(1);
    assert!(said.contains("operators"), "{said}");

    // A program that has its connections goes on when the agent is killed; new connections are refused.
    std::fs::write(stand.cluster.path("large"), large()).unwrap();
    stand.root(&["put", "large", "/open/large"]).ok();
    let mut reading = stand.user(USER, &["cat", "/open/large"]).start();
    let mut out = reading.stdout.take().unwrap();
    let said = Lines::of(reading.stderr.take().unwrap());
    // From both I/O servers.
    let (mut content, mut out) = bounded(move || {
        let mut begun = vec![0; 8 << 20];
        out.read_exact(&mut begun).unwrap();
        (begun, out)
    });
    stand.agent = None;
    bounded({
        let rest = move || {
            out.read_to_end(&mut content).unwrap();
            content
        };
        move || assert!(rest() == large(), "it does not go on")
    });
    until("the reader has ended", || {
        reading.try_wait().unwrap().is_some()
    });
    assert_eq!(reading.wait().unwrap().code(), Some(0), "{}", said.rest());
    let said = stand.user(USER, &["ls", "/open"]).fails(1);
    assert!(
        said.contains("start it as root with `causeway fs agent`"),
        "{said}"
    );
    // The socket of the killed agent is still there, and a new agent starts nevertheless.
    stand.start_agent();
    stand.user(USER, &["ls", "/open"]).ok();

    // The node's certificate is revoked: its agent cannot speak for any user any more.
    stand.cluster.node(&["revoke", "laptop"]).ok();
    stand.cluster.reload();
    let said = stand.user(USER, &["ls", "/open"]).fails(1);
    assert!(said.contains("revoked"), "{said}");
}

#[test]
fn a_node_speaks_for_the_users_of_its_rule_alone() {
    let Some(mut stand) = Stand::start() else {
        return;
    };
    let rule = format!("uids = {{ laptop = [{USER}] }}");
    for name in ["m", "a", "b"] {
        let name = format!("{name}.toml");
        let text = stand.cluster.text(&name);
        let text = text.replacen("[nodes]\n", &format!("[nodes]\n{rule}\n"), 1);
        assert!(text.contains(&rule));
        stand.cluster.write(&name, &text);
    }
    stand.user(OTHER, &["ls", "/open"]).ok();
    stand.cluster.reload();
    stand.user(USER, &["ls", "/open"]).ok();
    // This holds for calls through the agent and for calls with the key.
    let said = stand.user(OTHER, &["ls", "/open"]).fails(1);
    for part in ["node laptop", &format!("user {OTHER}"), &USER.to_string()] {
        assert!(said.contains(part), "{said}");
    }
    let said = stand.root(&["ls", "/open"]).fails(1);
    assert!(said.contains("may not speak for user 0"), "{said}");
    // An agent that gets SIGTERM ends, and removes its socket.
    let socket = stand.cluster.path("run/agent.sock");
    assert!(socket.exists());
    let mut agent = stand.agent.take().unwrap();
    send(agent.child.id() as i32, rustix::process::Signal::TERM);
    until("the agent has ended", || {
        agent.child.try_wait().unwrap().is_some()
    });
    assert!(!socket.exists());
    // In the background.
    let said = stand.root(&["agent", "--detach", "--json"]).json();
    let listed = stand.user(USER, &["ls", "/open"]).left();
    let pid = i32::try_from(said["pid"].as_i64().unwrap()).unwrap();
    send(pid, rustix::process::Signal::TERM);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    until("the agent has ended", || !socket.exists());
}
