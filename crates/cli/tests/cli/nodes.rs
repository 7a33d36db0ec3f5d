//! A file system whose nodes prove which they are: real servers, each with its own node file, and nodes that are not what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use causeway_testkit::loopback;
use rustix::process::Signal;
use serde_json::Value;

use crate::stand::{Run, send, until, write_as};

/// Nothing in these tests takes nearly as long, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a process says, line by line.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(said: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines() {
                let Ok(line) = line else { return };
                // All is read, so that the process is never held up.
                let _ = sender.send(line);
            }
        });
        Self(lines)
    }

    /// The next line; empty at the end.
    pub(crate) fn next(&self) -> String {
        use std::sync::mpsc::RecvTimeoutError;
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("nothing is said"),
        }
    }

    /// The next line that has this part.
    fn with(&self, part: &str) -> String {
        loop {
            let line = self.next();
            assert!(!line.is_empty(), "never said: {part}");
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) fn rest(&self) -> String {
        self.0.iter().collect::<Vec<_>>().join("\n")
    }
}

/// What a blocking call returns, which comes in bounded time.
pub(crate) fn bounded<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = channel();
    std::thread::spawn(move || sender.send(call()));
    result.recv_timeout(PATIENCE).expect("it does not end")
}

/// A server process.
pub(crate) struct Server {
    name: String,
    pub(crate) child: Child,
    pub(crate) out: Lines,
    pub(crate) err: Lines,
}

