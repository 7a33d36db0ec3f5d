//! Users who may not read the keys, and the agent of their node: real servers, a real agent, and programs of two users. Only root can act as
//! several users; without that the tests are left out.

use std::io::Read as _;
use std::path::PathBuf;

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Caller, Errno};
use rustix::process::{Gid, Uid};

use crate::nodes::{Cluster, Lines, Server, bounded, large};
use crate::stand::{Run, send, until, write_as};
use crate::top::audit_of;

/// A user with rights of their own, and another one.
const USER: u32 = 61_234;
const OTHER: u32 = 61_235;
/// A group.
const TEAM: u32 = 61_300;

/// A cluster whose client's node `laptop` is also that of users without keys.
struct Stand {
    cluster: Cluster,
    agent: Option<Server>,
}

impl Stand {
    /// Starts a cluster with a directory `/open` in which all users may write, and an agent that listens.
    fn start() -> Option<Self> {
        Self::start_with(str::to_owned)
    }

    /// The same, with configurations that are edited first.
    fn start_with(edit: fn(&str) -> String) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can be several users");
            return None;
        }
        let cluster = Cluster::running_with(edit);
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

    /// Adds a line to the section `[nodes]` of all servers, which read it again.
    fn rule(&self, rule: &str) {
        for name in ["m", "a", "b"] {
            let name = format!("{name}.toml");
            let text = self.cluster.text(&name);
            let text = text.replacen("[nodes]\n", &format!("[nodes]\n{rule}\n"), 1);
            assert!(text.contains(rule));
            self.cluster.write(&name, &text);
        }
        self.cluster.reload();
    }

    fn mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.cluster.path(name), permissions).unwrap();
    }

    fn home(&self, user: u32) -> PathBuf {
        self.cluster.path(&format!("home-{user}"))
    }

    /// `$PATH` with the command in front.
    fn path(&self) -> std::ffi::OsString {
        let own = PathBuf::from(env!("CARGO_BIN_EXE_causeway"));
        let others = std::env::var_os("PATH").unwrap_or_default();
        let own = std::iter::once(own.parent().unwrap().to_owned());
        std::env::join_paths(own.chain(std::env::split_paths(&others))).unwrap()
    }

    /// Runs `causeway fs ARGUMENTS…` as a user with supplementary groups, as `setpriv` takes them.
    fn as_member(
        &self,
        user: u32,
        group: u32,
        groups: &str,
        arguments: &[&str],
    ) -> std::process::Output {
        std::process::Command::new("setpriv")
            .args([&format!("--reuid={user}"), &format!("--regid={group}")])
            .args([groups, env!("CARGO_BIN_EXE_causeway"), "fs"])
            .args(arguments)
            .current_dir(self.cluster.path(""))
            .env("CAUSEWAY_CONFIG", self.cluster.path("laptop.toml"))
            .output()
            .unwrap()
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

    // The node's certificate is revoked: its agent cannot make connections for any user any more.
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
    stand.user(OTHER, &["ls", "/open"]).ok();
    stand.rule(&format!("uids = {{ laptop = [{USER}] }}"));
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

/// A user's own group has to be named; other groups that the rule does not name give no rights.
#[test]
fn a_node_speaks_for_the_groups_of_its_rule_alone() {
    let Some(stand) = Stand::start() else {
        return;
    };
    let member = |groups: &str| {
        let line = format!("--groups={groups}");
        stand.as_member(USER, USER, &line, &["ls", "/team"])
    };
    let ok = |output: std::process::Output| {
        assert!(output.status.success(), "{output:?}");
    };
    let refused = |output: std::process::Output, part: &str| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{said}");
    };
    let arguments = ["mkdir", "--mode", "2770", "/team"];
    ok(stand.as_member(0, TEAM, "--clear-groups", &arguments));
    ok(member(&TEAM.to_string()));
    refused(member("4"), "may not read");
    // The rule names the user's own group, and not the team's.
    stand.rule(&format!("gids = {{ laptop = [{USER}, 4] }}"));
    refused(member(&TEAM.to_string()), "may not read");
    stand.user(USER, &["ls", "/open"]).ok();
    // The rule does not name another user's group either, whether the user comes through the agent
    // or with the node's keys.
    let said = stand.user(OTHER, &["ls", "/open"]).fails(1);
    for part in ["node laptop", &format!("group {OTHER}"), "`gids`"] {
        assert!(said.contains(part), "{said}");
    }
    // Root is not confined: no rule about users squashes it, and it needs no groups.
    stand.root(&["ls", "/team"]).ok();
}

/// Several connections with each server, and data that is authenticated alone: the agent makes the handshake of each.
#[test]
fn users_have_several_connections_and_unencrypted_ones_through_the_agent() {
    let Some(stand) = Stand::start_with(|text| {
        text.replace("encrypt = true", "encrypt = false\ntcp_connections = 3")
    }) else {
        return;
    };
    let file = stand.home(USER).join("large");
    std::fs::write(&file, large()).unwrap();
    std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    stand.user(USER, &["put", "large", "/open/large"]).ok();
    assert!(stand.user(USER, &["cat", "/open/large"]).ok() == large());
}

