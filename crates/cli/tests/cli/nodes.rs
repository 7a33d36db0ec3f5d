//! A file system whose nodes prove which they are: real servers, each with its own node file, and nodes that are not what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;

use crate::stand::{Run, send, write_as};

/// A configuration for two I/O servers with an authority, and one configuration for each node, as if on a host of its own.
struct Cluster {
    directory: tempfile::TempDir,
    /// By the name of the server.
    servers: Vec<(String, Child)>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, server) in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Cluster {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Taken all at once, so that they differ.
        let ports: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let hosts: Vec<String> = ports
            .iter()
            .map(|port| port.local_addr().unwrap().to_string())
            .collect();
        drop(ports);
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
            let text = this.text("causeway.toml");
            this.write(&format!("{name}.toml"), &this.as_of(&text, name));
        }
        this
    }

    /// With its servers running.
    fn running() -> Self {
        let mut this = Self::new();
        for (server, node) in [("io0", "a"), ("io1", "b"), ("meta", "m")] {
            this.serve(server, &format!("{node}.toml"), &["--format"]);
        }
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
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
    fn node(&self, arguments: &[&str]) -> Run {
        let all = [&["fs", "node"], arguments].concat();
        Run::new(self.directory.path(), &all).config(&self.path("causeway.toml"))
    }

    /// `causeway fs ARGUMENTS…` with this configuration.
    fn fs(&self, config: &str, arguments: &[&str]) -> Run {
        let all = [&["fs"], arguments].concat();
        Run::new(self.directory.path(), &all).config(&self.path(config))
    }

    /// Starts a server, and waits until it is ready.
    fn serve(&mut self, server: &str, config: &str, more: &[&str]) {
        let arguments = [&["serve", "--server", server], more].concat();
        let mut child = self.fs(config, &arguments).start();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        if !line.contains("ready") {
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("{server} does not start: {line}{said}");
        }
        self.servers.push((server.to_owned(), child));
    }

    fn server(&mut self, name: &str) -> &mut Child {
        let found = self.servers.iter_mut().find(|(server, _)| server == name);
        &mut found.unwrap().1
    }

    /// Has all servers read again what nodes there are, and waits until they have.
    fn reload(&mut self) {
        for (_, server) in &mut self.servers {
            send(server.id() as i32, Signal::HUP);
            let mut line = String::new();
            BufReader::new(server.stdout.as_mut().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert!(line.contains("read again"), "{line}");
        }
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
fn large() -> Vec<u8> {
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
        // Whoever has the cluster's key alone.
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
    cluster.server("io0").kill().unwrap();
    cluster.server("io0").wait().unwrap();
    cluster.server("io1").kill().unwrap();
    cluster.server("io1").wait().unwrap();
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
        let mut cluster = Cluster::running();
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
        let mut begun = [0; 4096];
        let mut out = reading.stdout.take().unwrap();
        out.read_exact(&mut begun).unwrap();
        cluster.node(&["revoke", "laptop"]).ok();
        assert!(
            cluster
                .states()
                .contains(&("laptop".to_owned(), "revoked".to_owned()))
        );
        cluster.reload();
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).unwrap();
        assert!(
            rest.len() + begun.len() < large().len(),
            "it goes on reading"
        );
        assert_eq!(reading.wait().unwrap().code(), Some(1));
        let mut said = String::new();
        reading
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
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
    let pids: Vec<u32> = cluster
        .servers
        .iter()
        .map(|(_, server)| server.id())
        .collect();
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
    let now: Vec<u32> = cluster
        .servers
        .iter()
        .map(|(_, server)| server.id())
        .collect();
    assert_eq!(now, pids);
    for (name, server) in &mut cluster.servers {
        assert!(server.try_wait().unwrap().is_none(), "{name} has ended");
    }
    // What is wrong changes nothing, and says why.
    std::fs::remove_file(cluster.path("causeway.revoked")).unwrap();
    let server = cluster.server("io0");
    send(server.id() as i32, Signal::HUP);
    let mut lines = BufReader::new(server.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains("SIGHUP") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0);
    }
    assert!(
        line.contains("nothing is changed") && line.contains("causeway.revoked"),
        "{line}"
    );
    cluster.write("causeway.revoked", "causeway-revoked 1\n");
    works(&cluster);
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