impl Server {
    pub(crate) fn start(name: &str, run: &Run) -> Self {
        let mut child = run.start();
        Self {
            name: name.to_owned(),
            out: Lines::of(child.stdout.take().unwrap()),
            err: Lines::of(child.stderr.take().unwrap()),
            child,
        }
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id() as i32, signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration for two I/O servers with an authority, and one configuration for each node, as if on a host of its own.
pub(crate) struct Cluster {
    directory: tempfile::TempDir,
    servers: Vec<Server>,
}

impl Cluster {
    fn new() -> Self {
        Self::new_with(str::to_owned)
    }

    /// With configurations that are edited first.
    fn new_with(edit: fn(&str) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let hosts = [(); 3].map(|()| loopback::fresh().to_string());
        let parts = directory.path().join("parts");
        let parts = parts.to_str().unwrap();
        let arguments = [
            "fs",
            "init",
            &hosts[1],
            &hosts[2],
            "--metadata",
            &hosts[0],
            "--dir",
            parts,
            "--nodes",
            "--durability",
            "relaxed",
        ];
        Run::new(directory.path(), &arguments).ok();
        let this = Self {
            directory,
            servers: Vec::new(),
        };
        for (name, role) in [
            ("m", "meta"),
            ("a", "io0"),
            ("b", "io1"),
            ("laptop", "client"),
        ] {
            this.node(&["add", name, "--role", role]).ok();
        }
        for name in ["m", "a", "b", "laptop"] {
            let text = edit(&this.text("causeway.toml"));
            this.write(&format!("{name}.toml"), &this.as_of(&text, name));
        }
        this
    }

    /// With its servers running. Ports that were free may be taken by others before they listen: then there is another cluster.
    pub(crate) fn running() -> Self {
        Self::running_with(str::to_owned)
    }

    /// The same, with configurations that are edited first.
    pub(crate) fn running_with(edit: fn(&str) -> String) -> Self {
        for _ in 0..20 {
            let mut this = Self::new_with(edit);
            let started = [("io0", "a"), ("io1", "b"), ("meta", "m")]
                .iter()
                .try_for_each(|(server, node)| {
                    this.try_serve(server, &format!("{node}.toml"), &["--format"])
                });
            match started {
                Ok(()) => return this,
                Err(said) if said.contains("in use") => {}
                Err(said) => panic!("a server does not start: {said}"),
            }
        }
        panic!("all ports are in use");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write_as(&self.path(name), text, 0o644, None);
    }

    /// A configuration as node `name` has it: its file is its own.
    fn as_of(&self, text: &str, name: &str) -> String {
        let common = self.path("causeway.node");
        let own = self.path(&format!("{name}.node"));
        assert!(text.contains(common.to_str().unwrap()));
        text.replace(common.to_str().unwrap(), own.to_str().unwrap())
    }

    /// `causeway fs node ARGUMENTS…`, where the authority is.
    pub(crate) fn node(&self, arguments: &[&str]) -> Run {
        let all = [&["fs", "node"], arguments].concat();
        Run::new(self.directory.path(), &all).config(&self.path("causeway.toml"))
    }

    /// `causeway fs ARGUMENTS…` with this configuration.
    pub(crate) fn fs(&self, config: &str, arguments: &[&str]) -> Run {
        let all = [&["fs"], arguments].concat();
        Run::new(self.directory.path(), &all).config(&self.path(config))
    }

    /// Starts a server, and waits until it is ready.
    fn serve(&mut self, server: &str, config: &str, more: &[&str]) {
        self.try_serve(server, config, more).unwrap();
    }

    /// Starts a server, and waits until it is ready, or has said why it is not.
    fn try_serve(&mut self, server: &str, config: &str, more: &[&str]) -> Result<(), String> {
        let arguments = [&["serve", "--server", server], more].concat();
        let server = Server::start(server, &self.fs(config, &arguments));
        let line = server.out.next();
        if !line.contains("ready") {
            return Err(line + &server.err.rest());
        }
        self.servers.push(server);
        Ok(())
    }

    fn server(&self, name: &str) -> &Server {
        let found = self.servers.iter().find(|server| server.name == name);
        found.unwrap()
    }

    fn kill(&mut self, name: &str) {
        self.servers.retain(|server| server.name != name);
    }

    /// Has all servers read again what nodes there are, and waits until they have.
    pub(crate) fn reload(&self) {
        for server in &self.servers {
            server.signal(Signal::HUP);
            let line = server.out.next();
            assert!(line.contains("read again"), "{line}");
        }
    }

    /// Stops all servers by a signal: they do not reply, and do not notice connections.
    pub(crate) fn stop_servers(&self) {
        self.servers
            .iter()
            .for_each(|server| server.signal(Signal::STOP));
    }

    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.server(name).child.id() as i32
    }

    fn pids(&self) -> Vec<u32> {
        let servers = self.servers.iter();
        servers.map(|server| server.child.id()).collect()
    }

    fn states(&self) -> Vec<(String, String)> {
        let said = self.node(&["list", "--json"]).json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let nodes = said["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| (text(&node["name"]), text(&node["state"])))
            .collect()
    }
}

/// Content that lies on both I/O servers, and is more than what pipes and buffers hold.
pub(crate) fn large() -> Vec<u8> {
    (0..48_u32 << 20).map(|at| (at >> 8 ^ at) as u8).collect()
}

#[test]
fn nodes_with_their_roles_use_the_file_system_and_others_do_not() {
    let mut cluster = Cluster::running();
    std::fs::write(cluster.path("file"), large()).unwrap();
    for via in ["shm", "tcp"] {
        let name = format!("/by-{via}");
        cluster
            .fs("laptop.toml", &["put", "--via", via, "file", &name])
            .ok();
        let got = cluster
            .fs("laptop.toml", &["cat", "--via", via, &name])
            .ok();
        assert!(got == large(), "{via}");
    }
    for via in ["shm", "tcp"] {
        // An I/O server's node is no client.
        let said = cluster.fs("a.toml", &["ls", "--via", via, "/"]).fails(1);
        for part in ["node a", "roles io0", "--role client"] {
            assert!(said.contains(part), "{said}");
        }
        // A process that has the cluster's key alone.
        let text = cluster.text("causeway.toml");
        let from = text.find("# Each node proves").unwrap();
        let to = text.find("[[server]]").unwrap();
        let without = [&text[..from], &text[to..]].concat();
        cluster.write("keyed.toml", &without);
        let said = cluster
            .fs("keyed.toml", &["ls", "--via", via, "/"])
            .fails(1);
        assert!(said.contains("causeway fs node add"), "{said}");
        // A node of another cluster that has this one's key.
        let other = Cluster::new();
        let authority = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("authorities"));
            line.unwrap().to_owned()
        };
        let (ours, theirs) = (authority(&text), authority(&other.text("causeway.toml")));
        let node = other.path("laptop.node");
        std::fs::copy(node, cluster.path("foreign.node")).unwrap();
        let config = cluster.as_of(&text, "foreign");
        let said = {
            cluster.write("foreign.toml", &config);
            cluster
                .fs("foreign.toml", &["ls", "--via", via, "/"])
                .fails(2)
        };
        assert!(said.contains("not accepted"), "{said}");
        let both = theirs.replace(']', ", ") + ours.split('[').nth(1).unwrap();
        cluster.write("foreign.toml", &config.replace(&ours, &both));
        let said = cluster
            .fs("foreign.toml", &["ls", "--via", via, "/"])
            .fails(1);
        assert!(said.contains("authority"), "{said}");
    }
    // A client's node does not even start as a server.
    let said = cluster
        .fs("laptop.toml", &["serve", "--server", "io0"])
        .fails(1);
    for part in ["node laptop", "roles client", "not io0"] {
        assert!(said.contains(part), "{said}");
    }
    // One that says it is io1, at the address of io0: it is not given anything, and believed nothing.
    cluster.kill("io0");
    cluster.kill("io1");
    let text = cluster.text("b.toml");
    let addresses: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("addresses"))
        .collect();
    let lying = text
        .replace(addresses[2], "MINE")
        .replace(addresses[1], addresses[2]);
    cluster.write("lying.toml", &lying.replace("MINE", addresses[1]));
    cluster.serve("io1", "lying.toml", &[]);
    let text = cluster
        .text("laptop.toml")
        .replace("timeout = \"10 s\"", "timeout = \"2 s\"");
    cluster.write("impatient.toml", &text);
    for via in ["shm", "tcp"] {
        let ping = ["ping", "--via", via, "--json"];
        let left = cluster.fs("impatient.toml", &ping).left();
        assert_eq!(left.code, Some(1), "{left:?}");
        let said = String::from_utf8(left.out).unwrap();
        assert!(
            said.contains("has the roles io1, and not io0"),
            "{via}: {said}"
        );
    }
}