/// Without the agent, a command or mount of a user fails with an error that says so before it calls any server: the servers are
/// stopped, so that a call would wait for them, and end with another error.
#[test]
fn a_missing_agent_is_told_without_a_call_to_any_server() {
    let Some(mut stand) = Stand::start() else {
        return;
    };
    stand.agent = None;
    stand.cluster.stop_servers();
    let directory = stand.home(USER).join("mounted");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(USER), Some(USER)).unwrap();
    for arguments in [
        &["ls", "/open"][..],
        &["mount", directory.to_str().unwrap()],
    ] {
        let said = stand.user(USER, arguments).fails(1);
        for part in ["agent.sock", "start it as root with `causeway fs agent`"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("after"), "it waited: {said}");
    }
}

/// A user without keys mounts with fusermount3, which needs a user with a name.
#[test]
fn a_user_without_keys_mounts_the_file_system() {
    const NOBODY: u32 = 65_534;
    if !crate::mount::can_mount() || !crate::mount::program_exists("fusermount3") {
        return;
    }
    let Some(stand) = Stand::start() else {
        return;
    };
    let home = stand.cluster.path("mounted");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    // In a namespace of mounts of its own, where every user may open the device.
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-euc"])
        .arg(
            "mknod device c 10 229; chmod 666 device; mount --bind device /dev/fuse
             exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -euc '
                causeway fs mount \"$PWD/mounted\"
                trap \"causeway fs umount --lazy $PWD/mounted\" EXIT
                cd mounted
                echo mine >open/file; cat open/file; stat -c %u:%g open/file
                head -c 5000000 /dev/zero >open/large; wc -c <open/large
                mkdir shut 2>/dev/null || echo refused
                cd ..'",
        )
        .current_dir(stand.cluster.path(""))
        .env("PATH", stand.path())
        .env("CAUSEWAY_CONFIG", stand.cluster.path("laptop.toml"))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!(
            "{} is mounted; unmount it with `causeway fs umount {0}`\nmine\n65534:65534\n5000000\nrefused\n",
            home.display()
        ),
        "{output:?}"
    );
    let stat = stand.root(&["stat", "--json", "/open/file"]).json();
    assert_eq!(
        stat["entries"][0]["uid"].as_u64(),
        Some(NOBODY.into()),
        "{stat}"
    );
}

/// A process in a user namespace of its own, in which root of the host has no number, gains no other identity: it trusts no agent, and
/// says why.
#[test]
fn users_in_namespaces_of_their_own_become_nobody_else() {
    let Some(stand) = Stand::start() else {
        return;
    };
    let text = stand.cluster.text("laptop.toml");
    let own = stand.home(USER).join("own.toml");
    write_as(&own, &text, 0o644, Some(USER));
    let in_namespace = |map: &[&str], part: &str| {
        let output = std::process::Command::new("setpriv")
            .args([&format!("--reuid={USER}"), &format!("--regid={USER}")])
            .args(["--clear-groups", "unshare", "--user"])
            .args(map)
            .args([env!("CARGO_BIN_EXE_causeway"), "fs", "ls", "/open"])
            .current_dir(stand.home(USER))
            .env("CAUSEWAY_CONFIG", &own)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("unshare failed") {
            eprintln!("left out: there are no user namespaces here");
            return;
        }
        assert_ne!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(part), "{said}");
    };
    in_namespace(
        &["--map-root-user"],
        "root of this host is not mapped into this process's user namespace",
    );
    // Nor can it determine who has written a configuration if its own user has no number there.
    in_namespace(&[], "it is not used");
    stand.user(USER, &["ls", "/open"]).ok();
}

/// A client that claims to act for another user, by its node's agent and with its node's keys. Names that look like other fields of a line are no
/// fields.
#[test]
fn the_audit_tells_the_proven_node_and_user_beside_what_is_claimed() {
    let Some(stand) =
        Stand::start_with(|text| text.replace("audit = \"off\"", "audit = \"changes\""))
    else {
        return;
    };
    let file = stand.cluster.path("laptop.toml");
    let claims = |uid| {
        let caller = Caller {
            uid,
            gid: uid,
            ..Caller::default()
        };
        let configuration = Configuration::load(&file).unwrap();
        let options = ClientOptions {
            caller: Some(caller),
            ..ClientOptions::default()
        };
        let mut client = Client::connect(&configuration, options).unwrap();
        client.make_directory("/open/claimed".as_bytes(), 0o755, None)
    };
    let refused = as_user(USER, || claims(OTHER)).unwrap_err();
    assert_eq!(refused.errno, Errno::EPERM, "{refused}");
    // The holder of the node's keys may act for all, as there is no rule.
    claims(OTHER).unwrap();
    let name = "/fake to=\"\" outcome=done left_out=0 uid=0";
    stand.user(USER, &["mkdir", name]).fails(1);

    let lines = audit_of(stand.cluster.pid("meta"));
    let line = |parts: &[&str]| {
        let has = |line: &&String| parts.iter().all(|part| line.contains(part));
        let found = lines.iter().find(has);
        assert!(found.is_some(), "{parts:?}: {lines:#?}");
        found.unwrap()
    };
    let of = |uid| format!(" uid={uid} ");
    let agent = format!(", node laptop, whose agent speaks for user {USER}\"");
    line(&[&agent, &of(OTHER), "outcome=EPERM"]);
    let line_of_holder = line(&[", node laptop\"", &of(OTHER), "mkdir", "outcome=done"]);
    assert!(!line_of_holder.contains("agent"), "{line_of_holder}");
    let faked = line(&[&agent, &of(USER), "mkdir", "/fake"]);
    let end = format!(" name={name:?} to=\"\" outcome=EACCES left_out=0");
    assert!(faked.ends_with(&end), "{faked}\n{end}");
}