#[test]
fn a_revoked_node_loses_the_connections_that_it_has() {
    for via in ["shm", "tcp"] {
        let cluster = Cluster::running();
        std::fs::write(cluster.path("file"), large()).unwrap();
        cluster.fs("laptop.toml", &["put", "file", "/file"]).ok();
        // Its list says nothing of what happens to it.
        std::fs::copy(
            cluster.path("causeway.revoked"),
            cluster.path("old.revoked"),
        )
        .unwrap();
        let text = cluster
            .text("laptop.toml")
            .replace("causeway.revoked", "old.revoked");
        cluster.write("laptop.toml", &text);
        // It reads as long as it is read from.
        let mut reading = cluster
            .fs("laptop.toml", &["cat", "--via", via, "/file"])
            .start();
        let mut out = reading.stdout.take().unwrap();
        let said = Lines::of(reading.stderr.take().unwrap());
        let (begun, mut out) = bounded(move || {
            let mut begun = [0; 4096];
            out.read_exact(&mut begun).unwrap();
            (begun, out)
        });
        cluster.node(&["revoke", "laptop"]).ok();
        assert!(
            cluster
                .states()
                .contains(&("laptop".to_owned(), "revoked".to_owned()))
        );
        cluster.reload();
        let rest = bounded(move || {
            let mut rest = Vec::new();
            out.read_to_end(&mut rest).unwrap();
            rest
        });
        assert!(
            rest.len() + begun.len() < large().len(),
            "it goes on reading"
        );
        until("the reader has ended", || {
            reading.try_wait().unwrap().is_some()
        });
        assert_eq!(reading.wait().unwrap().code(), Some(1));
        let said = said.rest();
        assert!(said.contains("revoked"), "{via}: {said}");
        let said = cluster
            .fs("laptop.toml", &["ls", "--via", via, "/"])
            .fails(1);
        assert!(said.contains("revoked"), "{via}: {said}");
        let said = cluster.node(&["revoke", "laptop"]).fails(1);
        assert!(said.contains("node list"), "{said}");
        // The node may come back with a certificate of its own.
        cluster
            .node(&[
                "add",
                "laptop",
                "--role",
                "client",
                "--output",
                "again.node",
            ])
            .ok();
        std::fs::rename(cluster.path("again.node"), cluster.path("laptop.node")).unwrap();
        cluster.fs("laptop.toml", &["ls", "--via", via, "/"]).ok();
    }
}

/// Another key of the authority, and new keys of all nodes, one after the other, with the same processes.
#[test]
fn authority_and_nodes_get_new_keys_without_a_restart() {
    let mut cluster = Cluster::running();
    let pids = cluster.pids();
    let works = |cluster: &Cluster| {
        for via in ["shm", "tcp"] {
            cluster.fs("laptop.toml", &["ls", "--via", via, "/"]).ok();
        }
    };
    works(&cluster);
    let line = |cluster: &Cluster| {
        let text = cluster.text("causeway.toml");
        let line = text.lines().find(|line| line.starts_with("authorities"));
        line.unwrap().to_owned()
    };
    let configure = |cluster: &Cluster, new: &str| {
        for name in ["causeway", "m", "a", "b", "laptop"] {
            let file = format!("{name}.toml");
            let text = cluster.text(&file).replace(&line(cluster), new);
            if name != "causeway" {
                cluster.write(&file, &text);
            }
        }
        let text = cluster.text("causeway.toml").replace(&line(cluster), new);
        cluster.write("causeway.toml", &text);
    };
    let said = cluster.node(&["rotate", "--json"]).json();
    let new = format!("\"{}\"", said["authority"].as_str().unwrap());
    let both = line(&cluster).replace(']', &format!(", {new}]"));
    configure(&cluster, &both);
    cluster.reload();
    works(&cluster);
    for name in ["laptop", "m", "a", "b"] {
        let file = format!("{name}.new");
        cluster
            .node(&["add", name, "--renew", "--output", &file])
            .ok();
        std::fs::rename(cluster.path(&file), cluster.path(&format!("{name}.node"))).unwrap();
        cluster.reload();
        works(&cluster);
    }
    configure(&cluster, &format!("authorities = [{new}]"));
    cluster.reload();
    works(&cluster);
    let of_former = cluster
        .states()
        .into_iter()
        .filter(|(_, state)| state.contains("does not list"));
    assert_eq!(of_former.count(), 4);
    assert_eq!(cluster.pids(), pids);
    for server in &mut cluster.servers {
        let ended = server.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} has ended", server.name);
    }
    // What is wrong changes nothing, and says why.
    std::fs::remove_file(cluster.path("causeway.revoked")).unwrap();
    let refused = |parts: &[&str]| {
        let server = cluster.server("io0");
        server.signal(Signal::HUP);
        let line = server.err.with("SIGHUP");
        for part in parts {
            assert!(line.contains(part), "{line}");
        }
    };
    refused(&["nothing is changed", "causeway.revoked"]);
    cluster.write("causeway.revoked", "causeway-revoked 1\n");
    works(&cluster);
    // With another node's file, no process would accept this server any more.
    std::fs::rename(cluster.path("a.node"), cluster.path("a.kept")).unwrap();
    std::fs::copy(cluster.path("b.node"), cluster.path("a.node")).unwrap();
    refused(&["nothing is changed", "a.node", "roles io1 and not io0"]);
    works(&cluster);
}

/// A mount reads the node's files again at SIGHUP: it goes on with a new certificate when the former one is revoked, and believes a revoked server
/// no more.
#[test]
fn a_mount_reads_again_which_node_it_is_and_which_are_revoked() {
    if !crate::mount::can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let cluster = Cluster::running();
    let at = cluster.path("mounted");
    std::fs::create_dir(&at).unwrap();
    let mount = Server::start(
        "mount",
        &cluster.fs(
            "laptop.toml",
            &["mount", "--foreground", at.to_str().unwrap()],
        ),
    );
    let line = mount.out.next();
    assert!(line.contains("is mounted"), "{line}{}", mount.err.rest());
    let _unmounted = Unmounted(at.clone());
    let read = |at: PathBuf| bounded(move || std::fs::read(at).map(|found| found == large()));
    let write = |at: PathBuf| bounded(move || std::fs::write(at, large()));
    let reload = || {
        mount.signal(Signal::HUP);
        let line = mount.out.next();
        assert!(line.contains("read again"), "{line}");
    };
    write(at.join("file")).unwrap();
    // A new certificate and key for the mount's node, and the former ones are revoked.
    let renew = ["add", "laptop", "--renew", "--output", "renewed.node"];
    cluster.node(&renew).ok();
    std::fs::rename(cluster.path("renewed.node"), cluster.path("laptop.node")).unwrap();
    reload();
    cluster.node(&["revoke", "laptop", "--former"]).ok();
    cluster.reload();
    write(at.join("second")).unwrap();
    assert!(read(at.join("file")).unwrap());
    // A wrong list changes nothing, and the mount goes on.
    let list = cluster.text("causeway.revoked");
    std::fs::remove_file(cluster.path("causeway.revoked")).unwrap();
    mount.signal(Signal::HUP);
    let line = mount.err.with("SIGHUP");
    assert!(line.contains("nothing is changed"), "{line}");
    cluster.write("causeway.revoked", &list);
    write(at.join("third")).unwrap();
    // A server's node is revoked; the servers themselves get no signal.
    cluster.node(&["revoke", "a"]).ok();
    reload();
    let failed = write(at.join("fourth"));
    assert!(failed.is_err(), "a revoked server was believed");
}

/// Unmounts a directory at the end, also of a test that fails.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let at = self.0.to_str().unwrap();
        Run::new(Path::new("/"), &["fs", "umount", "--lazy", at]).left();
    }
}

/// Also without `[nodes]`: who sends it to all servers of a host does not look which is which.
#[test]
fn a_request_to_read_again_ends_no_server() {
    let mut cluster = Cluster::running();
    cluster.kill("io0");
    let text = cluster.text("causeway.toml");
    let (from, to) = (text.find("# Each node proves"), text.find("[[server]]"));
    let without = [&text[..from.unwrap()], &text[to.unwrap()..]].concat();
    cluster.write("keyed.toml", &without);
    cluster.serve("io0", "keyed.toml", &[]);
    let server = cluster.server("io0");
    server.signal(Signal::HUP);
    let line = server.err.with("SIGHUP");
    assert!(line.contains("nothing to read again"), "{line}");
    let ping = cluster.fs("keyed.toml", &["ping", "--json"]).left();
    let said = String::from_utf8(ping.out).unwrap();
    assert!(said.contains("io0"), "{said}");
    assert!(
        cluster
            .servers
            .last_mut()
            .unwrap()
            .child
            .try_wait()
            .unwrap()
            .is_none()
    );
}

/// What fails leaves nothing that the next attempt stumbles over.
#[test]
fn a_configuration_that_cannot_be_written_leaves_no_authority() {
    let directory = tempfile::tempdir().unwrap();
    let init = |more: &[&str]| {
        let all = [&["fs", "init", "n1", "--nodes"], more].concat();
        Run::new(directory.path(), &all)
    };
    let names = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    init(&["--name", "a b"]).fails(2);
    assert!(names().is_empty());
    std::fs::write(directory.path().join("causeway.revoked"), "other\n").unwrap();
    let said = init(&[]).fails(1);
    assert!(
        said.contains("causeway.revoked") && said.contains("--force"),
        "{said}"
    );
    assert_eq!(names(), ["causeway.revoked"]);
    init(&["--force"]).ok();
    assert_eq!(names().len(), 5);
}

/// A certificate that no process would accept is not issued.
#[test]
fn nodes_are_added_when_the_configuration_lists_the_authority_s_key() {
    let cluster = Cluster::new();
    let said = cluster.node(&["rotate", "--json"]).json();
    let new = said["authority"].as_str().unwrap();
    let add = ["add", "late", "--role", "client"];
    let said = cluster.node(&add).fails(2);
    assert!(said.contains(new) && said.contains("rotate"), "{said}");
    assert!(!cluster.path("late.node").exists());
    let text = cluster.text("causeway.toml");
    let line = text.lines().find(|line| line.starts_with("authorities"));
    let line = line.unwrap();
    let with = |keys: &[&str]| {
        let listed: String = keys.iter().map(|key| format!(", \"{key}\"")).collect();
        let listed = line.replace(']', &format!("{listed}]"));
        cluster.write("causeway.toml", &text.replace(line, &listed));
    };
    with(&[new]);
    std::os::unix::fs::symlink("nowhere", cluster.path("late.node")).unwrap();
    let said = cluster.node(&add).fails(1);
    assert!(
        said.contains("--output") && !said.contains("--force"),
        "{said}"
    );
    std::fs::remove_file(cluster.path("late.node")).unwrap();
    cluster.node(&add).ok();
    let (third, fourth) = ("3".repeat(64), "4".repeat(64));
    with(&[new, &third, &fourth]);
    let said = cluster.node(&["rotate"]).fails(2);
    assert!(said.contains("4 authorities"), "{said}");
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_is_secret_is_closed_to_others_and_mistakes_are_named() {
    let cluster = Cluster::new();
    for (name, mode) in [
        ("causeway.authority", 0o700),
        ("causeway.authority/key", 0o600),
        ("causeway.authority/nodes", 0o600),
        ("causeway.key", 0o600),
        ("m.node", 0o600),
        ("causeway.revoked", 0o644),
    ] {
        assert_eq!(mode_of(&cluster.path(name)), mode, "{name}");
    }
    let states = cluster.states();
    assert_eq!(states.len(), 4);
    assert!(states.iter().all(|(_, state)| state == "valid"));
    let text = String::from_utf8(cluster.node(&["list"]).ok()).unwrap();
    for part in ["laptop", "client", "meta", "certificate"] {
        assert!(text.contains(part), "{text}");
    }
    let fails = |arguments: &[&str], code, parts: &[&str]| {
        let said = cluster.node(arguments).fails(code);
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: {said}");
        }
    };
    fails(
        &["add", "laptop", "--role", "client"],
        2,
        &["already", "--renew"],
    );
    fails(&["add", "new", "--renew"], 2, &["--renew"]);
    fails(&["add", "new"], 2, &["--role client", "io0"]);
    fails(&["add", "new", "--role", "io7"], 2, &["io7", "io0, io1"]);
    fails(&["add", "a b", "--role", "client"], 2, &["letters"]);
    fails(
        &["add", "n", "--role", "client", "--output", "m.node"],
        1,
        &["m.node", "exists"],
    );
    fails(&["revoke", "nobody"], 1, &["node list"]);
    fails(&["revoke", "a", "--former"], 1, &["no former"]);
    fails(
        &["list", "--authority", "/nowhere"],
        1,
        &["/nowhere", "init --nodes"],
    );
    assert_eq!(cluster.states(), states, "nothing was added or revoked");
    // An expiry, and the end of a former certificate.
    cluster
        .node(&["add", "a", "--renew", "--days", "30", "--output", "a2.node"])
        .ok();
    cluster.node(&["revoke", "a", "--former"]).ok();
    let of_a: Vec<String> = cluster
        .states()
        .into_iter()
        .filter(|(name, _)| name == "a")
        .map(|(_, state)| state)
        .collect();
    assert_eq!(of_a, ["revoked", "valid"]);
    let run = |arguments: &[&str]| Run::new(cluster.directory.path(), arguments);
    let said = run(&["fs", "init", "n1", "--nodes", "--force"]).fails(1);
    assert!(
        said.contains("causeway.authority") && said.contains("--authority"),
        "{said}"
    );
    // A configuration without nodes.
    run(&["fs", "init", "n1", "--output", "plain.toml"]).ok();
    let said = run(&["fs", "node", "list", "--config", "plain.toml"]).fails(2);
    assert!(said.contains("init --nodes"), "{said}");
    // A node file that is missing, of others to read, or another node's.
    let said = run(&["fs", "ls", "--config", "causeway.toml", "/"]).fails(2);
    assert!(
        said.contains("causeway.node") && said.contains("causeway fs node add"),
        "{said}"
    );
    std::fs::set_permissions(
        cluster.path("laptop.node"),
        std::fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    let said = cluster.fs("laptop.toml", &["ls", "/"]).fails(2);
    assert!(said.contains("chmod 600"), "{said}");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(cluster.path("m.node"))
        .unwrap();
    file.write_all(b"more\n").unwrap();
    let said = cluster.fs("m.toml", &["ls", "/"]).fails(2);
    assert!(
        said.contains("m.node") && said.contains("not written as"),
        "{said}"
    );
}
